"""Which line of a TOML text holds which key.

In: the text of a file that already parsed. Out: a line number for a path such as
("network", 1, "rate_mbit"). tomllib keeps no positions, so this reads headers and keys again; it
skips over values (strings, lists that span lines) without interpreting them.
"""

from __future__ import annotations

import re

KeyPath = tuple["str | int", ...]

_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(\.?)""")
# What may hide a bracket or a newline inside a value: strings of all four kinds and comments.
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|\#[^\n]*', re.DOTALL
)


class KeyLines:
    """Line numbers (from 1) of every table header and key of a TOML text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        self._lengths: dict[KeyPath, int] = {}
        # Blanking strings and comments keeps lengths and newlines, so that positions stay true;
        # keys are then read from the original text.
        text = text.replace("\r\n", "\n")
        bare = _STRING.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
        table: KeyPath = ()
        depth, start = 0, 0
        for number, line in enumerate(bare.split("\n"), start=1):
            original = text[start : start + len(line)]
            start += len(line) + 1
            if depth == 0 and original.strip() and not original.lstrip().startswith("#"):
                if original.lstrip().startswith("["):
                    table = self._open(original.strip(), number)
                    continue
                key = _keys(original)
                for end in range(1, len(key) + 1):
                    self._lines.setdefault((*table, *key[:end]), number)
            depth += len(re.findall(r"[\[{]", line)) - len(re.findall(r"[\]}]", line))

    def of(self, path: KeyPath) -> int | None:
        """The line of `path`, or of the nearest thing around it that has one."""
        for end in range(len(path), 0, -1):
            if path[:end] in self._lines:
                return self._lines[path[:end]]
        return None

    def _open(self, header: str, number: int) -> KeyPath:
        listed = header.startswith("[[")
        table: KeyPath = ()
        names = _keys(header.lstrip("[ \t"))
        for position, name in enumerate(names, start=1):
            table = (*table, name)
            if listed and position == len(names):
                self._lines.setdefault(table, number)
                self._lengths[table] = self._lengths.get(table, 0) + 1
            if table in self._lengths:  # "[network.x]" after "[[network]]" means its last entry
                table = (*table, self._lengths[table] - 1)
            self._lines.setdefault(table, number)
        return table


def _keys(text: str) -> KeyPath:
    """The dotted key at the start of `text`: 'a."b c".d = 1' gives ("a", "b c", "d")."""
    keys: list[str | int] = []
    position, more = 0, True
    while more and (part := _PART.match(text, position)):
        keys.append(next(group for group in part.groups()[:3] if group is not None))
        position, more = part.end(), part[4] == "."
    return tuple(keys)
