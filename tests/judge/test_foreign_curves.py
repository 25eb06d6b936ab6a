"""How often a healthy curve is accused, and how often a hole is found: seeded simulations.

Curves are of NCCL's shape: three or four protocols or algorithms, chosen by estimates that are
wrong by up to e in time, so that switches come too early or too late (1.7 times at most, as public
healthy tables show), pipelines that fill slowly, a droop of up to 14 % behind the peak. Noise is
1-5 % a half, with heavy tails below 64 KiB and a first row that is still warming up.
"""

from __future__ import annotations

import numpy as np
import pytest

from bench.judge.docket import Docket
from bench.judge.foreign import curves
from bench.records import CollectiveTable, Finding, TableRow, TableTime

HEALTHY_CURVES, HOLED_CURVES = 2000, 600
SHARE = 1.875
WORST_SWITCH = 1.7
SMALL = 64 * 1024


def printed(us: float) -> float:
    """A time as nccl-tests prints it: four digits or a little more."""
    return round(us, 2) if us < 100 else round(us, 1) if us < 10_000 else float(round(us))


def healthy(rng: np.random.Generator, step: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and true seconds."""
    first, last = int(rng.choice([3, 10, 16, 20])), int(rng.integers(30, 35))
    sizes = 2.0 ** np.arange(first, last, 1 if step == 2 else 2)
    peak, base = 10 ** rng.uniform(9.3, 11.7), 10 ** rng.uniform(-5.4, -3.3)
    protocols = [
        (base, peak * rng.uniform(0.1, 0.5)),
        (base * rng.uniform(1.1, 2), peak * rng.uniform(0.5, 0.95)),
        (base * rng.uniform(1.5, 5), peak),
    ]
    if rng.random() < 0.5:
        protocols.append((base * rng.uniform(1, 3), peak * rng.uniform(0.3, 1)))
    all_times = np.array([latency + sizes / rate for latency, rate in protocols])
    estimates = all_times * np.exp(rng.uniform(-1, 1, len(protocols)))[:, None]
    chosen = all_times[estimates.argmin(0), np.arange(sizes.size)]
    times = np.minimum(chosen, WORST_SWITCH * all_times.min(0))
    knee = 10 ** rng.uniform(6, 8)
    times *= 1 + rng.uniform(0, 1) / (1 + sizes / knee) * np.minimum(1, sizes / 1e5)
    if rng.random() < 0.3:
        times[int(rng.integers(-4, 0)) :] /= 1 - rng.uniform(0.02, 0.14)
    return sizes, times


def measured(
    rng: np.random.Generator, sizes: np.ndarray, times: np.ndarray, noise: float | None = None
) -> CollectiveTable:
    """Both halves, with noise, heavy tails, and a copy that in-place saves."""
    noise = rng.uniform(0.01, 0.05) if noise is None else noise
    halves = []
    for half in range(2):
        own = times * np.exp(rng.normal(0, noise, sizes.size))
        own[(sizes < SMALL) & (rng.random(sizes.size) < 0.04)] *= 1 + rng.pareto(2)
        own[(sizes >= SMALL) & (rng.random(sizes.size) < 0.01)] *= 1 + rng.pareto(3)
        if half == 0 and rng.random() < 0.3:
            own[0] *= rng.uniform(1.3, 4)
        halves.append(own)
    if rng.random() < 0.3:
        halves[1] = halves[1] * rng.uniform(0.94, 1)
    rows = []
    for at, size in enumerate(sizes):
        pair = []
        for half in halves:
            us = printed(half[at] * 1e6)
            algbw = size / us / 1e3
            pair.append(
                TableTime(
                    time_s=us * 1e-6,
                    algbw_gbs=round(algbw, 2),
                    busbw_gbs=round(algbw * SHARE, 2),
                    wrong=0,
                )
            )
        row = TableRow(
            size_bytes=int(size),
            count=int(size) // 4,
            dtype="float",
            out_of_place=pair[0],
            in_place=pair[1],
            line=at + 1,
        )
        rows.append(row)
    return CollectiveTable(
        file="t",
        line=1,
        last_line=len(rows),
        collective="all_reduce",
        ranks=16,
        rows=tuple(rows),
    )


def accused(table: CollectiveTable) -> list[Finding]:
    docket = Docket()
    curves.judge(table, docket)
    return [finding for finding in docket.findings if finding.severity == "degraded"]


def ends(finding: Finding) -> tuple[int, int]:
    where = finding.where
    if where.size_bytes is not None:
        return where.size_bytes, where.size_bytes
    assert where.from_bytes is not None
    assert where.to_bytes is not None
    return where.from_bytes, where.to_bytes


def test_healthy_curves_are_accused_in_fewer_than_one_of_two_hundred() -> None:
    rng = np.random.default_rng(7)
    false = 0
    for _ in range(HEALTHY_CURVES):
        sizes, times = healthy(rng, step=int(rng.choice([2, 2, 2, 4])))
        false += bool(accused(measured(rng, sizes, times)))
    assert false <= 0.005 * HEALTHY_CURVES, f"{false} of {HEALTHY_CURVES}"


@pytest.mark.parametrize(
    ("least", "most", "found"), [(2.0, 2.5, 0.95), (2.5, 60.0, 0.98)], ids=["twice", "more"]
)
def test_holes_of_twice_the_time_over_two_sizes_or_more_are_found(
    least: float, most: float, found: float
) -> None:
    rng = np.random.default_rng(11)
    hits = exact = 0
    for _ in range(HOLED_CURVES):
        sizes, times = healthy(rng)
        length = int(rng.integers(2, 5))
        first = int(rng.integers(2, sizes.size - length - 2))
        times[first : first + length] *= np.exp(rng.uniform(np.log(least), np.log(most)))
        true = int(sizes[first]), int(sizes[first + length - 1])
        told = [ends(finding) for finding in accused(measured(rng, sizes, times))]
        hits += any(low <= true[1] and high >= true[0] for low, high in told)
        exact += true in told
    assert hits >= found * HOLED_CURVES, f"{hits} of {HOLED_CURVES}"
    assert exact >= 0.9 * hits, f"{exact} of {hits} with their very sizes"


def test_collapses_to_less_than_half_are_found_from_their_first_size() -> None:
    rng = np.random.default_rng(13)
    hits = 0
    for _ in range(HOLED_CURVES):
        sizes, times = healthy(rng)
        first = int(rng.integers(sizes.size // 2, sizes.size - 2))
        reached = np.maximum.accumulate(sizes / times)
        # What a collapse is measured against: the best bandwidth below it.
        times[first:] = sizes[first:] / reached[first - 1] * rng.uniform(2.4, 8)
        told = accused(measured(rng, sizes, times))
        hits += any(
            finding.kind in ("collapse", "hole")
            and ends(finding)[0] in (sizes[first - 1], sizes[first])
            for finding in told
        )
    assert hits >= 0.95 * HOLED_CURVES, f"{hits} of {HOLED_CURVES}"


def test_a_peak_that_droops_by_a_tenth_is_a_note() -> None:
    sizes = 2.0 ** np.arange(20, 34)
    times = 50e-6 + sizes / 200e9
    times[-5:] /= 0.9
    rng = np.random.default_rng(1)
    docket = Docket()
    notes = curves.judge(measured(rng, sizes, times, noise=0.01), docket)
    assert not docket.findings
    assert any("peaks with" in note for note in notes)


def test_a_single_slow_half_is_a_note_however_slow() -> None:
    sizes = 2.0 ** np.arange(20, 34)
    table = measured(np.random.default_rng(1), sizes, 50e-6 + sizes / 200e9)
    slow = table.rows[5].out_of_place
    assert slow is not None
    rows = list(table.rows)
    rows[5] = TableRow(
        size_bytes=rows[5].size_bytes,
        count=rows[5].count,
        dtype="float",
        out_of_place=TableTime(
            time_s=slow.time_s * 30, algbw_gbs=slow.algbw_gbs / 30, busbw_gbs=slow.busbw_gbs / 30
        ),
        in_place=rows[5].in_place,
    )
    docket = Docket()
    table = CollectiveTable(
        file="t", line=1, last_line=9, collective="all_reduce", ranks=16, rows=tuple(rows)
    )
    notes = curves.judge(table, docket)
    assert not docket.findings
    assert any(note.startswith("one-off") for note in notes)
