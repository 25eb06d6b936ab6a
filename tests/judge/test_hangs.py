"""Sessions that stopped: the guilty rank on evidence, those who wait otherwise."""

from __future__ import annotations

import signal

import msgspec
import pytest

from bench.judge.hangs import guilty
from bench.judge.verdict import judge
from bench.records import Candidate, Case, RankOutcome, Report, Session

RESET = "RuntimeError: [..] Connection reset by peer"


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def one(report: Report):
    assert len(serious(report)) == 1, report.findings
    return report.findings[0]


KILLED = {"outcome": "died", "signal": 9, "error": "killed by SIGKILL"}


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        ("rendezvous", "hang-rendezvous"),
        ("init", "hang-init"),
        ("first", "hang-first-collective"),
        ("midrun", "hang-midrun"),
        ("end", "hang-end"),
    ],
)
def test_a_killed_rank_is_named_in_the_phase_it_died_in(healthy, phase, code):
    ranks = healthy.ended(("failed", phase), r2=KILLED | {"phase": phase}, r0={"error": RESET},
                          r1={"outcome": "aborted"}, r3={"error": RESET})  # fmt: skip
    finding = one(judge(healthy.session("data", "failed", ranks=ranks).report()))
    assert (finding.code, finding.severity) == (code, "broken")
    assert (finding.where.rank, finding.where.host) == (2, "host3")
    assert "rank 2 (host3) was killed by SIGKILL" in finding.summary
    assert "3 other ranks waited for it" in finding.summary
    assert finding.remedy is not None and "journalctl" in finding.remedy


def test_a_stopped_rank_is_named(healthy):
    ranks = healthy.ended(("aborted", "midrun"), r1={"outcome": "hung", "state": "T"},
                          r0={"state": "S"})  # fmt: skip
    finding = one(judge(healthy.session("data", "hung", ranks=ranks).report()))
    assert finding.code == "hang-midrun" and finding.where.rank == 1
    assert "stopped (state T)" in finding.summary


def test_a_host_that_vanished_is_named_and_later_sessions_only_counted(healthy):
    lost = {"outcome": "lost", "phase": "rendezvous"}
    healthy.session("data", "hung", ranks=healthy.ended(("aborted", "midrun"), r3=lost))
    for number in (1, 2):
        ranks = healthy.ended(("hung", "rendezvous"), r3=lost)
        healthy.session("mgmt", "hung", ranks=ranks, number=number)
    finding = one(judge(healthy.report()))
    assert finding.code == "hang-midrun"  # where the others stood when it went
    assert (finding.where.rank, finding.where.host) == (3, "host4")
    assert sum("again in session" in e.text for e in finding.evidence) == 2


def test_a_node_that_never_came_is_a_rendezvous_hang(make_scene):
    scene = make_scene({"data": 500}, hosts=3)
    absent = RankOutcome(rank=3, host="?", outcome="lost")
    report = judge(
        scene.session("(default)", "hung", ranks=[absent], reason="node 3 sent no facts").report()
    )
    finding = one(report)
    assert finding.code == "hang-rendezvous" and finding.where.rank == 3
    assert report.verdict == "broken"


def test_when_every_rank_waits_alike_nobody_is_named(healthy):
    ranks = healthy.ended(("aborted", "first"), r0={"outcome": "hung"})
    finding = one(judge(healthy.session("data", "hung", ranks=ranks).report()))
    assert finding.code == "hang-first-collective"
    assert finding.where.rank is None and finding.where.host is None
    assert finding.where.ranks == (0, 1, 2, 3) and "no rank stands out" in finding.summary


def test_a_rank_alone_in_an_earlier_phase_is_inferred(healthy):
    ranks = healthy.ended(("aborted", "first"), r2={"outcome": "hung", "phase": "init"})
    finding = one(judge(healthy.session("data", "hung", ranks=ranks).report()))
    assert (finding.code, finding.confidence) == ("hang-init", "inferred")
    assert finding.where.rank == 2


