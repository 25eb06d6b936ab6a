"""Words for people: foreign text made harmless, wrapped by terminal columns, long lists cut short.

In: strings that may come from anywhere (host names, log lines, error texts). Out: strings that
cannot move a cursor, change a colour, reverse a line or break a column.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.cells import cell_len

# Cc control, Cf format (bidi overrides, zero width), Cs lone surrogates, Co private, Cn
# unassigned, Zl/Zp line separators: none of them is something a person could have meant to show.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
NAMES_SHOWN = 2  # "host1, host2 … 14 more": enough to know the kind, short enough for a line
PLAIN = str.maketrans(
    {
        "·": "|",
        "×": "x",
        "±": "+-",
        "µ": "u",
        "…": "...",
        "–": "-",
        "→": "->",
        "≥": ">=",
        "≤": "<=",
    }
)


def printable(text: str) -> str:
    """`text` on one line with everything that a terminal might act upon shown as an escape."""
    return "".join(map(_printable, re.sub(r"\s*[\r\n]+\s*|\t", " ", text.strip())))


def _printable(letter: str) -> str:
    if letter.isascii() and letter.isprintable():
        return letter
    if unicodedata.category(letter) not in HIDDEN:
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def cell(text: str, columns: int) -> str:
    """`text` as a table cell: at most `columns` wide, every character one column wide.

    Wide characters become escapes: tabulate counts characters, a terminal counts columns.
    """
    safe = "".join(
        letter if cell_len(letter) == 1 else f"\\u{ord(letter):04x}" for letter in printable(text)
    )
    if len(safe) <= columns:
        return safe
    # The middle goes: interface names differ at their ends (enp65s0f0, enp65s0f1).
    tail = (columns - 1) // 2
    return safe[: columns - 1 - tail] + "…" + safe[len(safe) - tail :]


def wrapped(text: str, *, label: str = "", hang: int = 2, width: int = 80) -> list[str]:
    """`text` in lines of at most `width` columns; `label` before the first, `hang` spaces before
    the others. A word longer than a line is split, for a terminal would do it in a worse place."""
    lines, line = [], label.ljust(hang) if label else " " * hang
    room = width - hang
    fresh = True
    for word in printable(text).split(" "):
        for piece in _pieces(word, room):
            if not fresh and cell_len(line) + 1 + cell_len(piece) > width:
                lines.append(line.rstrip())
                line, fresh = " " * hang, True
            line += piece if fresh else f" {piece}"
            fresh = False
    lines.append(line.rstrip())
    return lines


def _pieces(word: str, room: int) -> Iterable[str]:
    piece = ""
    for letter in word:
        if cell_len(piece) + cell_len(letter) > room:
            yield piece
            piece = ""
        piece += letter
    yield piece


def abbreviated(names: Sequence[str], shown: int = NAMES_SHOWN) -> str:
    """`host1, host2 … 14 more`; all of them where that is no longer."""
    safe = [printable(name) for name in names]
    if len(safe) <= shown + 1:
        return ", ".join(safe)
    return f"{', '.join(safe[:shown])} … {len(safe) - shown:,} more"


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """The values in order of appearance, each once, without empty ones."""
    return tuple(dict.fromkeys(value for value in values if value))


def encodable(text: str, encoding: str | None) -> str:
    """`text` as a stream of `encoding` can take it: `x` for `×` on an ASCII terminal. None: the
    stream keeps text as text."""
    try:
        text.encode(encoding or "utf-8", "strict" if encoding else "surrogatepass")
    except (UnicodeEncodeError, LookupError):
        plain = text.translate(PLAIN)
        return plain.encode("ascii", "backslashreplace").decode("ascii")
    return text


def show(text: str, stream: TextIO) -> None:
    """Print `text`, on a stream of whatever encoding."""
    print(encodable(text, getattr(stream, "encoding", None)), file=stream, flush=True)
