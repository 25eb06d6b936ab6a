"""`locate`: which host, rail or link is slow.

`locate PATH…` reads pairs that are measured already: runs of ours, tables and lists of others.
Without a path it measures: as a rank of torchrun, srun or mpirun, or on a virtual cluster (--lab).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import WIDTH, print_json, severity, status
from bench.records import BadInput, PairReading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.formats.file_walk import Found
    from bench.records import PlainFigure

HOW = (
    "nothing was named to locate in; to measure pairs of hosts, start it on every host: "
    "torchrun … -m bench locate, or srun python -m bench locate; for a virtual cluster: --lab"
)
ALONE = ("--plan", "locate", "--locate", "always")  # the sweep's options, before those asked for
WANTED = (
    "holds no pairs of hosts; expected three or more nccl-tests tables of two hosts each, a list "
    "such as 'hostA,hostB 49.3', or a run of ours that measured pairs"
)


def locate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH… | -- OPTIONS]",
            show_default=False,
            help="Runs of ours, nccl-tests tables of pairs, lists of pairs, folders; - is stdin. "
            "To measure: options of the sweep.",
        ),
    ] = None,
    lab: Annotated[
        str, typer.Option(metavar="FILE", help="Measure on a virtual cluster: a lab file.")
    ] = "",
    suspects: Annotated[
        str,
        typer.Option(metavar="FILE", help="Write slow hosts there, one a line with its reason."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The reading as JSON.")] = False,
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="Exit 1 on a finding at least this severe.")
    ] = "none",
) -> int:
    """Say which host, rail or link is slow.

    Reads pairs of hosts that are measured already: runs of ours (their answer is shown again),
    nccl-tests tables of two hosts each, whose devices or file names tell the two, and lists of
    pairs with a bandwidth. Without a path it measures, where a launcher starts it on every host:
    torchrun … -m bench locate, srun python -m bench locate. That is the sweep with the plan
    "locate": one short ring on each network, then every pair of hosts if there is time for it.
    """
    worst_allowed = severity(fail_on)
    if not paths or paths[0].startswith("--"):
        asked = (*ALONE, "--fail-on", fail_on, *(paths or ()))
        return _measure(lab, asked, keeps=bool(suspects) or as_json)
    if lab:
        raise BadInput("--lab measures; it takes no pairs that are measured already")
    reading = _reading(paths)
    if suspects:
        _write(Path(suspects), reading)
    if as_json:
        print_json(reading)
    else:
        from bench.report.pairs import screen as pair_screen
        from bench.report.text import encodable

        text = pair_screen.screen(reading, width=WIDTH, colour=sys.stdout.isatty())
        typer.echo(encodable(text, sys.stdout.encoding))
    return status(reading.findings, worst_allowed)


def _measure(lab: str, options: Sequence[str], *, keeps: bool) -> int:
    """Exits as the sweep does. `keeps`: an option wants what only a reading of a run has."""
    from bench.measure import scheduler

    if not lab and not scheduler.started(os.environ):
        raise BadInput(HOW)
    if keeps:
        raise BadInput(
            "--json and --suspects go with a PATH; a run that measures keeps both in its folder "
            "(report.json, suspects.txt)"
        )
    if lab:
        from bench.formats import shipped
        from bench.lab import run

        return run.run(shipped.find("labs", lab), options=options)
    from bench.commands import sweeping

    return sweeping.become(options)


def _reading(paths: Sequence[str]) -> PairReading:
    """Runs first, then what others measured."""
    import msgspec

    from bench.formats import file_walk
    from bench.judge.foreign.verdict import in_order
    from bench.judge.pairs.verdict import verdict

    runs: list[Found] = []
    others: list[Found] = []
    for found in file_walk.files(paths):
        (runs if _is_report(found) else others).append(found)
    reading = PairReading()
    for part in (*map(_of_run, runs), *([_of_others(others)] if others else [])):
        reading = msgspec.structs.replace(
            reading,
            files=(*reading.files, *part.files),
            locations=(*reading.locations, *part.locations),
            facts=(*reading.facts, *part.facts),
            findings=(*reading.findings, *part.findings),
        )
    if not reading.locations:
        raise BadInput(WANTED, file=", ".join(paths[:3]))
    findings = in_order(reading.findings)
    told = verdict(reading.locations, findings)
    return msgspec.structs.replace(reading, findings=findings, verdict=told)


def _is_report(found: Found) -> bool:
    from bench.report.stored import REPORT_NAME

    return found.path.name == REPORT_NAME


def _of_run(found: Found) -> PairReading:
    """The answer of a run, as it was judged then."""
    from bench.judge.pairs.verdict import of_run
    from bench.report import stored

    report = stored.read_report(found.path)
    if report.location is None:
        raise BadInput(
            "this run measured no pairs of hosts; measure again with --locate always",
            file=found.file,
        )
    location = report.location
    findings = of_run(location, report.findings)
    return PairReading(files=(found.file,), locations=(location,), findings=findings)


def _of_others(found: Sequence[Found]) -> PairReading:
    """Lists and tables of somebody else, judged now."""
    from bench.formats import recognition
    from bench.judge.docket import Docket
    from bench.judge.foreign import host_pairs
    from bench.judge.pairs import lists as pair_lists

    dossier = recognition.gather(found)
    lists = host_pairs.lists(dossier)
    docket = Docket()
    host_pairs.judge(dossier, docket)
    unread = [each for each in dossier.files if each.kind == recognition.UNREADABLE]
    if not lists and unread:
        raise BadInput(unread[0].summary, file=unread[0].file)
    return PairReading(
        files=tuple(_place(pairs) for pairs in lists),
        locations=tuple(pair_lists.locate(pairs) for pairs in lists),
        facts=host_pairs.sentences(dossier),
        findings=docket.findings,
    )


def _place(pairs: Sequence[PlainFigure]) -> str:
    files = list(dict.fromkeys(figure.file for figure in pairs))
    return files[0] if len(files) == 1 else f"{len(files)} files from {files[0]} on"


def _write(file: Path, reading: PairReading) -> None:
    from bench.report import named_file
    from bench.report.pairs import suspects_file

    if file.is_dir():
        raise BadInput("is a folder; --suspects takes the name of a file", file=str(file))
    if not file.parent.is_dir():
        raise BadInput("no such folder", file=str(file.parent))
    trouble = named_file.put(file, suspects_file.lines(reading.findings, {}).encode())
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))
