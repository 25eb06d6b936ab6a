"""`expect`: a fabric file, from this machine's own claims or learned from good runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.commands.answer import DONE
from bench.records import BadInput

CLAIMED = (
    "What machines claim of themselves: nothing here was measured. Read it, mend the roles, and "
    "delete what you do not expect: what is not there is not judged. "
    "Gates come from good runs: fabric-bench expect RUN … --learn"
)
LEARNED = (
    "Learned from good runs. A tolerance is set so that one good run in a thousand falls below "
    "it, per figure, where the noise of runs is normal (one in a hundred where it has heavy "
    "tails). Learn again after every change that is meant: driver, NCCL, cabling."
)


def expect(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[REPORT…]",
            show_default=False,
            help="Reports, folders of runs, or folders of those.",
        ),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn figures and tolerances from these good runs.")
    ] = False,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Write it there; by default to stdout.")
    ] = "",
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="The fabric's name (default: FILE's, or my-cluster)."),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    accept_findings: Annotated[
        bool, typer.Option("--accept-findings", help="Learn from runs with findings all the same.")
    ] = False,
) -> int:
    """Write a fabric file: what to expect of this cluster.

    Without REPORT from what this machine says of itself; with reports from what their hosts said;
    with --learn from what those runs reached, with tolerances from how far they lie apart.
    """  # fmt: skip
    from bench.formats import fabric_file
    from bench.judge import claims, learning
    from bench.report.runs import read_runs
    from bench.report.text import encodable, printable, show

    file = Path(out) if out else None
    _refuse_taken(file, force=force)
    called = name or (file.stem if file else "my-cluster")
    reports = read_runs(runs or ())
    if learn:
        if not reports:
            raise BadInput("--learn takes the runs to learn from: reports, or folders of them")
        made = learning.learn(reports, name=called, accept_findings=accept_findings)
        head = LEARNED
    else:
        if reports:
            hosts = reports[-1].hosts
        else:
            from bench.facts import host

            hosts = (host.gather(ask_nccl=False),)
        made = claims.draft(hosts, name=called)
        head = CLAIMED
    text = fabric_file.render(made.fabric, head=(head, *(f"Note: {note}." for note in made.notes)))
    for note in made.notes:
        print(f"fabric-bench: {printable(note)}", file=sys.stderr)
    if file is None:
        typer.echo(encodable(text, sys.stdout.encoding), nl=False)
    else:
        _write(file, text)
        networks, figures = len(made.fabric.network), len(made.fabric.busbw)
        show(f"{file}: {networks} networks, {figures} figures", sys.stdout)
    return DONE


def _refuse_taken(file: Path | None, *, force: bool) -> None:
    """Before anything is read: the answer does not depend on it."""
    if file is not None and file.is_dir():
        raise BadInput("is a folder; --out takes the name of a file", file=str(file))
    if file is not None and file.exists() and not force:
        raise BadInput("is there already; --force replaces it", file=str(file))


def _write(file: Path, text: str) -> None:
    from bench.report import named_file

    if not file.parent.is_dir():
        raise BadInput("no such folder", file=str(file.parent))
    trouble = named_file.put(file, text.encode())
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))
