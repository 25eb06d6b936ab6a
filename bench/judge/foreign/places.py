"""Where a line of evidence stands, short enough to read: "topo.xml:5".

In: a file as the user named it, and a line. Out: its last name; the whole path is in the finding's
`where` and in the list of files.
"""

from __future__ import annotations

from pathlib import PurePath


def place(file: str, line: int | None = None) -> str:
    """ "lspci.txt:12", or "lspci.txt" where no line is known."""
    name = PurePath(file).name or file
    return f"{name}:{line}" if line else name
