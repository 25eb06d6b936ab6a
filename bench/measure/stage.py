"""The life of one rank in a sweep, from torchrun's hands to the end: what the entry point calls.

Opening a stage forks the nursery (while the process is still single-threaded), joins the store and
starts to listen for signals. Rank 0 then conducts through it; every other rank attends.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import torch

from bench.measure import process, worker
from bench.measure.conductor import Conductor
from bench.measure.control import Control, StoreGone
from bench.measure.ladders import Ladders
from bench.measure.member import Member, Seat
from bench.measure.nursery import Nursery
from bench.measure.roster import Roster
from bench.plan import cases
from bench.records import (
    Backend,
    BadInput,
    Candidate,
    Case,
    HostFacts,
    PreflightPair,
    RankOutcome,
    Report,
    Session,
)


class Stage:
    """One rank's part; built by `open`."""

    def __init__(self, seat: Seat, control: Control, nursery: Nursery) -> None:
        self.seat, self._control = seat, control
        self._told_by: str | None = None
        control.stop = self._ended
        self._member = Member(seat, control, nursery, self._stopped)
        self._conductor = Conductor(control, self._member)
        self._missing: list[str] = []  # what makes the run incomplete
        self._dropped: list[str] = []  # sessions that the budget had no room for
        self._silent_hosts: tuple[str, ...] = ()
        self._dismissed = False

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Stage]:
        """Join the sweep that torchrun started; BadInput where there is none to join."""
        seat = Seat.from_torchrun()
        process.set_name(f"b{seat.rank}:agent")
        nursery = Nursery(worker.serve)
        try:
            control = Control.from_torchrun()
            if seat.ranks < 2:
                raise BadInput(
                    "nothing to measure: one rank has no peer; start at least two, for example "
                    "torchrun --nproc-per-node 2 bench/sweep.py"
                )
            stage = cls(seat, control, nursery)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, stage._on_signal)
            try:
                yield stage
            finally:
                stage.dismiss()
                stage._member.close()
        finally:
            nursery.close()

    def _on_signal(self, number: int, _frame: object) -> None:
        self._told_by = signal.Signals(number).name

    def _stopped(self) -> bool:
        return self._told_by is not None

    def _ended(self) -> bool:
        """Told to stop, or (but for rank 0) everybody was let go."""
        return self._stopped() or (self.seat.rank != 0 and self._control.has("bye"))

    # ------------------------------------------------------------------- every rank but 0

    def attend(self) -> int:
        """Take part until rank 0 ends the sweep; this rank's exit status."""
        said: str | None
        everybody: bool | None = True
        try:
            self._member.arrive()
            if self._member.learn() is None:
                return 0 if self._control.has("bye") or self._stopped() else 1
            self._member.probe()
            said = self._member.attend()
            everybody = self._control.peek("bye", bool)
        except StoreGone:
            said = (
                None if self._stopped() else "torchrun's store has gone: rank 0's host has ended"
            )
        if said is not None:
            print(f"fabric-bench: rank {self.seat.rank}: {said}", file=sys.stderr, flush=True)
        return 0 if said is None and everybody is not False else 1

    # ---------------------------------------------------------------------------- rank 0

    def facts(self) -> tuple[HostFacts, ...]:
        """Every host's facts, labels made unique; nodes that stayed silent end up in missing()."""
        self._member.arrive()
        arrived = self._conductor.arrivals()
        self._roster = Roster(arrived, self._conductor.placements())
        if not self._stopped():
            self._missing += [
                f"node {node} sent no facts: its agents are gone or stopped"
                for node in self._roster.silent
            ]
        return self._roster.hosts

    def backend(self, wanted: Backend | None, hosts: Sequence[HostFacts]) -> Backend:
        """nccl where every host has a GPU, else gloo; BadInput when nccl is wanted without."""
        without = [host.host for host in hosts if not host.gpus]
        if wanted == "nccl" and (without or not torch.cuda.is_available()):
            raise BadInput(f"--backend nccl needs a GPU on every host; none on {without[0]}")
        if wanted is not None:
            return wanted
        return "gloo" if without or not torch.cuda.is_available() else "nccl"

    def preflight(
        self, candidates: Sequence[Candidate], backend: Backend
    ) -> tuple[tuple[HostFacts, ...], tuple[PreflightPair, ...]]:
        """Lay out the sweep to all members and gather their probes and NCCL's answers."""
        self._conductor.lay_out(self._roster.layouts(candidates, backend))
        self._member.learn()
        self._member.probe()
        hosts, pairs, silent = self._roster.informed(self._conductor.probes())
        if not self._stopped():
            self._missing += [f"{host} sent no preflight results" for host in silent]
            self._silent_hosts = silent
        return hosts, pairs

    def sessions(
        self, report: Report, *, began: float, starting: Callable[[Case], None]
    ) -> Iterator[Session]:
        """Run the plan's cases one after the other; yields each session as it ends.

        Ends early when told to stop, when a rank is lost, or when the budget is spent; missing()
        then says so. `began` is the monotonic time at which the budget started to run.
        """
        plan = report.plan
        assert plan is not None, "a report without a plan cannot be measured"
        if self._missing:
            yield self._absent(report)
            return
        by_name = {candidate.name: candidate for candidate in report.candidates}
        ladders = Ladders(plan)
        given_up: set[str] = set()
        durations: list[float] = []
        for case in plan.cases:
            candidate = by_name[case.candidate]
            if candidate.outcome != "planned" or candidate.name in given_up:
                continue
            elapsed = time.monotonic() - began
            mean_s = sum(durations) / len(durations) if durations else 0.0
            if not cases.fits(plan, case, elapsed_s=elapsed, mean_case_s=mean_s):
                self._dropped.append(
                    f"the budget of {plan.settings.budget_s:g} s was spent after {elapsed:.0f} s; "
                    f"session {case.session + 1} of {case.candidate} and what follows was not run"
                )
                return
            starting(case)
            try:
                session = self._conductor.run(
                    case, candidate, plan.settings, ladders.of(candidate), report.hosts,
                    report.backend,
                )  # fmt: skip
            except StoreGone:
                self._missing.append("torchrun's store has gone: the sweep ended there")
                return
            durations.append(session.duration_s)
            ladders.learn(session)
            killed = any(rank.outcome == "died" for rank in session.ranks)
            if session.outcome in ("hung", "failed") and not killed:
                given_up.add(candidate.name)  # it would only fail the same way again
            yield session
            if self._told_by is not None:
                self._missing.append(f"{self._told_by} ended the sweep")
                return
            if self._conductor.lost:
                ranks = ", ".join(str(rank) for rank in self._conductor.lost)
                self._missing.append(f"rank {ranks} stopped answering: the sweep ended there")
                return

    def _absent(self, report: Report) -> Session:
        """What stands for the sweep when not everybody came: no group of all ranks can form."""
        host_of = {rank: host.host for host in report.hosts for rank in host.ranks}
        ranks = tuple(
            RankOutcome(rank=rank, host=host_of.get(rank, "?"), outcome="lost")
            for rank in range(self.seat.ranks)
            if rank not in host_of or host_of[rank] in self._silent_hosts
        )
        return Session(
            case=Case(number=0, candidate="(default)", session=0), outcome="hung",
            phase="rendezvous", reason="; ".join(self._missing), ranks=ranks,
        )  # fmt: skip

    def seen(self, hosts: Sequence[HostFacts]) -> tuple[HostFacts, ...]:
        """The hosts with the library files that their workers really had mapped."""
        mapped = self._conductor.mapped
        return tuple(
            msgspec.structs.replace(
                host,
                mapped_libraries=tuple(
                    sorted({*host.mapped_libraries, *mapped.get(host.host, ())})
                ),
            )
            for host in hosts
        )

    @property
    def complete(self) -> bool:
        """Everybody was there to the end; sessions that the budget dropped do not count."""
        return not self._missing

    def missing(self) -> tuple[str, ...]:
        """Sentences: what was not measured, and why."""
        return (*self._missing, *self._dropped)

    def dismiss(self) -> None:
        """Let all members go; may be called again."""
        if self._dismissed or self.seat.rank != 0:
            return
        self._dismissed = True
        try:
            self._conductor.finish(everybody=self.complete)
        except StoreGone:
            pass  # then there is nobody left to tell
