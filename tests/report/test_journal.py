"""The run's folder on real disks: full ones, read-only ones, and with processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.records import BadInput
from bench.report import stored
from bench.report.journal import Journal, read_report, read_samples

ROOT = Path(__file__).parents[2]
FILES = {
    "report.json", "samples.jsonl", "report.html", "summary.md", "nccl.env", "lines.csv",
    "junit.xml", "metrics.prom", "status",
}  # fmt: skip


def _whole_run(out: Path, report: Any) -> tuple[str, ...]:
    with Journal(out) as journal:
        journal.header(report.hosts, report.plan, report.candidates, report.fabric)
        for session in report.sessions:
            journal.append(session)
        trouble = journal.write(report)
        assert journal.status(0)
        assert journal.finished
    return trouble


def _python(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", script, *arguments]


def _on_a_disk(options: str, script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a script whose first argument is a mount point of its own, with a tmpfs on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return subprocess.run(
        [
            "unshare", "--mount", *user, "sh", "-c",
            'mount -t tmpfs -o "$1" tmpfs "$2" && exec "$3" -c "$4" "$2"',
            "sh", options, str(disk), sys.executable, script,
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_run_leaves_its_files_and_nothing_else(made: Any, tmp_path: Path) -> None:
    out = tmp_path / "reports" / "2026-11-30T10-44-14Z"
    assert _whole_run(out, made.misselected) == ()
    assert {file.name for file in out.iterdir()} == FILES
    assert read_report(out) == stored.trimmed(made.misselected)
    header, sessions = read_samples(out)
    assert header.run == out.name and header.plan == made.misselected.plan
    assert sessions == made.misselected.sessions  # with their samples
    assert (out / "status").read_text() == "0\n"
    latest = tmp_path / "reports" / "latest"
    assert latest.is_symlink() and latest.resolve() == out.resolve()


def test_latest_follows_the_newest_run_and_spares_what_is_not_ours(
    made: Any, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    _whole_run(reports / "first", made.unreachable)
    _whole_run(reports / "second", made.unreachable)
    assert (reports / "latest").readlink() == Path("second")
    _whole_run(tmp_path / "elsewhere", made.unreachable)
    assert not (tmp_path / "latest").exists()
    (reports / "latest").unlink()
    (reports / "latest").mkdir()
    _whole_run(reports / "third", made.unreachable)
    assert (reports / "latest").is_dir() and not (reports / "latest").is_symlink()
    assert {file.name for file in reports.iterdir()} == {"first", "second", "third", "latest"}


def test_a_finished_run_is_refused_and_left_as_it_is(made: Any, tmp_path: Path) -> None:
    _whole_run(tmp_path, made.unreachable)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(BadInput, match="holds a finished run"):
        Journal(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_two_sweeps_into_one_folder_are_refused(made: Any, tmp_path: Path) -> None:
    with Journal(tmp_path / "run"):
        with pytest.raises(BadInput, match=rf"another sweep \(process {os.getpid()}\)"):
            Journal(tmp_path / "run")
        script = "import sys; from pathlib import Path; from bench.report.journal import Journal\n"
        script += "Journal(Path(sys.argv[1]))"
        other = subprocess.run(
            _python(script, str(tmp_path / "run")),
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert "BadInput" in other.stderr and "another sweep" in other.stderr
    with Journal(tmp_path / "run"):
        pass
    assert list((tmp_path / "run").iterdir()) == []


def test_of_many_sweeps_at_once_exactly_one_gets_the_folder(tmp_path: Path) -> None:
    script = """if True:
        import sys, time
        from pathlib import Path
        from bench.records import BadInput
        from bench.report.journal import Journal
        time.sleep(max(0, float(sys.argv[2]) - time.time()))
        try:
            journal = Journal(Path(sys.argv[1]))
        except BadInput as error:
            sys.exit(2)
        sys.stdout.write("mine\\n"); sys.stdout.flush()
        sys.stdin.read()
        journal.close()
    """
    start = str(time.time() + 1.5)
    sweeps = [
        subprocess.Popen(
            _python(script, str(tmp_path / "run"), start),
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(6)
    ]  # fmt: skip
    deadline = time.monotonic() + 30
    while sum(sweep.poll() is None for sweep in sweeps) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    statuses = [sweep.poll() for sweep in sweeps]
    for sweep in sweeps:
        sweep.communicate("", timeout=30)
    assert sorted(map(str, statuses)) == ["2"] * 5 + ["None"]


def test_a_sweep_killed_in_the_middle_is_no_obstacle_and_its_samples_are_kept(
    made: Any, tmp_path: Path
) -> None:
    script = """if True:
        import os, signal, sys
        from pathlib import Path
        from bench.records import *
        from bench.report.journal import Journal
        out = Path(sys.argv[1])
        journal = Journal(out)
        journal.header((), Plan(settings=PlanSettings(name="quick")), (), None)
        case = Case(number=0, candidate="data", session=0)
        journal.append(Session(case=case, outcome="measured"))
        (out / ".report.json.tmp").write_text("half a rep")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(_python(script, str(tmp_path)), cwd=ROOT, timeout=30, check=False)
    assert killed.returncode == -signal.SIGKILL
    _, sessions = read_samples(tmp_path)
    assert [session.case.candidate for session in sessions] == ["data"]
    _whole_run(tmp_path, made.unreachable)
    assert {file.name for file in tmp_path.iterdir()} - FILES == {"samples.1.jsonl"}
    assert read_samples(tmp_path / "samples.1.jsonl")[1] == sessions


