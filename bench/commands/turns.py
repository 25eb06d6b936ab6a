"""Both sides of a comparison run in turns: A B B A A B B A, so that neither has the better hour.

In: two command lines, how often, a folder. Out: that folder with an entry for each session, as
`compare` reads it. No shell: a line is split into words as one would, `{out}` in a word stands for
the session's own path (also in FABRIC_BENCH_OUT); what does not write there has its output kept.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.records import BadInput

Which = Literal["before", "after"]
SIDES: tuple[Which, Which] = ("before", "after")

PLACE, VARIABLE = "{out}", "FABRIC_BENCH_OUT"
MOST_SESSIONS = 1000
GRACE_S = 10.0  # between being asked to end and being killed
FAILURES = 2  # of one side in a row: the third will fail as well
LOGS = "logs"


@dataclass(frozen=True)
class Turn:
    """How one session ended; `seconds` it took, `why` it does not count."""

    which: Which
    number: int
    seconds: float
    why: str | None = None


def order(sessions: int) -> Iterator[tuple[Which, int]]:
    """(side, number of its session), from 1; each side's mean place is the same."""
    for number in range(1, sessions + 1):
        first, second = SIDES if number % 2 else SIDES[::-1]
        yield first, number
        yield second, number


def take(
    commands: dict[Which, str],
    sessions: int,
    out: Path,
    *,
    deadline_s: float,
    say: Callable[[Turn], None],
) -> tuple[Turn, ...]:
    """Run all sessions; those that failed are told and left out. BadInput where a command cannot
    be started, or fails twice in a row, or a side is left with nothing."""
    if not 1 <= sessions <= MOST_SESSIONS:
        raise BadInput(f"--sessions is from 1 to {MOST_SESSIONS}, not {sessions}")
    words = {which: _split(which, commands[which]) for which in SIDES}
    _make(out)
    turns: list[Turn] = []
    for which, number in order(sessions):
        turn = _session(words[which], which, number, out, deadline_s)
        turns.append(turn)
        say(turn)
        own = [each for each in turns if each.which == which]
        if len(own) >= FAILURES and all(each.why for each in own[-FAILURES:]):
            raise BadInput(
                f"--{which} failed {FAILURES} times in a row, the last time: {turn.why}",
                file=str(out / LOGS / f"{which}-{number}.txt"),
            )
    for which in SIDES:
        if not any((out / which).iterdir()):
            raise BadInput(f"--{which} left nothing to compare", file=str(out / which))
    return tuple(turns)


def _split(which: Which, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--{which} is no command line: {error}") from None
    if not words:
        raise BadInput(f"--{which} takes a command line")
    return words


def _make(out: Path) -> None:
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadInput("is there already; choose another folder with --out", file=str(out))
        for name in (*SIDES, LOGS):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot be made: {error.strerror}", file=str(out)) from None


def _session(words: list[str], which: Which, number: int, out: Path, deadline_s: float) -> Turn:
    entry = out / which / f"{number}"
    log = out / LOGS / f"{which}-{number}.txt"
    argv = [word.replace(PLACE, str(entry)) for word in words]
    began = time.monotonic()
    why = _run(argv, entry, log, deadline_s)
    seconds = time.monotonic() - began
    if why is None and not entry.exists():
        text = log.read_bytes()
        if text.strip():
            entry.with_suffix(".txt").write_bytes(text)
        else:
            why = "it printed nothing and wrote nothing"
    if why is not None and entry.exists():
        entry.rename(out / LOGS / f"{which}-{number}")
    return Turn(which, number, seconds, why)


def _run(argv: list[str], entry: Path, log: Path, deadline_s: float) -> str | None:
    """None, or why the session does not count."""
    environment = {**os.environ, VARIABLE: str(entry)}
    with log.open("wb") as stream:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise BadInput(f"cannot be started: {reason}", file=argv[0]) from None
        try:
            status = process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            return f"not done after {deadline_s:g} s"
        finally:
            _end(process)
    return f"exit {status}" if status else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """The command and all that it has started, whatever ended the wait."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # nothing of it is left
        try:
            process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def next_folder(parent: Path) -> Path:
    """`parent`/compare-1, or the next number that is free."""
    number = 1
    while (parent / f"compare-{number}").exists():
        number += 1
    return parent / f"compare-{number}"
