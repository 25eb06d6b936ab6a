"""The parts of a log that are worth reading: around words of faults, its beginning, its end.

In: a Source. Out: Passages: lines with the numbers that `grep -n` shows. A file is read once at
the speed of memory (sieve); of each word the first and the last lines are kept, the others are
counted. Memory does not depend on the file's size, nor on the length of its lines.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec

from bench.formats.rank_log.needles import LONGEST, NEEDLES, TRACEBACK
from bench.formats.rank_log.sieve import Sieve, Tray
from bench.formats.source import MAX_LINE, Source, without_colours

TRAY_BYTES = 2 << 20
HEAD_BYTES, TAIL_BYTES = 8 << 10, 16 << 10
# What stands around a word: the last time and step before it, the lines that it ends or begins. A
# traceback of 100 frames is 16 KiB, and seven other ranks may speak meanwhile.
BEFORE_BYTES, AFTER_BYTES, TRACEBACK_BYTES = 8 << 10, 8 << 10, 64 << 10
FIRST_KEPT, LAST_KEPT = 64, 64  # lines of each word; a retry may fail a million times
# All passages of a file together; what 64 files of a job leave in memory at once is below 100 MB.
MAX_PASSAGE_BYTES = 4 << 20


@dataclass(frozen=True)
class Line:
    """One line, or one part of a line that a progress bar wrote over (then with equal numbers)."""

    number: int
    text: str


@dataclass
class Passage:
    """Lines without a gap. `offset` is where the first begins in the file."""

    offset: int
    lines: list[Line]


@dataclass
class Passages:
    """What was kept of a file; `left_out` counts lines with words of faults that were not."""

    passages: list[Passage] = field(default_factory=list)
    line_count: int = 0
    left_out: int = 0
    hits: int = 0
    hit_lines: set[int] = field(default_factory=set)  # numbers of lines with a word, of those kept
    unfinished: bool = False


_SIEVE = Sieve(NEEDLES)
_TRACEBACK = NEEDLES.index(TRACEBACK)
_TRAYS = threading.local()


class _Kept:
    """Of one word: the first places and the last ones, as (offset, line number)."""

    def __init__(self) -> None:
        self.first: list[tuple[int, int]] = []
        self.last: deque[tuple[int, int]] = deque(maxlen=LAST_KEPT)
        self.count = 0

    def add(self, offset: int, line: int) -> None:
        self.count += 1
        if len(self.first) < FIRST_KEPT:
            self.first.append((offset, line))
        else:
            self.last.append((offset, line))

    @property
    def left_out(self) -> int:
        return self.count - len(self.first) - len(self.last)


def of(source: Source) -> Passages:
    """The passages of a file."""
    with source.seekable() as stream:
        kept, size, lines, unfinished = _scan(stream, source.limit_bytes)
        found = Passages(line_count=lines + unfinished, unfinished=unfinished)
        found.left_out = sum(each.left_out for each in kept.values())
        found.hits = sum(each.count for each in kept.values())
        for each in kept.values():
            found.hit_lines.update(line for _, line in (*each.first, *each.last))
        for begin, end, anchor in _windows(kept, size):
            found.passages.append(_passage(stream, begin, end, anchor, lines))
    return found


def _tray() -> Tray:
    tray = getattr(_TRAYS, "tray", None)
    if tray is None:
        tray = _TRAYS.tray = Tray(TRAY_BYTES)
    return tray


def _scan(stream: BinaryIO, limit_bytes: int) -> tuple[dict[int, _Kept], int, int, bool]:
    """Places of all words, the file's size, how many lines end, whether one is left open."""
    tray = _tray()
    kept: dict[int, _Kept] = {}
    carry = lines = size = 0
    unfinished = False
    while size < limit_bytes and (read := _fill(stream, tray, carry, limit_bytes - size)):
        end = carry + read
        found = _SIEVE.scan(tray, end, carry)
        places = [start for start, _ in found]
        # a word may begin in what was carried over, whose line ends are counted already
        before = tray.lines_before(0, places)
        carried = tray.line_ends(0, carry)
        for (start, number), ends in zip(found, before, strict=True):
            each = kept.setdefault(number, _Kept())
            each.add(size - carry + start, lines - carried + ends + 1)
        lines += tray.line_ends(carry, end)
        size += read
        unfinished = tray.buffer[end - 1] != 10
        carry = min(LONGEST - 1, end)
        tray.buffer[:carry] = tray.buffer[end - carry : end]
    return kept, size, lines, unfinished


