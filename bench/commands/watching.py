"""The loop of `watch`: hears the ranks, shows where they stand, collects, and diagnoses.

In: a started job, a switchboard, a folder. Out: the job's exit status; in the folder dumps, stacks
and states of processes, taken while the ranks stood still or the moment one died. Nothing here
stops the job: only its user's signals do, which are handed on. What cannot be kept or judged is a
sentence, and the job goes on.
"""

from __future__ import annotations

import select
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.commands.telling import Telling
from bench.hang.watch.muster import LIVE, Muster, Round
from bench.hang.watch.output import Copy, Pipe, Tails
from bench.hang.watch.standing import Standing
from bench.hang.watch.started import Started
from bench.hang.watch.switchboard import Switchboard
from bench.records import WatchedJob

TICK_S = 0.1  # each takes 0.3 ms of a core that may be the ranks'
PAUSE_S = 1.0  # of the launcher, at most, when a rank has died; answers take 30 ms
LAUNCHER_S = 5.0  # torchrun waits 30 s for ranks that do not end; nobody else needs to
LAST_WORDS_S = 0.5  # after the launcher's end: what is still in pipes and sockets
WORTH_A_LOOK_S = 5.0  # standing this long when the user ended it: worth a diagnosis


@dataclass(frozen=True)
class Screen:
    """Where the job's output and our own words go. `out` and `err` pass the job's bytes on;
    `standing` shows where ranks are, `say` a line or a page of ours."""

    out: Callable[[bytes], None]
    err: Callable[[bytes], None]
    say: Callable[[str], None]
    standing: Callable[[Standing, float], None]


@dataclass(frozen=True)
class Settings:
    """`stall_s`: waiting for this long is told. `logs`: where torchrun's ranks write, `shown`
    those local ranks whose output the console has; `pausable`: the launcher ends ranks itself."""

    stall_s: float
    logs: Path | None = None
    shown: frozenset[int] | None = None
    pausable: bool = False


