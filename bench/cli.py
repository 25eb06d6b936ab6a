"""`python -m bench COMMAND`, installed as `fabric-bench`: everything that is not the sweep itself.

Each command imports what it needs when it runs, so that `--help` answers at once and none of them
needs torch. Bad input ends here as one sentence on stderr and status 2; the sweep's own entry is
bench/sweep.py, which torchrun starts.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Sequence
from typing import TextIO

import typer

from bench.commands import (
    baseline,
    bundle,
    compare,
    cost,
    diagnose,
    expect,
    explain,
    facts,
    gate,
    history,
    lab,
    locate,
    nightly,
    preflight,
    read,
    rewrite,
    watch,
)
from bench.commands.answer import (
    COULD_NOT,
    DONE,
    INTERRUPTED,
    READER_LEFT,
    SETTINGS,
    suggestion,
)
from bench.records import BadInput

app = typer.Typer(
    name="fabric-bench",
    help="Is the network under NCCL the one you paid for? The measurement itself is started by "
    "torchrun: torchrun --nproc-per-node 2 bench/sweep.py",
    rich_markup_mode=None,  # markup and completion cost 60 ms of imports
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings=SETTINGS,
)
app.command("facts")(facts.facts)
app.command("preflight")(preflight.preflight)
app.command("expect")(expect.expect)
app.command("read")(read.read)
app.command("compare")(compare.compare)
app.command("cost")(cost.cost)
app.command("diagnose")(diagnose.diagnose)
# What it runs is a command of its own: its options are not ours.
app.command(
    "watch", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False}
)(watch.watch)
app.command("locate")(locate.locate)
app.command("nightly")(nightly.nightly)
app.command("history")(history.history)
app.command("explain")(explain.explain)
app.command("gate")(gate.gate)
app.command("bundle")(bundle.bundle)
app.command("report")(rewrite.rewrite)
app.add_typer(baseline.app, name="baseline")
app.add_typer(lab.app, name="lab")


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
        return f"no such option: {option}" + suggestion(option, known, see)
    commands = list(getattr(context.command, "commands", ()))
    if commands and (unknown := re.match(r"No such command '(.*?)'", sentence)):
        listed = f"; commands: {', '.join(commands)}"
        return f"no such command: {unknown[1]}" + suggestion(unknown[1], commands, listed)
    if commands and sentence.startswith("Missing command"):
        return f"{context.command_path} takes a command: {', '.join(commands)}"
    return f"{context.command_path}: {sentence[:1].lower()}{sentence[1:]}"


def _could_not(sentence: str) -> int:
    from bench.report.text import printable

    print(f"fabric-bench: {printable(sentence)}", file=sys.stderr)
    return COULD_NOT


if __name__ == "__main__":
    sys.exit(main())
