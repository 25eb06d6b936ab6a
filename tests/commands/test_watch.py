"""`watch` around real jobs: torchrun and gloo that die or hang, and launchers that are killed.

A job is small and its ranks are few, but nothing of it is made up: torchrun starts it, gloo hangs
it, signals kill it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bench.hang.watch import proc
from bench.records import WatchedJob

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")
DEATH_S = 10.0  # from the job's death to the diagnosis, promised

TRAIN = """
import datetime, os, signal, sys, time
import torch
import torch.distributed as dist

fault, timeout_s = sys.argv[1], float(sys.argv[2])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))
rank, odd = dist.get_rank(), dist.get_world_size() - 1
x = torch.ones(64)
steps = 12 if fault == "uneven" and rank == odd else 15
for step in range(steps):
    if rank == odd and step == 10:
        if fault == "raise":
            raise ValueError("bad sample 17")
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fault == "order":
            dist.broadcast(x, 0)
    time.sleep(0.02)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    print(f"step {step}", flush=True)
"""


class Watched:
    """`python -m bench watch` in a process of its own."""

    def __init__(self, folder: Path, command: list[str], *options: str, **more: str) -> None:
        self.run = folder / "run"
        self._err = folder / "err.txt"
        self._out = folder / "out.txt"
        argv = [sys.executable, "-m", "bench", "watch", "--out", str(self.run), *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*argv, "--", *command], stdout=out, stderr=err, cwd=ROOT, env=environment
            )

    @property
    def out(self) -> str:
        return self._out.read_bytes().decode()

    @property
    def err(self) -> str:
        return self._err.read_bytes().decode()  # with its carriage returns

    def wait_for(self, told: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not told():
            assert time.monotonic() < end, f"no {what}: {self.err[-2000:]}"
            time.sleep(0.05)

    def end(self) -> int:
        return self.process.wait(timeout=90)

    def record(self) -> WatchedJob:
        return msgspec.json.decode((self.run / "watch.json").read_bytes(), type=WatchedJob)

    def ranks(self) -> list[int]:
        """Processes of the job, found by their environment, whoever their parent is."""
        own = str(self.run / ".live")
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [pid for pid in pids if proc.variables(pid).get("FABRIC_BENCH_WATCH_DIR") == own]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def start(command: list[str], *options: str, **more: str) -> Watched:
        made.append(Watched(tmp_path, command, *options, **more))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.wait()
        left = each.ranks()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, "the job left processes behind"


def torchrun(tmp_path: Path, fault: str, timeout_s: float, ranks: int) -> list[str]:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    own = ["--nproc-per-node", str(ranks), "--shutdown-timeout", "2"]
    return [*TORCHRUN, *own, str(script), fault, str(timeout_s)]


@pytest.mark.parametrize(
    ("fault", "ranks", "phase", "cause"),
    [
        ("raise", 2, "mid-run", "Rank 1 raised ValueError: bad sample 17."),
        ("kill", 2, "mid-run", "Rank 1 was killed (SIGKILL)."),
        ("uneven", 2, "the end", "Rank 1 never joined all_reduce #25 of default_pg"),
        ("order", 3, "mid-run", "Rank 2 disagrees at #21 of default_pg"),
    ],
)
def test_a_job_that_died_is_explained_with_rank_phase_and_cause(
    tmp_path: Path, started: Callable[..., Watched], fault: str, ranks: int, phase: str, cause: str
) -> None:
    began = time.monotonic()
    watched = started(torchrun(tmp_path, fault, 4, ranks))
    assert watched.end() == 1  # torchrun's own status
    took = time.monotonic() - began
    told = watched.err
    ended = re.search(r"^watch   exit 1 after (\d+) s", told, re.MULTILINE)
    assert ended, told
    assert took - float(ended[1]) < DEATH_S
    page = " ".join(told[ended.start() :].split())
    assert cause in page, told
    assert re.search(rf"phase +{phase}", page), told
    assert f"verdict: broken · rank {ranks - 1}" in page
    assert "step 9" in watched.out
    assert ("rank 1 came to its own end" in page) == (fault == "uneven")


def test_a_stopped_rank_is_told_while_the_job_hangs(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    watched = started(torchrun(tmp_path, "stop", 600, ranks=2), "--stall", "2", "--every", "1")
    watched.wait_for(lambda: "verdict: broken" in watched.err, "diagnosis of the hang")
    told = watched.err
    assert "Rank 1 is stopped by a signal; rank 0 waits in all_reduce #21 of default_pg." in (
        " ".join(told.split())
    )
    assert "rank 0 in all_reduce #21 of default_pg ([64] float) for" in told
    assert "phase    mid-run" in told
    watched.process.send_signal(signal.SIGTERM)
    assert watched.end() == 1


# A launcher and two ranks in the plainest form: what is tested of them needs no torch.
LAUNCHER = """
import os, subprocess, sys, time
ranks = [
    subprocess.Popen([sys.executable, sys.argv[1], *sys.argv[2:]],
                     env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
                     start_new_session=True)
    for rank in range(2)
]
try:
    status = max(abs(rank.wait()) for rank in ranks)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    for rank in ranks:
        rank.terminate()
        rank.wait()
    status = 7