def _fill(stream: BinaryIO, tray: Tray, carry: int, limit: int) -> int:
    room = tray.view[carry : carry + min(tray.size_bytes - carry, limit)]
    return stream.readinto(room)  # type: ignore[attr-defined, no-any-return]


def _windows(kept: dict[int, _Kept], size: int) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """(begin, end, anchor) of passages that do not overlap; the anchor is a place in it (or at
    its end) whose line number is known. Where there is too much, the middle gives way."""
    marks: list[tuple[int, int, tuple[int, int]]] = [(0, min(HEAD_BYTES, size), (0, 1))]
    for number, each in kept.items():
        after = TRACEBACK_BYTES if number == _TRACEBACK else AFTER_BYTES
        for place in (*each.first, *each.last):
            begin = max(place[0] - BEFORE_BYTES, 0)
            marks.append((begin, min(place[0] + after, size), place))
    if size > HEAD_BYTES:
        marks.append((max(size - TAIL_BYTES, 0), size, (size, -1)))
    marks.sort()
    merged: list[tuple[int, int, tuple[int, int]]] = []
    for begin, end, anchor in marks:
        if merged and begin <= merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = first, max(last, end), known
        else:
            merged.append((begin, end, anchor))
    while len(merged) > 2 and sum(end - begin for begin, end, _ in merged) > MAX_PASSAGE_BYTES:
        del merged[len(merged) // 2]
    yield from merged


def _passage(
    stream: BinaryIO, begin: int, end: int, anchor: tuple[int, int], lines: int
) -> Passage:
    """Whole lines of a window, at most MAX_PASSAGE_BYTES of it."""
    stream.seek(begin)
    raw = stream.read(min(end - begin, MAX_PASSAGE_BYTES))
    place, number = anchor
    if number < 0:  # the end of the file, behind its last line end
        first = lines + 1 - raw.count(b"\n")
    else:
        first = number - raw.count(b"\n", 0, place - begin)
    if begin:  # what is left of the line in which the window begins
        cut = raw.find(b"\n") + 1
        if cut and cut <= max(place - begin, 0):
            raw, begin, first = raw[cut:], begin + cut, first + 1
    return Passage(begin, list(_lines(raw, first)))


def _lines(raw: bytes, first: int) -> Iterator[Line]:
    for number, line in enumerate(raw.split(b"\n"), first):
        if line.startswith(DOCKER):
            line = _written(line)
        if len(line) > MAX_LINE:
            line = _shortened(line)
        if b"\0" in line:
            line = line.translate(None, b"\0")
        line = without_colours(line)
        for part in line.split(b"\r") if b"\r" in line else (line,):
            if part:
                yield Line(number, part.decode("utf-8", "replace"))


DOCKER = b'{"log":"'


def _written(line: bytes) -> bytes:
    """What a container wrote, of a line of Docker's json-file, behind its time; the line itself
    where it is cut."""
    try:
        told = msgspec.json.decode(line, type=_DockerLine)
    except msgspec.DecodeError:
        return line
    return f"{told.time} {told.log}".rstrip("\n").encode("utf-8", "replace")


class _DockerLine(msgspec.Struct):
    log: str
    time: str = ""


def _shortened(line: bytes) -> bytes:
    """Beginning and end of a line that is too long: a progress bar's last state is at its end,
    and so is the traceback that follows without a line end."""
    half = MAX_LINE // 2
    return line[:half] + b"\r" + line[-half:]
