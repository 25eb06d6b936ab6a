"""Climbs: which rungs there are, and what the step to a failed one is said to have added."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bench.judge import rungs as judgement
from bench.plan import rungs
from bench.records import (
    Case,
    HostFacts,
    NcclChoice,
    RankOutcome,
    Report,
    Session,
)


def hosts(*counts: int) -> tuple[HostFacts, ...]:
    made, at = [], 0
    for number, count in enumerate(counts, start=1):
        name = f"host{number}"
        choice = NcclChoice(bootstrap="eth0", interfaces=("eth0",))
        made.append(
            HostFacts(
                host=name, hostname=name, identity=name, ranks=tuple(range(at, at + count)),
                nccl_choices=(choice,),
            )
        )  # fmt: skip
        at += count
    return tuple(made)


@pytest.mark.parametrize(
    ("counts", "climbed"),
    [
        ((1, 1), {"1 rank": 1, "2 hosts": 2}),
        ((2,), {"1 rank": 1, "2 ranks": 2}),
        ((8,), {"1 rank": 1, "2 ranks": 2, "1 host": 8}),
        ((8, 8), {"1 rank": 1, "2 ranks": 2, "1 host": 8, "2 hosts": 16}),
        ((4, 4, 4), {"1 rank": 1, "2 ranks": 2, "1 host": 4, "2 hosts": 8, "3 hosts": 12}),
        ((1, 1, 1), {"1 rank": 1, "2 hosts": 2, "3 hosts": 3}),
    ],
)
def test_rungs_grow_and_none_has_the_ranks_of_the_one_before(
    counts: tuple[int, ...], climbed: dict[str, int]
) -> None:
    found = rungs.rungs(hosts(*counts), "nccl")
    assert {rung.name: len(rung.ranks) for rung in found} == climbed
    assert [case.candidate for case in rungs.cases(found)] == list(climbed)


def test_ranks_that_are_dealt_round_the_hosts_stay_with_their_host() -> None:
    one, two = hosts(2, 2)
    dealt = (
        msgspec.structs.replace(two, ranks=(1, 3)),
        msgspec.structs.replace(one, ranks=(0, 2)),
    )
    sets = {rung.name: rung.ranks for rung in rungs.rungs(dealt, "nccl")}
    assert sets == {"1 rank": (0,), "2 ranks": (0, 2), "2 hosts": (0, 1, 2, 3)}


def climb(counts: tuple[int, ...], fails_at: str | None, **session: Any) -> Report:
    """The report of a climb that ended at a rung, or at the top."""
    everybody = hosts(*counts)
    found = rungs.rungs(everybody, "nccl")
    names = [rung.name for rung in found]
    reached = names[: names.index(fails_at) + 1] if fails_at else names
    outcomes = dict.fromkeys(reached, "measured") | ({fails_at: "hung"} if fails_at else {})
    candidates = tuple(
        msgspec.structs.replace(rung, outcome=outcomes.get(rung.name, "skipped")) for rung in found
    )
    ranks = next(rung.ranks for rung in found if rung.name == (fails_at or names[-1]))
    sessions = []
    if fails_at:
        told = tuple(
            RankOutcome(rank=rank, host="host1", outcome="hung", phase="first") for rank in ranks
        )
        sessions = [
            Session(
                case=Case(number=0, candidate=fails_at, session=0), outcome="hung",
                phase="first", **({"ranks": told} | session),
            )
        ]  # fmt: skip
    return judgement.judge(
        Report(
            run="r", verdict="inconclusive", backend="nccl", hosts=everybody,
            candidates=candidates, sessions=tuple(sessions),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "fails_at", "words"),
    [
        ((8, 8), "1 rank", "no network is in it"),
        ((8, 8), "2 ranks", "the first step with a peer, and still inside a host"),
        ((8, 8), "1 host", "the other GPUs"),
        ((8, 8), "2 hosts", "the first step that crosses the network"),
        ((4, 4, 4, 4), "4 hosts", "on host3 and host4: one of these hosts"),
        ((1, 1), "2 hosts", "between host1 and host2"),
    ],
)
def test_the_step_to_the_failed_rung_says_what_it_added(
    counts: tuple[int, ...], fails_at: str, words: str
) -> None:
    report = climb(counts, fails_at)
    assert report.verdict == "broken"
    (finding,) = report.findings
    assert finding.code == "hang-first-collective"
    assert words in finding.evidence[-1].text and finding.evidence[-1].basis == "inferred"


def test_a_rank_that_died_is_named_whatever_the_step() -> None:
    ranks = (
        RankOutcome(rank=0, host="host1", outcome="aborted", phase="first"),
        RankOutcome(rank=1, host="host1", outcome="died", phase="first", signal=9),
    )
    (finding,) = climb((2,), "2 ranks", ranks=ranks).findings
    assert finding.where.rank == 1 or finding.where.ranks == (1,)


def test_every_rung_that_works_is_healthy_and_one_not_reached_is_inconclusive() -> None:
    assert climb((8, 8), None).verdict == "healthy"
    report = climb((8, 8), None)
    cut = msgspec.structs.replace(report.candidates[-1], outcome="skipped")
    short = msgspec.structs.replace(report, candidates=(*report.candidates[:-1], cut))
    assert judgement.judge(short).verdict == "inconclusive"
