"""How far a sweep has come: a live line on a terminal, one plain line per case in a log.

In: the plan, then each case as it starts and each session as it ends. Out: words on a stream.
A log gets no carriage returns and nothing that moves a cursor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.status import Status

from bench.records import Case, Plan, Session
from bench.report import units
from bench.report.text import encodable, printable


class Progress:
    """Follows a plan case by case; a context manager. `clock` is in seconds and only goes up."""

    def __init__(
        self,
        plan: Plan,
        *,
        stream: TextIO | None = None,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan, self._quiet, self._clock = plan, quiet, clock
        self._stream = stream or sys.stderr
        self._begun = clock()
        self._ended = 0
        self._status: Status | None = None

    def __enter__(self) -> Progress:
        self._begun = self._clock()
        if not self._quiet and self._stream.isatty():
            console = Console(file=self._stream, highlight=False, markup=False)
            if console.is_terminal and not console.is_dumb_terminal:
                self._status = Status("", console=console)
                self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status:
            self._status.stop()
            self._status = None

    def start(self, case: Case) -> None:
        """A case begins; only a terminal shows it."""
        if self._status:
            self._status.update(
                self._encodable(f"{self._case(case, self._ended + 1)} {self._left()}")
            )

    def end(self, session: Session) -> None:
        """A case has ended, one way or the other."""
        self._ended += 1
        if self._quiet:
            return
        outcome = f"{session.outcome} in {units.duration(session.duration_s)}"
        if session.outcome != "measured" and session.reason:
            outcome += f": {printable(session.reason)}"
        if self._status:
            if session.outcome != "measured":
                self._status.console.print(
                    self._encodable(f"{self._case(session.case, self._ended)} {outcome}")
                )
            return
        self._say(f"{self._case(session.case, self._ended)} {outcome} · {self._left()}")

    def left_s(self) -> float:
        """Estimated seconds left: the plan's estimate at first, the pace of ended cases later."""
        number = len(self._plan.cases)
        if number == 0:
            return 0.0
        done = min(self._ended / number, 1.0)
        planned = self._plan.estimate_s * (1 - done)
        if not self._ended:
            return planned
        pace = (self._clock() - self._begun) / self._ended * (number - self._ended)
        # Early cases weigh little: one slow candidate does not make the whole sweep slow.
        return max(done * pace + (1 - done) * planned, 0.0)

    def _case(self, case: Case, number: int) -> str:
        alike = [other.session for other in self._plan.cases if other.candidate == case.candidate]
        first = min((other.session for other in self._plan.cases), default=case.session)
        session = f"session {case.session - first + 1} of {max(len(alike), 1)}"
        return f"case {number}/{len(self._plan.cases)}  {printable(case.candidate)}, {session}:"

    def _left(self) -> str:
        left = self.left_s()
        return f"about {units.duration(left)} left" if left >= 1 else "nearly done"

    def _encodable(self, text: str) -> str:
        return encodable(text, getattr(self._stream, "encoding", None))

    def _say(self, text: str) -> None:
        self._stream.write(self._encodable(text) + "\n")
        self._stream.flush()
