"""Ranks killed, stopped, gone in every phase of a real sweep on three hosts of a lab.

What was injected is known, so the report must name it: the phase, the rank, and nobody else. What
was measured is kept, every wait ends, and nothing is left running.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[1]
LAB = """
hosts = 3

[[network]]
name = "data"
interface = "data0"
rate_mbit = 400
"""
FAULT = """
[[fault]]
kind = "{kind}"
rank = 1
phase = "{phase}"
"""
SHORT = ("--maxbytes", "64K", "--collective", "all_reduce", "--locate", "never")
SWEEP = ("--sessions", "1", *SHORT)
LONG = ("--sessions", "9", "--budget", "300", *SHORT)
CODES = {
    "rendezvous": "hang-rendezvous",
    "init": "hang-init",
    "first": "hang-first-collective",
    "midrun": "hang-midrun",
}


def lab_run(folder: Path, text: str, *options: str) -> subprocess.Popen[str]:
    file = folder / "lab.toml"
    file.write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "bench", "lab", "run", str(file), "--out", str(folder / "run"),
         "--", *(options or SWEEP)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], folder: Path) -> dict:
    output, _ = process.communicate(timeout=150)
    assert (folder / "run" / "report.json").exists(), output
    return json.loads((folder / "run" / "report.json").read_text())


def serious(report: dict) -> list[dict]:
    return [f for f in report["findings"] if f["severity"] in ("degraded", "broken")]


def left_over(folder: Path) -> list[str]:
    """Command lines that still name the run's folder."""
    return [
        " ".join(process.info["cmdline"] or [])
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
        and process.pid != os.getpid()
    ]


@pytest.mark.lab
@pytest.mark.parametrize("phase", list(CODES))
@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_a_worker_killed_or_stopped_is_named_with_its_phase(
    kind: str, phase: str, tmp_path: Path
) -> None:
    report = finish(lab_run(tmp_path, LAB + FAULT.format(kind=kind, phase=phase)), tmp_path)
    found = serious(report)
    assert [f["code"] for f in found] == [CODES[phase]], found
    assert found[0]["where"].get("rank") == 1, found[0]
    assert found[0]["where"].get("host") == "host2"
    assert report["verdict"] == "broken"
    hurt = [s for s in report["sessions"] if s["outcome"] != "measured"]
    assert len(hurt) == 1, [s["reason"] for s in hurt]
    assert hurt[0]["duration_s"] < 12
    assert any(s["outcome"] == "measured" for s in report["sessions"]), "the sweep goes on"
    assert left_over(tmp_path) == []


@pytest.mark.lab
@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_an_agent_that_is_gone_ends_the_sweep_with_what_was_measured(
    kind: str, tmp_path: Path
) -> None:
    process = lab_run(tmp_path, LAB, *LONG)
    agent = wait_for_agent(tmp_path, rank=2, sessions=2)
    os.kill(agent, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
    report = finish(process, tmp_path)
    assert report["complete"] is False
    assert any("rank 2" in sentence for sentence in report["missing"]), report["missing"]
    assert report["lines"], "what was measured is kept"
    found = serious(report)
    assert len(found) == 1 and found[0]["code"].startswith("hang-"), found
    assert found[0]["where"].get("rank") == 2 and found[0]["where"].get("host") == "host3"
    assert left_over(tmp_path) == []


def wait_for_agent(folder: Path, *, rank: int, sessions: int) -> int:
    """The pid of a rank's agent in this lab, once that many sessions have been kept."""
    samples = folder / "run" / "samples.jsonl"
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if samples.exists() and samples.read_bytes().count(b"\n") > sessions:
            for process in psutil.process_iter(["name", "cmdline"]):
                named = process.info["name"] == f"b{rank}:agent"
                if named and any(str(folder) in w for w in process.info["cmdline"] or []):
                    return process.pid
        time.sleep(0.05)
    raise AssertionError("the sweep did not get that far in 90 s")


@pytest.mark.lab
def test_a_host_that_vanishes_with_its_network_ends_the_sweep_and_is_named(
    tmp_path: Path,
) -> None:
    process = lab_run(tmp_path, LAB, *LONG)
    agent = wait_for_agent(tmp_path, rank=2, sessions=2)
    os.kill(first_process_beside(agent), signal.SIGKILL)  # the kernel ends the whole host
    report = finish(process, tmp_path)
    assert report["complete"] is False and report["lines"]
    found = serious(report)
    assert len(found) == 1 and found[0]["code"].startswith("hang-"), found
    assert found[0]["where"].get("host") == "host3"
    assert left_over(tmp_path) == []


def first_process_beside(pid: int) -> int:
    """The process that is number 1 in the PID namespace of `pid`."""
    namespace = Path(f"/proc/{pid}/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            inside = (entry / "status").read_text().split("NSpid:")[1].split("\n")[0].split()
            if (
                inside[-1] == "1"
                and len(inside) > 1
                and (entry / "ns" / "pid").readlink() == namespace
            ):
                return int(entry.name)
        except (OSError, IndexError):
            continue
    raise AssertionError(f"no first process in the namespace of {pid}")


@pytest.mark.lab
@pytest.mark.parametrize(
    "names",
    [["gpu", "gpu", "gpu"], ["a;reboot", "<b>host</b>", "héte"]],
    ids=["all alike", "odd characters"],
)
def test_host_names_alike_or_odd_are_told_apart_and_harmless(
    names: list[str], tmp_path: Path
) -> None:
    lab = LAB.replace("hosts = 3", f"hosts = 3\nhostnames = {json.dumps(names)}")
    report = finish(lab_run(tmp_path, lab, *SWEEP), tmp_path)
    labels = [host["host"] for host in report["hosts"]]
    assert len(set(labels)) == 3
    assert [host["hostname"] for host in report["hosts"]] == names
    assert report["verdict"] == "healthy", report["findings"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<b>host</b>" not in page


@pytest.mark.lab
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_lab_run_that_is_interrupted_reports_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    process = lab_run(tmp_path, LAB, *LONG)
    wait_for_agent(tmp_path, rank=0, sessions=1)
    process.send_signal(number)
    report = finish(process, tmp_path)
    assert report["complete"] is False and report["lines"]
    assert serious(report) == [], "being told to stop is nobody's fault"
    assert left_over(tmp_path) == []


@pytest.mark.lab
def test_a_node_that_is_drained_is_told_as_such_and_blamed_for_nothing(tmp_path: Path) -> None:
    process = lab_run(tmp_path, LAB, *LONG)
    agent = psutil.Process(wait_for_agent(tmp_path, rank=2, sessions=2))
    agent.parent().terminate()  # its torchrun, as a scheduler does
    report = finish(process, tmp_path)
    assert report["complete"] is False and report["lines"]
    assert any("rank 2 was told to stop" in s for s in report["missing"]), report["missing"]
    assert serious(report) == [], serious(report)
    assert left_over(tmp_path) == []
