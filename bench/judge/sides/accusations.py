"""The lines of a comparison as findings: what changed where, how sure, what may be behind it.

In: ComparedLines and what is known of their circumstances. Out: Findings: one for each range that
moved, one for what is equal, one for what cannot be told. How severe a regression is depends on
how well it is known that it is one of the thing that was changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from bench.judge.sides import abstentions, words
from bench.judge.sides.abstentions import ADVICE, is_single, name_of
from bench.judge.words import listed
from bench.model import single_runs
from bench.records import (
    SEVERITIES,
    ComparedCell,
    ComparedGate,
    ComparedLine,
    ComparedRange,
    Difference,
    Evidence,
    Finding,
    Severity,
    Where,
)

# Whole boots of one machine have been seen to differ by some per cent with nothing changed. With
# one boot a side a smaller regression is worth a look and fails no gate.
BOOT_LUCK = 0.05
CHANGED, AT_ONCE = "what is known to have changed", "several things changed at once"
MOST_RANGES = 4  # findings of one line; a curve with more is not made clearer by naming them


@dataclass(frozen=True)
class Circumstances:
    """What all lines share. `unit` is what the tests count; `doubts` are sentences on why a change
    may not be one of the network; `mixed_timing`: the sides time calls in two ways."""

    unit: str
    weaker: str | None
    factors: tuple[Difference, ...]
    doubts: tuple[str, ...]
    mixed_timing: bool = False
    reboot_alone: dict[tuple[str, str], str] | None = None


def findings(line: ComparedLine, around: Circumstances) -> tuple[Finding, ...]:
    """All findings of one line."""
    found = list(_changed(line, around))
    equal = [gate for gate in line.gates if gate.verdict == "equivalent"]
    undecided = [gate for gate in line.gates if gate.verdict == "inconclusive"]
    if equal:
        found.append(abstentions.equal(line, equal))
    if undecided and is_single(line):
        found.append(abstentions.luck(line, undecided, around.doubts))
    elif undecided:
        found.append(abstentions.undecided(line, undecided, around.unit))
    if line.untold is not None:
        found.append(abstentions.untold(line, line.untold))
    return tuple(found)


def _changed(line: ComparedLine, around: Circumstances) -> list[Finding]:
    moved = [
        (gate, one)
        for gate in line.gates
        if gate.verdict in ("regressed", "improved")
        for one in sorted(gate.moved or (gate.whole,), key=lambda one: -abs(_log(one)))[
            :MOST_RANGES
        ]
    ]
    both = (
        len(moved) == 2
        and line.untold is None
        and all(one.sizes == gate.whole.sizes for gate, one in moved)
        and len({gate.verdict for gate, _ in moved}) == 1
    )
    found = [_finding(line, gate, one, around, all_sizes=both) for gate, one in moved]
    return [_as_one(line, *found)] if both else found


def _as_one(line: ComparedLine, small: Finding, large: Finding) -> Finding:
    """All sizes of a line went the same way: said once, each half with its own figures."""
    more = large.summary.removeprefix(f"{name_of(line)}: ")
    return msgspec.structs.replace(
        max(small, large, key=lambda f: SEVERITIES.index(f.severity)),
        summary=f"{small.summary.removesuffix('.')}; {more}",
        where=msgspec.structs.replace(
            large.where,
            size_bytes=None,
            from_bytes=small.where.from_bytes or small.where.size_bytes,
            to_bytes=large.where.to_bytes or large.where.size_bytes,
        ),
        evidence=tuple(dict.fromkeys((*small.evidence, *large.evidence))),
    )


def _log(one: ComparedRange) -> float:
    return math.log1p(one.time_s.change.value)


def _finding(
    line: ComparedLine,
    gate: ComparedGate,
    one: ComparedRange,
    around: Circumstances,
    *,
    all_sizes: bool = False,
) -> Finding:
    worse = one.time_s.change.value > 0
    code = "regressed" if worse else "improved"
    severity: Severity = _severity(line, one, around) if worse else "info"
    change = one.time_s.change
    sure = words.surely(change)
    figures = _figures(one)
    elsewhere = _elsewhere(line, gate, one)
    single = " (one run a side)" if is_single(line) else ""
    summary = (
        f"{name_of(line)}: {words.span(one)} is {words.longer(change)}{' ' + sure if sure else ''}"
        f"{single}: {figures}{elsewhere}."
    )
    local = not all_sizes and one is not gate.whole and one.sizes < len(line.cells)
    return Finding(
        code=code,
        severity=severity,
        kind=None,
        summary=summary,
        where=Where(
            candidate=line.candidate or None,
            collective=line.collective,
            size_bytes=one.from_bytes if one.from_bytes == one.to_bytes else None,
            from_bytes=one.from_bytes if one.from_bytes != one.to_bytes else None,
            to_bytes=one.to_bytes if one.from_bytes != one.to_bytes else None,
        ),
        evidence=(*_proof(line, gate, one, around, local=local), *_cause(line, one, around)),
        remedy=_remedy(line, around) if worse else None,
        confidence="measured" if not is_single(line) else "inferred",
    )


def _severity(line: ComparedLine, one: ComparedRange, around: Circumstances) -> Severity:
    small = one.time_s.change.value < BOOT_LUCK
    explained = bool(
        around.reboot_alone and (line.candidate, line.collective) in around.reboot_alone
    )
    if explained or around.mixed_timing or (around.weaker is not None and small):
        return "warning"
    return "degraded"


def _figures(one: ComparedRange) -> str:
    """ "9.24 → 3.91 GB/s", or times where busbw says nothing."""
    average = "on average " if one.sizes > 1 else ""
    if one.busbw_gbs is not None and one.to_bytes >= 64 * 1024:
        first, second = words.gbs(one.busbw_gbs.before), words.gbs(one.busbw_gbs.after)
        return f"{average}{first} before, {second} after"
    first, second = words.seconds(one.time_s.before), words.seconds(one.time_s.after)
    return f"{average}{first} before, {second} after"


def _elsewhere(line: ComparedLine, gate: ComparedGate, one: ComparedRange) -> str:
    """What the other sizes did: "all other sizes equal", or what is known of them."""
    others = [g for g in line.gates if g is not gate]
    still = [gate.rest, *(g.whole for g in others if not g.moved)]
    rest = [each for each in still if each is not None]
    moved = [m for g in line.gates for m in g.moved if m is not one]
    if moved or any(g.verdict in ("regressed", "improved") for g in others):
        return ""
    if one is gate.whole and one.sizes > 1 and not any(_inside(c, one) for c in line.cells):
        return "; all these sizes together, none of them surely by itself" if gate.p else ""
    if not rest:
        return ""
    if all(each.verdict == "equivalent" for each in rest):
        all_else = "all else" if line.untold is None else "what else can be compared is"
        return f"; {all_else} equal within 3 %"
    told = ", ".join(
        f"{'the other sizes' if r is gate.rest else words.span(r)} "
        f"{words.percent(r.time_s.change.value)}"
        for r in rest
    )
    largest = max(abs(r.time_s.change.value) for r in rest)
    if is_single(line) and largest < single_runs.RUN_LUCK:
        all_else = "all else" if line.untold is None else "what else can be compared is"
        return f"; {all_else} equal within noise ({told} time)"
    return f"; elsewhere {told} time"


def _inside(cell: ComparedCell, one: ComparedRange) -> bool:
    return cell.moved and one.from_bytes <= cell.size_bytes <= one.to_bytes


def _proof(
    line: ComparedLine,
    gate: ComparedGate,
    one: ComparedRange,
    around: Circumstances,
    *,
    local: bool,
) -> Iterator[Evidence]:
    cells = [c for c in line.cells if one.from_bytes <= c.size_bytes <= one.to_bytes]
    if local and len(cells) <= 8:
        told = "; ".join(
            f"{words.size(c.size_bytes)} {words.seconds(c.before_s)} to {words.seconds(c.after_s)}"
            for c in cells
        )
        yield Evidence(basis="measured", text=told)
    if gate.p is not None:
        count = f"{line.before_sessions} {around.unit}s before, {line.after_sessions} after"
        held = (
            f"the {gate.sizes} sizes together {words.percent(gate.whole.time_s.change.value)} "
            f"time {words.interval(gate.whole.time_s.change)}, {words.chance(gate.p)} over all "
            "lines"
        )
        if one.local_p is not None:
            held = (
                "held against the other sizes of the same sessions: "
                f"{words.chance(one.local_p)} over all ranges of sizes"
            )
        yield Evidence(basis="measured", text=f"{count}; {held}")
    else:
        yield Evidence(
            basis="inferred",
            text="one run a side: luck moves all sizes of a run alike, and this it does not "
            "explain; repeat to be sure"
            if local
            else "one run a side, but no luck that is known makes a run so much slower",
        )
    for fitted, unit, sizes in (
        (line.latency_s, "latency", "small"),
        (line.busbw_gbs, "busbw", "large"),
    ):
        if fitted is not None and sizes == gate.sizes and not (local and is_single(line)):
            show = words.seconds if unit == "latency" else words.gbs
            yield Evidence(
                basis="measured",
                text=f"fitted {unit} {show(fitted.before)} before, {show(fitted.after)} after "
                f"({words.percent(fitted.change.value)}"
                f"{' ' + words.interval(fitted.change) if fitted.change.low is not None else ''})",
            )
    if one.switch is not None:
        yield Evidence(basis="inferred", text=one.switch)


def _cause(line: ComparedLine, one: ComparedRange, around: Circumstances) -> Iterator[Evidence]:
    factors = around.factors
    if len(factors) == 1:
        each = factors[0]
        yield Evidence(
            basis="inferred",
            text=f"{CHANGED}: {each.name} {each.before} to {each.after}",
        )
    elif factors:
        yield Evidence(
            basis="inferred",
            text=f"{AT_ONCE}: {listed(f.name for f in factors)}",
        )
    if around.weaker is not None:
        yield Evidence(basis="inferred", text=around.weaker)
    if around.reboot_alone is not None:
        told = around.reboot_alone.get((line.candidate, line.collective))
        yield Evidence(
            basis="measured",
            text=told or "a reboot alone (--control) did not do this",
        )
    for doubt in around.doubts:
        yield Evidence(basis="inferred", text=doubt)


def _remedy(line: ComparedLine, around: Circumstances) -> str:
    factors = around.factors
    back = "put one thing back at a time and compare again"
    if len(factors) == 1:
        back = f"put {factors[0].name} {factors[0].before} back and compare again"
    if is_single(line):
        return f"{ADVICE}; {back}" if factors else ADVICE
    return back