def test_an_error_of_its_own_names_a_rank_but_a_broken_connection_does_not():
    def ranks(error: str) -> list[RankOutcome]:
        return [
            RankOutcome(rank=0, host="a", outcome="failed", phase="midrun", error=error),
            RankOutcome(rank=1, host="b", outcome="aborted", phase="midrun"),
            RankOutcome(rank=2, host="c", outcome="aborted", phase="midrun"),
        ]

    found = guilty(ranks("RuntimeError: out of memory"))
    assert found is not None and found.ranks[0].rank == 0
    assert guilty(ranks(RESET)) is None


def test_a_process_that_gloo_aborted_is_a_consequence_of_the_first_death():
    ranks = [
        RankOutcome(rank=0, host="a", outcome="died", phase="midrun", signal=signal.SIGABRT),
        RankOutcome(rank=1, host="b", outcome="died", phase="midrun", signal=signal.SIGKILL),
        RankOutcome(rank=2, host="c", outcome="failed", phase="midrun", error=RESET),
    ]
    found = guilty(ranks)
    assert found is not None and [r.rank for r in found.ranks] == [1]


def test_a_death_is_told_beside_a_black_hole_that_does_not_explain_it(make_scene):
    scene = make_scene({"data": 500}).chooses("data")
    scene.probes("data", lambda a, b: "mtu-blackhole" if "host4" in (a, b) else None)
    scene.outcome("data", "unreachable").outcome("(default)", "hung")
    ranks = scene.ended(("aborted", "first"), r1=KILLED | {"phase": "first"})
    scene.session("(default)", "failed", ranks=ranks)
    assert set(serious(judge(scene.report()))) == {"mtu-blackhole", "hang-first-collective"}


def test_a_default_that_hangs_over_a_hanging_network_is_one_finding(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("mgmt", "data")
    scene.measured("mgmt", 0.012).outcome("data", "hung").outcome("(default)", "hung")
    for name in ("data", "(default)"):
        scene.session(name, "hung", ranks=scene.ended(("hung", "first")))
    finding = one(judge(scene.report()))
    assert finding.where.candidate == "data"
    assert any("(default) hung in first" in e.text for e in finding.evidence)


def test_when_all_ranks_fail_with_errors_it_is_no_hang(healthy):
    ranks = healthy.ended(("failed", "init"))
    ranks = [RankOutcome(rank=r.rank, host=r.host, outcome="failed", phase="init",
                         error="RuntimeError: no device") for r in ranks]  # fmt: skip
    healthy.session("data", "failed", ranks=ranks).outcome("data", "failed")
    finding = one(judge(healthy.report()))
    assert finding.code == "measurement-failed" and "no device" in finding.summary


def test_rdma_that_the_operator_switched_off_is_no_broken_network(healthy):
    healthy.everywhere(environment={"NCCL_IB_DISABLE": "1"})
    healthy.measured("data", 0.012)
    report = healthy.report()
    rdma = Candidate(
        name="rdma", kind="network", transport="rdma", outcome="failed",
        interfaces={host.host: "mlx5_0" for host in report.hosts},
    )  # fmt: skip
    ended = [
        RankOutcome(rank=r.rank, host=r.host, outcome="failed", phase="init",
                    error="RuntimeError: NCCL error: unhandled system error")
        for r in healthy.ended(("failed", "init"))
    ]  # fmt: skip
    session = Session(
        case=Case(number=9, candidate="rdma", session=0), outcome="failed", ranks=ended
    )
    report = msgspec.structs.replace(
        report, candidates=(*report.candidates, rdma), sessions=(*report.sessions, session)
    )
    (finding,) = [f for f in judge(report).findings if f.where.candidate == "rdma"]
    assert (finding.code, finding.severity) == ("measurement-failed", "warning")
    assert any("NCCL_IB_DISABLE=1 on" in e.text for e in finding.evidence)


def test_an_interrupted_session_is_not_judged(healthy):
    ranks = healthy.ended(("aborted", "midrun"))
    report = judge(healthy.session("data", "interrupted", ranks=ranks).report(complete=False))
    assert report.findings == () and report.verdict == "inconclusive"