sys.exit(status)
"""


def plain(tmp_path: Path, rank: str) -> list[str]:
    (tmp_path / "launch.py").write_text(textwrap.dedent(LAUNCHER))
    (tmp_path / "rank.py").write_text(textwrap.dedent(rank))
    return [sys.executable, str(tmp_path / "launch.py"), str(tmp_path / "rank.py")]


HANGS = "import os, time\nos.write(1, b'up ')\ntime.sleep(120)\n"


def both_up(watched: Watched) -> None:
    watched.wait_for(lambda: watched.out.count("up ") == 2, "two ranks")
    watched.wait_for(lambda: len(watched.ranks()) >= 3, "three processes")


def test_output_status_variables_and_the_users_own_sitecustomize_pass_through(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'kept'\n")
    rank = """
        import os, subprocess, sys, threading
        level, threads = os.environ["NCCL_DEBUG"], threading.active_count()
        words = "rank", os.environ["RANK"], mine, level, threads
        os.write(1, (" ".join(map(str, words)) + "\\n").encode())
        os.write(2, b"err\\x1b[1m\\rbar")
        # a child of a rank has its variables and is none
        subprocess.run([sys.executable, "-c", "import os; os.write(1, (mine + '\\\\n').encode())"])
        sys.exit(5)
    """
    watched = started(
        plain(tmp_path, rank), "--label", "model=abc", PYTHONPATH=str(own), NCCL_DEBUG="WARN"
    )
    assert watched.end() == 5
    assert sorted(watched.out.split("\n")) == ["", "kept", "kept", *(
        f"rank {number} kept WARN 1" for number in (0, 1)
    )]  # fmt: skip
    assert watched.err.count("err\x1b[1m\rbar") == 2
    record = watched.record()
    assert record.labels == {"model": "abc"} and record.status == 5
    assert len(record.processes) == 2 and "NCCL_DEBUG" not in record.added


def test_ctrl_c_reaches_the_job_and_its_own_answer_comes_back(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    watched = started(plain(tmp_path, HANGS))
    both_up(watched)
    watched.process.send_signal(signal.SIGINT)
    assert watched.end() == 7
    assert watched.out.endswith("interrupted\n")
    assert "ended by SIGINT" in watched.err
    assert watched.ranks() == []


def test_a_job_that_never_gets_to_a_collective_is_told_with_its_stacks(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    watched = started(plain(tmp_path, HANGS), "--stall", "2")
    watched.wait_for(lambda: "verdict" in watched.err, "page", 20.0)
    told = " ".join(watched.err.split())
    assert "no rank has called a collective in" in told
    assert "ranks 0, 1 stood at rank.py:3 <module>" in told
    assert "verdict: inconclusive" in told
    watched.process.send_signal(signal.SIGINT)
    assert watched.end() == 7


def test_a_launcher_that_starts_no_rank_is_told(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    watched = started(["sleep", "60"], "--stall", "1")
    watched.wait_for(lambda: "no rank has started after" in watched.err, "sentence", 20.0)
    watched.process.send_signal(signal.SIGTERM)
    assert watched.end() == 128 + signal.SIGTERM


def test_torchrun_with_a_tasks_number_is_no_rank_that_has_started(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    (tmp_path / "torchrun").write_text("import time\ntime.sleep(60)\n")
    command = [sys.executable, str(tmp_path / "torchrun"), "train.py"]
    watched = started(command, "--stall", "1", SLURM_PROCID="1", SLURM_STEP_ID="0")
    watched.wait_for(lambda: "no rank has started after" in watched.err, "sentence", 20.0)
    watched.process.send_signal(signal.SIGTERM)
    assert watched.end() == 128 + signal.SIGTERM
    assert watched.record().processes == ()


def test_ranks_whose_launcher_was_killed_are_ended_and_named(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    watched = started(plain(tmp_path, HANGS))
    both_up(watched)
    launcher = next(p for p in watched.ranks() if "RANK" not in proc.variables(p))
    os.kill(launcher, signal.SIGKILL)
    assert watched.end() == 128 + signal.SIGKILL
    assert "left ranks 0, 1 behind" in watched.err
    assert "rank.py:3 <module>" in watched.err  # their stacks were taken before
    assert watched.ranks() == []


def test_a_job_ends_with_its_watch_however_that_ends(
    tmp_path: Path, started: Callable[..., Watched]
) -> None:
    watched = started(plain(tmp_path, HANGS))
    both_up(watched)
    watched.process.kill()
    watched.process.wait()
    watched.wait_for(lambda: not watched.ranks(), "end of the job", 15.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "takes a command to run"),
        (("--stall", "0", "--", "true"), "--stall is above 0"),
        (("--label", "x", "--", "true"), "--label takes KEY=VALUE"),
        (("--", "/no/such/program"), "/no/such/program: cannot be started: No such file"),
    ],
)
def test_bad_usage_is_one_sentence(
    tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    argv = [sys.executable, "-m", "bench", "watch", "--out", str(tmp_path / "run"), *options]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr
