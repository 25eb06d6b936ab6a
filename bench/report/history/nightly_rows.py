"""Series of a history as rows of a terminal or a ticket: values, spark line, since when.

In: NightlySeries. Out: plain rows, the ways that moved first. Of many steady series only some are
shown and the others counted: eighty lines of nothing hide the one that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.history.words import signed
from bench.records import NightlySeries
from bench.report.history import sparks
from bench.report.text import printable

ROWS_SHOWN = 12  # lines of candidate and collective
NIGHTS_SHOWN = 30  # of a spark line: a month
LOUD = ("regressed", "tonight", "improved")


@dataclass(frozen=True)
class Row:
    """One candidate and collective. `curve` is that of the part that moved most."""

    candidate: str
    collective: str
    small: str
    large: str
    curve: tuple[float | None, ...]
    state: str

    @property
    def name(self) -> str:
        return f"{self.candidate}, {self.collective}"


def rows(series: Sequence[NightlySeries], shown: int = ROWS_SHOWN) -> tuple[list[Row], int]:
    """The rows to show, and how many steady ones are not."""
    lines: dict[tuple[str, str], list[NightlySeries]] = {}
    for one in series:
        lines.setdefault((one.candidate, one.collective), []).append(one)
    loud = [ones for ones in lines.values() if any(_is_loud(one) for one in ones)]
    quiet = [ones for ones in lines.values() if ones not in loud]
    kept = [*loud, *quiet[: max(shown - len(loud), 0)]]
    order = list(lines.values())
    kept.sort(key=order.index)
    return [_row(ones) for ones in kept], len(order) - len(kept)


def _is_loud(one: NightlySeries) -> bool:
    return one.state in LOUD or (one.note is not None and one.state == "steady")


def _row(ones: Sequence[NightlySeries]) -> Row:
    by_part = {one.part: one for one in ones}
    loudest = min(ones, key=lambda one: (_rank(one), one.part != "large"))
    return Row(
        candidate=printable(ones[0].candidate),
        collective=printable(ones[0].collective),
        small=value(by_part.get("small")),
        large=value(by_part.get("large")),
        curve=loudest.values,
        state=state(loudest),
    )


def _rank(one: NightlySeries) -> int:
    return LOUD.index(one.state) if one.state in LOUD else len(LOUD)


def value(one: NightlySeries | None) -> str:
    """`+9.4 %`; in brackets where nothing is judged by it."""
    if one is None:
        return ""
    text = signed(one.last)
    return f"({text})" if one.state == "unjudged" else text


def state(one: NightlySeries) -> str:
    """`! since 11-28` for slower, `+ since 11-28` for faster; nothing where all is as ever."""
    if one.state in ("regressed", "improved"):
        mark = "!" if one.state == "regressed" else "+"
        tonight = one.since is None or (bool(one.runs) and one.since == one.runs[-1])
        return f"{mark} tonight" if tonight else f"{mark} since {sparks.day(one.since or '')[-5:]}"
    if one.state == "tonight":
        return "! out tonight"
    if one.state == "hole":
        return "not measured"
    return "? stands out" if one.note and one.state == "steady" else ""
