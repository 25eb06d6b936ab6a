"""The shape of a table's curve: holes, collapses, late switches, one-off rows.

In: a CollectiveTable. Out: bandwidth-collapse where a range of sizes is far off, and notes on what
is worth a word and nobody's fault. What is far is said in the table's own terms (bench.model
.stretches): twice as long as the same table shows to be enough, at two sizes or more, in both
halves. Public healthy tables show up to 1.7 at one size, where an algorithm gives way too late.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.judge.docket import Docket
from bench.judge.foreign.amounts import duration, gbs, size, sizes, span
from bench.model.stretches import Kind, Stretch, stretches
from bench.model.table_series import OneOff, Series, better, bytes_share, one_offs
from bench.records import CollectiveTable, Evidence, Finding, Severity, Where

SMALL_BYTES = 64 * 1024  # below, times are latency and the noise of a busy CPU
# Accused: the worst size of the range, and how many sizes must be how far off with it. A hole has
# been entered and left again, so less of it is proof (simulated: tests/judge/foreign); a late
# switch is NCCL's tuning, no part's fault, until it is enormous (2.1 on healthy hosts: nccl#2441).
FAR: dict[Kind, float] = {"hole": 1.7, "dip": 2.0, "collapse": 2.0, "late-switch": 3.0}
ALSO, ALSO_SIZES = 1.5, 2
# One size alone is 20 calls in one instant, twice: another job on the network does that.
FAR_ALONE = 4.0
WORTH_A_WARNING = 1.5
# Within a plateau, where the sizes on both sides are as fast as each other, no algorithm gives way
# to another: less is worth a warning there.
WITHIN_PLATEAU, AS_FAST, PLATEAU_BYTES = 1.2, 0.1, 1 << 20
CORE = 0.5
EVIDENCE_ROWS = 7
ONE_OFFS_TOLD = 4
NOTES_TOLD = 4
MOST_ACCUSED = 8  # ranges of one table: a curve with more is not made clearer by naming them

# One line to paste; the sizes are filled in. First what NCCL chooses there, then without a choice.
LOOK = (
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING {run}; NCCL_PROTO=Simple {run}; NCCL_ALGO=Ring {run}"
)


def judge(table: CollectiveTable, docket: Docket) -> tuple[str, ...]:
    """Add findings; return notes, those of large sizes first."""
    best = better(table)
    scatter = float(best.half_widths[0]) if len(best) else 0.0
    found = stretches(best.sizes, best.times, scatter)
    noted: list[Stretch] = []
    accused: list[Stretch] = []
    for stretch in found:
        severity = _severity(table, best, stretch)
        if severity is None:
            if best.sizes[stretch.last] >= SMALL_BYTES:
                noted.append(stretch)
            continue
        accused.append(stretch)
        if len(accused) <= MOST_ACCUSED:
            docket.add(_finding(table, best, _core(stretch), severity))
    noted.sort(key=lambda stretch: -stretch.factor)
    told = [_sentence(table, best, stretch) for stretch in noted[:NOTES_TOLD]]
    return (*told, *_one_offs(table, best, accused))


def _severity(table: CollectiveTable, best: Series, stretch: Stretch) -> Severity | None:
    """None where it is only worth a note."""
    small = best.sizes[stretch.last] < SMALL_BYTES
    # The first rows may still be warming up, whatever they show.
    warming_up = stretch.first == 0 and (small or stretch.last == 0)
    if warming_up:
        return None
    if stretch.factor < WORTH_A_WARNING:
        return "warning" if _within_plateau(table, best, stretch) else None
    if stretch.factor >= FAR[stretch.kind] and stretch.above(ALSO) >= ALSO_SIZES:
        return "degraded"
    if stretch.factor >= FAR_ALONE and not small and _both_halves(table, best, stretch):
        return "degraded"
    return None if small else "warning"


def _within_plateau(table: CollectiveTable, best: Series, stretch: Stretch) -> bool:
    first, last = stretch.first - 1, stretch.last + 1
    if stretch.kind not in ("hole", "dip") or first < 0 or last >= len(best):
        return False
    if stretch.factor < WITHIN_PLATEAU or best.sizes[stretch.first] < PLATEAU_BYTES:
        return False
    busbw = _busbw(table, best)
    alike = abs(busbw[first] - busbw[last]) <= AS_FAST * busbw[last]
    return alike and _both_halves(table, best, stretch)


def _core(stretch: Stretch) -> Stretch:
    """Without the ends that are less than half as far off (on logs) as the worst: a switch comes
    too late for the last sizes before it, the first ones only lead there."""
    if stretch.kind in ("hole", "collapse"):
        return stretch
    far = [math.log(one) >= CORE * math.log(stretch.factor) for one in stretch.factors]
    start, end = far.index(True), len(far) - far[::-1].index(True)
    return dataclasses.replace(
        stretch,
        first=stretch.first + start,
        last=stretch.first + end - 1,
        factors=stretch.factors[start:end],
    )


def _both_halves(table: CollectiveTable, best: Series, stretch: Stretch) -> bool:
    low, high = best.sizes[stretch.first], best.sizes[stretch.last]
    rows = [row for row in table.rows if low <= row.size_bytes <= high]
    return all(row.out_of_place is not None and row.in_place is not None for row in rows)


def _finding(
    table: CollectiveTable, best: Series, stretch: Stretch, severity: Severity
) -> Finding:
    low, high = int(best.sizes[stretch.first]), int(best.sizes[stretch.last])
    around = range(max(stretch.first - 1, 0), min(stretch.last + 2, len(best)))
    lines = [_row(table, best, at) for at in around][:EVIDENCE_ROWS]
    scatter = f"the two halves of its rows scatter by {best.half_widths[0]:.1%} elsewhere"
    # The next size on each side belongs to the test: it shows whether the hole is still there.
    aside = int(best.sizes[max(stretch.first - 1, 0)]), int(best.sizes[around[-1]])
    program = table.program or f"{table.collective or 'all_reduce'}_perf"
    gap = int(best.sizes[around[1]] - best.sizes[around[0]])
    even = best.sizes[around[1]] < 1.5 * best.sizes[around[0]]  # steps of so many bytes
    step = f"-i {gap}" if even else "-f 2"
    return Finding(
        code="bandwidth-collapse",
        severity=severity,
        kind=stretch.kind,
        summary=_sentence(table, best, stretch),
        where=Where(
            file=table.file,
            line=best.lines[stretch.first] or None,
            collective=table.collective,
            size_bytes=low if low == high else None,
            from_bytes=low if low != high else None,
            to_bytes=high if low != high else None,
        ),
        evidence=(
            *(Evidence(basis="measured", text=text) for text in lines),
            Evidence(basis="measured", text=scatter),
        ),
        remedy=LOOK.format(run=f"./{program} -b {aside[0]} -e {aside[1]} {step}"),
    )


def _row(table: CollectiveTable, best: Series, at: int) -> str:
    wanted = int(best.sizes[at])
    halves = [
        f"{name} {duration(half.time_s)} ({gbs(half.busbw_gbs)})"
        for row in table.rows
        if row.size_bytes == wanted
        for name, half in (("out-of-place", row.out_of_place), ("in-place", row.in_place))
        if half is not None
    ]
    return f"{size(wanted)}: {', '.join(halves[:2])}"


def _sentence(table: CollectiveTable, best: Series, stretch: Stretch) -> str:
    what = table.collective or "the collective"
    where = sizes(best.sizes[stretch.first], best.sizes[stretch.last])
    reference = best.sizes[stretch.reference]
    busbw = _busbw(table, best)
    at_reference = f"{gbs(busbw[stretch.reference])} at {size(reference)}"
    within = busbw[stretch.first : stretch.last + 1]
    reached = f"{span(min(within), max(within), decimals=2)} GB/s"
    if stretch.kind == "collapse":
        lost = [100 * (1 - one / busbw[stretch.reference]) for one in within]
        drop = f"{span(min(lost), max(lost), decimals=0)} %"
        return (
            f"busbw of {what} peaks with {at_reference} and is {drop} lower from "
            f"{size(best.sizes[stretch.first])} on: {reached}."
        )
    longer, than = _longer(stretch)
    if stretch.basis == "neighbours":
        before, after = stretch.first - 1, min(stretch.last + 1, len(best) - 1)
        return (
            f"{what} takes {longer} at {where} {than} {size(best.sizes[before])} and "
            f"{size(best.sizes[after])} on both sides let expect: a hole, not a limit ({reached}; "
            f"{gbs(busbw[before])} before, {gbs(busbw[after])} after)."
        )
    if stretch.basis == "larger":
        late = stretch.kind == "late-switch"
        why = "an algorithm or protocol gives way too late" if late else "a hole, not a limit"
        return (
            f"{what} takes {longer} at {where} {than} at {size(reference)}, which is more to "
            f"carry: {why} ({reached} against {gbs(busbw[stretch.reference])})."
        )
    return (
        f"{what} falls from {at_reference} to {reached} at {where} and recovers: it takes "
        f"{longer} {than} the smaller size in parts."
    )


def _longer(stretch: Stretch) -> tuple[str, str]:
    """ "24-66 times as long" and "as", or "9 % longer" and "than"."""
    least, most = min(stretch.factors), stretch.factor
    if most < WORTH_A_WARNING:
        percent = span(100 * (least - 1), 100 * (most - 1), decimals=0)
        return f"{percent} % longer", "than"
    return f"{span(least, most)} times as long", "as"


def _busbw(table: CollectiveTable, best: Series) -> list[float]:
    share = bytes_share(table) or 1.0
    return [float(share * n / t / 1e9) for n, t in zip(best.sizes, best.times, strict=True)]


def _one_offs(table: CollectiveTable, best: Series, accused: Sequence[Stretch]) -> tuple[str, ...]:
    """Rows of which only one half was slow: something passed by, the network's rate it is not."""
    ranges = [(best.sizes[s.first], best.sizes[s.last]) for s in accused]
    rows = [row for row in one_offs(table) if not any(a <= row.size_bytes <= b for a, b in ranges)]
    if not rows:
        return ()
    rows.sort(key=lambda row: -row.factor)
    told = "; ".join(_told(row) for row in rows[:ONE_OFFS_TOLD])
    more = f"; {len(rows) - ONE_OFFS_TOLD} more" if len(rows) > ONE_OFFS_TOLD else ""
    return (f"one-off, one half of a row only: {told}{more}",)


def _told(row: OneOff) -> str:
    other = "in-place" if row.half == "out-of-place" else "out-of-place"
    return (
        f"{size(row.size_bytes)} {row.half} {duration(row.time_s)} against "
        f"{duration(row.other_s)} {other} ({row.factor:.1f} times)"
    )
