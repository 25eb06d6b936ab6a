"""One rank's collectives that it gave up, lines on one of them put together.

In: a Member. Out: a GivenUp per group and number.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.hang.crew import Member
from bench.records import RankWait
from bench.records.ranklog import Clock


@dataclass(frozen=True)
class GivenUp:
    """One rank's first time-out in a group, from all lines on it. `began_s`: when its wait did.
    `group_counted`: the group is told by the process's own counter, which other groups share."""

    rank: int
    file: str
    line: int
    text: str
    group: str | None
    group_name: str | None
    sequence: int | None
    operation: str | None
    elements_in: int | None
    elements_out: int | None
    timeout_s: float | None
    ran_s: float | None
    enqueued: int | None
    completed: int | None
    time_s: float | None
    after_s: float | None
    clock: Clock | None
    timed_out: bool  # by its own watchdog, or told by another rank's
    group_counted: bool = False

    @property
    def place(self) -> tuple[str | None, int | None, str | None]:
        """What tells one collective from another; gloo's have no number."""
        known = self.sequence is not None
        return self.group, self.sequence, None if known else self.operation

    @property
    def began_s(self) -> float | None:
        if self.time_s is None:  # not before the rank's last line
            return self.after_s
        return None if self.ran_s is None else self.time_s - self.ran_s

    @property
    def told_s(self) -> float | None:
        """When it gave up, at the earliest."""
        if self.time_s is not None:
            return self.time_s
        return self.after_s + self.ran_s if self.after_s is not None and self.ran_s else None


def of(rank: int, member: Member) -> list[GivenUp]:
    """The waits of a rank, lines on one collective put together."""
    merged: dict[tuple[str | None, int | None], list[RankWait]] = {}
    for wait in member.waits:
        merged.setdefault((wait.group, wait.sequence), []).append(wait)
    for (group, sequence), waits in list(merged.items()):
        known = [g for g, s in merged if s == sequence and g is not None and s is not None]
        if group is None and len(known) == 1:  # the next line has the group
            merged[known[0], sequence] = [*waits, *merged[known[0], sequence]]
            del merged[group, sequence]
    return [_one(rank, group, sequence, waits) for (group, sequence), waits in merged.items()]


def _one(rank: int, group: str | None, sequence: int | None, waits: list[RankWait]) -> GivenUp:
    def first(name: str) -> object:
        return next((v for w in waits if (v := getattr(w, name)) is not None), None)

    timed = [w for w in waits if w.operation is not None or w.ran_s is not None]
    best = (timed or waits)[0]
    enqueued, completed = first("enqueued"), first("completed")
    if sequence is None and isinstance(enqueued, int) and isinstance(completed, int):
        sequence = completed + 1 if enqueued > completed else None  # what it is in
    return GivenUp(
        rank=rank,
        file=best.file,
        line=best.line,
        text=best.text,
        group=group,
        group_name=first("group_name"),  # type: ignore[arg-type]
        sequence=sequence,
        operation=first("operation"),  # type: ignore[arg-type]
        elements_in=first("elements_in"),  # type: ignore[arg-type]
        elements_out=first("elements_out"),  # type: ignore[arg-type]
        timeout_s=first("timeout_s"),  # type: ignore[arg-type]
        ran_s=first("ran_s"),  # type: ignore[arg-type]
        enqueued=enqueued,  # type: ignore[arg-type]
        completed=completed,  # type: ignore[arg-type]
        time_s=best.time_s,
        after_s=best.after_s,
        clock=best.clock,
        timed_out=bool(timed) or any(w.sequence is not None for w in waits),
        group_counted=any(w.group_counted for w in waits),
    )
