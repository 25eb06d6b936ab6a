"""Waiting for a sweep to end: its own end, a missing host, a signal, or a deadline.

In: the torchruns of a lab. Out: when to stop waiting, and which hosts never came. Nothing here
waits without a limit.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.lab import absence
from bench.lab.launch import Torchrun
from bench.lab.running import RunningLab

POLL_S = 0.05
# After a signal the sweep fits and writes what it has; after its end the others say goodbye.
STOP_S, GOODBYE_S = 20.0, 5.0


class Told:
    """Signals that have arrived: the first asks the sweep to end, the second ends everything."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def note(self, number: int, frame: object) -> None:
        self.numbers.append(number)


@contextmanager
def signals() -> Iterator[Told]:
    """Collect Ctrl-C, SIGTERM and SIGHUP instead of dying of them."""
    told = Told()
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        before = [(number, signal.signal(number, told.note)) for number in watched]
    except ValueError:  # not the main thread: whoever is in it gets the signals
        before = []
    try:
        yield told
    finally:
        for number, handler in before:
            signal.signal(number, handler)


class Job:
    """Waits for the sweep's end, with a deadline for everything."""

    def __init__(
        self, ground: RunningLab, torchruns: Sequence[Torchrun], told: Told, limit_s: float
    ) -> None:
        self._ground, self._torchruns, self._told = ground, torchruns, told
        self._began = time.monotonic()
        self._limit_s = limit_s
        self.overdue = False

    @property
    def waited_s(self) -> float:
        """Seconds since the torchruns were started."""
        return time.monotonic() - self._began

    def wait(self) -> tuple[absence.Attendance, ...] | None:
        """Until rank 0's torchrun has ended and the others had time to; the hosts to name when
        the sweep never began because of them."""
        ranks_per_host = self._ground.lab.ranks_per_host
        first = self._torchruns[0]
        begun = False
        while first.ended() is None:
            if self._told.numbers:
                self._stop(first)
                return None
            begun = begun or absence.begun(first)
            if not begun:
                seen = absence.attendance(self._torchruns, ranks_per_host)
                named = absence.missing(seen, self.waited_s)
                if named is not None:
                    return named
            if self.waited_s > self._limit_s:
                self.overdue = True
                self._stop(first)
                return None
            time.sleep(POLL_S)
        self._until(lambda: all(t.ended() is not None for t in self._running()), GOODBYE_S)
        return None

    def _running(self) -> list[Torchrun]:
        return [torchrun for torchrun in self._torchruns if torchrun.started]

    def _stop(self, first: Torchrun) -> None:
        """Let the sweep write what it has: rank 0 is told, and lets the others go."""
        first.terminate()
        signals = len(self._told.numbers)
        self._until(
            lambda: first.ended() is not None or len(self._told.numbers) > max(signals, 1), STOP_S
        )

    def _until(self, done: Callable[[], bool], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not done() and time.monotonic() < deadline:
            time.sleep(POLL_S)
