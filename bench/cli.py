"""`python -m bench COMMAND`, installed as `fabric-bench`: everything that is not the sweep itself.

Each command imports what it needs when it runs, so that `--help` answers at once and none of them
needs torch. Bad input ends here as one sentence on stderr and status 2; the sweep's own entry is
bench/sweep.py, which torchrun starts.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from bench.records import SEVERITIES, BadInput, Severity

if TYPE_CHECKING:
    from bench.judge.catalogue import Entry

DONE, FOUND, COULD_NOT, INTERRUPTED, READER_LEFT = 0, 1, 2, 130, 141
WIDTH = 80

# rich markup and completion cost 60 ms of imports that a one-line answer does not need.
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}
app = typer.Typer(
    name="fabric-bench",
    help="Is the network under NCCL the one you paid for? The measurement itself is started by "
    "torchrun: torchrun --nproc-per-node 2 bench/sweep.py",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings=_SETTINGS,
)
lab = typer.Typer(
    help="A virtual cluster on this machine, the real sweep inside it.",
    rich_markup_mode=None,
    context_settings=_SETTINGS,
)
app.add_typer(lab, name="lab")


@app.command()
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
        _print_json(found)
    else:
        from bench.report import host_screen

        typer.echo(host_screen.screen(found, width=WIDTH))
    return DONE


@app.command()
def explain(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="A finding's code, as a report shows it.")
    ] = "",
    listed: Annotated[bool, typer.Option("--list", help="All codes, one a line.")] = False,
) -> int:
    """Say what a finding means and how to fix it."""
    from bench.judge.catalogue import CATALOGUE, entry

    if listed:
        widest = max(len(name) for name in CATALOGUE)
        for name, described in CATALOGUE.items():
            typer.echo(f"{name.ljust(widest)}  {described.title}")
        return DONE
    if not code:
        raise BadInput("explain takes the code of a finding (all of them: explain --list)")
    typer.echo(_explanation(entry(code)))
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


@app.command()
def gate(
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A run's folder or its report.json.")
    ],
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="info, warning, degraded, broken or none.")
    ] = "degraded",
) -> int:
    """Exit 1 if a report holds a finding that severe.

    Exit 2 when nothing was measured: nothing has passed then.
    """
    from bench.report import stored
    from bench.report.text import printable

    worst_allowed = _severity(fail_on)
    read = stored.read_report(report)
    bad = [f for f in read.findings if SEVERITIES.index(f.severity) >= worst_allowed]
    for finding in bad:
        typer.echo(f"{finding.severity}  {finding.code}: {printable(finding.summary)}")
    if bad:
        return FOUND
    if not read.findings and not any(line.points for line in read.lines):
        raise BadInput("nothing was measured, so there is nothing to pass", file=str(report))
    typer.echo(f"{read.verdict}: no finding at {fail_on} or above")
    return DONE


def _severity(name: str) -> int:
    """The rank of a severity; "none" is above all of them."""
    ranks: dict[Severity | str, int] = {s: rank for rank, s in enumerate(SEVERITIES)}
    ranks["none"] = len(SEVERITIES)
    if name not in ranks:
        expected = f"--fail-on is {name}; expected one of {', '.join(ranks)}"
        raise BadInput(expected + _suggestion(name, ranks))
    return ranks[name]


@app.command("report")
def rewrite(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="The report on stdout.")] = False,
) -> int:
    """Write the report of a run that was cut short.

    What samples.jsonl holds is fitted and judged as the sweep would have done.
    """
    from bench.report import cut_run, tables

    done, trouble = cut_run.finish(run)
    for sentence in trouble:
        print(f"fabric-bench: {sentence}", file=sys.stderr)
    if as_json:
        _print_json(done)
    else:
        typer.echo(tables.screen(done, width=WIDTH, folder=run))
    return COULD_NOT if trouble else DONE


@lab.command("run")
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


@lab.command("up")
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
@lab.command(
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


@lab.command("down")
def lab_down() -> int:
    """Tear the standing cluster down."""
    from bench.lab import run

    return run.down()


@lab.command("check")
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


def _print_json(record: object) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())


def _suggestion(wanted: str, known: Iterable[str], otherwise: str = "") -> str:
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else otherwise


def main(argv: Sequence[str] | None = None, stdout: TextIO | None = None) -> int:
    """The whole program; returns its exit status (0 done, 1 findings, 2 could not, 130 Ctrl-C)."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        with contextlib.redirect_stdout(stdout) if stdout else contextlib.nullcontext():
            status = typer.main.get_command(app)(
                arguments, prog_name="fabric-bench", standalone_mode=False
            )
            sys.stdout.flush()
            return int(status or DONE)
    except BadInput as bad:
        return _could_not(str(bad))
    except _UsageError as error:
        return _could_not(_usage_sentence(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit:  # click's answer to a reader that left (`| head`), with a status of 1
        return READER_LEFT


# click's own type, whether typer brings its copy of click or depends on it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _usage_sentence(error: Exception) -> str:
    """click's complaint as one sentence that names the nearest thing there is."""
    sentence = str(getattr(error, "format_message", error.__str__)()).strip().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return sentence
    option = getattr(error, "option_name", None)
    if option is not None and sentence.lower().startswith("no such option"):
        known = [name for param in context.command.params for name in param.opts] + ["--help"]
        see = f" (see {context.command_path} --help)"
        return f"no such option: {option}" + _suggestion(option, known, see)
    commands = list(getattr(context.command, "commands", ()))
    if commands and (unknown := re.match(r"No such command '(.*?)'", sentence)):
        listed = f"; commands: {', '.join(commands)}"
        return f"no such command: {unknown[1]}" + _suggestion(unknown[1], commands, listed)
    if commands and sentence.startswith("Missing command"):
        return f"{context.command_path} takes a command: {', '.join(commands)}"
    return f"{context.command_path}: {sentence[:1].lower()}{sentence[1:]}"


def _could_not(sentence: str) -> int:
    print(f"fabric-bench: {sentence}", file=sys.stderr)
    return COULD_NOT


if __name__ == "__main__":
    sys.exit(main())
