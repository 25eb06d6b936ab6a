"""The life of one rank in a sweep, from its launcher's hands to the end: what the entry calls.

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

from bench.measure import duty, process, seating
from bench.measure.agent import TOLD_TO_STOP
from bench.measure.conductor import Conductor
from bench.measure.control import Control, StoreGone
from bench.measure.ladders import Ladders
from bench.measure.launcher import Launch, Seat
from bench.measure.member import Member
from bench.measure.nursery import Nursery
from bench.measure.pair_rounds import PairRounds
from bench.measure.roster import Roster
from bench.plan import cases
from bench.plan.amounts import Amounts
from bench.records import (
    Backend,
    BadInput,
    Candidate,
    Case,
    CopyCheck,
    HostFacts,
    PairFigure,
    PairRound,
    Plan,
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
        self._lacking: list[str] = []  # what the copies between host and GPUs lack
        self._dropped: list[Case] = []  # sessions that the budget had no room for
        self._silent_hosts: tuple[str, ...] = ()
        self._rounds: PairRounds | None = None
        self._dismissed = False

    @classmethod
    @contextmanager
    def open(cls, launch: Launch) -> Iterator[Stage]:
        """Join the sweep that a launcher started; BadInput where there is none to join."""
        if launch.ranks < 2:
            raise BadInput(
                "nothing to measure: one rank has no peer; start at least two, for example "
                "torchrun --nproc-per-node 2 bench/sweep.py"
            )
        process.set_name(f"b{launch.rank}:agent")
        nursery = Nursery(duty.serve, f"b{launch.rank}:nursery")
        try:
            control = Control.join(launch)
            try:
                stage = cls(seating.settle(launch, control), control, nursery)
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, stage._on_signal)
                try:
                    yield stage
                finally:
                    stage.dismiss()
                    stage._member.close()
            finally:
                control.close()
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
            if self._member.learn() is not None:
                self._member.probe()
                said = self._member.attend()
            else:
                if self._stopped():
                    self._member.leave()  # rank 0 waits for this rank, and should say why
                ended = self._stopped() or self._control.has("bye")
                said = None if ended else "rank 0 gave no layout: it is stopped or gone"
            everybody = self._control.peek("bye", bool)
        except StoreGone:
            said = (
                None
                if self._stopped()
                else f"{self._control.store_name} has gone: its host has ended"
            )
        if said is not None:
            print(f"fabric-bench: rank {self.seat.rank}: {said}", file=sys.stderr, flush=True)
        return 0 if said is None and everybody is not False else 1

    # ---------------------------------------------------------------------------- rank 0

    def facts(self) -> tuple[HostFacts, ...]:
        """Every host's facts, labels made unique; nodes that stayed silent end up in missing()."""
        self._member.arrive()
        arrived = self._conductor.arrivals()
        if not any(arrived):
            raise BadInput(f"{self._told_by} ended the sweep before anything was known")
        placements = self._conductor.placements()
        self._roster = Roster(arrived, placements)
        if not self._stopped():
            self._missing += [
                f"node {node} sent no facts: its agents are gone or stopped"
                for node in self._roster.silent
            ]
            self._missing += self._half_heard(set(placements))
        return self._roster.hosts

    def _half_heard(self, placed: set[int]) -> list[str]:
        """Ranks whose first small message has come, and whose host's facts (kilobytes) have not:
        what a path does that loses large packets, and also a rank that was stopped since."""
        if not self._roster.silent:
            return []
        known = {rank for host in self._roster.hosts for rank in host.ranks}
        half = ", ".join(str(rank) for rank in sorted(placed - known))
        if not half:
            return []
        said = f"small messages of rank {half} came and its host's facts did not"
        return [f"{said}: large packets are lost on the way (MTU), or it was stopped since"]

    def backend(self, wanted: Backend | None, *, guess: bool = False) -> Backend:
        """The backend of this sweep; BadInput where `wanted` cannot be, or nothing is wanted and
        nobody knows (then `guess` takes gloo)."""
        return self._roster.backend(wanted, guess=guess)

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

    def copies(self, plan: Plan) -> tuple[CopyCheck, ...]:
        """What copies between host and GPUs reach, where the plan has them; before any case,
        because a case that is killed may leave a GPU busy."""
        if plan.backend == "nccl" and plan.settings.copies and not plan.copies_s:
            self._lacking = ["the budget had no room for copies between host and GPUs"]
        if not plan.copies_s or self._missing or self._left():
            return ()
        try:
            checks = self._conductor.copies()
        except StoreGone:
            self._missing.append(f"{self._control.store_name} has gone: the sweep ended there")
            return ()
        self._lacking = [check.trouble for check in checks if check.trouble]
        return checks

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
        took_s: dict[str, float] = {}
        for case in plan.cases:
            if self._left():
                return
            candidate = by_name[case.candidate]
            if candidate.outcome != "planned" or candidate.name in given_up:
                continue
            elapsed = time.monotonic() - began
            case_s = took_s.get(candidate.name, 0.0)
            if not cases.fits(plan, case, elapsed_s=elapsed, mean_case_s=case_s):
                self._dropped.append(case)
                continue
            starting(case)
            try:
                session = self._conductor.run(
                    case, candidate, plan.settings, ladders.of(candidate), report.hosts,
                    report.backend,
                )  # fmt: skip
            except StoreGone:
                self._missing.append(f"{self._control.store_name} has gone: the sweep ended there")
                return
            took_s[candidate.name] = session.duration_s
            ladders.learn(session)
            killed = any(rank.outcome == "died" for rank in session.ranks)
            if session.outcome in ("hung", "failed") and not killed:
                given_up.add(candidate.name)  # it would only fail the same way again
            yield session
            if self._conductor.lost:
                ranks = ", ".join(str(rank) for rank in self._conductor.lost)
                self._missing.append(f"rank {ranks} stopped answering: the sweep ended there")
                return

    def pair_round(
        self, report: Report, order: PairRound, candidate: str, amounts: Amounts
    ) -> tuple[PairFigure, ...] | None:
        """Measure the pairs of one round; None where the sweep has ended or ends meanwhile."""
        if self._missing or self._left():
            return None
        if self._rounds is None:
            self._rounds = PairRounds(
                self._control, self._conductor, self._member, report.hosts, report.backend
            )
        try:
            figures = self._rounds.run(order, candidate, amounts)
        except StoreGone:
            self._missing.append(f"{self._control.store_name} has gone: the sweep ended there")
            return None
        if self._rounds.interrupted:
            self._left()
            return None
        return figures

    def _left(self) -> bool:
        """Whether this rank, or another, was told to leave; missing() then says so."""
        if self._told_by is not None:
            self._missing.append(f"{self._told_by} ended the sweep")
            return True
        leavers = self._conductor.leavers()
        if leavers:
            ranks = ", ".join(str(rank) for rank in leavers)
            self._missing.append(f"rank {ranks} {TOLD_TO_STOP}: the sweep ended there")
        return bool(leavers)

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
        return not self._missing and not self._lost_in_pairs()

    def _lost_in_pairs(self) -> list[str]:
        """Sentences on hosts that stopped answering in the rounds of pairs."""
        lost = sorted(self._rounds.lost) if self._rounds is not None else []
        return [f"{host} stopped answering in the rounds of pairs" for host in lost]

    def missing(self) -> tuple[str, ...]:
        """Sentences: what was not measured, and why."""
        known = (*self._missing, *self._lost_in_pairs(), *self._lacking)
        if not self._dropped:
            return known
        whose = dict.fromkeys(case.candidate for case in self._dropped)
        count = len(self._dropped)
        sessions = f"{count} session{'s' if count > 1 else ''} of {', '.join(whose)}"
        return (*known, f"the budget had no room for {sessions}")

    def dismiss(self) -> None:
        """Let all members go; may be called again."""
        if self._dismissed or self.seat.rank != 0:
            return
        self._dismissed = True
        try:
            self._conductor.finish(everybody=self.complete)
        except StoreGone:
            pass  # then there is nobody left to tell
