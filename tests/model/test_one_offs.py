"""Cells that something disturbed once: which are taken for it, which are not, and what it is for.

Noise as on a busy host: sessions 0.3 % apart, single cells up to ten times as slow.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.model.comparison import compare
from bench.model.one_offs import calmed
from bench.model.repeated_curves import Curves

SIZES = np.array([1 << power for power in range(13, 25)], float)
LARGE = SIZES >= 65536


def quiet(rng, sessions=5, *, percent=0.0, scatter=0.003):
    rows = scatter * (
        rng.standard_normal((sessions, 1)) + rng.standard_normal((sessions, SIZES.size))
    )
    return rows + math.log1p(percent / 100)


def disturbed(rng, rows, share=0.08):
    """One cell in twelve takes 1.1 to 10 times as long."""
    hit = rng.random(rows.shape) < share
    return rows + hit * rng.uniform(math.log(1.1), math.log(10), rows.shape)


def test_a_cell_of_one_session_is_brought_to_its_sizes_usual_level() -> None:
    rows = quiet(np.random.default_rng(1))
    rows[2, 5] += math.log(3)
    rows[4, 5] += math.log(1.3)
    rows[2, 9] += math.log(8)
    calm, flags = calmed(rows, SIZES)
    assert set(zip(*map(list, np.nonzero(flags)), strict=True)) == {(2, 5), (4, 5), (2, 9)}
    assert np.abs(calm[:, LARGE]).max() < 0.02
    left = [0, 1, 3]
    assert calm[left, 5].mean() == pytest.approx(rows[left, 5].mean(), abs=0.002)
    untouched = ~flags.any(0)
    assert (calm[:, untouched] == rows[:, untouched]).all()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda rows: rows[1].__iadd__(1.0), id="a session that is slow as a whole"),
        pytest.param(lambda rows: rows[:3, 6].__iadd__(1.0), id="a size that most have slow"),
        pytest.param(lambda rows: rows[1, 6:7].__isub__(1.0), id="a cell that is fast"),
        pytest.param(lambda rows: rows[1, :2].__iadd__(1.0), id="latencies, which scatter so"),
        pytest.param(lambda rows: rows[1, 6:7].__iadd__(0.04), id="what harms no test"),
    ],
)
def test_what_is_no_one_off_stays(change) -> None:
    rows = quiet(np.random.default_rng(2))
    change(rows)
    calm, flags = calmed(rows, SIZES)
    assert not flags.any() and (calm == rows).all()


@pytest.mark.parametrize("tail", [False, True])
def test_of_ordinary_noise_nothing_is_taken(tail) -> None:
    rng = np.random.default_rng(3)
    draw = (lambda shape: rng.standard_t(3, shape)) if tail else rng.standard_normal
    taken = cells = 0
    for _ in range(200):
        rows = 0.01 * (draw((5, 1)) + 0.5 * rng.standard_normal((5, SIZES.size)))
        taken += calmed(rows, SIZES)[1].sum()
        cells += rows[:, LARGE].size
    assert taken / cells < 1e-4


def test_three_sessions_and_sizes_that_end_elsewhere_show_no_usual_level() -> None:
    rows = disturbed(np.random.default_rng(4), quiet(np.random.default_rng(4)), 0.2)
    assert not calmed(rows[:3], SIZES)[1].any()
    rows[0, -1] = math.nan
    assert not calmed(rows, SIZES)[1].any()


def judged(before, after):
    rows = [calmed(each, SIZES)[0] for each in (before, after)]
    (line,) = compare([Curves(SIZES, *rows, shared_run=(True, True))])
    return {gate.verdict for gate in line.gates if gate.large}


def test_five_per_cent_are_found_on_a_busy_host_and_nothing_where_nothing_changed() -> None:
    rng = np.random.default_rng(5)
    sets, found, alarms, plain = 60, 0, 0, 0
    for _ in range(sets):
        first, second, third = (disturbed(rng, quiet(rng, percent=p)) for p in (0, 0, 5))
        found += judged(first, third) == {"regressed"}
        alarms += bool(judged(first, second) & {"regressed", "improved"})
        (line,) = compare([Curves(SIZES, first, third, shared_run=(True, True))])
        plain += any(gate.verdict == "regressed" for gate in line.gates if gate.large)
    assert found / sets >= 0.95 and alarms / sets <= 0.05
    assert plain / sets < 0.5, "without it the disturbances hide the change"
