"""Stacks of live ranks: what torch's debug server, faulthandler and py-spy print, rank by rank.

In: a text with a heading per rank ("=== Rank 3 ==="), or one rank's text whose file name holds the
rank. Out: a RankStack per rank: the thread that runs the user's program, innermost frame first.
Source: torch/distributed/debug/_frontend.py; Lib/faulthandler; py-spy dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.formats import flight_name
from bench.formats.source import Source
from bench.records import BadInput, FlightFrame, RankStack

KIND = "stacks of ranks"

MAX_FRAMES = 256
# Threads of torch, Python and their helpers that a stack of a hung rank always shows.
OTHERS = ("threading.py", "concurrent/futures", "multiprocessing/", "distributed/debug", "tqdm/")

# The debug server adds the address: "=== Rank 0: http://host:25999/handler/dump_traceback? ===".
_RANK = re.compile(
    r"[\W_]{0,8}rank[ :#]{0,2}(?P<rank>\d{1,7})(?:: \S{1,300})?[\W_]{0,8}", re.IGNORECASE
)
_FRAME = re.compile(
    r'\s{0,16}File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,8}),? in (?P<name>.{1,200})'
)
_SPY = re.compile(
    r"\s{1,16}(?P<name>[^\s()][^()\n]{0,199}) \((?P<file>[^()\n]{1,400}):(?P<line>\d{1,8})\)"
)
_THREAD = re.compile(r"(?P<name>(?:Current )?[Tt]hread (?:0x[0-9a-f]{1,16}|\d{1,20}).{0,200})")
_LAST_FIRST = re.compile(r"most recent call last", re.IGNORECASE)


def likeness(head: str, name: str) -> float:
    """Sure where it begins with a rank's heading and a frame follows; half sure for a thread's
    heading."""
    lines = head.split("\n")
    first = next((line for line in lines if line.strip()), "")
    headed = threaded = False
    for line in lines:
        if _FRAME.match(line) or _SPY.match(line):
            if headed:
                return 1.0 if _RANK.fullmatch(first) else 0.9
            if threaded:
                return 0.5 if flight_name.numbers(name) else 0.0
        headed = headed or bool(_RANK.fullmatch(line))
        threaded = threaded or bool(_THREAD.match(line))
    return 0.0


@dataclass
class _Thread:
    name: str
    line: int
    last_first: bool = False
    frames: list[FlightFrame] = field(default_factory=list)


def read(source: Source) -> tuple[RankStack, ...]:
    """A stack per rank, in order; BadInput where there is none."""
    own = dict(flight_name.numbers(source.file))
    rank = own.get("rank", own.get("last"))
    threads: dict[int, list[_Thread]] = {}
    reversed_next = False
    for number, text in source.lines():
        if found := _RANK.fullmatch(text):
            rank, reversed_next = int(found["rank"]), False
            threads.setdefault(rank, []).append(_Thread("", number))
        elif rank is None:
            continue
        elif found := _THREAD.match(text):
            last_first = bool(_LAST_FIRST.search(text))
            threads.setdefault(rank, []).append(_Thread(found["name"], number, last_first))
        elif _LAST_FIRST.search(text):
            reversed_next = True
        elif found := _FRAME.match(text) or _SPY.match(text):
            mine = threads.setdefault(rank, [_Thread("", number)])
            mine[-1].last_first |= reversed_next
            if len(mine[-1].frames) < MAX_FRAMES:
                mine[-1].frames.append(
                    FlightFrame(
                        name=found["name"].strip(), file=found["file"], line=int(found["line"])
                    )
                )
    stacks = tuple(_stacks(threads, source.file))
    if not stacks:
        raise BadInput("holds no rank's stack", file=source.file)
    return stacks


def _stacks(threads: dict[int, list[_Thread]], file: str) -> Iterator[RankStack]:
    for rank, own in sorted(threads.items()):
        told = [thread for thread in own if thread.frames]
        if not told:
            continue
        users = [thread for thread in told if not _is_helper(thread)]
        chosen = next((each for each in users if "MainThread" in each.name), (users or told)[-1])
        frames = reversed(chosen.frames) if chosen.last_first else chosen.frames
        yield RankStack(
            rank=rank, file=file, line=chosen.line, thread=chosen.name, frames=tuple(frames)
        )


def _is_helper(thread: _Thread) -> bool:
    outer = thread.frames[0 if thread.last_first else -1]
    return any(mark in outer.file for mark in OTHERS)
