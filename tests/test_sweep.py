"""The main job through the real torchrun, two ranks on this host; bad input and bad days."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from torch.distributed.run import parse_args

from bench import sweep
from bench.plan.options import parse
from bench.records import BadInput, CostLine, Finding, PlanSettings, Point, Report, Severity

ROOT = Path(__file__).parents[1]
SHORT = ("--sessions", "1", "--minbytes", "4K", "--maxbytes", "64K", "--collective", "all_reduce")


def torchrun(
    *options: str,
    ranks: int = 2,
    script: Path = ROOT / "bench" / "sweep.py",
    cwd: Path = ROOT,
    environment: dict[str, str] | None = None,
) -> tuple[list[str], Path, dict[str, str]]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               str(ranks), str(script), *options]  # fmt: skip
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "GLOO_"))}
    return command, cwd, {**inherited, "OMP_NUM_THREADS": "1", **(environment or {})}


def start(*arguments: str, **more) -> subprocess.Popen[str]:
    command, cwd, environment = torchrun(*arguments, **more)
    return subprocess.Popen(
        command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def run(*arguments: str, **more) -> tuple[int, str, str]:
    process = start(*arguments, **more)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def report(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text())


def processes_of(folder: Path) -> list[psutil.Process]:
    """Agents and workers of a sweep: they carry its --out, or are children of one that does."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str, str]:
    folder = tmp_path_factory.mktemp("sweep") / "run"
    return folder, *run("--out", str(folder), "--label", "ticket=NET-1", *SHORT)


def test_two_ranks_of_one_host_are_swept_to_a_verdict(
    good: tuple[Path, int, str, str],
) -> None:
    folder, code, out, err = good
    assert code == 0, err
    assert out.rstrip().splitlines()[-1].startswith("report")
    assert "verdict: " in out
    found = report(folder)
    assert found["schema"] == 1 and found["backend"] == "gloo" and found["complete"]
    assert found["labels"] == {"ticket": "NET-1"}
    assert {c["outcome"] for c in found["candidates"]} == {"measured"}
    assert "(default)" in {c["name"] for c in found["candidates"]}
    assert all(point["wrong"] == 0 for line in found["lines"] for point in line["points"])


def test_everything_that_the_folder_promises_is_there(good: tuple[Path, int, str, str]) -> None:
    folder = good[0]
    names = {path.name for path in folder.iterdir()}
    assert {"report.json", "samples.jsonl", "report.html", "summary.md", "nccl.env"} <= names
    assert (folder / "status").read_text().strip() == "0"
    assert not [name for name in names if "tmp" in name or "lock" in name]


def test_a_finished_run_is_not_overwritten(good: tuple[Path, int, str, str]) -> None:
    before = (good[0] / "report.json").read_bytes()
    code, _, err = run("--out", str(good[0]), *SHORT)
    assert code == 1  # torchrun's word for any failure
    assert any(line.startswith("fabric-bench: ") for line in err.splitlines())
    assert (good[0] / "report.json").read_bytes() == before


def test_one_rank_has_no_peer() -> None:
    _, _, err = run(*SHORT, ranks=1)
    assert "fabric-bench: nothing to measure: one rank has no peer" in err
    assert "Traceback" not in err.split("ChildFailedError")[0].split("failed (exitcode")[0]


def test_without_torchrun_one_sentence_says_how_to_start_it() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "sweep.py")], env=environment, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "start it through torchrun" in done.stderr


