"""The agent: one per rank, started by torchrun; supervises a fresh worker for every case.

It never touches a process group or CUDA, so nothing that a case breaks can break the agent. It
knows the worker's phase from its messages, holds a deadline per phase, and on a miss collects what
tells why (process state, Python stacks, the log's tail), kills, and says so in the control plane,
so that the other ranks' agents end their workers too instead of waiting out their own deadlines.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from bench.measure import nccl_log, process
from bench.measure.control import Control
from bench.measure.errand import Errand
from bench.measure.nursery import Barren, Nursery, Worker
from bench.measure.transfers import Arrivals
from bench.records import Phase, RankOutcome, Sample

Outcome = Literal["ok", "hung", "died", "failed", "lost", "aborted"]

TOLD_TO_STOP = "was told to stop from outside"
BEAT_S = 2.0  # between two signs of life of a case that goes on
_POLL_S = 0.02
_LOOK_S = 0.1  # between two looks for a peer's failure
_STACKS_S = 0.2  # faulthandler writes within milliseconds; a stopped process never does
_PEERS_SPEAK_S = 0.3  # after an abort, to let this rank's own error arrive before it is killed
_PATIENCE = 3.0  # times what a stretch should take; a link that slows down more has stalled
_REAP_S = 2.0  # SIGKILL takes effect at once unless the kernel itself is stuck
_TAIL_BYTES = 2000
_STACK_BYTES = 4000
_LOG_BYTES = 1 << 20


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds a worker may stay in a phase (midrun: beyond what its next stretch should take)."""

    rendezvous: float
    init: float
    first: float
    midrun: float
    end: float

    @classmethod
    def scaled(cls, *, ranks: int, backend: str) -> Deadlines:
        """A healthy group of a few hosts forms in milliseconds, a communicator of thousands in
        minutes (facts: deadlines scale); NCCL also creates a CUDA context and probes hardware."""
        base, per_rank = (6.0, 0.03) if backend == "gloo" else (45.0, 0.1)
        phase = base + per_rank * ranks
        return cls(rendezvous=phase, init=phase, first=phase, midrun=phase, end=phase)

    @property
    def longest(self) -> float:
        """The longest that a case can be without a sign of life."""
        return max(self.rendezvous, self.init, self.first, self.midrun, self.end)

    def of(self, phase: Phase) -> float:
        return float(getattr(self, phase))


class CaseEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent reports of its rank's part; samples come from group rank 0 only."""

    rank: RankOutcome
    samples: tuple[Sample, ...] = ()
    transfers: tuple[Arrivals, ...] = ()  # of one end of a pair, one per repetition
    group_s: float | None = None
    nccl_log: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()  # libnccl and plugin files in the worker's memory map


