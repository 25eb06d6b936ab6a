"""A history on a terminal: each series as a spark line, last night against the baseline, changes.

In: the Nightly of the last night, with all nights in its series. Out: text of at most `width`
columns. Higher is slower; the scale of a line is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from bench.judge.history.words import SIZES, ends, signed
from bench.records import Nightly, NightlySeries, SeriesChange
from bench.records.history import Part
from bench.report import units
from bench.report.findings import labelled
from bench.report.history import sparks
from bench.report.history.nightly_rows import state, value
from bench.report.history.nightly_screen import LABEL, baseline_words, footnote
from bench.report.text import cell, wrapped

SERIES_SHOWN = 40  # rows; those that are not steady come first
CHANGES_SHOWN, WAYS_SHOWN = 20, 4
SKIPPED_SHOWN = 6
WIDEST_NAME, PART, VALUE, LEAST_CURVE, MOST_CURVE = 24, 6, 9, 8, 90


def screen(told: Nightly, *, width: int = 80, plain: bool = False) -> str:
    """The whole view."""
    parts = [_head(told, width), _series(told, width, plain=plain), _changes(told, width)]
    parts.append(_hosts(told, width))
    return "\n\n".join("\n".join(part) for part in parts if part)


def change_rows(told: Nightly) -> list[tuple[str, str, str, str]]:
    """Series, change with its interval, the first night of it, the night that made it sure."""
    return [
        (
            f"{one.candidate}, {one.collective}, {SIZES[one.part]}",
            f"{signed(change.change)} ({ends(change.low, change.high)})",
            sparks.day(change.run),
            sparks.day(change.told),
        )
        for one in told.series
        for change in one.changes
    ]


def _head(told: Nightly, width: int) -> list[str]:
    runs = told.series[0].runs if told.series else (told.run,)
    span = sparks.day(runs[0])
    if sparks.day(runs[-1]) != span:
        span += f" to {sparks.day(runs[-1])}"
    words = [told.history, units.count(told.nights, "night"), span, told.shape]
    lines = labelled("history", [word for word in words if word], width, hang=LABEL)
    if told.other_shapes:
        text = f"{units.count(told.other_shapes, 'night')} on other shapes, not shown"
        lines += wrapped(text, label="other", hang=LABEL, width=width)
    lines += labelled("baseline", baseline_words(told), width, hang=LABEL)
    for sentence in told.skipped[:SKIPPED_SHOWN]:
        lines += wrapped(sentence, label="skipped", hang=LABEL, width=width)
    if len(told.skipped) > SKIPPED_SHOWN:
        lines += wrapped(
            f"{len(told.skipped) - SKIPPED_SHOWN} more with --json", hang=LABEL, width=width
        )
    return lines


def _series(told: Nightly, width: int, *, plain: bool) -> list[str]:
    ordered = sorted(told.series, key=lambda one: one.state in ("steady", "unjudged"))
    shown = ordered[:SERIES_SHOWN]
    if not shown:
        return []
    name = min(max(len(_name(one)) for one in shown), WIDEST_NAME)
    states = max(cell_len(state(one)) for one in shown)
    room = width - 2 - name - 1 - PART - VALUE - 2 - (states + 2 if states else 0)
    longest = max(len(one.runs) for one in shown)
    curve = max(min(room, MOST_CURVE, longest), LEAST_CURVE)
    count = sparks.together(longest, curve)
    each = f", {count} a mark" if count > 1 else ""
    lines = [f"  {'':{name}} {'':{PART}}{'last':>{VALUE}}  nights{each}; higher is slower"]
    for one in shown:
        spark = sparks.whole(one.values, curve, plain=plain)
        lines.append(
            f"  {cell(_name(one), name):{name}} {one.part:{PART}}{value(one):>{VALUE}}  "
            f"{spark:{curve}}  {state(one)}".rstrip()
        )
    if len(ordered) > len(shown):
        lines.append(f"  {len(ordered) - len(shown)} more series with --json")
    return [*lines, *footnote(shown, width)]


def _changes(told: Nightly, width: int) -> list[str]:
    """What changed with one night in one direction is one line: a fault moves many series."""
    together: dict[tuple[str, Part, bool], list[tuple[NightlySeries, SeriesChange]]] = {}
    for one in told.series:
        for change in one.changes:
            key = change.run, one.part, change.change > 0
            together.setdefault(key, []).append((one, change))
    order = {run: at for one in told.series for at, run in enumerate(one.runs)}
    keys = sorted(together, key=lambda key: order.get(key[0], -1))
    lines: list[str] = []
    for key in keys[-CHANGES_SHOWN:]:
        text = _change_words(together[key])
        lines += wrapped(text, label="" if lines else "changed", hang=LABEL, width=width)
    return lines


def _change_words(moved: Sequence[tuple[NightlySeries, SeriesChange]]) -> str:
    """`2026-10-21: +9.0 to +9.8 % in data (all_reduce, all_gather), 64 KiB and more; sure …`."""
    series, changes = [one for one, _ in moved], [change for _, change in moved]
    low, high = min(c.change for c in changes), max(c.change for c in changes)
    size = ends(low, high) if len(moved) > 1 else signed(low)
    if len(moved) == 1:
        size += f" ({ends(changes[0].low, changes[0].high)})"
    ways: dict[str, list[str]] = {}
    for one in series:
        ways.setdefault(one.candidate, []).append(one.collective)
    names = ", ".join(f"{way} ({', '.join(of)})" for way, of in list(ways.items())[:WAYS_SHOWN])
    if len(ways) > WAYS_SHOWN:
        names += f" and {len(ways) - WAYS_SHOWN} more"
    sure = sparks.day(max(change.told for change in changes))
    return (
        f"{sparks.day(changes[0].run)}: {size} in {names}, {SIZES[series[0].part]}; sure on {sure}"
    )


def _hosts(told: Nightly, width: int) -> list[str]:
    lines: list[str] = []
    for slow in told.slow_hosts:
        rail = "" if slow.rail is None else f", rail {slow.rail}"
        text = f"{slow.host}{rail}: {signed(slow.slowdown)} against its fleet on each of its "
        text += f"last {len(slow.nights)} nights"
        lines += wrapped(text, label="" if lines else "slow", hang=LABEL, width=width)
    return lines


def _name(one: NightlySeries) -> str:
    return f"{one.candidate}, {one.collective}"
