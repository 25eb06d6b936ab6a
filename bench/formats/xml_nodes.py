"""Untrusted XML into plain nodes: elements, attributes and line numbers, nothing else.

In: bytes, whole, cut off, or an excerpt with several tops and text around it. Out: the top nodes
and why reading ended early, if it did. No DOCTYPE and so no entity is taken, and depth and size
are limited: an expansion of a billion laughs never begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from bench.records import BadInput

# NCCL's own trees are 8 deep; its parser refuses more than a few hundred nodes of one kind.
MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_ATTRIBUTES = 64
# expat builds no list of names longer than this; NCCL's longest value is a CPU mask.
MAX_VALUE = 4096


@dataclass(slots=True)
class Node:
    """One element."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Node] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)


class _Enough(Exception):
    """The limits are reached; what was read stands."""


def parse(content: bytes, *, file: str) -> tuple[list[Node], str | None]:
    """The top nodes and a sentence about an early end. Raises BadInput for a DOCTYPE, and where
    not a single element could be read."""
    body = _body(content)
    _refuse_declarations(body, file)
    root = Node("", {}, 0)
    stack = [root]
    count = 0
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        if name == _WRAP and count == 0 and len(stack) == 1:
            stack.append(root)
            return
        count += 1
        if len(stack) > MAX_DEPTH or count > MAX_NODES:
            raise _Enough
        kept = {key: value[:MAX_VALUE] for key, value in list(attributes.items())[:MAX_ATTRIBUTES]}
        node = Node(name[:64], kept, parser.CurrentLineNumber)
        stack[-1].children.append(node)
        stack.append(node)

    def end(_name: str) -> None:
        if len(stack) > 1:
            stack.pop()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    ended: str | None = None
    try:
        # An excerpt has several tops, and a prompt or a sentence may stand before the first.
        parser.Parse(f"<{_WRAP}>".encode() + body + f"</{_WRAP}>".encode(), True)
    except _Enough:
        ended = (
            f"is deeper or larger than any topology; read up to line {parser.CurrentLineNumber}"
        )
    except expat.ExpatError as error:
        ended = f"is cut off or damaged at line {error.lineno}: {expat.ErrorString(error.code)}"
    if not root.children:
        raise BadInput(ended or "holds no XML element", file=file)
    return root.children, ended


_WRAP = "excerpt"


def _refuse_declarations(body: bytes, file: str) -> None:
    """An excerpt is wrapped, so expat would call a DOCTYPE a syntax error; say what it is."""
    lowered = body.lower()
    for word in (b"<!doctype", b"<!entity"):
        at = lowered.find(word)
        if at >= 0:
            sentence = "declares a DOCTYPE or entities, which no topology of NCCL has; not read"
            raise BadInput(sentence, file=file, line=body.count(b"\n", 0, at) + 1)


def _body(content: bytes) -> bytes:
    """Clean UTF-8 from the first tag on, keeping line numbers; the XML declaration goes, as it
    may only stand at the very beginning."""
    text = content.decode("utf-8-sig", "replace").translate(_CONTROLS)
    first = text.find("<")
    before, text = text[: max(first, 0)], text[max(first, 0) :]
    if text.startswith("<?xml"):
        end = text.find("?>")
        declaration, text = text[: end + 2], text[end + 2 :]
        before += declaration
    return b"\n" * before.count("\n") + text.encode("utf-8", "replace")


# XML 1.0 forbids them, and a NUL or a colour in a pasted file should not end the reading.
_CONTROLS = {code: None for code in range(32) if chr(code) not in "\t\n\r"}
