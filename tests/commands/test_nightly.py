"""The nightly job, its history and its baselines as people and schedulers use them."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.cli import main
from bench.commands import night, sweeping
from bench.lab.job import Told
from bench.records import Nightly, Report
from bench.report import stored
from bench.report.history import archive as history
from tests import made_nights as made

ROOT = Path(__file__).parents[2]
LARGE = {(c, k, "large"): 1.0 for c in ("data", "(default)") for k in made.COLLECTIVES}
EXPORTS = {"nightly.json", "nightly.md", "junit.xml", "metrics.prom", "lines.csv", "suspects.txt"}


def slower(log: float) -> dict[tuple[str, str, str], float]:
    return dict.fromkeys(LARGE, log)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A history of twelve good nights."""
    rng = np.random.default_rng(5)
    for at in range(12):
        made.keep(tmp_path / "history", made.report(at, made.noisy(rng, cv=0.004)))
    return tmp_path / "history"


def told(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    return main([*map(str, arguments)], out), out.getvalue()


def judged(run: Path, *more: object) -> tuple[int, Nightly]:
    status, out = told("nightly", "--judge", run, *more, "--json")
    return status, msgspec.json.decode(out, type=Nightly)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def ask(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.startswith("fabric-bench: ")
        assert printed.err.count("\n") == 1, printed.err
        return printed.err

    return ask


# -------------------------------------------------------------------------------- --judge


def test_a_run_of_a_scheduler_is_judged_where_it_lies(place: Path) -> None:
    run = made.keep(place, made.report(12))
    status, out = told("nightly", "--judge", run)
    assert status == 0
    assert out.splitlines()[-2:] == [
        "verdict: healthy · no findings · exit 0", f"report   {run}/report.html",
    ]  # fmt: skip
    assert {file.name for file in run.iterdir()} == EXPORTS | {"report.json"}
    assert (place / "latest").resolve() == run.resolve()
    status, told_in_json = judged(place / "latest" / "report.json")
    assert (status, told_in_json.run, told_in_json.nights) == (0, run.name, 13)
    judged(place / made.name_of(3))
    assert (place / "latest").resolve() == run.resolve(), "an old night is not the latest"


def test_the_exit_status_says_it_and_fail_on_says_from_where(place: Path) -> None:
    run = made.keep(place, made.report(12, slower(0.4)))
    assert judged(run)[0] == 1
    for severity, status in (("info", 1), ("degraded", 1), ("broken", 0), ("none", 0)):
        assert judged(run, "--fail-on", severity)[0] == status, severity
    run = made.keep(place, made.report(13, candidates=()))
    assert judged(run)[0] == 2, "nothing was measured, nothing was found"


def test_a_night_that_was_cut_short_says_so_and_is_no_success(place: Path) -> None:
    cut = msgspec.structs.replace(
        made.report(12, complete=False), missing=("SIGTERM ended the sweep.",)
    )
    run = made.keep(place, cut)
    status, out = told("nightly", "--judge", run)
    assert status == 1
    said = (
        "note      tonight was cut short: SIGTERM ended the sweep; what it did measure is judged"
    )
    assert said in " ".join(out.split("\n          "))
    assert "tonight was cut short" in (run / "nightly.md").read_text()
    status, nightly = judged(made.keep(place, made.report(13)))
    assert (status, nightly.notes) == (0, ())


def test_what_changed_with_the_night_is_told_with_it(place: Path) -> None:
    for at in (12, 13, 14):
        run = made.keep(place, made.report(at, slower(0.06), driver="570.86.10"))
        status, nightly = judged(run)
        assert status == (1 if at == 14 else 0)
        assert [d.name for d in nightly.differences] == (["driver"] if at == 12 else [])
    (finding,) = nightly.findings
    claimed = [e.text for e in finding.evidence if e.basis == "claimed"]
    assert claimed == [f"with {made.name_of(12)} changed: driver 550.54.15 → 570.86.10"]
    status, out = told("nightly", "--judge", place / made.name_of(12))
    assert "changed   driver 550.54.15 → 570.86.10" in out


def test_three_nights_the_second_one_bad(place: Path) -> None:
    expected = [(12, (), 0), (13, (made.degraded(),), 1), (14, (), 0)]
    for at, findings, status in expected:
        run = made.keep(
            place, made.report(at, slower(0.7 if findings else 0.0), findings=findings)
        )
        ended, nightly = judged(run)
        assert ended == status, at
    assert nightly.recovered[0] == "link-degraded (data) is gone, after 1 night"
    assert any("data is as its baseline again" in text for text in nightly.recovered)
    assert "recovered" in (run / "nightly.md").read_text()


def test_a_missing_host_is_named(place: Path) -> None:
    run = made.keep(place, made.report(12, hosts=("host1", "host2", "host4")))
    status, out = told("nightly", "--judge", run)
    assert status == 0, "figures of another shape accuse nobody"
    assert "missing   host3: there on each of the last 12 nights, not tonight" in out
    assert "? not-comparable" in out


def test_damaged_nights_are_named_and_the_night_is_judged(place: Path) -> None:
    (place / made.name_of(4) / "report.json").write_bytes(b"{")
    run = made.keep(place, made.report(12))
    status, out = told("nightly", "--judge", run)
    assert status == 0
    assert f"skipped   {made.name_of(4)} is damaged and left out: not JSON" in out


def test_a_second_look_that_a_scheduler_made_is_taken(place: Path, tmp_path: Path) -> None:
    run = made.keep(place, made.report(12, slower(0.4)))
    quiet = made.keep(tmp_path, made.report(12, run="second"))
    status, nightly = judged(run, "--again", quiet)
    assert (status, [f.code for f in nightly.findings]) == (0, ["inconclusive"])


def test_a_file_that_cannot_be_written_is_said_and_costs_nothing_else(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made.keep(place, made.report(12))
    (run / "junit.xml").mkdir()
    (run / "junit.xml" / "mine").write_text("x")
    status = judged(run)[0]
    said = capsys.readouterr().err
    assert status == 0 and said.startswith("fabric-bench: junit.xml could not be written: ")
    assert {file.name for file in run.iterdir()} == EXPORTS | {"report.json"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--again", "x"), "--again goes with --judge"),
        (("--judge", "none"), "none: no such folder; --judge takes the folder of a run"),
        (("--judge", "history"), "history/report.json: cannot be read"),
        (("--judge", "cut"), "not JSON"),
        (("--judge", "history/one", "--lab", "healthy"), "--judge starts no sweep"),
        (("--judge", "history/one", "--", "--sessions", "1"), "--judge starts no sweep"),
        (("--judge", "history/one", "--history", "other"), "does not lie in the history other"),
        (("--judge", "history/one", "--again", "none"), "none"),
        (("--judge", "history/one", "--fail-on", "bad"), "--fail-on is bad"),
        (("--lab", "no-such-lab"), "no-such-lab"),
        (("--lab", "healthy", "--ranks", "2"), "--ranks is for this host"),
        (("--plan", "no-such-plan"), "no-such-plan"),
        (("--", "--out", "x"), "--out is the nightly job's to choose"),
        (("--", "--sesions", "1"), "did you mean --sessions?"),
        (("--sesions", "1"), "no such option: --sesions"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str],
    arguments: Sequence[str], sentence: str,
) -> None:  # fmt: skip
    made.keep(tmp_path / "history", made.report(0, run="one"))
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "report.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    assert sentence in refused("nightly", *arguments)
    assert not (tmp_path / "reports" / "history" / "latest").exists()


def test_a_second_job_is_refused_by_the_program_itself(place: Path) -> None:
    run = made.keep(place, made.report(12))
    command = [sys.executable, "-m", "bench", "nightly", "--judge", str(run)]
    with history.held(place):
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2 and done.stdout == ""
    assert f"another nightly job (process {os.getpid()}) is at work in this history" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {file.name for file in run.iterdir()} == {"report.json"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------ its sweep


class Played:
    """Sweeps that leave the reports they are given, each with what the options were."""

    def __init__(self, *reports: Report | int) -> None:
        self.reports, self.options, self.places = list(reports), [], []

    def sweep(self, out: Path, options: Sequence[str], *, aside: bool) -> int:
        self.options.append(list(options))
        self.places.append(out)
        report = self.reports.pop(0)
        if isinstance(report, int):
            return report
        out.mkdir(parents=True)
        (out / stored.REPORT_NAME).write_bytes(
            stored.encode(msgspec.structs.replace(report, run=out.name))
        )
        return 0


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    def with_reports(*reports: Any) -> Played:
        played = Played(*reports)
        monkeypatch.setattr(sweeping, "sweeper", lambda lab, ranks: played)
        return played

    return with_reports


def test_a_night_far_out_is_looked_at_again_at_once(
    place: Path, play: Callable[..., Played], capsys: pytest.CaptureFixture[str]
) -> None:
    played = play(made.report(12, slower(0.4)), made.report(12, slower(0.41)))
    status, out = told("nightly", "--history", place, "--plan", "quick", "--", "--seed", "3")
    assert status == 1 and "a second look the same night: +51 % in all_reduce" in out
    assert capsys.readouterr().err == (
        "fabric-bench: a second look at once at what stands out: data (all_reduce), "
        "data (all_gather) and 2 more\n"
    )
    first, second = played.options
    assert first == ["--plan", "quick", "--seed", "3"]
    assert second[:6] == [*first, "--sessions", "3"]
    assert second[second.index("--locate") + 1] == "never"
    assert [second[at + 1] for at, word in enumerate(second) if word == "--collective"] == [
        "all_reduce", "all_gather",
    ]  # fmt: skip
    assert [second[at + 1] for at, word in enumerate(second) if word == "--interface"] == ["data"]
    assert played.places[1] == played.places[0] / "again"
    assert len(history.read(place).nights) == 13, "a second look is no night"


def test_a_second_look_that_sees_nothing_ends_the_alarm(
    place: Path, play: Callable[..., Played]
) -> None:
    play(made.report(12, slower(0.4)), made.report(12))
    status, out = told("nightly", "--history", place)
    assert status == 0 and "? inconclusive" in out and "? stands out" in out
    assert "+0.3 % at a second look the same night" in " ".join(out.split())


def test_a_name_cannot_act_on_the_terminal_when_a_second_look_is_told(
    place: Path, play: Callable[..., Played], capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "data\x1b[2J"
    report = made.report(12, slower(0.4))
    for run in sorted(place.iterdir()):
        past = stored.read_report(run)
        (run / stored.REPORT_NAME).write_bytes(stored.encode(_renamed(past, hostile)))
    play(_renamed(report, hostile), 2)
    told("nightly", "--history", place)
    said = capsys.readouterr().err
    assert "what stands out: data\\x1b[2J (" in said and "\x1b" not in said


def _renamed(report: Report, name: str) -> Report:
    """The report with another name for its network."""
    return msgspec.json.decode(
        msgspec.json.encode(report).replace(b'"data"', msgspec.json.encode(name)), type=Report
    )


@pytest.mark.parametrize("ends_with", [2, 1, 143])
def test_a_second_look_that_fails_leaves_the_first(
    place: Path, play: Callable[..., Played], ends_with: int
) -> None:
    played = play(made.report(12, slower(0.4)), ends_with)
    status, out = told("nightly", "--history", place)
    assert status == 1 and "! regressed" in out
    assert {file.name for file in played.places[0].iterdir()} >= EXPORTS


def test_a_sweep_that_leaves_nothing_is_a_sentence_and_no_night(
    place: Path, play: Callable[..., Played], refused: Callable[..., str]
) -> None:
    play(2)
    assert "the sweep left no report (exit status 2)" in refused("nightly", "--history", place)
    assert len(history.read(place).nights) == 12
    play(143)
    assert main(["nightly", "--history", str(place)]) == 130, "a signal ended it"


def test_nothing_is_looked_at_again_on_the_first_night(
    tmp_path: Path, play: Callable[..., Played]
) -> None:
    played = play(made.report(0))
    status, out = told("nightly", "--history", tmp_path / "new")
    assert status == 0 and len(played.options) == 1
    joined = " ".join(out.split())
    assert (
        "this is the first good night of its shape; nights to come are held against it" in joined
    )
    assert out.startswith("\n"), "apart from what the sweep has printed"


def test_a_budget_that_does_not_suffice_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    """By the real sweep, under torchrun."""
    done = subprocess.run(
        [
            sys.executable, "-m", "bench", "nightly", "--ranks", "2", "--plan", "quick",
            "--history", str(tmp_path / "history"), "--", "--budget", "1",
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    told_why, left_nothing = done.stderr.splitlines()  # and not the page that torchrun adds
    assert told_why.startswith("fabric-bench: plan 'quick' needs about ")
    assert "more than the budget of 1 s" in told_why
    assert left_nothing.endswith(": the sweep left no report (exit status 2)")
    assert history.read(tmp_path / "history").nights == ()


def test_a_sweep_that_does_not_end_is_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweeping, "STOP_S", 0.3)
    deaf = ["sh", "-c", "trap '' TERM INT; echo ready; while :; do sleep 0.1; done"]
    for told, limit_s in ((Told(), 0.2), (Told(), 60.0)):
        process = subprocess.Popen(deaf, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        if limit_s == 60.0:
            told.note(15, None)  # a scheduler's time is up
        began = time.monotonic()
        sweeping._wait(process, told, limit_s)
        assert time.monotonic() - began < 10
        assert process.poll() == -9
        process.stdout.close()
    assert capsys.readouterr().err == 2 * "fabric-bench: the sweep did not end; it is stopped\n"


# ------------------------------------------------------------------- history and baselines


def _state(folder: Path) -> dict[str, int]:
    return {str(file): file.lstat().st_mtime_ns for file in folder.rglob("*")}


def test_history_shows_writes_what_is_asked_for_and_changes_nothing(
    place: Path, tmp_path: Path
) -> None:
    for at in (12, 13, 14):
        made.keep(place, made.report(at, slower(0.06)))
    before = _state(place)
    page, table = tmp_path / "page.html", tmp_path / "nights.csv"
    status, out = told("history", place, "--page", page, "--csv", table)
    assert status == 0, "what is shown is no alarm"
    assert max(map(len, out.splitlines())) <= 80
    assert out.count("! since 10-13") == 4 and "█" in out
    assert _state(place) == before
    assert page.read_text().count('class="plot"') == 4
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 15 * 8
    assert {row["run"] for row in rows if row["level_change"]} == {made.name_of(12)}
    nightly = msgspec.json.decode(told("history", place, "--json")[1], type=Nightly)
    assert nightly.run == made.name_of(14) and nightly.nights == 15


def test_history_on_a_terminal_without_blocks_is_ascii(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "history", str(place)],
        cwd=ROOT, capture_output=True, timeout=60, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )  # fmt: skip
    assert done.stdout.isascii() and b"data, all_reduce" in done.stdout


def test_history_of_no_nights_is_a_sentence(tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "no such folder" in refused("history", tmp_path / "none")
    assert "holds no night" in refused("history", tmp_path)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "report.json").write_text("{")
    assert "holds no night: bad is damaged" in refused("history", tmp_path)
    made.keep(tmp_path, made.report(0))
    assert "no such folder" in refused("history", tmp_path, "--page", tmp_path / "no" / "page")


def test_a_baseline_is_set_shown_and_held_against(place: Path) -> None:
    run = made.keep(place, made.report(12, slower(0.2)))
    status, out = told("baseline", "set", run, "--reason", "two switches fewer")
    assert (status, out) == (0, f"baseline of nccl · 4 hosts × 1 rank: {run.name}\n")
    run = made.keep(place, made.report(13, slower(0.2)))
    status, nightly = judged(run)
    assert (status, nightly.baseline_reason) == (0, "two switches fewer")
    assert nightly.baseline_age_s == 0.0, "set after that night was measured"
    status, out = told("nightly", "--judge", run)
    assert f"baseline  {made.name_of(12)}, of today: two switches fewer" in out
    told("baseline", "set", run, "--reason", "again")
    status, out = told("baseline", "show", place)
    lines = out.splitlines()
    assert lines[0] == f"{run.name} · nccl · 4 hosts × 1 rank" and lines[1].endswith(": again")
    assert f"{made.name_of(12)}: two switches fewer" in " ".join(lines[2:])
    kept = json.loads(told("baseline", "show", place, "--json")[1])
    assert [one["reason"] for one in kept["former"]] == ["two switches fewer"]


def test_a_baseline_goes_by_the_name_of_its_folder(place: Path) -> None:
    shutil.copytree(place / made.name_of(2), place.parent / "mine" / "monday")
    told("baseline", "set", place.parent / "mine" / "monday", "--reason", "as accepted")
    status, nightly = judged(place.parent / "mine" / "monday")
    assert (status, nightly.baseline, nightly.baseline_reason) == (0, "monday", "as accepted")
    assert {one.state for one in nightly.series} == {"steady"}


def test_what_is_no_baseline_is_refused_on_the_command_line(
    place: Path, refused: Callable[..., str]
) -> None:
    bad = made.keep(place, made.report(12, findings=[made.degraded()]))
    assert "--accept-findings" in refused("baseline", "set", bad, "--reason", "x")
    assert "reason" in refused("baseline", "set", bad)
    assert "a baseline needs a reason" in refused(
        "baseline", "set", place / made.name_of(1), "--reason", " "
    )
    assert "none: no such" in refused("baseline", "set", place / "none", "--reason", "x")
    assert "no such folder" in refused("baseline", "show", place / "none")
    (place / "baseline.json").write_text("{")
    assert "is no baseline file" in refused("baseline", "show", place)
    assert "is no baseline file" in refused("nightly", "--judge", place / made.name_of(11))
    insisting = ("--reason", "so it is", "--accept-findings", "--history", place.parent)
    assert told("baseline", "set", bad, *insisting)[0] == 0
    assert (place.parent / "baseline.json").exists()


def test_nobody_has_set_a_baseline(place: Path) -> None:
    status, out = told("baseline", "show", place)
    assert status == 0 and "held against the first good one" in out


def test_months_of_runs_leave_a_small_nightly_file(place: Path) -> None:
    rng = np.random.default_rng(1)
    for at in range(12, 80):
        run = made.keep(place, made.report(at, made.noisy(rng, cv=0.004)))
    judged(run)
    kept = msgspec.json.decode((run / "nightly.json").read_bytes(), type=Nightly)
    assert {len(one.values) for one in kept.series} == {night.KEPT_VALUES}
    assert kept.nights == 80
    shutil.rmtree(place / made.name_of(0))  # the baseline that nobody set
    status, nightly = judged(run)
    assert (status, nightly.baseline, nightly.nights) == (0, made.name_of(1), 79)
