"""`baseline set RUN`, `baseline show`: the run that nights are held against, and why."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.commands.answer import DONE, SETTINGS, WIDTH, print_json

app = typer.Typer(
    help="The run that nights are held against.",
    rich_markup_mode=None,
    context_settings=SETTINGS,
)

HISTORY = Path("reports/history")


@app.command("set")
def baseline_set(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why this run: kept, and shown every night.")
    ],
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help="The history (default: the folder RUN lies in).",
        ),
    ] = None,
    accept_findings: Annotated[
        bool, typer.Option("--accept-findings", help="Although something was wrong in this run.")
    ] = False,
) -> int:
    """Make RUN the baseline of its shape (backend, hosts, ranks, GPUs)."""
    import msgspec

    from bench.records import BadInput
    from bench.report import stored
    from bench.report.history import baselines
    from bench.report.history.archive import held
    from bench.report.text import printable, show

    if not run.exists():
        raise BadInput("no such run", file=str(run))
    folder = run.resolve().parent if run.is_file() else run.resolve()
    # By the folder's name, as the history knows it: a run may have been copied or renamed.
    report = msgspec.structs.replace(stored.read_report(folder), run=folder.name)
    place = history or folder.parent
    if not place.is_dir():
        raise BadInput("no such folder", file=str(place))
    with held(place):
        made = baselines.set_baseline(place, report, reason, accept_findings=accept_findings)
    show(f"baseline of {printable(made.shape)}: {printable(made.run)}", sys.stdout)
    return DONE


@app.command("show")
def baseline_show(
    history: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The history's folder.")
    ] = HISTORY,
    as_json: Annotated[
        bool, typer.Option("--json", help="With the former ones, as JSON.")
    ] = False,
) -> int:
    """Say which run is the baseline, how old it is, and why it was chosen."""
    from bench.records import BadInput
    from bench.report.history import baselines, sparks
    from bench.report.text import printable, show, wrapped

    if not history.is_dir():
        raise BadInput("no such folder", file=str(history))
    found = baselines.load(history)
    if as_json:
        print_json(found)
        return DONE
    if not found.current:
        typer.echo("nobody has set a baseline: nights are held against the first good one")
    for one in found.current:
        age = sparks.age(max(time.time() - one.set_at, 0.0))
        lines = wrapped(f"{printable(one.run)} · {printable(one.shape)}", hang=0, width=WIDTH)
        day = time.strftime("%Y-%m-%d", time.gmtime(one.set_at))
        lines += wrapped(f"set on {day}, {age}: {one.reason}", hang=2, width=WIDTH)
        show("\n".join(lines), sys.stdout)
    for one in found.former[-5:]:
        day = time.strftime("%Y-%m-%d", time.gmtime(one.set_at))
        text = f"before, from {day} on: {one.run}: {one.reason}"
        show("\n".join(wrapped(text, hang=2, width=WIDTH)), sys.stdout)
    return DONE
