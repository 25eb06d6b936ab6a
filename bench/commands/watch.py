"""`watch -- torchrun …`: a job with the recorder on, and a diagnosis if it dies or stalls."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands import run_folder
from bench.commands.answer import WIDTH
from bench.records import BadInput

if TYPE_CHECKING:
    from bench.records import WatchedJob

STALL_S = 300.0  # a checkpoint of hours of work takes minutes; torch's own time-outs 10 and 30
HOW = "takes a command to run: python -m bench watch -- torchrun …"
SAYS_NOTHING = "holds no line of a job's log"  # a rank that printed nothing of use
FOLDERS = ("flight", "nccl", ".live")


def watch(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", show_default=False)
    ] = None,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="The run's folder (default: a new one in reports/).")
    ] = "",
    stall: Annotated[
        float,
        typer.Option(metavar="S", help="Say so when ranks wait in a collective for this long."),
    ] = STALL_S,
    collective: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show only these while it runs, such as ALLREDUCE."),
    ] = None,
    every: Annotated[
        float,
        typer.Option(metavar="S", help="Without a terminal: a line this often, 0 for none."),
    ] = 60.0,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A note for the record, such as a model revision."),
    ] = None,
) -> int:
    """Run a job with the recorder on; diagnose its death or stall.

    The job runs unchanged: its output, the signals that you send and its exit status pass
    through, and what you set yourself stays. Dumps and stacks of its ranks are taken while they
    stand still, over NCCL and gloo alike.
    """
    from bench.commands import telling, watching
    from bench.hang.watch import recorder, torchrun
    from bench.hang.watch.started import Started
    from bench.hang.watch.switchboard import Switchboard
    from bench.report.diagnosis.watch_screen import WatchScreen

    argv = (command or [])[1:] if (command or [])[:1] == ["--"] else (command or [])
    if not argv:
        raise BadInput(f"watch {HOW}")
    if not stall > 0 or not every >= 0:
        raise BadInput("--stall is above 0 and --every at least 0 seconds")
    labels = _labels(label or ())
    folder = _folder(out)
    settings = recorder.settings(os.environ, folder, _torch())
    started_as = torchrun.command(argv, folder / "ranks", os.environ)
    job = _job(argv, labels, settings)
    with Switchboard() as board, WatchScreen(sys.stderr, collective or (), every) as screen:
        follow = watching.Watching(
            job,
            folder,
            board,
            watching.Screen(screen.out, screen.err, screen.say, screen.standing),
            watching.Settings(
                stall, started_as.logs, started_as.shown, pausable=started_as.is_torchrun
            ),
            _diagnosed,
        )
        environment = _environment(settings.added, board.address, folder)
        screen.say(f"recorder on; kept in {telling.shown(folder)}")
        for note in settings.kept:
            screen.say(note)
        started = Started(started_as.argv, environment, follow.signalled)
        try:
            return follow.run(started)
        finally:
            started.close()


def _torch() -> str:
    """Of this environment, which is the job's unless its command says otherwise."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _labels(told: list[str] | tuple[()]) -> dict[str, str]:
    labels = {}
    for text in told:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise BadInput(f"--label takes KEY=VALUE, got {text!r}")
        labels[key] = value
    return labels


def _folder(out: str) -> Path:
    folder = run_folder.made(out, "watch", FOLDERS).absolute()
    try:
        sentry = Path(__file__).resolve().parents[1] / "hang" / "watch" / "sentry.py"
        (folder / ".live" / "sitecustomize.py").write_bytes(sentry.read_bytes())
    except OSError as error:
        raise BadInput(f"no run can be kept here: {error.strerror}", file=str(folder)) from None
    return folder


def _environment(added: dict[str, str], address: str, folder: Path) -> dict[str, str]:
    from bench.hang.watch import sentry

    path = os.environ.get("PYTHONPATH", "")
    own = str(folder / ".live")
    return {
        **os.environ,
        **added,
        "PYTHONPATH": f"{own}{os.pathsep}{path}" if path else own,
        sentry.ADDRESS: address,
        sentry.FOLDER: own,
    }


def _job(argv: list[str], labels: dict[str, str], settings: object) -> WatchedJob:
    import platform

    from bench.hang.watch.recorder import Settings
    from bench.records import WatchedJob

    assert isinstance(settings, Settings)
    return WatchedJob(
        command=tuple(argv),
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=platform.node(),
        labels=labels,
        added=settings.added,
        notes=settings.kept,
    )


def _diagnosed(folder: Path) -> str:
    """The screen of `diagnose` for what is there; one sentence where nothing tells anything."""
    from bench.commands import diagnose, evidence
    from bench.formats import file_walk
    from bench.hang.selection import Selection
    from bench.report.diagnosis import screen as diagnosis_screen

    try:
        gathered = evidence.gather(file_walk.files([str(folder)]))
        gathered.files = [each for each in gathered.files if SAYS_NOTHING not in each.summary]
        diagnose._refuse_nothing(gathered, [str(folder)])
        diagnosis = diagnose._diagnosis(gathered, Selection())
    except BadInput as bad:
        return f"nothing to diagnose: {bad}"
    from bench.hang.watch.harvest import replace

    text = diagnosis_screen.screen(diagnosis, width=WIDTH, colour=sys.stderr.isatty())
    plain = diagnosis_screen.screen(diagnosis, width=WIDTH)
    try:
        replace(folder / "diagnosis.md", f"```text\n{plain}\n```\n".encode())
    except OSError as error:
        return f"{text}\n\nnot kept: {error.strerror}"
    return text
