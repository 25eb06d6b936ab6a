"""Slurm's short form of a list of hosts: `rack[1-2]node[01-04,07],login` into names.

In: the value of SLURM_JOB_NODELIST or the like. Out: the names in Slurm's own order (the last
bracket varies fastest), zeros kept. What `scontrol show hostnames` prints, without a Slurm at hand
(https://slurm.schedmd.com/hostlist_formatter.html); BadInput for what is no such list.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

from bench.records import BadInput

MOST_CHARACTERS = 1 << 20  # the kernel takes no variable longer than an eighth of that
MOST_HOSTS = 1 << 16  # Slurm's own limit for one bracket
_MOST_DIGITS = 18
_MOST_BRACKETS = 8  # Slurm's own limit is 5
_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def expand(text: str) -> tuple[str, ...]:
    """All names of the list. BadInput where it is empty, malformed or longer than the limits."""
    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"the host list has more than {MOST_CHARACTERS} characters")
    found: list[str] = []
    for entry in _entries(text):
        split = _BRACKET.split(entry)
        if len(split) > 2 * _MOST_BRACKETS + 1:
            raise BadInput(f"no list of hosts: {_shown(text)} has too many brackets")
        parts = [(part,) if i % 2 == 0 else _numbers(part, text) for i, part in enumerate(split)]
        if len(found) + math.prod(map(len, parts)) > MOST_HOSTS:
            raise BadInput(f"the host list {_shown(text)} names more than {MOST_HOSTS} hosts")
        for names in itertools.product(*parts):
            name = "".join(names)
            if not _NAME.match(name):
                raise BadInput(f"no list of hosts: {_shown(text)}")
            found.append(name)
    return tuple(found)


def _entries(text: str) -> Iterator[str]:
    """The parts between commas that stand outside of brackets."""
    start, inside = 0, False
    for i, letter in enumerate(text):
        if letter == "[":
            inside = True
        elif letter == "]":
            inside = False
        elif letter == "," and not inside:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def _numbers(inside: str, text: str) -> tuple[str, ...]:
    """ "1-3,7" -> 1 2 3 7; "08-10" -> 08 09 10."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        whole = all(n.isascii() and n.isdigit() and len(n) <= _MOST_DIGITS for n in (first, last))
        if not whole or int(first) > int(last):
            raise BadInput(f"no list of hosts: {_shown(text)}")
        if int(last) - int(first) >= MOST_HOSTS - len(numbers):
            raise BadInput(f"the host list {_shown(text)} names more than {MOST_HOSTS} hosts")
        width = len(first)
        numbers += [f"{n:0{width}d}" for n in range(int(first), int(last) + 1)]
    return tuple(numbers)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
