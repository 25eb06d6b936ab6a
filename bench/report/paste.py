"""A line to paste, laid out in narrow lines that a shell still reads as one.

In: a shell line. Out: lines of at most `width` columns that sh, bash and zsh join again when they
are pasted together: broken with a backslash at blanks, or inside single quotes where one word is
too long. Words around it (indent of the first line) are the caller's.
"""

from __future__ import annotations

import re

# What a remedy that is a command starts with; anything else is a sentence and wraps as prose.
COMMAND = re.compile(
    r"\s*([A-Z_][A-Z0-9_]*=|(export|unset|sudo|ip|ethtool|iptables|nft|sysctl|systemctl|ping|"
    r"nvidia-smi|ibdev2netdev|tracepath|mount|modprobe|torchrun|accelerate|python3?|fabric-bench|"
    r"mpirun|srun|mlxlink|ibstat|ibv_devinfo|lspci|setpci|ulimit|"
    r"\./\S+|ls /\S+|for \w+ in|make [A-Z_]+=\S+)"
    r"(\s|$))"
)
NARROWEST = 8  # columns; less leaves no room for a quote, a letter and the continuation


def is_command(line: str) -> bool:
    """Whether `line` is for a shell rather than for a person."""
    return COMMAND.match(line) is not None


def split_comment(line: str) -> tuple[str, str]:
    """The command and the words behind its `#`, "" where there are none.

    A comment must not be broken with a backslash (its second half would be run), and zsh takes
    none when it is typed into: it is printed on lines of its own.
    """
    for at, state in enumerate(_inside(line)):
        if line[at] == "#" and not state and at and line[at - 1].isspace():
            return line[:at].rstrip(), line[at + 1 :].strip()
    return line, ""


def pasteable(line: str, *, first: int, hang: int, width: int) -> list[str]:
    """`line` broken so that it fits: the first part into `width - first` columns, the others
    indented by `hang`. Parts after a break inside quotes start at column 0, as blanks there
    would split the word."""
    assert width - max(first, hang) >= NARROWEST, "a screen too narrow to paste from"
    parts: list[str] = []
    indent, rest = "", line
    room = width - first
    while len(rest) > room:
        blank = _last_blank(rest, room - 2)
        if blank > 0:
            parts.append(indent + rest[:blank].rstrip() + " \\")
            rest, indent, room = rest[blank:].lstrip(), " " * hang, width - hang
            continue
        cut = _last_quoted(rest, room - 2)
        if cut <= 0:
            break  # nowhere to break without changing its meaning
        parts.append(indent + rest[:cut] + "'\\")
        rest, indent, room = "'" + rest[cut:], "", width
    return [*parts, indent + rest]


def _inside(text: str) -> list[str]:
    """For each position the quote that is open before it: `'`, `"`, `\\` or nothing."""
    state, states = "", []
    for letter in text:
        states.append(state)
        if state == "\\":
            state = ""
        elif state:
            state = "" if letter == state else state
        elif letter in "'\"\\":
            state = letter
    return states


def _last_blank(text: str, limit: int) -> int:
    states = _inside(text[: limit + 1])
    return next(
        (at for at in range(len(states) - 1, 0, -1) if text[at] == " " and not states[at]), 0
    )


def _last_quoted(text: str, limit: int) -> int:
    """The last position in single quotes with something of them on both sides."""
    states = _inside(text[: limit + 1])
    for at in range(len(states) - 1, 1, -1):
        if states[at] == "'" and states[at - 1] == "'" and text[at] != "'":
            return at
    return 0
