"""`nightly`: sweep, hold tonight against baseline and past, export; the exit status says it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import COULD_NOT, DONE, FOUND, WIDTH, print_json, severity
from bench.records import SEVERITIES, BadInput

if TYPE_CHECKING:
    from bench.commands.sweeping import Sweeper
    from bench.records import Nightly

HISTORY = Path("reports/history")
SECOND_SESSIONS = 3  # of a second look: its value is their median, as the night's is


def nightly(
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[-- SWEEP OPTIONS]", show_default=False)
    ] = None,
    lab: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Sweep a virtual cluster: a lab file, or a shipped one by name."
        ),
    ] = "",
    plan: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="What to sweep, how long.")
    ] = "nightly",
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="The folder of all nights (default: reports/history; with --judge RUN's own).",
        ),
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Start nothing: judge this run, which a scheduler's job has made."
        ),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option(metavar="RUN2", help="With --judge: a second look of the same night."),
    ] = None,
    fabric: Annotated[
        str, typer.Option(metavar="F", help="What you expect: passed on to the sweep.")
    ] = "",
    ranks: Annotated[
        int, typer.Option(metavar="N", help="Ranks on this host (default: one per GPU, or 2).")
    ] = 0,
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="Exit 1 on a finding at least this severe.")
    ] = "degraded",
    as_json: Annotated[bool, typer.Option("--json", help="The night as JSON on stdout.")] = False,
) -> int:
    """Sweep, and hold tonight against the nights before.

    On this host or on a virtual cluster it starts the sweep itself. On a real one the scheduler's
    job runs bench/sweep.py --plan nightly --out reports/history/NAME on all hosts, and one of them
    then runs nightly --judge reports/history/NAME. Exit 1 on a finding, 2 where nothing was
    measured.
    """
    from bench.report.history import archive as histories

    worst_allowed = severity(fail_on)
    if judge is None:
        if again is not None:
            raise BadInput("--again goes with --judge; otherwise a second look starts by itself")
        place = history or HISTORY
        with histories.held(place):
            # The sweep has printed its own screen.
            told = _tonight(place, lab, ranks, _options(plan, fabric, options or ()), as_json)
    else:
        if lab or options or ranks or fabric:
            raise BadInput("--judge starts no sweep: it takes no lab, no ranks, no sweep options")
        run = _run_in(judge, history)
        with histories.held(run.parent):
            told = _judged(run.parent, run.name, again)
        place = run.parent
    return _answer(told, place, worst_allowed, as_json=as_json, apart=judge is None)


def _options(plan: str, fabric: str, more: Sequence[str]) -> list[str]:
    options = ["--plan", plan, *more]
    if fabric:
        options = ["--fabric", fabric, *options]
    return options


def _run_in(run: Path, history: Path | None) -> Path:
    """The run's folder, which must lie in the history: that is what makes it a night of it."""
    folder = run.parent if run.name == "report.json" and run.is_file() else run
    if not folder.is_dir():
        raise BadInput("no such folder; --judge takes the folder of a run", file=str(run))
    folder = folder.resolve()
    if history is not None and folder.parent != history.resolve():
        raise BadInput(
            f"does not lie in the history {history}; give the sweep --out {history}/NAME",
            file=str(run),
        )
    return folder


def _tonight(place: Path, lab: str, ranks: int, options: Sequence[str], as_json: bool) -> Nightly:
    """Sweep into a new folder of the history and judge it, with a second look where needed."""
    from bench.commands import night, sweeping

    sweeping.checked(options)
    sweeper: Sweeper = sweeping.sweeper(lab, ranks)
    name = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    out = place.absolute() / name
    status = sweeper.sweep(out, options, aside=as_json)
    if not (out / "report.json").is_file():
        if status > COULD_NOT:
            raise KeyboardInterrupt  # a signal ended it; what was measured is in the folder
        raise BadInput(f"the sweep left no report (exit status {status})", file=str(out))
    told = night.judged(place, name, shown=str(place))

    def look(folder: Path, more: Sequence[str]) -> int:
        wanted = [*options, "--sessions", str(SECOND_SESSIONS), *more]
        return sweeper.sweep(folder.absolute(), wanted, aside=True)

    found = night.second_look(told, look, place)
    if found is not None:
        told = night.judged(place, name, shown=str(place), again=found)
    return _exported(told, place)


def _judged(place: Path, run: str, again: Path | None) -> Nightly:
    from bench.commands import night

    shown = _as_typed(place)
    return _exported(night.judged(place, run, shown=shown, again=again), place)


def _as_typed(place: Path) -> str:
    """The folder as a user in the working directory would write it."""
    here = Path.cwd()
    return str(place.relative_to(here)) if place.is_relative_to(here) else str(place)


def _exported(told: Nightly, place: Path) -> Nightly:
    from bench.commands import night

    for sentence in night.export(told, place):
        print(f"fabric-bench: {sentence}", file=sys.stderr)
    return told


def _answer(told: Nightly, place: Path, worst_allowed: int, *, as_json: bool, apart: bool) -> int:
    """Print the night, `apart` from what a sweep has printed; the exit status."""
    from bench.report import stored
    from bench.report.history import nightly_screen
    from bench.report.text import encodable

    report = stored.read_report(place / told.run)
    findings = (*report.findings, *told.findings)
    worst = max((SEVERITIES.index(f.severity) for f in findings), default=-1)
    measured = any(line.points for line in report.lines)
    status = (
        FOUND if worst >= worst_allowed else DONE if measured or report.findings else COULD_NOT
    )
    if not report.complete:  # as the sweep has it: half of a job is no job done
        status = max(status, FOUND)
    if as_json:
        print_json(told)
        return status
    encoding = sys.stdout.encoding
    if apart:
        typer.echo("")
    text = nightly_screen.screen(
        told,
        status=status,
        folder=Path(told.history) / told.run,
        width=WIDTH,
        colour=sys.stdout.isatty(),
        plain=encodable("▁", encoding) != "▁",
    )
    typer.echo(encodable(text, encoding))
    return status
