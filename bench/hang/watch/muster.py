"""All ranks of a watched job on this host: what they say, what they are asked, what they left.

In: messages of the switchboard, and the moments at which they came. Out: a Standing, a Harvest,
and rounds of questions: dumps alone in a hurry, or dumps, stacks and states of processes while
ranks stand still. A rank whose interpreter does not answer shows its stacks by a signal, if it
handles that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.hang.watch import proc
from bench.hang.watch.harvest import Harvest
from bench.hang.watch.standing import Standing
from bench.hang.watch.switchboard import Line, Told

# Ranks answer at once; a stopped one never. Those that have answered get longer for the stacks of
# their calls, the first of which take torch 0.9 s of a core.
ANSWER_S, COLLECT_S = 4.0, 8.0
# One that has not answered half-way may hold the interpreter: its stacks then come by a signal.
BY_SIGNAL_S = 1.5
SILENT_S = 3.0  # asked every second, a rank has let three questions pass
STOPPED = ("T", "t")
RECORDERS = ("gloo", "nccl")
OWN = "RANK"  # what a launcher sets for each rank; the other variables are inherited
LIVE = ".live"  # of the run's folder: what only a running job needs


@dataclass
class Round:
    """Answers that are still to come. `told`: ranks whose dumps without stacks are to come."""

    number: int
    began_s: float
    told: set[int]
    dumps: set[int]
    stacks: set[int]
    by_signal: bool = True  # a call that the signal interrupts may fail: not of a job that moves


class Muster:
    """`folder` is the run's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.standing, self.harvest = Standing(), Harvest(folder)
        self.lines: dict[int, Line] = {}
        self._round: Round | None = None
        self._rounds = 0

    def hear(self, told: Told, now_s: float) -> bool:
        """Take a message in; whether it says that a rank failed or died."""
        line, rank = told.line, told.line.rank
        if told.say == "hello" and rank >= 0:
            self._joined(rank, line, now_s)
        elif rank < 0 or self.lines.get(rank) is not line:
            return False
        elif told.say == "look":
            status = told.fields.get("status")
            self.standing.counted(rank, status if isinstance(status, dict) else {}, now_s)
        elif told.say == "calls":
            recorder, cost = str(told.fields.get("recorder")), told.fields.get("cost_s")
            cost_s = cost if isinstance(cost, float) else 0.0
            self.standing.listed(rank, recorder, told.data, cost_s, now_s)
        elif told.say == "farewell":
            failed = bool(told.fields.get("failed"))
            self._end(rank, now_s, farewell=True, failed=failed)
            return failed
        elif told.say == "gone":
            return self._gone(rank, now_s)
        else:
            self._answer(rank, told)
        return False

    def _joined(self, rank: int, line: Line, now_s: float) -> None:
        if line.by == OWN:
            self._leave_out(rank, proc.ancestors(line.pid))
        if rank in self.lines:  # the launcher has started it anew
            self.harvest.restart([rank])
        self.harvest.processes.pop(rank, None)
        self.lines[rank] = line
        self.standing.joined(rank, now_s)

    def _leave_out(self, rank: int, above: Sequence[int]) -> None:
        """Processes above a rank that have another number, by what they inherited, start ranks."""
        for other, line in list(self.lines.items()):
            if line.pid in above and line.by != OWN and other != rank:
                del self.lines[other]
                self.standing.left(other)
                self.harvest.restart([other])
                self.harvest.processes.pop(other, None)
                self._expect_no_more(other)

    def _expect_no_more(self, rank: int) -> None:
        if self._round is not None:
            for left in (self._round.told, self._round.dumps, self._round.stacks):
                left.discard(rank)

    def _answer(self, rank: int, told: Told) -> None:
        number = told.fields.get("id")
        number = number if type(number) is int else 0
        current = self._round if self._round and self._round.number == number else None
        if told.say == "dump":
            recorder, form = str(told.fields.get("recorder")), str(told.fields.get("form"))
            if recorder in RECORDERS:
                self.harvest.dump(rank, recorder, form, number, told.data)
        elif told.say == "told" and current:
            current.told.discard(rank)
        elif told.say == "stacks":
            self.harvest.stacks(rank, told.data.decode("utf-8", "replace"), number)
            if current:
                current.stacks.discard(rank)
        elif told.say == "done":
            self.standing.places[rank].listing = False
            if current:
                current.dumps.discard(rank)

    # --- processes ------------------------------------------------------------------------------

    def _gone(self, rank: int, now_s: float) -> bool:
        self._end(rank, now_s, farewell=False)
        self.standing.ended(rank)
        self._expect_no_more(rank)
        process = self.harvest.processes[rank]
        return not process.farewell or bool(process.exit_code or process.signal)

    def _end(self, rank: int, now_s: float, *, farewell: bool, failed: bool = False) -> None:
        """When and of what it ended; the state in which it was last seen stays. `failed`: by its
        own word of an exception that nobody caught, whose status is 1: the launcher may take the
        kernel's word away before it is read."""
        if rank not in self.harvest.processes:
            self.look_at(rank)
        known = self.harvest.processes[rank]
        seen = proc.look(self.lines[rank].pid, rank)
        code = known.exit_code if seen.exit_code is None else seen.exit_code
        self.harvest.processes[rank] = msgspec.structs.replace(
            known,
            state=known.state if known.state in STOPPED else None,
            ended_s=known.ended_s if known.ended_s is not None else now_s,
            farewell=known.farewell or farewell,
            signal=seen.signal,
            exit_code=1 if failed else code,
        )

    def look_at(self, rank: int, **more: Any) -> None:
        """Its process as the kernel has it now."""
        line = self.lines[rank]
        attempt = line.variables.get("TORCHELASTIC_RESTART_COUNT", "")
        seen = proc.look(line.pid, rank, line.host)
        self.harvest.processes[rank] = msgspec.structs.replace(
            seen, attempt=int(attempt) if attempt.isdigit() else 0, **more
        )

    def stopped(self, ranks: Iterable[int]) -> set[int]:
        """Those that can answer nothing."""
        return {rank for rank in ranks if proc.look(self.lines[rank].pid, rank).state in STOPPED}

    # --- questions ------------------------------------------------------------------------------

    @property
    def living(self) -> set[int]:
        return {place.rank for place in self.standing.living}

    def ask_due(self, now_s: float) -> None:
        for rank, what in self.standing.due(now_s):
            self.lines[rank].ask(what)

    def hurry(self, now_s: float, but: Iterable[int] = ()) -> Round:
        """Dumps of all that live, now: a launcher may end them the next moment. Answers to an
        earlier round still count for that."""
        ranks = self.living - set(but)
        current = self._ask(("dump",), ranks, now_s)
        current.stacks = set()
        return current

    def collect(self, now_s: float, *, by_signal: bool = True) -> Round:
        """Dumps and stacks of all that live, kept until they move."""
        current = self._ask(("dump", "stacks"), self.living, now_s)
        current.by_signal = by_signal
        self.harvest.thaw()
        self.harvest.keep(current.number)
        return current

    def _ask(self, what: Iterable[str], ranks: set[int], now_s: float) -> Round:
        self._rounds += 1
        for rank in ranks:
            for each in what:
                self.lines[rank].ask(each, self._rounds)
        answer = ranks - self.stopped(ranks)
        self._round = Round(self._rounds, now_s, set(answer), set(answer), set(answer))
        return self._round

    def is_over(self, current: Round, now_s: float) -> bool:
        """Whether a collection has what it can get; the states of processes are noted then."""
        waited = now_s - current.began_s
        if waited >= BY_SIGNAL_S and current.by_signal:
            current.by_signal = False
            for rank in current.stacks:
                self._ask_by_signal(self.lines[rank])
        left = current.dumps | current.stacks
        if left and waited < ANSWER_S and current is self._round:
            return False
        if left - current.told and waited < COLLECT_S and current is self._round:
            return False
        for rank in current.stacks:
            if text := self._by_signal(rank):
                self.harvest.stacks(rank, text, current.number)
        for place in self.standing.living:
            asked = place.asked_s
            silent = now_s - asked if asked is not None and now_s - asked > SILENT_S else None
            self.look_at(place.rank, silent_s=silent)
        return True

    def _ask_by_signal(self, line: Line) -> None:
        if not line.signal or not proc.handles(line.pid, line.signal):
            return  # it would die of it
        if proc.look(line.pid, line.rank).state not in (*STOPPED, None):
            try:
                os.kill(line.pid, line.signal)
            except ProcessLookupError:
                pass

    def _by_signal(self, rank: int) -> str:
        try:
            data = (self._folder / LIVE / f"stuck-{rank}.txt").read_bytes()
        except OSError:
            return ""
        return data[-(1 << 20) :].decode("utf-8", "replace")
