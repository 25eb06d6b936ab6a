"""What the numbers of a table say of themselves, before anybody names the collective.

In: rows and their texts. Out: one rank's part of the size, the ranges that the printed digits
leave for busbw / algbw and for algbw × time / size, and which columns, roots, operations and
checks there are. The largest bandwidths decide: their digits are worth most.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bench.formats.nccl_tests.cells import half_width, number
from bench.formats.nccl_tests.columns import Layout
from bench.formats.nccl_tests.rows import DTYPE_BYTES, printed
from bench.records import TableRow, TableTime

_DECIDING_ROWS = 10
_JSON_STEP = 0.5e-6  # nccl-tests' JSON prints with six decimals
_HAIR = 1.0001
_WIDE = 8
_AS_PRINTED = 0.002  # algbw against size over time: equal but for rounding
ANY = (0.0, 4.0)  # a ratio that nothing is known of: all lie between


class Evidence(NamedTuple):
    part: int | None  # size / (count × element); None: not known
    low: float  # of busbw / algbw
    high: float
    shrink: tuple[float, float]  # of algbw × time / size
    rooted: bool
    operation: bool
    checked_in_place: bool | None  # None: only out of place, or nothing, was checked at all
    busy: bool  # some busbw is above zero: more than one rank
    columns: frozenset[str]
    told: bool
    old: bool
    wide: bool  # the type's column is eight wide, as since 2.8


class _Half(NamedTuple):
    """A half of a row; the steps say how far its numbers may be off: half of the last digit."""

    size_bytes: int
    time: TableTime
    time_step_s: float
    algbw_step: float
    busbw_step: float

    @property
    def algbw_range(self) -> tuple[float, float]:
        return self.time.algbw_gbs - self.algbw_step, self.time.algbw_gbs + self.algbw_step

    @property
    def over_time(self) -> tuple[float, float]:
        """Size over time, which has more digits than algbw."""
        whole, time_s = self.size_bytes / 1e9, self.time.time_s
        least = max(time_s - self.time_step_s, 1e-12)
        return whole / (time_s + self.time_step_s), whole / least


def gather(rows: Sequence[TableRow], texts: Sequence[str], layout: Layout) -> Evidence | None:
    """What the rows show; None where none has a size and a time.

    `texts` are the rows as printed; empty where they come from JSON.
    """
    kept = [
        (row, texts[at] if at < len(texts) else None)
        for at, row in enumerate(rows)
        if row.size_bytes and row.count and any(_halves(row))
    ]
    if not kept:
        return None
    timed = [row for row, _ in kept]
    texts = [text for _, text in kept if text is not None]
    halves = deciding(timed, texts, layout)
    shrink = ANY if layout.cputime else _shrink(halves)
    by_time = shrink[0] > 1 - _AS_PRINTED and shrink[1] < 1 + _AS_PRINTED
    found = factor_range(halves, by_time) or ANY
    roots = {row.root for row in timed}
    operations = {row.redop for row in timed} - {None, "none"}
    whole = [row for row in timed if not row.cut]
    outs = [row.out_of_place for row in whole if row.out_of_place]
    ins = [row.in_place for row in whole if row.in_place]
    return Evidence(
        part=_part(timed),
        low=found[0],
        high=found[1],
        shrink=shrink,
        rooted=any(root is not None and root >= 0 for root in roots),
        operation=bool(operations),
        checked_in_place=_checked_in_place(outs, ins),
        busy=any(half.busbw_gbs > 0 for row in timed for half in _halves(row)),
        columns=frozenset(layout.lead) & {"redop", "root"},
        told=layout.told,
        old=layout.check == "error",
        wide=any(_type_width(text) == _WIDE for text in texts[:4]),
    )


def factor_range(halves: Sequence[_Half], by_time: bool) -> tuple[float, float] | None:
    """The range of busbw / algbw that all halves allow, None where there is none.

    `by_time`: algbw is size over time, to the digits of both.
    """
    low, high = ANY
    for half in halves:
        least, most = half.algbw_range
        if by_time:
            least, most = max(least, half.over_time[0]), min(most, half.over_time[1])
            if least > most:  # by rounding alone
                least, most = half.algbw_range
        busbw = half.time.busbw_gbs
        bottom = max(busbw - half.busbw_step, 0.0) / most
        top = (busbw + half.busbw_step) / least
        if max(low, bottom) <= min(high, top):  # else a digit was edited: the larger rows decide
            low, high = max(low, bottom), min(high, top)
    return (low, high) if halves else None


def deciding(rows: Sequence[TableRow], texts: Sequence[str], layout: Layout) -> list[_Half]:
    """The halves with the largest bandwidths, each with the precision of its digits."""
    padded = [*texts, *[None] * (len(rows) - len(texts))]
    pairs = [(row, text) for row, text in zip(rows, padded, strict=False) if _halves(row)]
    pairs.sort(
        key=lambda pair: -max(each.busbw_gbs or each.algbw_gbs for each in _halves(pair[0]))
    )
    found = []
    for row, text in pairs[:_DECIDING_ROWS]:
        digits = printed(text, layout) if text is not None else []
        for half in _halves(row):
            steps = next(
                (
                    (_step(time) * 10.0**layout.power, _step(algbw), _step(busbw))
                    for time, algbw, busbw in digits
                    if (number(algbw), number(busbw)) == (half.algbw_gbs, half.busbw_gbs)
                ),
                (_JSON_STEP * 1e-6, _JSON_STEP, _JSON_STEP),
            )
            # A hair more, for binary fractions.
            steps = steps[0] * _HAIR, steps[1] * _HAIR, steps[2] * _HAIR
            if half.algbw_gbs > 2 * steps[1] and half.time_s > 2 * steps[0]:
                found.append(_Half(row.size_bytes, half, *steps))
    return found


def _part(rows: Sequence[TableRow]) -> int | None:
    """size / (count × element size), where all rows agree on a whole number."""
    parts = set()
    for row in rows:
        element = DTYPE_BYTES.get(row.dtype)
        if element is None or row.size_bytes % (row.count * element):
            return None
        parts.add(row.size_bytes // (row.count * element))
    return parts.pop() if len(parts) == 1 else None


def _shrink(halves: Sequence[_Half]) -> tuple[float, float]:
    """The range of algbw × time / size that all halves allow."""
    low, high = ANY
    for half in halves:
        bottom = half.algbw_range[0] / half.over_time[1]
        top = half.algbw_range[1] / half.over_time[0]
        if max(low, bottom) <= min(high, top):
            low, high = max(low, bottom), min(high, top)
    return low, high


def _halves(row: TableRow) -> list[TableTime]:
    return [half for half in (row.out_of_place, row.in_place) if half]


def _type_width(text: str) -> int:
    """How wide the type's column is: types are right-aligned, two blanks after the count."""
    words = text.split(None, 3)
    count = text.find(words[1], text.find(words[0]) + len(words[0])) + len(words[1])
    return text.find(words[2], count) + len(words[2]) - count - 2


def _checked_in_place(outs: Sequence[TableTime], ins: Sequence[TableTime]) -> bool | None:
    """Whether in-place results were validated; None where validation was off or none are there."""
    if any(_is_checked(half) for half in ins):
        return True
    return False if ins and any(_is_checked(half) for half in outs) else None


def _is_checked(half: TableTime) -> bool:
    return half.wrong is not None or half.error is not None


@lru_cache(maxsize=4096)
def _step(text: str) -> float:
    return half_width(text)
