"""`explain CODE`: what a finding means and how to fix it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import DONE, WIDTH
from bench.records import BadInput

if TYPE_CHECKING:
    from bench.judge.catalogue import Entry


def explain(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="A finding's code, as a report shows it.")
    ] = "",
    listed: Annotated[bool, typer.Option("--list", help="All codes, one a line.")] = False,
) -> int:
    """Say what a finding means and how to fix it."""
    from bench.judge.catalogue import CATALOGUE, entry
    from bench.report.text import show

    if listed:
        widest = max(len(name) for name in CATALOGUE)
        for name, described in CATALOGUE.items():
            show(f"{name.ljust(widest)}  {described.title}", sys.stdout)
        return DONE
    if not code:
        raise BadInput("explain takes the code of a finding (all of them: explain --list)")
    show(_explanation(entry(code)), sys.stdout)
    return DONE


def _explanation(entry: Entry) -> str:
    from bench.report.text import wrapped

    lines = [entry.code + f"[{entry.room}]".rjust(WIDTH - len(entry.code)), f"  {entry.title}"]
    for label, text in (
        ("means", entry.meaning),
        ("how", entry.established),
        ("fix", entry.remedy),
    ):
        lines += ["", *wrapped(text, label=f"  {label}", hang=9, width=WIDTH)]
    return "\n".join(lines)
