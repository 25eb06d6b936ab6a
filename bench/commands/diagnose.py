"""`diagnose PATH…`: which rank, which phase, what first, from what a dead or hung job left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import WIDTH, json_for, severity, status
from bench.records import SEVERITIES, BadInput, Diagnosis

if TYPE_CHECKING:
    from bench.commands.evidence import Evidence
    from bench.hang.selection import Selection
    from bench.records import Finding, Verdict


def diagnose(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH… | --live [PID… | HOST:PORT]",
            show_default=False,
            help="Files and folders in any mix; - is stdin. With --live: what to ask.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Ask a job that hangs now; stops nothing."),
    ] = False,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="With --live: keep what was answered there.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="The diagnosis as JSON, in one line.")
    ] = False,
    collective: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="List only these, such as ALLREDUCE."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="List only these process groups.")
    ] = None,
    rank: Annotated[
        list[int] | None, typer.Option(metavar="N", help="List only what these ranks called.")
    ] = None,
    seq: Annotated[
        str, typer.Option(metavar="A-B", help="List only these sequence numbers.")
    ] = "",
    page: Annotated[
        str, typer.Option(metavar="FILE", help="Also write a page with the timeline of the dumps.")
    ] = "",
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="Exit 1 on a finding at least this severe.")
    ] = "none",
) -> int:
    """Say which rank a hung job points to, and why.

    It finds out itself what each file is: rank logs (files, torchrun's log tree, consoles of any
    launcher, packed or rotated), Flight Recorder dumps of torch 2.4 and later (pickle or JSON,
    NCCL or gloo, one per rank, any file names), stacks of ranks as torch's debug server or py-spy
    print them; and what started the job: Accelerate configs (one or one per node), launch
    scripts and commands, DeepSpeed's JSON, host files. The filters choose what is listed, never
    what is judged. With --live it asks a job that hangs now: NCCL's RAS, the recorder's pipe,
    torch's worker and debug servers, py-spy, the kernel; without a PID, all ranks of this host.
    """
    from bench.commands import evidence
    from bench.formats import file_walk
    from bench.hang.selection import Selection, seq_range

    worst_allowed = severity(fail_on)
    if page and not Path(page).parent.is_dir():
        raise BadInput("no such folder", file=str(Path(page).parent))
    selection = Selection(
        collectives=tuple(collective or ()),
        groups=tuple(group or ()),
        ranks=tuple(rank or ()),
        seq=seq_range(seq),
    )
    named = _asked(paths or (), out) if live else _paths(paths, out)
    gathered = evidence.gather(file_walk.files(named))
    _refuse_nothing(gathered, named)
    diagnosis = _diagnosis(gathered, selection)
    if as_json:
        import msgspec

        text = msgspec.json.encode(diagnosis).decode()
        typer.echo(json_for(text, sys.stdout.encoding))
    else:
        from bench.report.diagnosis import screen as diagnosis_screen
        from bench.report.text import encodable

        text = diagnosis_screen.screen(
            diagnosis,
            width=WIDTH,
            colour=sys.stdout.isatty(),
            listing=not selection.is_empty,
        )
        typer.echo(encodable(text, sys.stdout.encoding))
    if page:
        _write_page(diagnosis, gathered, Path(page))
    return status(diagnosis.findings, worst_allowed)


def _paths(paths: list[str] | None, out: str) -> list[str]:
    if out:
        raise BadInput("--out goes with --live")
    if not paths:
        raise BadInput("diagnose takes files and folders, or --live for a job that hangs now")
    return paths


def _asked(names: Sequence[str], out: str) -> list[str]:
    """The folder with what the live job answered; stderr tells who answered what."""
    from bench.commands import live
    from bench.report.text import wrapped

    answers = live.collect(names, out)
    for at, sentence in enumerate(live.told(answers)):
        typer.echo("\n".join(wrapped(sentence, label="" if at else "asked", hang=9)), err=True)
    typer.echo("", err=True)
    return [str(answers.folder)]


def _write_page(diagnosis: Diagnosis, gathered: Evidence, file: Path) -> None:
    from bench.report import named_file
    from bench.report.diagnosis import page as diagnosis_page

    timeline = gathered.seen.timeline() if gathered.seen else None
    trouble = named_file.put(file, diagnosis_page.render(diagnosis, timeline).encode())
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))


def _diagnosis(gathered: Evidence, selection: Selection) -> Diagnosis:
    """Every judge in its order, then the verdict."""
    from bench.commands.evidence import JUDGES
    from bench.hang import phases
    from bench.judge.docket import Docket

    docket = Docket()
    parts: dict[str, object] = {}
    for judge in JUDGES:
        for name, value in judge(gathered, docket, selection).items():
            parts.setdefault(name, value)
    findings = tuple(sorted(docket.findings, key=lambda f: -SEVERITIES.index(f.severity)))
    if (phase := phases.of(findings)) is not None:  # as all evidence together has it
        parts["phase"] = phase
    return Diagnosis(
        verdict=_verdict(findings),
        files=tuple(gathered.files),
        findings=findings,
        **parts,  # type: ignore[arg-type]  # fields by name, from JUDGES
    )


def _verdict(findings: tuple[Finding, ...]) -> Verdict:
    if any(finding.severity == "broken" for finding in findings):
        return "broken"
    if any(finding.severity in ("degraded", "warning") for finding in findings):
        return "degraded"
    return "inconclusive" if findings else "healthy"


def _refuse_nothing(gathered: Evidence, named: list[str]) -> None:
    """BadInput where no file told anything; one unreadable file among others is only told."""
    if gathered.records:
        return
    if not gathered.files:
        raise BadInput("holds no file to read", file=", ".join(named[:3]))
    first = next((f for f in gathered.files if f.kind != "unknown"), gathered.files[0])
    more = f" (and {len(gathered.files) - 1} more files)" if len(gathered.files) > 1 else ""
    nothing = "; nothing of it is read here" if first.kind == "unknown" else ""
    raise BadInput(f"{first.summary}{nothing}{more}", file=first.file)
