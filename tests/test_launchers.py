"""The sweep without torchrun: plain processes with the variables that srun or mpirun would set."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.lab.launch import clean_environment

ROOT = Path(__file__).parents[1]
SHORT = ("--sessions", "1", "--minbytes", "4K", "--maxbytes", "64K", "--collective", "all_reduce",
         "--locate", "never")  # fmt: skip


def srun(rank: int, ranks: int) -> dict[str, str]:
    """As for a step of two nodes whose ranks are dealt round them; both are this host."""
    return {
        "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank // 2), "SLURM_NODEID": str(rank % 2),
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": str(ranks), "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NODELIST": "localhost,node[2-3]",
    }  # fmt: skip


def mpirun(rank: int, ranks: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(ranks),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks),
        "PMIX_RANK": str(rank), "PMIX_NAMESPACE": f"prterun-here-{os.getpid()}@1",
    }  # fmt: skip


def by_hand(rank: int, ranks: int) -> dict[str, str]:
    """What a PyTorchJob sets in a pod that starts no torchrun."""
    port = str(16000 + os.getpid() % 8000)
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port}  # fmt: skip


Variables = Callable[[int, int], dict[str, str]]


def start(
    ranks: int, variables: Variables, *options: str, only: range | None = None
) -> list[subprocess.Popen[str]]:
    return [
        subprocess.Popen(
            [sys.executable, str(ROOT / "bench/sweep.py"), *options],
            env=clean_environment(os.environ) | variables(rank, ranks),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in only or range(ranks)
    ]  # fmt: skip


def ends(processes: list[subprocess.Popen[str]]) -> tuple[list[int], list[str], list[str]]:
    try:
        words = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [p.returncode for p in processes], [out for out, _ in words], [err for _, err in words]


@pytest.mark.parametrize("variables", [srun, mpirun, by_hand])
def test_ranks_find_each_other_and_rank_0_speaks_and_leaves_last(
    tmp_path: Path, variables: Variables
) -> None:
    codes, out, err = ends(start(3, variables, "--out", str(tmp_path / "run"), *SHORT))
    assert codes == [0, 0, 0], err
    assert "verdict: " in out[0] and out[1:] == ["", ""]
    assert not any("store" in text for text in err), err
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["complete"] and report["plan"]["ranks"] == 3
    (host,) = report["hosts"]
    assert host["ranks"] == [0, 1, 2]
    assert (tmp_path / "run" / "status").read_text() == "0\n"


def test_the_exit_status_is_the_sweeps_own(tmp_path: Path) -> None:
    """torchrun would make 1 of a 2, and a page of either."""
    more = ("--out", str(tmp_path / "run"), "--plan", str(tmp_path / "no.toml"))
    codes, out, err = ends(start(2, mpirun, *more, *SHORT))
    assert codes == [2, 2] and out == ["", ""]
    assert err[0].startswith("fabric-bench: ") and err[0].count("\n") == 1 and err[1] == ""


def test_told_to_stop_all_ranks_leave_and_the_report_says_so(tmp_path: Path) -> None:
    """scancel, or mpirun that is told to end: SIGTERM to every rank at once."""
    samples = tmp_path / "run" / "samples.jsonl"
    many = ("--sessions", "40", "--budget", "600")
    processes = start(2, srun, "--out", str(tmp_path / "run"), *SHORT, *many)
    end = time.monotonic() + 60
    while not (samples.exists() and samples.read_bytes().count(b"\n") >= 2):
        assert time.monotonic() < end, ends(processes)
        time.sleep(0.1)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    codes, _, err = ends(processes)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert not report["complete"] and any("SIGTERM" in line for line in report["missing"])
    assert "Traceback" not in "".join(err) and set(codes) <= {0, 1}


def test_a_rank_whose_variables_contradict_each_other_says_so_at_once() -> None:
    begun = time.monotonic()

    def exported(rank: int, ranks: int) -> dict[str, str]:
        return srun(rank, ranks) | {"RANK": "0"}

    codes, _, err = ends(start(3, exported, *SHORT, only=range(1, 2)))
    assert codes == [2] and "RANK=0 and SLURM_PROCID=1 (of 3) contradict each other" in err[0]
    assert err[0].count("\n") == 1
    assert time.monotonic() - begun < 30
