"""`compare BEFORE AFTER`: what a change did to the figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import COULD_NOT, DONE, FOUND, WIDTH, print_json, severity
from bench.records import SEVERITIES, BadInput

if TYPE_CHECKING:
    from bench.records import Comparison

DEADLINE_S = 3600.0  # of one session: a nightly plan on a large cluster takes minutes
TAKES = "takes two sides, BEFORE and AFTER, or --before CMD and --after CMD"


def compare(
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            show_default=False,
            help="A report, a run's folder, an nccl-tests output, or a folder: each entry of it "
            "one session. Alone: figures or tables of many versions (where is the step?), or "
            "both tables in one file.",
        ),
    ] = "",
    after: Annotated[
        str, typer.Argument(metavar="AFTER", show_default=False, help="Likewise.")
    ] = "",
    control: Annotated[
        str,
        typer.Option(
            metavar="REBOOT_ONLY",
            help="Measured after a reboot with nothing changed: what a reboot alone does.",
        ),
    ] = "",
    cohort: Annotated[
        bool,
        typer.Option(
            "--cohort",
            help="The sides are other hosts of one night: those not yet changed, and those that "
            "are.",
        ),
    ] = False,
    before_command: Annotated[
        str,
        typer.Option(
            "--before",
            metavar="CMD",
            help="Run this for BEFORE, in turns with --after. {out} in it is the session's own "
            "path; without, what it prints is kept.",
        ),
    ] = "",
    after_command: Annotated[
        str, typer.Option("--after", metavar="CMD", help="Likewise for AFTER.")
    ] = "",
    sessions: Annotated[
        int, typer.Option(metavar="K", help="With --before and --after: sessions a side.")
    ] = 5,
    out: Annotated[
        str,
        typer.Option(metavar="DIR", help="Likewise: where to (default: reports/compare-1, -2 …)."),
    ] = "",
    deadline: Annotated[
        float, typer.Option(metavar="S", help="Likewise: seconds that one session may take.")
    ] = DEADLINE_S,
    as_json: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="The comparison for a pull request or a ticket.")
    ] = False,
    page: Annotated[
        str, typer.Option(metavar="FILE", help="Also write a page with both curves.")
    ] = "",
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="Exit 1 on a finding at least this severe.")
    ] = "degraded",
) -> int:
    """Say what regressed, improved, is equal, or cannot be told.

    Sessions are what is compared: five a side show a change of 3 %, one a side only what is large
    and confined to some sizes. Exit 1 on a regression, 2 where nothing could be compared.
    """
    from bench.commands import sides
    from bench.judge import regress

    worst_allowed = severity(fail_on)
    if as_json and markdown:
        raise BadInput("--json and --markdown both take stdout; give one of them")
    if page and not Path(page).parent.is_dir():
        raise BadInput("no such folder", file=str(Path(page).parent))
    running = bool(before_command or after_command)
    if running:
        if before or after or not (before_command and after_command):
            raise BadInput(f"compare {TAKES}")
        before, after = _run(before_command, after_command, sessions, out, deadline)
    elif before and not after:
        result = _one_file(before)
    elif not before:
        raise BadInput(f"compare {TAKES}")
    if after:
        result = regress.judge(
            sides.read(before),
            sides.read(after),
            control=sides.read(control) if control else None,
            cohort=cohort,
            in_turns=True if running else None,
        )
    status = status_of(result, worst_allowed)
    show(result, status, as_json=as_json, markdown=markdown)
    if page:
        _write_page(result, Path(page))
    return status


def _one_file(named: str) -> Comparison:
    """Two tables in one file, or figures over versions; BadInput for all else."""
    import msgspec

    from bench.commands import foreign_side, sides
    from bench.judge import regress
    from bench.judge.sides import version_tables

    dossier = sides.figures(named)
    both = foreign_side.two_tables(named, dossier)
    if both is None:
        listed, notes = version_tables.figures(dossier, named)
        dossier = msgspec.structs.replace(dossier, figures=(*dossier.figures, *listed))
        result = regress.versions(dossier, named)
        return msgspec.structs.replace(result, notes=(*result.notes, *notes))
    result = regress.judge(*both)
    told = (
        f"one file with two tables: the one in line {both[0].path.rpartition(':')[2]} is taken "
        f"as before, the one in line {both[1].path.rpartition(':')[2]} as after"
    )
    return msgspec.structs.replace(result, notes=(told, *result.notes))


def _run(before: str, after: str, sessions: int, out: str, deadline_s: float) -> tuple[str, str]:
    """Both sides, measured in turns; the folders that hold them."""
    from bench.commands import turns

    if not deadline_s > 0:
        raise BadInput(f"--deadline is above 0 seconds, not {deadline_s:g}")
    folder = Path(out) if out else turns.next_folder(Path("reports"))

    def say(turn: turns.Turn) -> None:
        why = f": {turn.why}, left out" if turn.why else ""
        told = f"{turn.which} {turn.number} of {sessions}, {turn.seconds:.1f} s{why}"
        print(f"fabric-bench: {told}", file=sys.stderr, flush=True)

    commands: dict[turns.Which, str] = {"before": before, "after": after}
    turns.take(commands, sessions, folder, deadline_s=deadline_s, say=say)
    return str(folder / "before"), str(folder / "after")


def status_of(result: Comparison, worst_allowed: int) -> int:
    """By severity; 2 where nothing was compared and nothing severe was found beside it."""
    worst = max((SEVERITIES.index(f.severity) for f in result.findings), default=-1)
    if worst >= worst_allowed:
        return FOUND
    return COULD_NOT if result.verdict == "not-comparable" else DONE


def show(result: Comparison, status: int, *, as_json: bool, markdown: bool) -> None:
    """On stdout: JSON, markdown, or the screen."""
    from bench.report.text import encodable

    if as_json:
        print_json(result)
        return
    if markdown:
        from bench.report.comparison import markdown as comparison_markdown

        text = comparison_markdown.render(result).rstrip("\n")
    else:
        from bench.report.comparison import screen as comparison_screen

        text = comparison_screen.screen(
            result, status=status, width=WIDTH, colour=sys.stdout.isatty()
        )
    typer.echo(encodable(text, sys.stdout.encoding))


def _write_page(result: Comparison, file: Path) -> None:
    from bench.report import named_file
    from bench.report.comparison import page as comparison_page

    trouble = named_file.put(file, comparison_page.render(result).encode())
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))
