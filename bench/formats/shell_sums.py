"""Sums of whole numbers in a shell's $(( )), and where they stand.

In: text. Out: the value of a sum, None for anything else; or the text with blanks for its sums.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

# "$((1<<i))" and "((n <<= 1))", with brackets in them.
_SUM = re.compile(r"\(\((?:[^()]|\((?:[^()]|\([^()]{0,200}\)){0,200}\)){0,400}\)\)")
_LARGEST = 1_000_000


def blanked(text: str) -> str:
    """As long as it was, with blanks where a sum stands."""
    return _SUM.sub(lambda match: " " * len(match[0]), text)


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def arithmetic(text: str) -> int | None:
    """The value of a sum of whole numbers, such as "2 * 8"; None for anything else."""
    text = text.replace("$", "").replace("{", "").replace("}", "").replace("/", "//").strip()
    try:
        return _worked(ast.parse(text, mode="eval").body, 0)
    except (SyntaxError, ValueError, ZeroDivisionError, MemoryError, RecursionError):
        return None


def _worked(node: ast.expr, depth: int) -> int | None:
    if depth > 20:
        return None
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < _LARGEST:
        return node.value
    if isinstance(node, ast.BinOp) and (work := _OPERATORS.get(type(node.op))):
        left, right = _worked(node.left, depth + 1), _worked(node.right, depth + 1)
        if left is None or right is None:
            return None
        result = work(left, right)
        return result if abs(result) < _LARGEST else None
    return None
