"""What NCCL's RAS shows of a hang: whose counts of launched collectives stay behind, who is gone.

In: RasStatuses in the order in which they were asked. Out: findings on the docket, and the ranks
they name. One answer proves nothing, because counts of a job that moves differ for a moment: only
what two answers have alike stands still. Of several communicators the rank counts that is behind
in one and waits in no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.hang.scene import rank_words, sentence
from bench.judge.docket import Docket
from bench.records import (
    Evidence,
    Finding,
    RasCommunicator,
    RasProcess,
    RasSplit,
    RasStatus,
    Where,
)

TOLD = 4  # processes that are written out
HANGS = ("hang-first-collective", "hang-midrun", "hang-end", "collective-mismatch", "first-fault")


@dataclass(frozen=True)
class Lag:
    """Ranks that are behind in one kind of operation of a communicator, and those that wait."""

    communicator: RasCommunicator
    behind: RasSplit
    ahead: RasSplit

    def names(self) -> str:
        ranks = rank_words([each.rank for each in self.behind.ranks])
        return ranks if self.communicator.is_global else f"{ranks} of that communicator"


def judge(statuses: Sequence[RasStatus], docket: Docket) -> dict[str, Any]:
    """The parts of a Diagnosis that RAS decides; none where other evidence has."""
    if not statuses or any(f.code in HANGS and f.severity == "broken" for f in docket.findings):
        return {}
    last = statuses[-1]
    if lost := _lost(last):
        docket.add(_gone(lost))
        ranks = tuple(sorted({each.rank for each in lost if each.rank >= 0}))
        return {"ranks": ranks, "phase": "midrun"} if ranks else {}
    lags = [lag for each in last.communicators if (lag := _lag(each)) is not None]
    split = [each for each in last.communicators if each.splits]
    if not split:
        return {}
    still = [lag for lag in lags if _stood_still(lag.communicator, statuses[:-1])]
    roots = _roots(still, [each for each in split if _stood_still(each, statuses[:-1])])
    if not roots:
        docket.add(_undecided(split, len(statuses), bool(still)))
        return {}
    for lag in roots:
        docket.add(_behind(lag))
    named = {each.rank for lag in roots if lag.communicator.is_global for each in lag.behind.ranks}
    return {"ranks": tuple(sorted(named)), "phase": "midrun"} if named else {"phase": "midrun"}


def _lost(status: RasStatus) -> list[RasProcess]:
    missing = [each for one in status.communicators for each in one.missing]
    found = {(each.host, each.pid, each.rank): each for each in (*status.dead, *missing)}
    return [each for each in found.values() if each.is_dead or each.is_silent]


def _lag(one: RasCommunicator) -> Lag | None:
    """The operation in which the fewest are behind the most; None where halves face each other."""
    for operation in dict.fromkeys(split.operation for split in one.splits):
        splits = [split for split in one.splits if split.operation == operation]
        ahead = max(splits, key=lambda each: each.count)
        behind = min(splits, key=lambda each: each.count)
        if behind.number < ahead.number and behind.ranks and len(splits) == 2:
            return Lag(one, behind, ahead)
    return None


def _stood_still(one: RasCommunicator, before: Iterable[RasStatus]) -> bool:
    return any(
        other.hash == one.hash and (other.splits, other.launched) == (one.splits, one.launched)
        for status in before
        for other in status.communicators
    )


def _roots(lags: Sequence[Lag], split: Sequence[RasCommunicator]) -> list[Lag]:
    """Lags whose ranks wait in no other communicator; `split`: all whose counts differ, also
    those in which nobody can tell who is late."""
    waiting = {
        (each.host, each.pid)
        for one in split
        for part in one.splits
        if part.count > min(p.count for p in one.splits if p.operation == part.operation)
        for each in part.ranks
        if each.pid is not None
    }
    return [
        lag
        for lag in lags
        if not any((each.host, each.pid) in waiting for each in lag.behind.ranks)
    ]


def _behind(lag: Lag) -> Finding:
    behind, ahead = lag.behind, lag.ahead
    verb = "has" if len(behind.ranks) == 1 else "have"
    ranks = [each.rank for each in behind.ranks] if lag.communicator.is_global else []
    return Finding(
        code="hang-midrun",
        severity="broken",
        summary=f"{sentence(lag.names())} {verb} launched {behind.count:,} {behind.operation} "
        f"operations of communicator {lag.communicator.hash}, the other {ahead.number:,} ranks "
        f"{ahead.count:,}, and nothing moves.",
        where=Where(
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=tuple(ranks) if len(ranks) > 1 else (),
            collective=behind.operation,
        ),
        evidence=(
            *(
                Evidence(basis="asked", text=f"RAS: {_place(each)}")
                for each in behind.ranks[:TOLD]
            ),
            Evidence(basis="measured", text="two answers of RAS, seconds apart, are alike"),
        ),
        remedy="that process's log and stack: py-spy dump --nonblocking --pid "
        + str(behind.ranks[0].pid or "PID"),
        confidence="asked",
    )


def _place(each: RasProcess) -> str:
    pid = f", process {each.pid}" if each.pid is not None else ""
    host = f" on {each.host}" if each.host else ""
    return f"rank {each.rank}{pid}{host}" if each.rank >= 0 else f"process {each.pid}{host}"


def _gone(lost: Sequence[RasProcess]) -> Finding:
    ranks = sorted({each.rank for each in lost if each.rank >= 0})
    whose = sentence(rank_words(ranks)) if ranks else f"Process {lost[0].pid} on {lost[0].host}"
    what = "considered dead" if any(each.is_dead for each in lost) else "unresponsive"
    return Finding(
        code="hang-midrun",
        kind="lost",
        severity="broken",
        summary=f"{whose} {'are' if len(ranks) > 1 else 'is'} {what} by NCCL's RAS.",
        where=Where(
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=tuple(ranks) if len(ranks) > 1 else (),
            host=lost[0].host or None,
        ),
        evidence=tuple(Evidence(basis="asked", text=f"RAS: {_place(e)}") for e in lost[:TOLD]),
        remedy="that host: is it reachable, is the process there, `ps -o stat,wchan -p PID`, its "
        "kernel log",
        confidence="asked",
    )


def _undecided(split: Sequence[RasCommunicator], answers: int, still: bool) -> Finding:
    why = (
        "one answer of RAS does not tell a hang from a job that moves"
        if answers < 2
        else "each rank that is behind in one waits in another"
        if still
        else "no fewer ranks are behind than ahead, or the counts moved between the answers"
    )
    return Finding(
        code="not-determinable",
        severity="info",
        summary=f"Counts of launched operations differ in {len(split)} communicator"
        f"{'s' if len(split) > 1 else ''}; {why}.",
        remedy="python -m bench diagnose --live   # again; dumps of the Flight Recorder tell more",
        confidence="inferred",
    )