class Agent:
    """Runs cases on this rank, one after the other."""

    def __init__(self, control: Control, nursery: Nursery, host: str) -> None:
        self._control, self._nursery, self._host = control, nursery, host

    def run(
        self, number: int | str, request: Errand, deadlines: Deadlines, stop: Callable[[], bool]
    ) -> CaseEnd:
        """Supervise one worker to its end. Never raises for what the worker does; takes at most
        the current phase's deadline plus a few seconds. `number` names the group: where one of
        its agents fails, all end."""
        with (
            process.MemoryFile("stacks") as stacks,
            process.MemoryFile("words") as words,
            process.MemoryFile("nccl-log") as log,
        ):
            request = msgspec.structs.replace(
                request, stacks_file=stacks.path, words_file=words.path, log_file=log.path
            )
            asked = time.monotonic()
            try:
                worker = self._nursery.spawn(msgspec.to_builtins(request))
            except Barren as barren:
                self._control.put(f"abort/{number}", request.global_rank)
                return CaseEnd(rank=self._unborn(request, barren))
            watch = _Watch(asked, deadlines)
            outcome = self._watch(worker, watch, number, request.rank == 0, stop)
            state = process.state(worker.pid)
            if outcome != "ok":
                self._control.put(f"abort/{number}", request.global_rank)
            silent_s = time.monotonic() - watch.moved
            trace = None
            if outcome in ("hung", "aborted"):
                worker.signal(signal.SIGUSR1)
                time.sleep(_STACKS_S)
                trace = stacks.head(_STACK_BYTES)  # the innermost frame comes first
            signal_number = self._end(worker, outcome)
            error = watch.error
            if outcome == "died" and error is None:
                error = _epitaph(signal_number)
            if outcome == "aborted" and stop():
                error = TOLD_TO_STOP
            # NCCL's log never is empty over NCCL; why the process died, torch or CUDA say.
            tail = "\n".join(filter(None, (log.tail(_TAIL_BYTES), words.tail(_TAIL_BYTES))))
            rank = RankOutcome(
                rank=request.global_rank,
                host=self._host,
                outcome=outcome,
                phase=watch.phase,
                cell=watch.cell,
                error=error,
                signal=signal_number,
                state=state if outcome in ("hung", "aborted") else None,
                progress_s=round(silent_s, 2) if outcome != "ok" else None,
                stacks=trace,
                log_tail=(tail or None) if outcome != "ok" else None,
                start_s=watch.start_s,
            )
            return CaseEnd(
                rank=rank,
                samples=tuple(watch.samples),
                transfers=tuple(watch.transfers),
                group_s=watch.group_s,
                nccl_log=nccl_log.telling(log.head(_LOG_BYTES) or ""),
                mapped=watch.mapped,
            )

    def _unborn(self, request: Errand, error: Barren) -> RankOutcome:
        return RankOutcome(
            rank=request.global_rank, host=self._host, outcome="failed", error=str(error)
        )

    def _watch(
        self,
        worker: Worker,
        watch: _Watch,
        number: int | str,
        beats: bool,
        stop: Callable[[], bool],
    ) -> Outcome:
        """Listen until the worker is done, or the deadline, a peer or `stop` says otherwise.

        `beats`: this rank tells everybody who waits for the case that it is still going on.
        """
        # all agents together look for an abort at most 5,000 times a second
        every_s = max(_LOOK_S, self._control.ranks / 5000)
        next_look = time.monotonic() + every_s
        next_beat = time.monotonic() + BEAT_S
        while True:
            messages, is_open = worker.lines(_POLL_S)
            for message in messages:
                watch.hear(message)
            now = time.monotonic()
            if watch.done:
                return "ok"
            if stop():
                return "aborted"
            if watch.error is not None:
                return "failed"
            if not is_open:
                return "died"
            if beats and now > next_beat:
                next_beat = now + BEAT_S
                self._control.add("beat", 1)
            if now > watch.deadline:
                return "hung"
            if now > next_look:
                next_look = now + every_s
                if self._control.has(f"abort/{number}"):
                    return self._last_words(worker, watch)

    def _last_words(self, worker: Worker, watch: _Watch) -> Outcome:
        """A peer has failed: this rank's own error, when it has one, is better evidence."""
        end = time.monotonic() + _PEERS_SPEAK_S
        while time.monotonic() < end and not (watch.done or watch.error):
            messages, is_open = worker.lines(_POLL_S)
            for message in messages:
                watch.hear(message)
            if not is_open and not (watch.done or watch.error):
                return "died"
        return "ok" if watch.done else "failed" if watch.error else "aborted"

    def _end(self, worker: Worker, outcome: Outcome) -> int | None:
        """End the worker; the signal that had ended it when it died by itself, else None."""
        if outcome not in ("ok", "died"):
            worker.signal(signal.SIGKILL)
        until = time.monotonic() + _REAP_S
        while self._nursery.reap(worker, 0.05) is None and time.monotonic() < until:
            pass
        worker.close()
        if outcome != "died" or worker.status is None or not os.WIFSIGNALED(worker.status):
            return None
        return os.WTERMSIG(worker.status)


def _epitaph(signal_number: int | None) -> str:
    if signal_number is None:
        return "ended without a result"
    return f"killed by {signal.Signals(signal_number).name}"


class _Watch:
    """What the worker has said so far, and until when the next word is due."""

    def __init__(self, asked: float, deadlines: Deadlines) -> None:
        self._asked, self._deadlines = asked, deadlines
        self.moved, self.start_s = asked, None  # type: float, float | None
        self.phase: Phase = "rendezvous"
        self.cell: str | None = None
        self.samples: list[Sample] = []
        self.transfers: list[Arrivals] = []
        self.group_s: float | None = None
        self.mapped: tuple[str, ...] = ()
        self.error: str | None = None
        self.done = False
        self.deadline = asked + deadlines.rendezvous

    def hear(self, message: dict[str, object]) -> None:
        now = time.monotonic()
        self.moved = now
        if self.start_s is None:
            self.start_s = round(now - self._asked, 4)
        expect_s = 0.0
        if "phase" in message:
            self.phase = message["phase"]  # type: ignore[assignment]
        elif "busy" in message:
            self.cell, expect_s = str(message["busy"]), _PATIENCE * float(message["expect_s"])  # type: ignore[arg-type]
        elif "sample" in message:
            self.samples.append(msgspec.convert(message["sample"], Sample, strict=False))
        elif "transfer" in message:
            self.transfers.append(msgspec.convert(message["transfer"], Arrivals, strict=False))
        elif "group_s" in message:
            self.group_s = float(message["group_s"])  # type: ignore[arg-type]
        elif "mapped" in message:
            self.mapped = msgspec.convert(message["mapped"], tuple[str, ...])
        elif "error" in message:
            self.error = str(message["error"])
        elif "done" in message:
            self.done = True
        self.deadline = now + self._deadlines.of(self.phase) + expect_s
