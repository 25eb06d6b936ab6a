"""A run whose sweep was killed becomes a report of what it had measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.cli import main
from bench.records import (
    BadInput,
    Candidate,
    Case,
    CopyCheck,
    CopyFigure,
    HostFacts,
    MeasuredRound,
    PairFigure,
    PairRound,
    PairTime,
    Plan,
    PlanSettings,
    RankOutcome,
    Sample,
    Session,
)
from bench.report.cut_run import as_far_as_it_went, finish
from bench.report.journal import Header, Journal
from bench.report.stored import read_report, read_rounds, read_samples

SIZES = tuple(4096 << step for step in range(8))
HOSTS = tuple(
    HostFacts(host=f"host{n}", hostname=f"host{n}", identity=str(n), ranks=(n,)) for n in range(2)
)
CANDIDATE = Candidate(name="data", kind="network", interfaces={"host0": "data0", "host1": "data0"})
CASES = tuple(Case(number=n, candidate="data", session=n) for n in range(3))
PLAN = Plan(
    settings=PlanSettings(name="quick", collectives=("all_reduce",)),
    ranks=2,
    hosts=2,
    sizes_bytes=SIZES,
    cases=CASES,
)


def session(case: Case, **more: Any) -> Session:
    samples = tuple(
        Sample(
            collective="all_reduce",
            size_bytes=size,
            times_s=tuple(1e-4 + size / 5e7 + 1e-7 * i for i in range(5)),
            times_min_s=tuple(1e-4 + size / 5e7 for _ in range(5)),
        )
        for size in SIZES
    )
    values = {"outcome": "measured", "samples": samples, "started_at": 1e9, "duration_s": 3.0}
    return Session(case=case, phase="end", **{**values, **more})


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A folder whose sweep died in the middle of writing its third session."""
    with Journal(tmp_path / "run") as journal:
        journal.header(HOSTS, PLAN, (CANDIDATE,), None, labels={"ticket": "7"}, run="night")
        for case in CASES[:2]:
            journal.append(session(case))
    with (tmp_path / "run" / "samples.jsonl").open("ab") as stream:
        stream.write(b'{"case": {"number": 2, "cand')
    return tmp_path / "run"


def test_what_was_measured_is_judged_and_what_is_missing_is_said(cut: Path) -> None:
    report, trouble = finish(cut)
    assert trouble == ()
    assert report.run == "night"
    assert report.labels == {"ticket": "7"}
    assert not report.complete
    assert report.missing[0] == "The run was cut short after 2 of 3 sessions."
    (line,) = report.lines
    assert line.bandwidth_bytes_per_s is not None
    assert line.bandwidth_bytes_per_s.value == pytest.approx(5e7, rel=0.02)
    assert read_report(cut).missing == report.missing
    assert (cut / "status").read_text() == "1\n", "half of a job is no job done"


def test_no_raw_sample_is_lost(cut: Path) -> None:
    before = read_samples(cut)[1]
    finish(cut)
    assert read_samples(cut)[1] == before


def test_the_command_prints_the_screen(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(cut)]) == 0
    assert "cut short after 2 of 3 sessions" in capsys.readouterr().out


def test_a_finished_run_is_left_alone(cut: Path) -> None:
    finish(cut)
    with pytest.raises(BadInput, match="finished run"):
        finish(cut)


def test_a_folder_without_samples_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        finish(tmp_path)


OTHER = Candidate(name="mgmt", kind="network", interfaces={"host0": "mgmt0", "host1": "mgmt0"})
BOTH = tuple(
    Case(number=2 * n + i, candidate=name, session=n)
    for n in range(3)
    for i, name in enumerate(("data", "mgmt"))
)


def header(*candidates: Candidate, budget_s: float = 60.0) -> Header:
    settings = msgspec.structs.replace(PLAN.settings, budget_s=budget_s)
    plan = msgspec.structs.replace(PLAN, cases=BOTH, settings=settings)
    return Header(started_at=1e9, hosts=HOSTS, plan=plan, candidates=candidates)


def test_a_run_of_which_only_the_report_is_missing_is_complete(tmp_path: Path) -> None:
    report = as_far_as_it_went(header(CANDIDATE, OTHER), [session(case) for case in BOTH])
    assert report.complete and report.missing == ()
    with Journal(tmp_path / "run") as journal:
        journal.header(HOSTS, PLAN, (CANDIDATE,), None)
        for case in CASES:
            journal.append(session(case))
    assert finish(tmp_path / "run")[0].complete
    assert (tmp_path / "run/status").read_text() == "0\n"


def test_a_candidate_that_hung_is_not_repeated_and_nothing_of_it_is_missing() -> None:
    sessions = [session(case) for case in BOTH if case.candidate == "data"]
    sessions.insert(1, session(BOTH[1], outcome="hung"))
    assert as_far_as_it_went(header(CANDIDATE, OTHER), sessions).missing == ()
    cut = as_far_as_it_went(header(CANDIDATE, OTHER), sessions[:2])
    assert cut.missing == ("The run was cut short after 2 of 4 sessions.",)
    died = RankOutcome(rank=0, host="host0", outcome="died")  # such a candidate is tried again
    sessions[1] = session(BOTH[1], outcome="failed", ranks=(died,))
    cut = as_far_as_it_went(header(CANDIDATE, OTHER), sessions[:2])
    assert cut.missing == ("The run was cut short after 2 of 6 sessions.",)


def test_a_candidate_that_was_settled_before_is_not_missing() -> None:
    settled = msgspec.structs.replace(OTHER, outcome="unreachable")
    sessions = [session(case) for case in BOTH if case.candidate == "data"]
    assert as_far_as_it_went(header(CANDIDATE, settled), sessions).missing == ()