def test_a_report_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from bench.records import *
        from bench.report import folder, stored
        out = Path(sys.argv[1])
        reports = [
            stored.encode(Report(run=name * 2000, verdict="healthy", missing=(name * 99,) * 500))
            for name in "ab"
        ]
        while True:
            for content in reports:
                folder.put(out / "report.json", content)
    """
    for round_ in range(6):
        writer = subprocess.Popen(_python(script, str(tmp_path)), cwd=ROOT)
        deadline = time.monotonic() + 20
        while not (tmp_path / "report.json").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3 + 0.017 * round_)
        writer.kill()
        writer.wait(30)
        report = read_report(tmp_path)
        assert len(set(report.run)) == 1 and len(report.missing) == 500


def test_a_full_disk_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from bench.report.journal import Journal
        from bench.records import BadInput
        out = Path(sys.argv[1]) / "run"
        try:
            Journal(out)
        except BadInput as error:
            print(error)
        print(out.exists())
    """
    done = _on_a_disk("size=64k", script, tmp_path)
    assert done.stderr == ""
    sentence, exists = done.stdout.splitlines()
    assert "the disk is full: 60 KiB are left, a run needs about 4 MiB" in sentence
    assert exists == "False"


def test_a_read_only_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from bench.report.journal import Journal
        from bench.records import BadInput
        for out in (Path(sys.argv[1]), Path(sys.argv[1]) / "new"):
            try:
                Journal(out)
            except BadInput as error:
                print(error)
    """
    done = _on_a_disk("ro", script, tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("no run can be kept here: the file system is read-only" in line for line in lines)


FILLED = """if True:
    import os, sys
    from pathlib import Path
    from bench.records import *
    from bench.report.journal import Journal, read_samples, read_report
    disk = Path(sys.argv[1])
    out = disk / "run"
    journal = Journal(out)
    journal.header((), Plan(settings=PlanSettings(name="quick")), (), None)
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while stream.write(b"x" * 4096):
                pass
        except OSError:
            pass
    sample = Sample(collective="all_reduce", size_bytes=4096, times_s=(0.001,) * 2000)
    for number in range(4):
        case = Case(number=number, candidate="data", session=number)
        journal.append(Session(case=case, outcome="measured", samples=(sample,)))
    header, sessions = read_samples(out)
    print(len(sessions))
    if len(sys.argv) > 2:
        filler.unlink()
    report = Report(run="x", verdict="healthy")
"""


def test_a_disk_that_fills_up_costs_files_and_never_the_run(tmp_path: Path) -> None:
    script = (
        FILLED
        + """
    for sentence in journal.missing() + journal.write(report):
        print(sentence)
    print(journal.finished, journal.status(0))
    journal.close()
    print(sorted(os.listdir(out)))
    """
    )
    done = _on_a_disk("size=6m", script, tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    kept = int(lines[0])
    assert kept < 4
    assert lines[1] == f"samples.jsonl lacks {4 - kept} of 4 sessions: the disk is full."
    assert "report.json could not be written: the disk is full." in lines
    assert lines[-2].startswith("False")
    assert lines[-1] == "['samples.jsonl']"


def test_what_waited_for_room_is_written_when_there_is_room(tmp_path: Path) -> None:
    script = (
        FILLED
        + """
    filler.unlink()
    print(journal.write(report), journal.missing(), journal.finished)
    print(len(read_samples(out)[1]), read_report(out).missing)
    """
    )
    done = _on_a_disk("size=6m", script, tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["() () True", "4 ()"]


def test_a_report_says_which_samples_are_not_on_disk(made: Any, tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        (tmp_path / "samples.jsonl").mkdir()  # no file can be opened there
        journal.header((), made.healthy.plan, (), None)
        journal.append(made.healthy.sessions[0])
        journal.write(made.healthy)
    assert read_report(tmp_path).missing == (
        "samples.jsonl lacks 1 of 1 sessions: is a directory.",
    )


def test_a_file_in_the_way_and_a_folder_of_the_wrong_kind_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(BadInput, match="is not a folder"):
            Journal(out)
    assert (tmp_path / "file").read_text() == "mine"


def test_links_put_in_the_way_are_not_followed(made: Any, tmp_path: Path) -> None:
    out, victim = tmp_path / "run", tmp_path / "victim"
    out.mkdir()
    victim.write_text("precious")
    (out / ".report.json.tmp").symlink_to(victim)
    (out / "report.html").symlink_to(victim)
    _whole_run(out, msgspec.structs.replace(made.healthy, lines=()))
    assert victim.read_text() == "precious"
    assert not (out / "report.html").is_symlink()
