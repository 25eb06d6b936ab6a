"""`bundle RUN`: one archive of a run for a vendor's ticket."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.commands.answer import DONE, print_json


def bundle(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The archive; bundle.tar.gz in the run's folder."),
    ] = None,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Call the hosts host1, host2 … everywhere.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The list on stdout as JSON.")] = False,
) -> int:
    """Pack a run for a vendor's ticket.

    Report, samples, logs, facts, serial numbers and counters, made from the run's records. Secrets
    are left out; MANIFEST lists what is in it. Look through it before you send it.
    """
    from bench.records import BadInput
    from bench.report import bundle as bundles
    from bench.report import folder, named_file
    from bench.report.text import printable, show

    found = bundles.collect(run, anonymize=anonymize)
    archive = bundles.packed(found)
    file = out or (run if run.is_dir() else run.parent) / "bundle.tar.gz"
    trouble = named_file.put(file, archive) if out else folder.put(file, archive)
    if trouble is not None:
        raise BadInput(f"{trouble} Another place: --out FILE", file=str(file.parent))
    if as_json:
        print_json(
            {
                "archive": str(file),
                "files": [
                    {"name": m.name, "size_bytes": len(m.content), "sha256": m.sha256}
                    for m in found.members
                ],
                "left_out": found.left_out,
            }
        )
        return DONE
    for member in found.members:
        show(f"{len(member.content):12,d}  {member.name}", sys.stdout)
    for sentence in found.left_out:
        show(f"left out      {printable(sentence)}", sys.stdout)
    show(f"\nbundle   {file}   {len(archive):,} bytes", sys.stdout)
    return DONE