class Watching:
    """One watched job, from its start to its end."""

    def __init__(
        self,
        job: WatchedJob,
        folder: Path,
        board: Switchboard,
        screen: Screen,
        settings: Settings,
        diagnose: Callable[[Path], str],
    ) -> None:
        self._job, self._folder, self._board, self._screen = job, folder, board, screen
        self._settings = settings
        self._telling = Telling(folder, screen.say, diagnose)
        self._ranks = Muster(folder)
        self._began = time.monotonic()
        self._collection: Round | None = None
        self._quietly = True  # before its time: kept, and told to nobody
        self._told_stall = False
        self._told_start = False
        self._called_then: dict[int, int] = {}
        self._died_s: float | None = None
        self._dead = -1  # the rank that died then
        self._told_death = False
        self._hurry: Round | None = None
        self._stood_at_signal = False

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def run(self, started: Started) -> int:
        """Follow it to its end; its exit status, 128 and the number for a signal."""
        settings = self._settings
        with Copy(self._folder / "console.log", self._telling.lost) as copy:
            pipes = [
                Pipe(started.stdout, copy, self._screen.out),
                Pipe(started.stderr, copy, self._screen.err),
            ]
            writers = {"stdout": self._screen.out, "stderr": self._screen.err}
            tails = Tails(settings.logs, settings.shown, writers) if settings.logs else None
            try:
                while (status := started.status()) is None:
                    self._turn(started, pipes, tails)
            finally:
                started.resume()
            ended = self.now_s
            self._last_words(pipes, tails)
            orphans = self._orphans(started)
            self._drain(pipes, tails)
            if tails is not None:
                tails.pump(last=True)
        status = status if status >= 0 else 128 - status
        self._finish(status, started.told, orphans, ended)
        return status

    def signalled(self) -> None:
        """The user's signal is about to be handed on: what ranks would tell, they tell now."""
        if self._stood_s() >= WORTH_A_LOOK_S:
            self._stood_at_signal = True
            self._ranks.hurry(self.now_s)

    def _stood_s(self) -> float:
        """For how long the rank that has waited longest has waited."""
        now = self.now_s
        waiting = self._ranks.standing.waiting(now).values()
        return max((now - since for _, _, since in waiting), default=0.0)

    # --- one turn -----------------------------------------------------------------------------

    def _turn(self, started: Started, pipes: list[Pipe], tails: Tails | None) -> None:
        poll = select.poll()
        for descriptor in self._board.descriptors():
            poll.register(descriptor, select.POLLIN)
        for pipe in pipes:
            if pipe.open:
                poll.register(pipe.descriptor, select.POLLIN)
        poll.poll(TICK_S * 1000)
        self._hear(started)
        self._drain(pipes, tails)
        now = self.now_s
        self._ranks.ask_due(now)
        self._watch_standstill(now)
        self._watch_death(started, now)
        self._screen.standing(self._ranks.standing, now)

    def _drain(self, pipes: list[Pipe], tails: Tails | None) -> None:
        for pipe in pipes:
            if pipe.open:
                pipe.pump()
        if tails is not None:
            tails.pump()

    def _hear(self, started: Started, timeout_s: float = 0.0) -> None:
        for told in self._board.take(timeout_s):
            if told.say == "hello" and (not started.paused or told.line.rank == self._dead):
                self._died_s, self._told_death = None, False  # started anew, or by itself
                started.resume()
            if self._ranks.hear(told, self.now_s) and self._died_s is None:
                self._died(told.line.rank, started)

    # --- a rank dies --------------------------------------------------------------------------

    def _died(self, rank: int, started: Started) -> None:
        """Not by coming to its end. What the others are in, they tell now; the launcher, which
        would end them within a tenth of a second, waits for that."""
        self._died_s, self._dead = self.now_s, rank
        if self._collection is None:
            self._hurry = self._ranks.hurry(self.now_s, but=[rank])
            if self._hurry.told and self._settings.pausable:
                started.pause()

    def _watch_death(self, started: Started, now: float) -> None:
        """The launcher goes on; where it does not end, what happened is told before it does."""
        if self._died_s is None:
            return
        waits = self._hurry is not None and bool(self._hurry.told)
        if started.paused and (not waits or now - self._died_s > PAUSE_S):
            started.resume()
        late = now - self._died_s >= LAUNCHER_S and not started.told
        if late and not self._told_death and self._collection is None:
            self._told_death = True
            self._tell(
                f"a rank ended {now - self._died_s:,.0f} s ago, its launcher has not. What is "
                "known so far:"
            )

    # --- standing still -------------------------------------------------------------------------

    def _watch_standstill(self, now: float) -> None:
        if self._collection is not None:
            if self._ranks.is_over(self._collection, now):
                self._collection = None
                if not self._quietly:
                    self._tell_stall()
            return
        if not self._told_start and now >= self._settings.stall_s:
            self._told_start = True
            self._watch_start()
        if self._ranks.harvest.keeps and self._called() != self._called_then:
            self._ranks.harvest.thaw()
            if self._told_stall:
                self._screen.say("moves again")
            self._told_stall = False
        still = self._stood_s()
        timeout = self._ranks.standing.shortest_timeout_s(now)
        stall = self._settings.stall_s
        # gloo tells little after its time-out, and half of it is longer than any healthy wait
        early = min(stall, timeout / 2) if timeout is not None else stall
        if still >= stall and not self._told_stall:
            self._told_stall = True
            self._collect(quietly=False)
        elif still >= early and not self._ranks.harvest.keeps:
            self._collect(quietly=True)

    def _watch_start(self) -> None:
        """Nobody in a collective yet, after so long: nothing else would ever be told of that."""
        if not self._ranks.lines:
            self._screen.say(
                f"no rank has started after {self.now_s:,.0f} s. A launcher that waits for a node "
                "looks like this: the address, the port and the number of nodes, on every node"
            )
        elif not any(self._called().values()) and self._ranks.living:
            self._told_stall = True
            self._collect(quietly=False)

    def _called(self) -> dict[int, int]:
        """How much each rank has called: what it finished moves on a failure as well."""
        return {
            place.rank: sum(called for called, _ in place.counts.values())
            for place in self._ranks.standing.places.values()
        }

    def _collect(self, *, quietly: bool) -> None:
        self._quietly = quietly
        self._called_then = self._called()
        self._collection = self._ranks.collect(self.now_s, by_signal=not quietly)

    def _tell_stall(self) -> None:
        if not any(self._called_then.values()):
            self._tell(
                f"no rank has called a collective in {self.now_s:,.0f} s. The job still runs, and "
                "may be loading. As it looks now:"
            )
            return
        self._tell(
            f"ranks have been waiting for {self._stood_s():,.0f} s. The job still runs; a long "
            "checkpoint or evaluation on one rank looks the same. As it looks now:"
        )

    def _tell(self, sentence: str) -> None:
        self._write(None)
        self._telling.page(sentence)

    # --- the end --------------------------------------------------------------------------------

    def _last_words(self, pipes: list[Pipe], tails: Tails | None) -> None:
        end = time.monotonic() + LAST_WORDS_S
        while (self._board.lines or any(pipe.open for pipe in pipes)) and time.monotonic() < end:
            for told in self._board.take(TICK_S):
                self._ranks.hear(told, self.now_s)
            self._drain(pipes, tails)

    def _orphans(self, started: Started) -> tuple[int, ...]:
        """Ranks that outlived their launcher: heard, then ended."""
        living = sorted(self._ranks.living)
        if not living:
            return ()
        stood = self._ranks.harvest.keeps
        if self._collection is None and not stood:
            self._collect(quietly=True)
        while self._collection is not None:
            for told in self._board.take(TICK_S):
                self._ranks.hear(told, self.now_s)
            if self._ranks.is_over(self._collection, self.now_s):
                self._collection = None
                if not stood:
                    self._ranks.harvest.thaw()
        pids = {self._ranks.lines[rank].pid: rank for rank in living}
        return tuple(sorted(pids[pid] for pid in started.end_orphans(list(pids))))

    def _write(self, status: int | None) -> None:
        job = msgspec.structs.replace(self._job, seconds=self.now_s, status=status)
        try:
            self._ranks.harvest.write(job)
        except OSError as error:
            self._telling.lost(error)

    def _finish(
        self, status: int, told: list[int], orphans: tuple[int, ...], ended_s: float
    ) -> None:
        self._write(status)
        shutil.rmtree(self._folder / LIVE, ignore_errors=True)
        self._telling.ended(
            status,
            ended_s,
            by=told,
            orphans=orphans,
            suspect=self._stood_at_signal or self._told_stall,
        )
