"""A night on a terminal: what it was held against, what moved, since when; the verdict last.

In: a Nightly. Out: text of at most `width` columns. The sweep's own screen says what is wrong in
the fabric tonight; this one says what is new, what has been so for how long, and what is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len

from bench.judge.history.words import SIZES
from bench.judge.sides.differences import is_factor
from bench.records import Nightly, NightlySeries
from bench.report import digest, units
from bench.report.comparison.screen import difference_words
from bench.report.findings import blocks_of, coloured_verdict, labelled
from bench.report.history import sparks
from bench.report.history.nightly_rows import NIGHTS_SHOWN, Row, rows
from bench.report.text import abbreviated, cell, printable, wrapped

LABEL = 10
DIFFERENCES_SHOWN = 6
TROUBLES_SHOWN = 6
NARROWEST_CURVE, WIDEST_NAME, VALUE = 8, 24, 9
HEAD = ("small", "large")


def screen(
    told: Nightly,
    *,
    status: int,
    folder: Path | None = None,
    width: int = 80,
    colour: bool = False,
    plain: bool = False,
) -> str:
    """The whole answer; `status` is what the command exits with, `plain` for a terminal without
    block characters."""
    parts = [_head(told, width), _table(told, width, plain=plain), _sweep(told, width)]
    parts += blocks_of(
        told.findings, width=width, colour=colour, all_in="nightly.json", proof_in="nightly.json"
    )
    number = sum(not digest.is_note(finding) for finding in told.findings)
    number += len(told.troubles)
    words = [
        told.verdict,
        units.count(number, "finding") if number else "no findings",
        f"exit {status}",
    ]
    end = coloured_verdict(told.verdict, words, width, colour)
    if folder is not None:
        end.append(f"report   {printable(str(folder / 'report.html'))}")  # whole: to be copied
    parts.append(end)
    return "\n\n".join("\n".join(part) for part in parts if part)


def baseline_words(told: Nightly) -> list[str]:
    """The baseline's run, its age, and why it is one. The age is always there: an expectation
    that nobody looks at goes bad in silence."""
    if told.baseline is None:
        return ["none: there is no good night of this shape to hold tonight against"]
    if told.baseline_reason is None and told.baseline == told.run:
        if not told.baseline_good:
            return ["none: there was no good night of this shape yet, and tonight is none"]
        return ["this is the first good night of its shape; nights to come are held against it"]
    age = "" if told.baseline_age_s is None else f", {sparks.age(told.baseline_age_s)}"
    if told.baseline_reason is None:
        what = (
            "the first good night" if told.baseline_good else "not a good night, but there is none"
        )
        first = f"{printable(told.baseline)}{age}: {what}; nobody has set one"
        return [f"{first} (bench baseline set RUN)"]
    return [f"{printable(told.baseline)}{age}: {printable(told.baseline_reason)}"]


def history_words(told: Nightly) -> list[str]:
    words = [printable(told.history)] if told.history else []
    before = told.nights_before
    nights = units.count(before, "night") + " before"
    if told.other_shapes:
        nights += f", {told.other_shapes} of them on other shapes"
    words.append(nights if before else "no night before")
    if told.previous:
        words.append(f"last {sparks.day(told.previous)}")
    return words


def _head(told: Nightly, width: int) -> list[str]:
    lines = labelled("night", [printable(told.run), printable(told.shape)], width, hang=LABEL)
    lines += labelled("history", history_words(told), width, hang=LABEL)
    for sentence in told.skipped[:TROUBLES_SHOWN]:
        lines += wrapped(sentence, label="skipped", hang=LABEL, width=width)
    if len(told.skipped) > TROUBLES_SHOWN:
        more = f"{len(told.skipped) - TROUBLES_SHOWN} more in nightly.json"
        lines += wrapped(more, hang=LABEL, width=width)
    lines += labelled("baseline", baseline_words(told), width, hang=LABEL)
    factors = [one for one in told.differences if is_factor(one)]
    if factors:
        words = [difference_words(one) for one in factors[:DIFFERENCES_SHOWN]]
        if len(factors) > DIFFERENCES_SHOWN:
            words.append(f"{len(factors) - DIFFERENCES_SHOWN} more in nightly.json")
        lines += labelled("changed", words, width, hang=LABEL)
    if told.missing_hosts:
        lines += wrapped(_missing(told.missing_hosts), label="missing", hang=LABEL, width=width)
    for sentence in told.notes:
        lines += wrapped(sentence, label="note", hang=LABEL, width=width)
    return lines


def _missing(hosts: dict[str, int]) -> str:
    least = min(hosts.values())
    return f"{abbreviated(tuple(hosts))}: there on each of the last {least} nights, not tonight"


def _sweep(told: Nightly, width: int) -> list[str]:
    """What the sweep itself found tonight, with since when; and what is over."""
    lines: list[str] = []
    for trouble, since in list(told.troubles.items())[:TROUBLES_SHOWN]:
        new = "new tonight" if since == told.run else f"since {sparks.day(since)}"
        lines += wrapped(
            f"{trouble} · {new}", label="" if lines else "sweep", hang=LABEL, width=width
        )
    if len(told.troubles) > TROUBLES_SHOWN:
        more = f"{len(told.troubles) - TROUBLES_SHOWN} more in report.json"
        lines += wrapped(more, hang=LABEL, width=width)
    for at, sentence in enumerate(told.recovered):
        lines += wrapped(sentence, label="" if at else "recovered", hang=LABEL, width=width)
    return lines


def _table(told: Nightly, width: int, *, plain: bool) -> list[str]:
    shown, more = rows(told.series)
    if not shown:
        return []
    lines = table(shown, width, plain=plain)
    if more:
        lines.append(f"  {units.count(more, 'more line')} as ever: bench history shows all")
    return [*lines, *footnote(told.series, width)]


def footnote(series: Sequence[NightlySeries], width: int) -> list[str]:
    """What the values are, and why some of them stand in brackets."""
    text = f"time against the baseline; small: {SIZES['small']}"
    why = dict.fromkeys(one.note for one in series if one.state == "unjudged" and one.note)
    if why:
        text += f"; in brackets: not judged ({'; '.join(why)})"
    return wrapped(text, hang=2, width=width)


def table(shown: Sequence[Row], width: int, *, plain: bool) -> list[str]:
    """Name, tonight's two values, the nights as a spark line, since when."""
    name = min(max(len(row.name) for row in shown), WIDEST_NAME)
    state = max(cell_len(row.state) for row in shown)
    room = width - 2 - name - 2 * VALUE - 3 - (state + 2 if state else 0)
    curve = max(NARROWEST_CURVE, min(room, NIGHTS_SHOWN, max(len(row.curve) for row in shown)))
    title = "nights"
    lines = [
        f"  {'':{name}}{HEAD[0]:>{VALUE}}{HEAD[1]:>{VALUE}}   {title}".rstrip(),
    ]
    for row in shown:
        spark = sparks.sparks(row.curve, curve, plain=plain)
        lines.append(
            f"  {cell(row.name, name):{name}}{row.small:>{VALUE}}{row.large:>{VALUE}}   "
            f"{spark:{curve}}  {row.state}".rstrip()
        )
    return lines
