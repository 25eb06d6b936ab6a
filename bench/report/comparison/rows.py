"""The rows of a comparison's table: before, after, change, verdict, as benchstat's users know it.

In: a Comparison. Out: Blocks, one a candidate and collective, the ones that moved first. Small
sizes are shown as times (a change above 0 is slower), large ones as bus bandwidth (below 0 is
slower); screen, markdown and page lay the same rows out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.judge.sides import words
from bench.records import (
    ComparedFigure,
    ComparedGate,
    ComparedLine,
    ComparedRange,
    Comparison,
)
from bench.report import units

LARGE_BYTES = 64 * 1024
RANGES_SHOWN = 4  # of one gate


@dataclass(frozen=True)
class Row:
    """`verdict` is empty where nothing was tested."""

    name: str
    before: str
    after: str
    change: str
    verdict: str = ""


@dataclass(frozen=True)
class Block:
    """One line. `moved`: something regressed or improved; `remarks` are sentences below."""

    name: str
    rows: tuple[Row, ...]
    verdict: str
    moved: bool
    remarks: tuple[str, ...] = ()


def blocks(comparison: Comparison) -> list[Block]:
    """Those that regressed first, then improved, open, equal; each group in its own order."""
    order = ("regressed", "improved", "inconclusive", "equivalent")
    made = [_block(line, comparison) for line in comparison.lines]
    return sorted(made, key=lambda block: order.index(block.verdict))


def name_of(line: ComparedLine, comparison: Comparison) -> str:
    """ "data, all_reduce"; ranks and element type where lines differ in nothing else."""
    parts = [line.candidate, line.collective]
    others = [
        other
        for other in comparison.lines
        if (other.candidate, other.collective) == (line.candidate, line.collective)
    ]
    if len(others) > 1:
        parts += [f"{line.ranks} ranks" if line.ranks else "", line.dtype or ""]
    return ", ".join(part for part in parts if part)


def _block(line: ComparedLine, comparison: Comparison) -> Block:
    rows = [row for gate in line.gates for row in _gate(gate)]
    single = all(gate.p is None for gate in line.gates)
    if single and any(gate.moved for gate in line.gates):
        return _of(line, comparison, rows)  # a line of one run with a hole in it is no line
    for figure, label in ((line.latency_s, "latency"), (line.busbw_gbs, "busbw")):
        if figure is not None:
            rows.append(_fitted(figure, f"{label}, fitted"))
    return _of(line, comparison, rows)


def _of(line: ComparedLine, comparison: Comparison, rows: list[Row]) -> Block:
    return Block(
        name=name_of(line, comparison),
        rows=tuple(rows),
        verdict=line.verdict,
        moved=line.verdict in ("regressed", "improved"),
        remarks=tuple(_remarks(line, comparison)),
    )


def _gate(gate: ComparedGate) -> Iterator[Row]:
    """The whole, or its parts where only a part moved: a mean over both would mislead."""
    if gate.rest is None:
        yield _range(gate.whole, words.span(gate.whole), gate.verdict)
        return
    for each in gate.moved[:RANGES_SHOWN]:
        yield _range(each, words.span(each), each.verdict)
    if len(gate.moved) > RANGES_SHOWN:
        yield Row(f"{len(gate.moved) - RANGES_SHOWN} more ranges", "", "", "")
    yield _range(gate.rest, f"other {gate.sizes} sizes", gate.rest.verdict)


def _range(one: ComparedRange, name: str, verdict: str) -> Row:
    large = one.busbw_gbs is not None and one.from_bytes >= LARGE_BYTES
    if large and one.busbw_gbs is not None:
        return _row(name, one.busbw_gbs, "busbw", verdict)
    return _row(name, one.time_s, "time", verdict)


def _fitted(figure: ComparedFigure, name: str) -> Row:
    return _row(name, figure, "busbw" if name.startswith("busbw") else "time", "")


def _row(name: str, figure: ComparedFigure, kind: str, verdict: str) -> Row:
    show = units.busbw if kind == "busbw" else units.time
    interval = words.interval(figure.change)
    return Row(
        name=name,
        before=show(figure.before),
        after=show(figure.after),
        change=f"{words.percent(figure.change.value)}{' ' + interval if interval else ''}",
        verdict=verdict,
    )


def _remarks(line: ComparedLine, comparison: Comparison) -> Iterator[str]:
    unit = {"pairs of hosts": "host"}.get(comparison.sample, comparison.sample)
    for gate in line.gates:
        if gate.verdict != "inconclusive" or gate.detectable is None or gate.p is None:
            continue
        least = words.least(gate.detectable)
        text = f"{words.span(gate.whole)}: a change under {least} would not show"
        if gate.further_sessions is not None:
            more = units.count(gate.further_sessions, f"more {unit}")
            text += f"; {more} a side would decide"
        yield text
    yield from line.notes
