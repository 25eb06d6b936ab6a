"""`lab run`: build a lab, sweep it with the real torchrun on every host, take it down.

In: a lab file and options for the sweep. Out: the sweep's own exit status, its run folder, and
nothing else: whatever ends this process, Ctrl-C or kill -9, ends the lab too. `up`, `execute` and
`down` (a lab to play with) and `not_permitted` are passed on from `standing` and `permission`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import bench
from bench.formats import shipped, toml_file
from bench.lab import absence, checks, launch, running
from bench.lab.console import Console
from bench.lab.description import Lab
from bench.lab.job import Job, Told, signals
from bench.lab.launch import Torchrun
from bench.lab.permission import not_permitted
from bench.lab.running import RunningLab
from bench.lab.standing import down, execute, up
from bench.lab.victim import Victim
from bench.plan import options as command_line
from bench.plan.options import Options
from bench.records import SEVERITIES, BadInput, Fabric, PlanSettings
from bench.report import tables
from bench.report.journal import Journal
from bench.report.stored import REPORT_NAME
from bench.report.text import show

__all__ = ["down", "execute", "not_permitted", "run", "up"]

SWEEP = Path(bench.__file__).resolve().parent / "sweep.py"
COULD_NOT = 2
# torchrun's start, the report and the page come on top of the budget, on a slow machine too.
GRACE_S, GRACE_FACTOR = 120.0, 2.0


def run(
    file: Path,
    *,
    out: str | Path | None = None,
    options: Sequence[str] = (),
    stdout: TextIO | None = None,
    script: Path = SWEEP,
) -> int:
    """Sweep the lab in `file`; the exit status that the sweep left, which is not 0 where it was
    cut short. Where it left none: 130 after Ctrl-C, 143 after SIGTERM, else BadInput.

    `out` is the run's folder (default reports/<UTC>), `options` go to the sweep. BadInput where a
    file, an option or this machine does not allow it. `script` stands in for the sweep in tests.
    """
    asked = command_line.parse(options)
    if asked.help is not None:
        print(asked.help, end="", file=stdout or sys.stdout)
        return 0
    lab = checks.load(file)
    fabric_file = _fabric_file(lab, file, asked)
    fabric = toml_file.load(fabric_file, Fabric) if fabric_file else None
    plan = toml_file.load(shipped.find("plans", asked.plan), PlanSettings)
    budget_s = asked.settings(plan).budget_s
    folder = _folder(out, asked)
    given = [*options, "--out", str(folder)]
    if fabric_file is not None and asked.fabric is None:
        given += ["--fabric", str(fabric_file)]
    with signals() as told, ExitStack() as cleanup:
        ground = cleanup.enter_context(
            running.open_lab(lab, needed=[folder, script, file.resolve()])
        )
        console = Console(folder / "logs" / "host1.log", stdout, (folder / "status").exists)
        cleanup.callback(console.close)
        cleanup.callback(ground.close)  # first: the console ends when its writers have
        torchruns = _start(ground, folder, script, given, console, cleanup)
        console.started()
        job = Job(ground, torchruns, told, GRACE_S + GRACE_FACTOR * budget_s)
        named = job.wait()
        waited_s = job.waited_s
        seen = absence.attendance(torchruns, lab.ranks_per_host)
    if named is not None:
        meeting = f"{launch.master_address(ground)}:{launch.MASTER_PORT}"
        report = absence.report(
            seen, named, run=folder.name, meeting=meeting, waited_s=waited_s,
            fabric=fabric, labels=asked.labels,
        )  # fmt: skip
        with Journal(folder) as journal:
            journal.write(report)
            code = _failed(report.findings[0].severity, asked.fail_on)
            journal.status(code)
        show(tables.screen(report, folder=folder), stdout or sys.stdout)
        return code
    return _status(folder, torchruns[0], job, told)


def _fabric_file(lab: Lab, file: Path, asked: Options) -> Path | None:
    """The expectation: the option's file, else the lab's, which is relative to the lab file."""
    if asked.fabric is not None:
        return shipped.find("fabrics", asked.fabric).resolve()
    if lab.fabric is None:
        return None
    path = (file.parent / lab.fabric).resolve()
    if not path.is_file():
        raise BadInput(f'fabric "{lab.fabric}": no such file {path}', file=str(file))
    return path


def _folder(out: str | Path | None, asked: Options) -> Path:
    """The run's folder, made, without traces of a run that died in it."""
    if asked.out is not None and out is not None:
        raise BadInput("--out is given twice, before and after --")
    chosen = out or asked.out
    name = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    folder = Path(chosen) if chosen else Path("reports") / name
    folder = folder.absolute()
    if (folder / REPORT_NAME).exists():
        raise BadInput("holds a finished run; choose another folder with --out", file=str(folder))
    try:
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "status").unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"no run can be kept here: {error.strerror}", file=str(folder)) from None
    return folder


def _start(
    ground: RunningLab,
    folder: Path,
    script: Path,
    options: Sequence[str],
    console: Console,
    cleanup: ExitStack,
) -> list[Torchrun]:
    """torchrun on every host, and a watcher for every rank that is to be killed or stopped."""
    torchruns = []
    for host in ground.hosts:
        if host.host == 1:
            streams = (console.stdout, console.stderr)
        else:
            log = cleanup.enter_context((folder / "logs" / f"host{host.host}.log").open("wb"))
            streams = (log.fileno(), log.fileno())
        torchruns.append(
            launch.start(ground, host, script, options, stdout=streams[0], stderr=streams[1])
        )
    for fault in ground.lab.faults("kill", "stop"):
        assert fault.rank is not None, "checked when it was read"
        process = torchruns[fault.rank // ground.lab.ranks_per_host].process
        if process is not None:
            victim = Victim(fault, process.pid)
            cleanup.callback(victim.end)
            victim.start()
    return torchruns


def _failed(severity: str, fail_on: str) -> int:
    """1 when a finding is as severe as --fail-on asks, else 0."""
    ranks = {name: rank for rank, name in enumerate((*SEVERITIES, "none"))}
    return int(ranks[severity] >= ranks[fail_on])


def _status(folder: Path, first: Torchrun, job: Job, told: Told) -> int:
    """What the sweep left in its folder; one sentence where it left nothing."""
    try:
        return int((folder / "status").read_text())
    except (OSError, ValueError):
        pass
    if told.numbers:
        return 128 + told.numbers[0]
    logs = folder / "logs"
    if job.overdue:
        raise BadInput(f"the sweep did not end in {job.waited_s:.0f} s; its output is in {logs}")
    ended = first.ended()
    if ended == 0:
        return 0
    raise BadInput(f"the sweep left no status (torchrun: {ended}); its output is in {logs}")
