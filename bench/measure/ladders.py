"""How far each candidate's sizes go: its first whole session finds out, the others repeat it.

Sessions of one candidate must measure the same sizes, or they cannot be compared; and a slow
network must not burn the budget at sizes whose cost is known.
"""

from __future__ import annotations

from bench.measure.worker import Ladder
from bench.plan import sizes, volumes
from bench.records import Candidate, Plan, Session


class Ladders:
    """Remembers the sizes that were measured, per candidate and collective."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}

    def of(self, candidate: Candidate) -> list[Ladder]:
        """The ladders of the candidate's next session, one per collective."""
        settings = self._plan.settings
        ranks = len(candidate.ranks) or self._plan.ranks
        ladders = []
        for collective in settings.collectives:
            known = self._known.get((candidate.name, collective))
            grid = known or self._plan.sizes_bytes
            if collective in volumes.WITHOUT_PAYLOAD:
                grid = grid[:1]  # one cell
            ladders.append(
                Ladder(
                    collective=collective,
                    sizes_bytes=grid,
                    held_out=sizes.held_out(grid, ranks) if settings.held_out else (),
                    ends_early=known is None and settings.early_stop,
                )
            )
        return ladders

    def learn(self, session: Session) -> None:
        """Take the sizes of a candidate's first whole session as the ones to repeat."""
        if session.outcome != "measured":
            return
        for collective in self._plan.settings.collectives:
            measured = tuple(
                sample.size_bytes
                for sample in session.samples
                if sample.collective == collective and sample.group == "fit"
            )
            self._known.setdefault((session.case.candidate, collective), measured)
