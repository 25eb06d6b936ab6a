"""All Flight Recorder dumps of a job, many at a time.

In: files that look like dumps. Out: each one's FlightDump, or the sentence why there is none, in
the files' order. A thousand dumps are read by as many processes as there are cores. Those skip the
opcode check, half of the time, because the kernel bounds their memory and we their time: what one
of them cannot read, or dies of, is read again here, with the check, which has the sentence.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.formats import flight_dump
from bench.formats.file_walk import Found
from bench.formats.source import Source
from bench.records import BadInput, FlightDump

# Below this much a process costs more than it saves (its start: 20 ms here).
PARALLEL_BYTES = 4 << 20
# What a process may take beyond what it has at its start: ten times the largest file.
PROCESS_BYTES = 768 << 20
# Without a result for this long a process is stuck: the largest file takes three seconds.
QUIET_S = 20.0

Outcome: TypeAlias = FlightDump | BadInput
Opener: TypeAlias = Callable[[Found], Source]


def read_all(found: Sequence[Found], opener: Opener) -> list[Outcome]:
    """An outcome per file. `opener` opens a file here (stdin is one); processes open by path."""
    outcomes: dict[int, Outcome] = dict(_in_processes(found))
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    for at, each in enumerate(found):
        outcome = outcomes.get(at)
        if outcome is None:
            try:
                outcome = flight_dump.read(opener(each))
            except BadInput as bad:
                outcome = bad
        outcomes[at] = _slim(outcome, shared)
    return [outcomes[at] for at in range(len(found))]


def _slim(outcome: Outcome, shared: dict[tuple[int, ...], tuple[int, ...]]) -> Outcome:
    """With lists of ranks that are equal made one: a thousand dumps name a thousand ranks each."""
    if isinstance(outcome, BadInput):
        return outcome
    groups = tuple(
        msgspec.structs.replace(group, ranks=shared.setdefault(group.ranks, group.ranks))
        for group in outcome.groups
    )
    possible = shared.setdefault(outcome.possible_ranks, outcome.possible_ranks)
    return msgspec.structs.replace(outcome, groups=groups, possible_ranks=possible)


def _in_processes(found: Sequence[Found]) -> Iterator[tuple[int, FlightDump]]:
    """What processes could read; nothing where they would not pay."""
    sizes = [_size(each.path) for each in found]
    cores = len(os.sched_getaffinity(0))
    if cores < 2 or sum(sizes) < PARALLEL_BYTES or len(found) < 2:
        return
    # Forking copies no other thread: where there is one (a caller's), start afresh instead.
    alone = threading.active_count() == 1
    context: ForkContext | SpawnContext = (
        multiprocessing.get_context("fork") if alone else multiprocessing.get_context("spawn")
    )
    by_size = sorted((at for at, size in enumerate(sizes) if size), key=lambda at: -sizes[at])
    crew = [_Hand(context, found, by_size[first::cores]) for first in range(cores)]
    try:
        while waiting := {hand.results: hand for hand in crew if hand.left}:
            ready = multiprocessing.connection.wait(list(waiting), timeout=QUIET_S)
            if not ready:
                return
            for results in ready:
                yield from waiting[results].take()  # type: ignore[index]
    finally:
        for hand in crew:
            hand.stop()


class _Hand:
    """A process and the files that it has left."""

    def __init__(
        self, context: ForkContext | SpawnContext, found: Sequence[Found], own: list[int]
    ) -> None:
        self.left = list(reversed(own))
        self.results, far_end = context.Pipe(duplex=False)
        files = [(at, found[at].path, found[at].file) for at in own]
        self._process = context.Process(target=_read, args=(files, far_end), daemon=True)
        self._process.start()
        far_end.close()

    def take(self) -> Iterator[tuple[int, FlightDump]]:
        """One result, if the process could read the file; nothing more of one that died."""
        try:
            at, dump = self.results.recv()
        except (EOFError, OSError):
            self.left = []
            return
        self.left.remove(at)
        if dump is not None:
            yield at, dump

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.results.close()


def _read(files: list[tuple[int, Path, str]], results: Connection) -> None:
    """A process's work: a result per file, None where the file is not as it should be."""
    faulthandler.disable()  # a caller's: a death here is told as a sentence there
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + PROCESS_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for at, path, file in files:
        dump = None
        with contextlib.suppress(BadInput, MemoryError, RecursionError):
            dump = flight_dump.read(Source.open(path, file=file), check=False)
        results.send((at, dump))


def _size(path: Path) -> int:
    """0 for what is no plain file: those are read here."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):
        return 0
