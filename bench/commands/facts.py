"""`facts`: this host, and what NCCL would choose on it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bench.commands.answer import DONE, WIDTH, print_json


def facts(
    ask_nccl: Annotated[
        bool, typer.Option("--ask-nccl", help="Ask libnccl which interface it would take.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The whole record as JSON.")] = False,
) -> int:
    """Show this host, and what NCCL would choose on it."""
    from bench.facts import host

    found = host.gather(ask_nccl=ask_nccl)
    if as_json:
        print_json(found)
    else:
        from bench.report import host_screen
        from bench.report.text import show

        show(host_screen.screen(found, width=WIDTH), sys.stdout)
    return DONE
