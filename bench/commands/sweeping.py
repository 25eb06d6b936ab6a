"""The sweep as other commands start it: torchrun on this host, a virtual cluster, or this process
itself, where a launcher has started it as one of many.

In: the run's folder and options of the sweep. Out: its exit status, 2 where it left none. A signal
is handed on, so that the sweep writes what it has; whatever hangs has a deadline.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

import bench
from bench.commands.answer import COULD_NOT
from bench.formats import shipped, toml_file
from bench.lab.console import Console
from bench.lab.job import Told, signals
from bench.plan import options as command_line
from bench.records import BadInput, PlanSettings

SWEEP = Path(bench.__file__).resolve().parent / "sweep.py"
# torchrun's start, the report and the page come on top of the budget, on a slow machine too.
GRACE_S, GRACE_FACTOR = 120.0, 2.0
STOP_S = 20.0  # for the sweep to write what it has
POLL_S = 0.1
HERE_RANKS = 2  # over gloo: a host without GPUs has only its own loopback to measure


class Sweeper(Protocol):
    """Who starts a sweep. Words of the sweep go to stdout, or to stderr where `aside`."""

    def sweep(self, out: Path, options: Sequence[str], *, aside: bool) -> int: ...


@dataclass(frozen=True)
class LabSweeper:
    """A virtual cluster on this machine, built for each sweep and taken down again."""

    file: Path

    def sweep(self, out: Path, options: Sequence[str], *, aside: bool) -> int:
        from bench.lab import run

        stdout = sys.stderr if aside else sys.stdout
        return run.run(self.file, out=out, options=options, stdout=stdout)


@dataclass(frozen=True)
class HostSweeper:
    """torchrun on this host alone, with so many ranks."""

    ranks: int

    def sweep(self, out: Path, options: Sequence[str], *, aside: bool) -> int:
        limit_s = GRACE_S + GRACE_FACTOR * _budget_s(options)
        status = out / "status"
        try:
            (out / "torchrun").mkdir(parents=True, exist_ok=True)
            status.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"no run can be kept here: {error.strerror}", file=str(out)) from None
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", str(self.ranks), "--log-dir", str(out / "torchrun"),
            str(SWEEP), *options, "--out", str(out),
        ]  # fmt: skip
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        # Without the page that torchrun adds to every exit status but 0; all of it is in the log.
        console = Console(
            out / "torchrun" / "stderr.log", sys.stderr if aside else None, status.exists
        )
        with signals() as told, closing(console):
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console.stdout,
                stderr=console.stderr,
                start_new_session=True,  # Ctrl-C reaches it once, through us
            )
            console.started()
            _wait(process, told, limit_s)
        if told.numbers:
            return 128 + told.numbers[0]
        try:
            return int(status.read_text())  # torchrun turns every failure into 1
        except (OSError, ValueError):
            return COULD_NOT


def sweeper(lab: str, ranks: int) -> Sweeper:
    """Who sweeps: the lab that is named, else this host. BadInput for a lab that is not there."""
    if lab:
        if ranks:
            raise BadInput("--ranks is for this host; a lab's file says its ranks_per_host")
        return LabSweeper(shipped.find("labs", lab))
    return HostSweeper(ranks or _ranks_here())


def become(options: Sequence[str]) -> NoReturn:
    """This process is a rank of a launcher's: it goes on as the sweep, under the same number."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, str(SWEEP), *options])  # noqa: S606 - no shell


def checked(options: Sequence[str]) -> command_line.Options:
    """The sweep's options, refused here where they would be refused on every rank."""
    asked = command_line.parse(options)
    if asked.out is not None:
        raise BadInput("--out is the nightly job's to choose: a folder of --history DIR")
    plan = toml_file.load(shipped.find("plans", asked.plan), PlanSettings)
    asked.settings(plan)
    return asked


def _budget_s(options: Sequence[str]) -> float:
    asked = command_line.parse(options)
    plan = toml_file.load(shipped.find("plans", asked.plan), PlanSettings)
    return asked.settings(plan).budget_s


def _ranks_here() -> int:
    """A rank per GPU that this process may use; two over gloo where there are not two."""
    from bench.facts import gpus, placement

    found, _ = gpus.read()
    seen = placement.visible_gpus(found, os.environ.get("CUDA_VISIBLE_DEVICES"))
    count = len(found) if seen is None else len(seen)
    return count if count > 1 else HERE_RANKS


def _wait(process: subprocess.Popen[bytes], told: Told, limit_s: float) -> None:
    """Until it ends by itself, by a signal that is handed on, or by the deadline."""
    deadline = time.monotonic() + limit_s
    handed_on = 0
    while process.poll() is None:
        if len(told.numbers) > handed_on:
            handed_on = len(told.numbers)
            process.terminate()
            deadline = min(deadline, time.monotonic() + STOP_S)
        if time.monotonic() > deadline:
            print("fabric-bench: the sweep did not end; it is stopped", file=sys.stderr)
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # ranks are their own; they have deadlines
                process.wait()
            return
        time.sleep(POLL_S)
