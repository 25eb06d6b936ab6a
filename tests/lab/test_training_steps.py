"""A real training step in a virtual cluster does what `cost` says: the small version of
tests/performance/bench_cost.py, whose table has all sizes, rates and numbers of hosts."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.performance import bench_cost


@pytest.mark.lab
def test_counts_bytes_and_seconds_of_real_steps_are_as_foretold(tmp_path: Path) -> None:
    hosts, rate, millions = 2, 400, 1
    lines = bench_cost.sweep(tmp_path, hosts, rate, sessions=1)
    told = bench_cost.steps(tmp_path, hosts, rate, millions, list(bench_cost.STRATEGIES))
    assert [each["strategy"] for each in told] == list(bench_cost.STRATEGIES)
    ratios = []
    for each in told:
        row = bench_cost.predicted(hosts, millions, lines, each["strategy"])
        exact, of_counted, foretold, took, ratio = bench_cost.compared(row, each)
        assert exact, (each, row.collectives)
        assert of_counted == pytest.approx(1, abs=0.03)
        assert 0.4 < ratio < 2.5, (foretold, took)  # one step on a busy machine
        ratios.append(ratio)
    # Bursts that the lab's shaper lets through make calls of 256 KiB faster than any line.
    assert 0.6 < statistics.median(ratios) < 1.6
