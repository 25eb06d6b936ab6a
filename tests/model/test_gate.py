"""The gate that good runs give: its level, its tolerance, when there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from bench.model.gate import FALSE_ALARM, LEAST, gate


def test_the_tolerance_is_the_prediction_interval_of_one_more_run() -> None:
    values = [100.0, 103.0, 98.0, 101.0, 96.0]
    found = gate(values)
    logs = np.log(values)
    reach = t.ppf(1 - FALSE_ALARM, 4) * logs.std(ddof=1) * math.sqrt(1 + 1 / 5)
    assert found.level == pytest.approx(math.exp(logs.mean()))
    assert found.spread == pytest.approx(logs.std(ddof=1))
    assert found.tolerance == pytest.approx(1 - math.exp(-reach), abs=0.001)
    assert found.tolerance >= 1 - math.exp(-reach)


def test_above_is_the_mirror_of_below() -> None:
    values = [100.0, 140.0, 90.0, 120.0, 105.0]
    low, high = gate(values), gate([1 / v for v in values], side="above")
    assert low.tolerance and high.tolerance
    assert (1 - low.tolerance) * (1 + high.tolerance) == pytest.approx(1, abs=0.005)


def test_one_run_has_a_level_and_no_gate_and_two_have_a_spread_besides() -> None:
    one, two = gate([5.0]), gate([5.0, 5.5])
    assert (one.level, one.runs, one.spread, one.tolerance) == (pytest.approx(5.0), 1, None, None)
    assert two.spread == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert two.tolerance is None
    assert two.detectable is None


def test_runs_that_agree_perfectly_still_leave_two_percent() -> None:
    assert gate([5.0] * 30).tolerance == LEAST["below"]
    assert gate([5.0] * 300, side="above").tolerance == LEAST["above"]


def test_three_runs_that_agree_are_believed_less_than_ten() -> None:
    three, ten = gate([5.0] * 3), gate([5.0] * 10)
    assert three.tolerance and ten.tolerance
    assert three.tolerance > 0.07 > ten.tolerance


def test_wild_runs_give_a_wide_gate_and_never_all_there_is() -> None:
    found = gate([1.0, 50.0, 2.0])
    assert found.tolerance == 0.999


def test_a_runs_own_interval_adds_to_what_is_detectable_only() -> None:
    sharp, blunt = gate([5.0] * 5), gate([5.0] * 5, [0.02, 0.03, 0.04])
    assert sharp.tolerance == blunt.tolerance
    assert sharp.detectable and blunt.detectable
    assert blunt.detectable == pytest.approx(1 - (1 - sharp.detectable) * math.exp(-0.03))


@given(
    st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=20),
    st.floats(1e-3, 1e3),
    st.sampled_from(["below", "above"]),
)
def test_the_unit_of_the_figures_does_not_matter(values, unit, side) -> None:
    one, other = gate(values, side=side), gate([v * unit for v in values], side=side)
    assert other.level == pytest.approx(one.level * unit, rel=1e-6)
    if one.tolerance is None:
        assert other.tolerance is None
    else:
        assert other.tolerance == pytest.approx(one.tolerance, abs=0.0021, rel=1e-6)
        assert one.detectable is not None
        assert one.detectable >= one.tolerance
        assert LEAST[side] <= one.tolerance
