"""`expect` as its user meets it: files written whole or not at all, runs by path, one sentence."""

from __future__ import annotations

import dataclasses
import io
import os
from pathlib import Path

import msgspec
import pytest

from bench.cli import main
from bench.facts import host
from bench.formats import toml_file
from bench.judge import claims, expected
from bench.records import Evidence, Fabric, Finding, Report
from bench.report.stored import encode
from tests.judge.conftest import Scene


def said(*arguments: str | Path) -> tuple[int, str]:
    out = io.StringIO()
    status = main([str(word) for word in ("expect", *arguments)], out)
    return status, out.getvalue()


def good_run(folder: Path, name: str, gbs: float = 0.06, **changes: object) -> Path:
    scene = Scene({"data": 500}).chooses("data").measured("data", gbs).measured("(default)", gbs)
    report: Report = msgspec.structs.replace(scene.report(), run=name, **changes)
    (folder / name).mkdir(parents=True)
    (folder / name / "report.json").write_bytes(encode(report))
    return folder / name


@pytest.fixture
def week(tmp_path: Path) -> Path:
    for day in range(1, 8):
        good_run(tmp_path / "reports", f"2026-11-{day:02}T02-00-00Z", 0.06 + day / 1e5)
    return tmp_path / "reports"


def test_without_a_report_it_writes_what_this_machine_claims_and_a_sweep_takes_it() -> None:
    status, text = said()
    assert status == 0
    assert text.startswith("# What machines claim of themselves: nothing here was measured.")
    fabric = toml_file.load_text(text, Fabric, file="x.toml")
    assert fabric.name == "my-cluster"
    expected.check_fabric(fabric, (host.gather(ask_nccl=False),))


def test_a_report_without_learning_gives_what_its_hosts_claim(week: Path) -> None:
    status, text = said(next(week.iterdir()))
    assert status == 0
    fabric = toml_file.load_text(text, Fabric, file="x.toml")
    assert fabric.source == "claimed by host1, host2, host3, host4"
    assert fabric.busbw == ()


def test_a_folder_of_runs_is_learned_from_and_named_by_the_file(week: Path, capsys) -> None:
    out = week.parent / "cluster-a.toml"
    status, printed = said(week, "--learn", "--out", out)
    assert (status, printed) == (0, f"{out}: 1 networks, 4 figures\n")
    fabric = toml_file.load(out, Fabric)
    assert fabric.name == "cluster-a"
    assert {entry.runs for entry in fabric.busbw} == {7}
    assert not list(week.parent.glob(".*")), "no temporary file is left"
    text = out.read_text()
    assert "# Learned from good runs." in text
    assert all(f"# Note: {line}" in text for line in _notes(capsys))


def _notes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix("fabric-bench: ")[:60] for line in lines]


def test_runs_files_and_links_to_one_run_count_once(week: Path) -> None:
    (week / "latest").symlink_to("2026-11-07T02-00-00Z")
    one = week / "2026-11-03T02-00-00Z"
    _, text = said(week, one, one / "report.json", "--learn")
    assert {e.runs for e in toml_file.load_text(text, Fabric, file="x").busbw} == {7}


def test_one_run_is_learned_with_a_warning(week: Path, capsys) -> None:
    status, text = said(week / "2026-11-01T02-00-00Z", "--learn")
    assert status == 0
    assert "one run: how far runs lie apart is unknown" in capsys.readouterr().err
    assert all(e.tolerance is None for e in toml_file.load_text(text, Fabric, file="x").busbw)


def test_a_file_that_is_there_is_kept_unless_forced(week: Path, capsys) -> None:
    out = week.parent / "mine.toml"
    out.write_text("precious")
    assert said("--out", out)[0] == 2
    assert f"{out}: is there already; --force replaces it" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert said("--out", out, "--force")[0] == 0
    assert toml_file.load(out, Fabric).name == "mine"


def test_a_link_is_written_through_and_a_note_cannot_act_on_the_terminal(
    week: Path, capsys, monkeypatch
) -> None:
    target = week.parent / "site" / "gate.toml"
    target.parent.mkdir()
    target.write_text("old")
    link = week.parent / "gate.toml"
    link.symlink_to(target)
    draft = claims.draft
    monkeypatch.setattr(
        claims, "draft", lambda *a, **k: dataclasses.replace(draft(*a, **k), notes=("a\x1b[2Jb",))
    )
    assert said("--out", link, "--force")[0] == 0
    assert link.is_symlink() and toml_file.load(target, Fabric).name == "gate"
    assert capsys.readouterr().err == "fabric-bench: a\\x1b[2Jb\n"


def test_a_file_that_is_there_is_kept_when_learning_fails(week: Path) -> None:
    out = week.parent / "mine.toml"
    out.write_text("precious")
    good_run(week, "bad", complete=False)
    assert said(week, "--learn", "--out", out, "--force")[0] == 2
    assert out.read_text() == "precious"


def test_a_run_with_a_finding_is_refused_by_name_unless_accepted(week: Path, capsys) -> None:
    finding = Finding(
        code="link-lossy", severity="degraded", summary="x",
        evidence=(Evidence(basis="measured", text="x"),),
    )  # fmt: skip
    good_run(week, "2026-11-09T02-00-00Z", findings=(finding,))
    assert said(week, "--learn")[0] == 2
    sentence = capsys.readouterr().err
    assert "run 2026-11-09T02-00-00Z is no good run (link-lossy)" in sentence
    assert "--accept-findings" in sentence
    assert said(week, "--learn", "--accept-findings")[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--learn"], "--learn takes the runs to learn from"),
        (["no-such", "--learn"], "no-such: cannot be read: No such file"),
        (["empty", "--learn"], "empty: holds no run: no report.json in it or in its folders"),
        (["text.json", "--learn"], "text.json: not JSON"),
        (["--out", "empty"], "empty: is a folder; --out takes the name of a file"),
        (["--out", "nowhere/x.toml"], "nowhere: no such folder"),
        (["--lern"], "no such option: --lern; did you mean --learn?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("text.json").write_text("hello")
    assert said(*words)[0] == 2
    err = capsys.readouterr().err
    assert err.startswith("fabric-bench: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["empty", "text.json"]


def test_a_disk_that_refuses_leaves_the_old_file(week: Path, capsys, monkeypatch) -> None:
    out = week.parent / "mine.toml"
    out.write_text("precious")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert said("--out", out, "--force")[0] == 2
    monkeypatch.undo()
    assert "could not be written: the disk is full" in capsys.readouterr().err
    assert out.read_text() == "precious"
