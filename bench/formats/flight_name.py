"""Which rank a Flight Recorder dump's file name may mean.

In: a path. Out: the numbers in it with how they were found, the likeliest first: torch appends the
global rank to a prefix, people rename, move into folders per rank, or put the host's name before.
One name alone decides nothing; bench/hang/ranks.py compares the names of all dumps.
"""

from __future__ import annotations

import re
from pathlib import PurePath

ENDINGS = (".gz", ".json", ".pickle", ".pkl", ".pt", ".bin", ".dump", ".dat", ".txt", ".log")
MAX_DIGITS = 7  # a longer number is a time or a process id
MAX_NUMBERS = 8  # looked at per name

_AFTER_RANK = re.compile(r"rank[ _.=-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_AFTER_R = re.compile(r"(?<![0-9a-z])r(\d{1,7})(?![0-9a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def numbers(file: str) -> tuple[tuple[str, int], ...]:
    """(("rank", 3), ("last", 3), ("first", 17)): kinds that compare across files, each once."""
    path = PurePath(file)
    stem, folder = _stem(path.name), path.parent.name
    told: dict[str, int] = {}
    if after := _AFTER_RANK.findall(stem):
        told["rank"] = int(after[-1])
    if after := _AFTER_R.findall(stem):
        told["r"] = int(after[-1])
    found = [text for text in _NUMBER.findall(stem) if len(text) <= MAX_DIGITS][:MAX_NUMBERS]
    if found:
        told["last"] = int(found[-1])
        for place, text in enumerate(found[:-1]):
            told["first" if not place else f"number {place + 1}"] = int(text)
    if after := _AFTER_RANK.findall(folder):
        told["folder's rank"] = int(after[-1])
    elif (found := _NUMBER.findall(folder)) and len(found[-1]) <= MAX_DIGITS:
        told["folder"] = int(found[-1])
    return tuple(told.items())


def layer(file: str) -> str:
    """The name without its likeliest rank: dumps that one writer made at one moment share it."""
    name = PurePath(file).name
    stem = _stem(name)
    for pattern in (_AFTER_RANK, _AFTER_R):
        if found := list(pattern.finditer(stem)):
            begin, end = found[-1].span(1)
            return f"{stem[:begin]}#{stem[end:]}{name[len(stem) :]}"
    if found := list(_NUMBER.finditer(stem)):
        begin, end = found[-1].span()
        return f"{stem[:begin]}#{stem[end:]}{name[len(stem) :]}"
    return name


def _stem(name: str) -> str:
    while (lowered := name.lower()).endswith(ENDINGS):
        name = name[: -len(next(ending for ending in ENDINGS if lowered.endswith(ending)))]
    return name