def test_more_ranks_than_cores_from_another_folder(tmp_path: Path) -> None:
    code, out, err = run("--out", "here", *SHORT, ranks=5, cwd=tmp_path)
    assert code == 0, err
    assert "verdict: " in out
    assert report(tmp_path / "here")["plan"]["ranks"] == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ended_from_outside_it_keeps_what_was_measured(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start("--out", str(tmp_path / "run"), "--sessions", "9", "--budget", "600")
    wait_for(lambda: lines_of(tmp_path / "run" / "samples.jsonl") >= 2, process)
    process.send_signal(number)
    process.communicate(timeout=40)
    found = report(tmp_path / "run")
    assert found["complete"] is False
    assert any("SIG" in sentence for sentence in found["missing"])
    assert found["lines"]
    assert (tmp_path / "run" / "status").read_text() == "1\n"
    assert_all_gone(tmp_path / "run")


@pytest.mark.parametrize("after_s", [0.0, 0.5, 1.0])
def test_ended_before_the_first_case_it_says_so_without_a_traceback(
    tmp_path: Path, after_s: float
) -> None:
    process = start("--out", str(tmp_path / "run"))
    named = ("b0:agent", "b1:agent")
    wait_for(lambda: any(p.name() in named for p in processes_of(tmp_path / "run")), process)
    time.sleep(after_s)  # in the facts, in the preflight, in the first case
    for agent in processes_of(tmp_path / "run"):
        if agent.name() in named:
            agent.terminate()
    out, err = process.communicate(timeout=60)
    ours = err.split("torch.distributed.elastic")[0].split("torch/distributed/elastic")[0]
    assert "Traceback" not in ours, err
    # rank 0 says SIGTERM of itself; where only rank 1 was up yet, that it was told to stop
    assert any(word in " ".join((out + err).split()) for word in ("SIGTERM", "told to stop"))
    assert_all_gone(tmp_path / "run")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_agent_loses_at_most_the_session_in_flight(tmp_path: Path, victim: int) -> None:
    process = start("--out", str(tmp_path / "run"), "--sessions", "9", "--budget", "600")
    samples = tmp_path / "run" / "samples.jsonl"
    wait_for(lambda: lines_of(samples) >= 3, process)
    agent = next(p for p in processes_of(tmp_path / "run") if p.name() == f"b{victim}:agent")
    agent.kill()
    process.communicate(timeout=60)
    assert lines_of(samples) >= 3
    for line in samples.read_text().splitlines()[:3]:
        json.loads(line)
    assert_all_gone(tmp_path / "run")


@pytest.mark.gpu
def test_two_ranks_over_nccl_name_their_transport_and_measure(tmp_path: Path) -> None:
    """On one GPU they share it as hosts of their own, so that all traffic is the network's."""
    code, out, err = run("--out", str(tmp_path / "run"), "--backend", "nccl", "--sessions", "1",
                         "--maxbytes", "1M", "--budget", "300")  # fmt: skip
    assert code == 0, err
    found = report(tmp_path / "run")
    assert found["backend"] == "nccl" and "verdict: " in out
    measured = [c["name"] for c in found["candidates"] if c["outcome"] == "measured"]
    assert measured, found["candidates"]
    for line in found["lines"]:
        assert all(point["wrong"] == 0 and point["time_s"] > 0 for point in line["points"])
    logs = [line for s in found["sessions"] for host in s["hosts"] for line in host["nccl_log"]]
    assert any("via " in line for line in logs), "NCCL's own channel lines are kept"
    (check,) = found["copies"]
    assert check["trouble"] is None and len(check["figures"]) >= 2
    assert all(figure["bandwidth_gbs"] > 0.5 for figure in check["figures"])


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(condition, process: subprocess.Popen[str], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def assert_all_gone(folder: Path) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and processes_of(folder):
        time.sleep(0.1)
    assert processes_of(folder) == []


ALL_OPTIONS = (
    "--plan", "quick", "--fabric", "f.toml", "--out", "d", "--fail-on", "degraded", "--seed", "1",
    "--budget", "60", "--sessions", "3", "--collective", "all_reduce", "--interface", "eth0",
    "--minbytes", "4K", "--maxbytes", "1M", "--stepfactor", "2", "--dtype", "float32",
    "--backend", "gloo", "--label", "a=b", "--locate", "always", "--ladder", "--quiet", "--help",
)  # fmt: skip


def test_every_option_survives_torchruns_own_parser() -> None:
    parsed = parse_args(["--nproc-per-node", "2", "bench/sweep.py", *ALL_OPTIONS])
    assert parsed.training_script_args == list(ALL_OPTIONS)
    help_text = parse(["--help"]).help or ""
    documented = {w.strip("[],") for w in help_text.split() if w.strip("[]").startswith("--")}
    assert {option for option in ALL_OPTIONS if option.startswith("--")} >= {
        word for word in documented if word.startswith("--") and word.strip("-.,;)").isascii()
    } - {"--nproc-per-node"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sesions", "3"], "did you mean --sessions?"),
        (["--fail-on", "degrade"], "did you mean degraded?"),
        (["--backend", "mpi"], "--backend takes nccl, gloo"),
        (["--label", "novalue"], "--label takes KEY=VALUE"),
        (["--locate", "allways"], "did you mean always?"),
        (["--sessions", "many"], "--sessions"),
        (["extra"], "unknown option 'extra'"),
    ],
)
def test_bad_options_get_one_sentence(arguments: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("?", r"\?")) as caught:
        parse(arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interface", "eth9"], "eth9"),
        (["--minbytes", "1M", "--maxbytes", "4K"], "min_bytes"),
        (["--budget", "1"], "budget"),
    ],
)
def test_bad_values_are_told_once_by_rank_zero_and_status_two_is_kept(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    code, out, err = run("--out", str(tmp_path / "run"), *arguments)
    ours = [line for line in err.splitlines() if line.startswith("fabric-bench: ")]
    assert code == 1 and len(ours) == 1, err
    assert said in ours[0]
    assert "verdict" not in out
    assert (tmp_path / "run" / "status").read_text().strip() == "2"


@pytest.mark.parametrize(
    ("complete", "severity", "measured", "fail_on", "status"),
    [
        (True, None, True, "none", 0),
        (False, None, True, "none", 1),
        (False, None, True, "degraded", 1),
        (True, "broken", True, "none", 0),
        (False, "broken", True, "none", 1),
        (True, "broken", True, "degraded", 1),
        (False, None, False, "none", 2),
    ],
)
def test_half_of_a_job_is_no_job_done_by_the_folders_word_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    complete: bool, severity: Severity | None, measured: bool, fail_on: str, status: int,
) -> None:  # fmt: skip
    """What a launcher hides of an exit status, run.sh and `lab run` take from the folder."""
    point = Point(
        size_bytes=1, time_s=1, low_s=1, high_s=1, iterations=3, sessions=1, algbw_gbs=1,
        busbw_gbs=1,
    )  # fmt: skip
    points = (point,) if measured else ()
    judged = Report(
        run="r", verdict="inconclusive", complete=complete,
        lines=(CostLine(candidate="data", collective="all_reduce", ranks=2, points=points),),
        findings=(Finding(code="host-slow", severity=severity, summary="x"),) if severity else (),
    )  # fmt: skip
    monkeypatch.setattr(sweep, "_conduct", lambda *_: judged)
    options = parse(["--out", str(tmp_path / "run"), "--fail-on", fail_on])
    stage = SimpleNamespace(complete=complete)
    code = sweep._lead(options, PlanSettings(name="quick"), None, stage, io.StringIO())  # type: ignore[arg-type]
    assert code == status
    assert (tmp_path / "run" / "status").read_text() == f"{status}\n"


def test_a_foreign_name_in_a_sentence_cannot_act_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sweep.main(["--plan", "\x1b]0;owned\a.toml"]) == 2
    said = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07.toml" in said and said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
