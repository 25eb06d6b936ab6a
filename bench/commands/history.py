"""`history [DIR]`: the trend of the nights, in the terminal and as a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.commands.answer import DONE, WIDTH, print_json
from bench.commands.baseline import HISTORY


def history(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The history.")] = HISTORY,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Also write a page with curves."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Also write all values as CSV."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All series as JSON on stdout.")] = False,
) -> int:
    """Show the trend of the nights, series by series.

    Reads only: nothing is judged anew but with what is there.
    """
    from bench.commands import night
    from bench.records import BadInput
    from bench.report import points_csv
    from bench.report.history import archive as histories
    from bench.report.history import page as history_page
    from bench.report.history import screen as history_screen
    from bench.report.text import encodable

    known = histories.read(folder)
    if not known.nights:
        why = f": {known.skipped[0]}" if known.skipped else ""
        raise BadInput(f"holds no night{why}", file=str(folder))
    told = night.retold(known, known.nights[-1].run, shown=str(folder))
    if page is not None:
        _write(page, history_page.render(told))
    if csv is not None:
        _write(csv, points_csv.nights(told.series))
    if as_json:
        print_json(told)
        return DONE
    encoding = sys.stdout.encoding
    text = history_screen.screen(told, width=WIDTH, plain=encodable("▁", encoding) != "▁")
    typer.echo(encodable(text, encoding))
    return DONE


def _write(file: Path, text: str) -> None:
    from bench.records import BadInput
    from bench.report import named_file

    if not file.parent.is_dir():
        raise BadInput("no such folder", file=str(file.parent))
    trouble = named_file.put(file, text.encode("utf-8", "backslashreplace"))
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))
