"""Nights held against a baseline that somebody set: where its run is gone, came from elsewhere, or
begins a level of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.judge.history import alarm, drift
from bench.judge.history.drift import Past
from bench.judge.history.nights import night_of
from bench.judge.history.series import Series, Value
from bench.records import Nightly, NightlySeries, Report, Tolerance
from tests import made_nights as made
from tests.judge.test_nights import codes, large, one

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "performance"))

import bench_drift

SEED = 11


def nights(*logs: float, cv: float = 0.005) -> list[Report]:
    """One for each of `logs`, by which its large sizes are slower."""
    rng = np.random.default_rng(SEED)
    return [made.report(at, made.noisy(rng, large(log), cv)) for at, log in enumerate(logs)]


def judge(
    reports: Sequence[Report], baseline: Report, *, before: Nightly | None = None
) -> Nightly:
    return drift.judge(
        Past(
            report=reports[-1],
            nights=[night_of(report) for report in reports],
            baseline=baseline.run,
            lines=baseline.lines,
            reason="as accepted",
            before=before,
        )
    )


# ----------------------------------------------------- a baseline that is none of the nights


def test_a_fault_does_not_become_the_level_when_older_runs_are_cleared_away() -> None:
    reports = nights(*[0.0] * 40, *[0.086] * 30)
    known = judge(reports, reports[0])
    assert one(known).since == reports[40].run
    left = judge(reports[50:], reports[0], before=known)
    assert codes(left) == [("regressed", None, "degraded")]
    assert left.recovered == ()
    assert one(left).since == reports[50].run
    assert one(left).level == pytest.approx(0.09, abs=0.015)
    assert f"since {reports[50].run} (20 nights)" in left.findings[0].summary
    assert "is 0.0 %" not in left.findings[0].summary


def test_a_golden_run_from_elsewhere_is_what_nights_are_held_against() -> None:
    golden = made.report(0, large(-0.09), run="golden")
    reports = nights(*[0.0] * 20)
    assert codes(judge(reports, golden)) == [("regressed", None, "degraded")]
    assert codes(judge(reports[:9], golden)) == [], "nobody knows how these nights scatter"
    assert codes(judge(reports[:10], golden)) == [("regressed", None, "degraded")]
    far = made.report(0, large(-0.3), run="golden")
    assert codes(judge(reports[:1], far)) == [("regressed", None, "degraded")], "beyond the gate"
    slow = made.report(0, large(0.09), run="golden")
    assert {code for code, *_ in codes(judge(reports, slow))} == {"improved"}


def test_what_the_luck_of_one_night_explains_is_no_fault() -> None:
    for log in (-0.03, 0.03):
        golden = made.report(0, large(log), run="golden")
        assert codes(judge(nights(*[0.0] * 30), golden)) == []


def test_a_step_of_three_per_cent_is_told_beside_a_baseline_that_is_gone() -> None:
    reports = nights(*[0.0] * 30, *[0.035] * 8)
    told = judge(reports[5:], reports[0])
    assert one(told).since == one(judge(reports, reports[0])).since
    assert codes(told) == [("regressed", None, "degraded")]


def test_a_fault_that_was_mended_is_the_past() -> None:
    reports = nights(*[0.0] * 10, *[0.086] * 20, *[0.0] * 10)
    assert codes(judge(reports[12:], reports[0])) == []


# --------------------------------------------------------- a baseline that begins a new level


def test_an_accepted_change_is_the_level_from_its_night_on() -> None:
    reports = nights(*[0.0] * 30, *[0.113] * 12)
    for seen in range(31, 43):
        told = judge(reports[:seen], reports[30])
        assert codes(told) == [], seen
        assert one(told).last == pytest.approx(0.0, abs=0.03)
        assert one(told).level == pytest.approx(0.0, abs=0.03)


def test_a_loss_is_told_at_once_although_the_level_before_was_slower_still() -> None:
    reports = nights(*[0.0] * 30, *[-0.357] * 3, *[-0.07] * 9)
    for seen in range(31, 34):
        assert codes(judge(reports[:seen], reports[30])) == [], seen
    before = None
    for seen in range(34, 43):
        before = judge(reports[:seen], reports[30], before=before)
        assert codes(before) == [("regressed", None, "degraded")], seen
        assert re.search("is 3[345] % slower", before.findings[0].summary), seen
        assert one(before).since == reports[33].run


def test_a_loss_below_the_gate_is_told_although_no_change_point_is_there() -> None:
    reports = nights(*[0.0] * 30, *[-0.113] * 2, *[-0.03] * 4)
    told = judge(reports, reports[30])
    assert codes(told) == [("regressed", None, "degraded")]
    assert one(told).since == reports[32].run


def test_a_baseline_set_in_the_first_days_is_not_held_against_the_days_before() -> None:
    reports = nights(*[0.0] * 6, *[0.2] * 6)
    for seen in range(7, 13):
        assert codes(judge(reports[:seen], reports[6])) == [], seen


def test_a_baseline_on_a_level_that_holds_still_sees_what_comes_after() -> None:
    reports = nights(*[0.0] * 25, *[0.0] * 15, *[0.05] * 4)
    assert codes(judge(reports[:40], reports[25])) == []
    told = judge(reports, reports[25])
    assert codes(told) == [("regressed", None, "degraded")]
    assert one(told).since == reports[40].run


# ------------------------------------------------------------------------------- false alarms


@pytest.mark.parametrize("baseline", [25, None])
@pytest.mark.parametrize("kind", bench_drift.NOISES)
def test_eight_series_of_quiet_nights_are_no_more_than_one_alarm_in_two_months(
    kind: str, baseline: int | None
) -> None:
    """With a baseline among the nights, or of one night long before."""
    rng = np.random.default_rng([SEED, bench_drift.NOISES.index(kind)])
    logs = 0.01 * np.array([bench_drift.noise(kind, rng, 90) for _ in range(8)])
    logs -= logs[:, 30 + baseline : 31 + baseline] if baseline is not None else logs[:, :1]
    alarms = 0
    for values in logs[:, 30:].tolist():
        series = [Value(value, value - 0.01, value + 0.01) for value in values]
        before: NightlySeries | None = None
        for tonight in range(baseline or 0, 60):
            around = alarm.Around(
                runs=[str(night) for night in range(tonight + 1)],
                good=[True] * (tonight + 1),
                baseline=baseline,
                tolerance=Tolerance(),
                baseline_set=True,
                before=before,
            )
            shown = Series("data", "all_reduce", "large", tuple(series[: tonight + 1]))
            was, before = before, alarm.judged(shown, around)
            alarms += before.state == "regressed" and (was is None or was.state != "regressed")
    assert alarms <= 1
