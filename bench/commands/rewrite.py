"""`report RUN`: the report of a run that was cut short."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.commands.answer import COULD_NOT, DONE, WIDTH, print_json


def rewrite(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="The report on stdout.")] = False,
) -> int:
    """Write the report of a run that was cut short.

    What samples.jsonl holds is fitted and judged as the sweep would have done.
    """
    from bench.report import cut_run, tables
    from bench.report.text import show

    done, trouble = cut_run.finish(run)
    for sentence in trouble:
        print(f"fabric-bench: {sentence}", file=sys.stderr)
    if as_json:
        print_json(done)
    else:
        show(tables.screen(done, width=WIDTH, folder=run), sys.stdout)
    return COULD_NOT if trouble else DONE
