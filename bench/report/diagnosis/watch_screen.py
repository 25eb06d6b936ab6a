"""Where the ranks of a watched job are, live: below the job's output on a terminal, else as lines.

In: a Standing, the job's bytes. Out: the bytes on stdout and stderr as they are; on a terminal two
rows at its foot, kept clear by a scrolling region, so that progress bars of the job stay whole.
Source: ECMA-48; DECSTBM, DECSC, DECRC of xterm's control sequences.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TextIO

from bench.hang.scene import rank_words
from bench.hang.watch.output import writer
from bench.hang.watch.standing import Call, Standing
from bench.report.text import encodable, printable, wrapped

LABEL = "watch"
ROWS = 2
REDRAW_S = 0.5
SILENT_S = 3.0  # three looks
LEAST_ROWS = 8  # a smaller terminal has no room for a foot


class WatchScreen:
    """A context manager. `only`: collectives to show; `every_s`: between lines without a
    terminal, 0 for none."""

    def __init__(self, stream: TextIO, only: Sequence[str], every_s: float) -> None:
        self._stream, self._every_s = stream, every_s
        self._only = tuple(_plain(name) for name in only)
        sys.stdout.flush()
        self.out = writer(_descriptor(sys.stdout, 1))
        self.err = writer(_descriptor(stream, 2))
        self._size: os.terminal_size | None = None
        self._drawn: tuple[str, ...] = ()
        self._next_s = 0.0
        self._foot = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def __enter__(self) -> WatchScreen:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._clear()

    def say(self, text: str) -> None:
        """A line of ours, or a page that begins with one."""
        first, _, page = text.partition("\n\n")
        told = "\n".join(wrapped(first, label=LABEL, hang=8, width=80))
        self._clear()
        self._write(told + (f"\n\n{page}\n" if page else "\n"))

    def standing(self, standing: Standing, now_s: float) -> None:
        """Show where ranks are, if it is time to."""
        if now_s < self._next_s or not (self._foot or self._every_s):
            return
        self._next_s = now_s + (REDRAW_S if self._foot else self._every_s)
        width = shutil.get_terminal_size((80, 24)).columns if self._foot else 80
        lines = words(standing, now_s, self._only, width)
        if not self._foot:
            if lines and standing.places:
                self._write("\n".join(lines) + "\n")
        elif lines:
            self._draw(lines[:ROWS])

    def _draw(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size((80, 24))
        if size.lines < LEAST_ROWS:
            return
        text = ""
        if self._size != size:
            self._clear()
            # room first: what stands in the last rows moves up
            text += "\n" * ROWS + f"\x1b[{ROWS}A\x1b7\x1b[1;{size.lines - ROWS}r\x1b8"
            self._size, self._drawn = size, ()
        shown = tuple(line[: size.columns - 1] for line in lines)
        if shown != self._drawn:
            self._drawn = shown
            first = size.lines - ROWS + 1
            rows = "".join(
                f"\x1b[{first + at};1H\x1b[2K{shown[at] if at < len(shown) else ''}"
                for at in range(ROWS)
            )
            text += f"\x1b7{rows}\x1b8"
        if text:
            self._write(text)

    def _clear(self) -> None:
        """The whole terminal is the job's again."""
        if self._size is not None:
            first = self._size.lines - ROWS + 1
            self._write(f"\x1b7\x1b[r\x1b[{first};1H\x1b[J\x1b8")
            self._size, self._drawn = None, ()

    def _write(self, text: str) -> None:
        self.err(encodable(text, self._stream.encoding or "utf-8").encode("utf-8", "replace"))


def words(
    standing: Standing, now_s: float, only: Sequence[str] = (), width: int = 80
) -> tuple[str, ...]:
    """At most two lines: who is in what, who is behind."""
    living = standing.living
    if not living:
        return (f"{LABEL:<8}no rank has called yet",) if not standing.places else ()
    waiting = standing.waiting(now_s)
    lines = []
    sides: dict[tuple[object, ...], list[int]] = {}
    for rank, (_, call, _) in waiting.items():
        sides.setdefault(_key(call), []).append(rank)
    if waiting and (len(waiting) < len(living) or len(sides) > 1):
        for ranks in sorted(sides.values(), key=len, reverse=True)[:ROWS]:
            _, call, since = waiting[ranks[0]]
            if not only or _plain(call.name) in only:
                text = f"{rank_words(ranks)} in {call_words(call)} for {now_s - since:,.0f} s"
                lines.append(text)
        if len(lines) == 1:
            lines += _late(standing, waiting)
    if silent := standing.silent(now_s, SILENT_S):
        text = f"{rank_words(silent)}: no answer for {_silence(standing, silent, now_s):,.0f} s"
        lines[1:] = [text]
    if not lines:
        lines.append(_moving(standing, only))
    return tuple(f"{LABEL:<8}{printable(line)}"[: width - 1] for line in lines)


def _late(standing: Standing, waiting: Collection[int]) -> list[str]:
    """Who does not wait, where it stands, how far behind that is."""
    behind = {rank: n for rank, n in standing.behind().items() if rank not in waiting and n > 0}
    if not behind:
        return []
    most = max(behind.values())
    far = [rank for rank, calls in behind.items() if calls == most]
    newest = standing.places[far[0]].newest()
    at = f" at #{newest[1]:,}" if newest else ""
    return [f"{rank_words(far)}{at}, {most:,} call{'s' if most > 1 else ''} behind"]


def _silence(standing: Standing, silent: Sequence[int], now_s: float) -> float:
    return max(now_s - (standing.places[rank].asked_s or now_s) for rank in silent)


def _moving(standing: Standing, only: Sequence[str]) -> str:
    """The newest call of the rank that is furthest, and its kind as far as that is known."""
    ahead = max(standing.living, key=lambda place: sum(n for n, _ in place.counts.values()))
    number = len(standing.living)
    ranks = f"{number:,} rank{'s' if number > 1 else ''}"
    calls = [call for (_, _), call in ahead.calls.items() if not only or _plain(call.name) in only]
    if only and calls:
        return f"{ranks}, the newest of these {call_words(calls[-1])}"
    if only:
        return f"{ranks}, none of {', '.join(only)} yet"
    newest = ahead.newest()
    if newest is None:
        return f"{ranks}, no collective yet"
    group, at = newest
    known = ahead.calls.get((group, at))
    return f"{ranks} at {call_words(known) if known else f'#{at:,}'}"


def call_words(call: Call) -> str:
    """ "all_reduce #1,204 of default_pg ([1024] float)"."""
    sizes = ", ".join(str(list(size)).replace(" ", "") for size in call.input_sizes[:2])
    kind = call.input_dtypes[0].lower() if call.input_dtypes else ""
    shape = f" ({' '.join(each for each in (sizes, kind) if each)})" if sizes or kind else ""
    group = f" of {call.group}" if call.group else ""
    return f"{call.name} #{call.collective_seq_id:,}{group}{shape}"


def _key(call: Call) -> tuple[object, ...]:
    return call.process_group, call.collective_seq_id, call.name, call.input_sizes


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _descriptor(stream: TextIO, otherwise: int) -> int:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return otherwise
