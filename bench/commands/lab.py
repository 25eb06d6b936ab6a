"""`lab run|up|exec|down|check`: a virtual cluster on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.answer import DONE, SETTINGS
from bench.records import BadInput

app = typer.Typer(
    help="A virtual cluster on this machine, the real sweep inside it.",
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


@app.command("run")
def lab_run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A lab file, or the name of a shipped one.")
    ],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[-- SWEEP OPTIONS]", show_default=False)
    ] = None,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Folder of the run (default: reports/<UTC>).")
    ] = "",
) -> int:
    """Build the cluster, sweep it, tear it down; exits as the sweep did."""
    from bench.formats import shipped
    from bench.lab import run

    return run.run(shipped.find("labs", file), out=out or None, options=tuple(options or ()))


@app.command("up")
def lab_up(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A lab file, or the name of a shipped one.")
    ],
) -> int:
    """Build the cluster and leave it standing until `lab down`."""
    from bench.formats import shipped
    from bench.lab import run

    return run.up(shipped.find("labs", file))


# What follows the host is a command of its own: its options are not ours.
@app.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def lab_exec(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Its name, such as host2.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD")],
) -> int:
    """Run a command on a host of the standing cluster."""
    from bench.lab import run

    # The separator is kept where options may not be interspersed; `lab exec host2 ls` works too.
    status = run.execute(host, tuple(command[1:] if command[:1] == ["--"] else command))
    return status if status >= 0 else 128 - status  # as a shell tells of a signal


@app.command("down")
def lab_down() -> int:
    """Tear the standing cluster down."""
    from bench.lab import run

    return run.down()


@app.command("check")
def lab_check() -> int:
    """Say whether clusters can be built here.

    Exit 0 if they can, 2 with the reason if not.
    """
    from bench.lab import run

    reason = run.not_permitted()
    if reason:
        raise BadInput(reason)
    typer.echo("network namespaces are permitted")
    return DONE
