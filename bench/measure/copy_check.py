"""The copy check from outside: a short-lived worker, and the patience one has with it.

In: the nursery that forks it. Out: a CopyCheck with all figures that came in time. A GPU that has
fallen off the bus, or peer access that an IOMMU swallows, leaves a copy hanging in the driver: the
worker is then killed, and what it was copying is named.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import msgspec

from bench.measure.nursery import Barren, Nursery, Worker
from bench.records import CopyCheck, CopyFigure

# CUDA wakes every GPU at first use: seconds each where no persistence daemon keeps them awake.
START_S = 60.0
STEP_S = 15.0  # a context takes a second or two, the copies at most two more
MOST_S = 180.0
BEAT_S = 2.0
_POLL_S = 0.05
_REAP_S = 2.0


def run(
    nursery: Nursery,
    host: str,
    *,
    visible: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    beat: Callable[[], object] = lambda: None,
    start_s: float = START_S,
    step_s: float = STEP_S,
    most_s: float = MOST_S,
) -> CopyCheck:
    """Fork a worker, hear it out, end it. Never raises for what the worker does. `visible` is what
    all ranks of the host may see together, in the form of CUDA_VISIBLE_DEVICES."""
    try:
        worker = nursery.spawn({"copies": {"host": host, "visible": visible}})
    except Barren as barren:
        return CopyCheck(host=host, trouble=f"no copies on {host}: {barren}")
    heard = _Heard(host)
    began = time.monotonic()
    due, next_beat = began + start_s, began + BEAT_S
    while True:
        messages, is_open = worker.lines(_POLL_S)
        now = time.monotonic()
        for message in messages:
            heard.take(message)
            due = now + step_s
        if now > next_beat:
            next_beat = now + BEAT_S
            beat()
        if heard.done:
            break
        if not is_open or stop() or now > min(due, began + most_s):
            heard.end(
                "was told to stop" if stop()
                else "its worker ended" if not is_open
                else f"there was no answer for {now - (due - step_s):.0f} s" if heard.step
                else f"CUDA did not start within {start_s:.0f} s",
                stuck=is_open and not stop(),
            )  # fmt: skip
            break
    _end(nursery, worker, killed=not heard.done)
    return heard.check()


def _end(nursery: Nursery, worker: Worker, *, killed: bool) -> None:
    if killed:
        worker.signal(signal.SIGKILL)
    until = time.monotonic() + _REAP_S
    while nursery.reap(worker, 0.05) is None and time.monotonic() < until:
        pass
    worker.close()


class _Heard:
    """What the worker has said so far."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._figures: list[CopyFigure] = []
        self._trouble: str | None = None
        self._gpus: tuple[int, ...] = ()
        self._stuck: tuple[int, ...] = ()
        self.step: str | None = None
        self.done = False

    def take(self, message: dict[str, object]) -> None:
        if "figure" in message:
            self._figures.append(msgspec.convert(message["figure"], CopyFigure, strict=False))
        elif "trouble" in message:
            self._trouble = self._trouble or str(message["trouble"])
        elif "step" in message:
            self.step = str(message["step"])
            self._gpus = msgspec.convert(message["gpus"], tuple[int, ...])
        elif "done" in message:
            self.done = True

    def end(self, why: str, *, stuck: bool) -> None:
        at = f" copying {self.step}" if self.step else ""
        self._trouble = f"the copy check of {self._host} ended early{at}: {why}"
        self._stuck = self._gpus if stuck else ()

    def check(self) -> CopyCheck:
        return CopyCheck(
            host=self._host,
            figures=tuple(self._figures),
            trouble=self._trouble,
            stuck=self._stuck,
        )
