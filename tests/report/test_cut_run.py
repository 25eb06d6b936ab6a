"""A run whose sweep was killed becomes a report of what it had measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli import main
from bench.records import (
    BadInput,
    Candidate,
    Case,
    HostFacts,
    Plan,
    PlanSettings,
    Sample,
    Session,
)
from bench.report.cut_run import finish
from bench.report.journal import Journal
from bench.report.stored import read_report, read_samples

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


def session(case: Case) -> Session:
    samples = tuple(
        Sample(
            collective="all_reduce",
            size_bytes=size,
            times_s=tuple(1e-4 + size / 5e7 + 1e-7 * i for i in range(5)),
            times_min_s=tuple(1e-4 + size / 5e7 for _ in range(5)),
        )
        for size in SIZES
    )
    return Session(
        case=case, outcome="measured", phase="end", samples=samples, started_at=1e9, duration_s=3.0
    )


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
