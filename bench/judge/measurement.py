"""What limits the figures themselves.

In: the points of a report's lines. Out: wrong-result, unsettled, skewed and noisy: one finding
each, with the cells as evidence. Only a wrong result is ever worse than a warning.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.ratio import LARGE_BYTES
from bench.judge.words import percent, single
from bench.records import CostLine, Evidence, Finding, HostFacts, Point, Severity, Where

SKEW = 0.05  # of the slowest rank's time: the usual spread of a healthy fabric is below
# 5 % of a 20 µs call is a microsecond; a scheduler's tick or an interrupt is tens of them.
SKEW_FLOOR_S = 100e-6
# gloo's polling threads and ours need about two cores a rank; below, times are bimodal (facts).
CORES_PER_RANK = 2
SHOWN = 4

Cell = tuple[CostLine, Point]


def judge(net: Networks, docket: Docket) -> None:
    cells = [(line, point) for line in net.report.lines for point in line.points]
    _wrong(docket, [cell for cell in cells if cell[1].wrong])
    crowded = oversubscribed(net.report.hosts)
    because = f"; {crowded}, so it is to be expected" if crowded else ""
    _tell(
        docket,
        "unsettled",
        [cell for cell in cells if not cell[1].settled],
        cells,
        lambda number, all_cells: (
            f"{number} of {all_cells} cells were still moving when their time was up{because}."
        ),
        lambda point: f"±{(point.high_s - point.low_s) / 2 / point.time_s:.1%}",
        quiet=bool(crowded),
    )
    _tell(
        docket,
        "skewed",
        [c for c in cells if c[1].skew > SKEW and c[1].skew_s > SKEW_FLOOR_S],
        cells,
        lambda number, all_cells: (
            f"In {number} of {all_cells} cells the ranks finish more than {percent(SKEW)} and "
            f"{SKEW_FLOOR_S * 1e6:.0f} µs apart{because}."
        ),
        lambda point: f"{percent(point.skew)}, {point.skew_s * 1e3:.2f} ms",
        quiet=bool(crowded),
    )
    _tell(
        docket,
        "noisy",
        [cell for cell in cells if cell[1].noisy],
        cells,
        lambda number, all_cells: (
            f"{number} of {all_cells} cells scatter more than the plan's aim{because}."
        ),
        lambda point: f"{point.low_s * 1e3:.3g}-{point.high_s * 1e3:.3g} ms",
        quiet=True,
    )


def oversubscribed(hosts: tuple[HostFacts, ...]) -> str | None:
    """ "8 ranks share 2 cores" where a machine has fewer than two cores a rank.

    Hosts with one boot id are one machine (a lab of namespaces), so their ranks add up."""
    machines: dict[str, tuple[int, int]] = {}
    for facts in hosts:
        key = facts.boot_id or facts.identity
        ranks, cores = machines.get(key, (0, 0))
        machines[key] = (ranks + max(len(facts.ranks), 1), max(cores, facts.cores))
    for ranks, cores in machines.values():
        if 0 < cores < CORES_PER_RANK * ranks:
            return f"{ranks} ranks share {cores} cores"
    return None


def _wrong(docket: Docket, cells: list[Cell]) -> None:
    if not cells:
        return
    total = sum(point.wrong for _, point in cells)
    worst = max(cells, key=lambda cell: cell[1].wrong)
    docket.add(
        Finding(
            code="wrong-result",
            severity="broken",
            summary=f"{total:,} elements in {len(cells)} cells came back with wrong values.",
            where=_where(cells, worst),
            evidence=tuple(
                Evidence(basis="measured", text=f"{_cell(cell)}: {cell[1].wrong:,} wrong")
                for cell in cells[:SHOWN]
            ),
        )
    )


def _tell(
    docket: Docket,
    code: str,
    found: list[Cell],
    cells: list[Cell],
    summary: Callable[[int, int], str],
    figure: Callable[[Point], str],
    *,
    quiet: bool,
) -> None:
    """One remark for all cells; a warning where sizes are concerned that decide bandwidth."""
    if not found:
        return
    large = [cell for cell in found if cell[1].size_bytes >= LARGE_BYTES]
    severity: Severity = "info" if quiet or not large else "warning"
    worst = max(large or found, key=lambda cell: cell[1].high_s / max(cell[1].low_s, 1e-9))
    docket.add(
        Finding(
            code=code,
            severity=severity,
            summary=summary(len(found), len(cells)),
            where=_where(found, worst),
            evidence=tuple(
                Evidence(basis="measured", text=f"{_cell(cell)}: {figure(cell[1])}")
                for cell in [worst, *(c for c in found if c is not worst)][:SHOWN]
            ),
        )
    )


def _where(cells: list[Cell], worst: Cell) -> Where:
    return Where(
        candidate=single(line.candidate for line, _ in cells),
        collective=single(line.collective for line, _ in cells),
        size_bytes=worst[1].size_bytes if len(cells) == 1 else None,
        from_bytes=min(p.size_bytes for _, p in cells) if len(cells) > 1 else None,
        to_bytes=max(p.size_bytes for _, p in cells) if len(cells) > 1 else None,
    )


def _cell(cell: Cell) -> str:
    line, point = cell
    return f"{line.candidate}, {line.collective}, {point.size_bytes:,} bytes"