def test_what_the_budget_had_no_room_for_was_not_cut_off() -> None:
    mgmt, data = BOTH[1], BOTH[2]
    sessions = [
        session(BOTH[0]),
        session(mgmt, started_at=1e9 + 3, duration_s=20.0),
        session(data, started_at=1e9 + 23),
        session(BOTH[4], started_at=1e9 + 26),
    ]
    report = as_far_as_it_went(header(CANDIDATE, OTHER, budget_s=40), sessions)
    assert report.complete
    assert report.missing == ("the budget had no room for 2 sessions of mgmt",)
    report = as_far_as_it_went(header(CANDIDATE, OTHER, budget_s=40), sessions[:3])
    assert not report.complete
    assert report.missing == (
        "The run was cut short after 3 of 4 sessions.",
        "the budget had no room for 2 sessions of mgmt",
    )


def test_a_lost_rank_is_why_a_sweep_ended() -> None:
    gone = RankOutcome(rank=1, host="host1", outcome="lost")
    report = as_far_as_it_went(
        header(CANDIDATE, OTHER), [session(BOTH[0], outcome="hung", samples=(), ranks=(gone,))]
    )
    assert not report.complete
    assert report.missing[0] == "rank 1 stopped answering: the sweep ended there"


def test_copies_outlive_a_cut_run_and_what_they_lack_is_said(tmp_path: Path) -> None:
    figure = CopyFigure(
        host="host0", way="to-device", device=0, gpu=3, size_bytes=2**26, copies=20,
        bandwidth_gbs=53.0, least_gbs=52.0, most_gbs=54.0,
    )  # fmt: skip
    checks = (CopyCheck(host="host0", figures=(figure,)),
              CopyCheck(host="host1", trouble="host1: no answer", stuck=(0, 1)))  # fmt: skip
    with Journal(tmp_path / "run") as journal:
        journal.header(HOSTS, PLAN, (CANDIDATE,), None, copies=checks)
        for case in CASES:
            journal.append(session(case))
    report, _ = finish(tmp_path / "run")
    assert report.copies == checks and "host1: no answer" in report.missing
    assert read_report(tmp_path / "run").copies == checks
    assert [f.code for f in report.findings if f.severity == "broken"] == ["p2p-blocked"]


def test_a_run_that_measured_nothing_and_found_nothing_has_status_2(tmp_path: Path) -> None:
    alone = Candidate(name="(default)", kind="default")
    with Journal(tmp_path / "run") as journal:
        journal.header((), PLAN, (alone,), None)
    report, _ = finish(tmp_path / "run")
    assert report.findings == ()
    assert (tmp_path / "run/status").read_text() == "2\n"


# -------------------------------------------------------------------------------------- pairs

FOUR = tuple(
    HostFacts(host=f"host{n}", hostname=f"host{n}", identity=str(n), ranks=(n,)) for n in range(4)
)
WHOLE = Candidate(
    name="data", kind="network", interfaces=dict.fromkeys((h.host for h in FOUR), "data0")
)
ROUNDS = ((0, 3), (1, 2)), ((0, 2), (1, 3)), ((0, 1), (2, 3))


def measured(number: int, slow: str = "host2") -> MeasuredRound:
    """A round in which every pair with `slow` takes twice as long."""
    pairs = tuple((f"host{a}", f"host{b}") for a, b in ROUNDS[number])
    order = PairRound(number=number, stage="screen", pairs=pairs, repeats=2)
    figures = tuple(
        PairFigure(
            round=number, stage="screen", hosts=pair, size_bytes=2**21,
            times=(PairTime(forward_s=s, backward_s=s, both_s=s, latency_s=6e-5),) * 2,
        )
        for pair in pairs
        for s in [0.070 if slow in pair else 0.035]
    )  # fmt: skip
    return MeasuredRound(
        candidate="data", size_bytes=2**21, interest=0.1, pair_round=order, figures=figures
    )


def cut_in_pairs(folder: Path, rounds: int, tail: bytes = b"") -> Path:
    plan = msgspec.structs.replace(PLAN, hosts=4, ranks=4, locate_s=4.0)
    with Journal(folder) as journal:
        journal.header(FOUR, plan, (WHOLE,), None, run="night")
        for case in CASES:
            journal.append(session(case))
        for number in range(rounds):
            journal.append_round(measured(number))
    with (folder / "samples.jsonl").open("ab") as stream:
        stream.write(tail)
    return folder


def test_rounds_of_pairs_that_were_measured_are_judged(tmp_path: Path) -> None:
    folder = cut_in_pairs(tmp_path / "run", 3)
    assert read_rounds(folder) == tuple(measured(number) for number in range(3))
    assert len(read_samples(folder)[1]) == len(CASES)
    report, _ = finish(folder)
    assert report.location is not None
    assert [s.host for s in report.location.suspects] == ["host2"]
    assert ("host-slow", "host2") in [(f.code, f.where.host) for f in report.findings]
    assert report.missing == ("The run was cut short in or after its 3 rounds of pairs.",)
    again = read_report(folder)
    assert again.location is not None and again.location.suspects == report.location.suspects


def test_a_crash_loses_one_round_at_most(tmp_path: Path) -> None:
    line = msgspec.json.encode(measured(2))
    folder = cut_in_pairs(tmp_path / "run", 2, line[: len(line) // 2])
    report, _ = finish(folder)
    assert report.location is not None and len(report.location.rounds) == 2


def test_a_run_that_died_before_its_pairs_says_that_none_were_measured(tmp_path: Path) -> None:
    report, _ = finish(cut_in_pairs(tmp_path / "run", 0))
    assert report.location is None
    assert report.missing == ("The run was cut short before any pairs of hosts were measured.",)
