"""Which files `read` was given: files as they stand, folders walked, `-` for stdin.

In: what the user typed. Out: files in order, each once. Hidden files and notes for people (*.md,
README, our own case.yaml) are left out of a folder unless they are named; a folder of one of our
own runs stands for its report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.records import BadInput

STDIN = "-"
# A rank log each of the largest job that is looked at as a whole; beyond, a folder was misnamed.
MAX_FILES = 20_000
MAX_DEPTH = 12
LEFT_OUT = ("readme", "case.yaml", "license")  # beginnings of names, in small letters
OF_A_RUN = ("report.json", "samples.jsonl")


@dataclass(frozen=True)
class Found:
    """One file. `file` is its name in messages; `named`: by the user, not met on a walk."""

    path: Path
    file: str
    named: bool


def files(named: Sequence[str]) -> Iterator[Found]:
    """The files behind the names. BadInput where a folder holds more than MAX_FILES."""
    seen: set[tuple[int, int] | str] = set()
    for name in named:
        for found in _behind(name):
            identity = _identity(found)
            if identity not in seen:
                seen.add(identity)
                yield found


def _behind(name: str) -> Iterator[Found]:
    path = Path(name)
    if name == STDIN or not _is_folder(path):
        yield Found(path, STDIN if name == STDIN else shown(name), named=True)
    elif report := report_of(path):
        yield Found(report, shown(str(report)), named=True)
    else:
        for number, met in enumerate(_walk(path, 0)):
            if number == MAX_FILES:
                raise BadInput(f"holds more than {MAX_FILES:,} files", file=shown(name))
            yield Found(met, shown(str(met)), named=False)


def report_of(folder: Path) -> Path | None:
    """The report.json of a folder that one of our runs has made."""
    if all(_is_file(folder / name) for name in OF_A_RUN):
        return folder / OF_A_RUN[0]
    return None


def shown(name: str) -> str:
    """A file name that can be written down: bytes that are no UTF-8 become a question mark."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """Files before sub-folders, each in order of names; what cannot be listed is an empty one."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        if depth:
            return
        raise BadInput(f"cannot be read: {error.strerror}", file=shown(str(folder))) from None
    entries = [entry for entry in entries if not _is_left_out(entry.name)]
    folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    for entry in entries:
        if _is_file(path := Path(entry.path)):
            yield path
    for entry in folders:
        inner = Path(entry.path)
        if report := report_of(inner):
            yield report
        elif depth < MAX_DEPTH:
            yield from _walk(inner, depth + 1)


def _is_left_out(name: str) -> bool:
    small = name.lower()
    return small.startswith((".", *LEFT_OUT)) or small.endswith((".md", "~"))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # told when the file is opened
        return False


def _is_file(path: Path) -> bool:
    """False too where rights or a link that leads to itself keep it from being seen."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _identity(found: Found) -> tuple[int, int] | str:
    """Device and inode, so that `read . run.log` reads run.log once."""
    if found.file == STDIN:
        return STDIN
    try:
        status = found.path.stat()
    except (OSError, ValueError):
        return found.file
    return status.st_dev, status.st_ino
