"""`read FILE…`: what foreign files are, what they show, what is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import WIDTH, print_json, severity, status
from bench.records import BadInput

if TYPE_CHECKING:
    from bench.records import Dossier, Fabric


def read(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Files and folders in any mix; - is stdin."),
    ],
    fabric: Annotated[
        str, typer.Option(metavar="F", help="What you expect: a fabric file or a known system.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The reading as JSON.")] = False,
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="Exit 1 on a finding at least this severe.")
    ] = "none",
) -> int:
    """Say what nccl-tests tables, logs and topologies show.

    It finds out itself what each file is: nccl-tests tables and JSON, NCCL logs, nvidia-smi topo
    -m, topology XML, nvlink -s, lspci -vvv, ibv_devinfo, accelerate env and more. Of a folder all
    files are read but hidden ones and *.md.
    """
    from bench.formats import file_walk, recognition
    from bench.judge.foreign import verdict

    worst_allowed = severity(fail_on)
    expectation = _fabric(fabric) if fabric else None
    dossier = recognition.gather(file_walk.files(files))
    _refuse_nothing(dossier, files)
    reading = verdict.judge(dossier, expectation)
    if as_json:
        print_json(reading)
    else:
        from bench.report import reading_screen
        from bench.report.text import encodable

        text = reading_screen.screen(reading, width=WIDTH, colour=sys.stdout.isatty())
        typer.echo(encodable(text, sys.stdout.encoding))
    return status(reading.findings, worst_allowed)


def _fabric(named: str) -> Fabric:
    from bench.formats import shipped, toml_file
    from bench.records import Fabric

    return toml_file.load(shipped.find("fabrics", named), Fabric)


def _refuse_nothing(dossier: Dossier, named: list[str]) -> None:
    """BadInput where no file told anything; one unreadable file among others is only told."""
    from bench.formats.recognition import UNKNOWN, UNREADABLE

    if any(each.kind not in (UNKNOWN, UNREADABLE) for each in dossier.files):
        return
    if not dossier.files:
        raise BadInput("holds no file to read", file=", ".join(named[:3]))
    first = dossier.files[0]
    more = f" (and {len(dossier.files) - 1} more files)" if len(dossier.files) > 1 else ""
    nothing = "; nothing of it is read here" if first.kind == UNKNOWN else ""
    raise BadInput(f"{first.summary}{nothing}{more}", file=first.file)
