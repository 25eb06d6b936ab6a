"""What limits the figures: remarks, and one thing that is never a remark."""

from __future__ import annotations

import pytest

from bench.judge.measurement import oversubscribed
from bench.judge.verdict import judge
from bench.records import Report


def told(report: Report) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in report.findings]


def with_point(scene, **changes):
    scene.lines = [line for line in scene.lines if line.candidate != "data"]
    return scene.measured("data", 0.0597, **changes)


def test_a_wrong_element_is_broken(healthy):
    report = judge(with_point(healthy, wrong=3).report())
    assert report.findings[0].code == "wrong-result" and report.verdict == "broken"
    assert "6 elements in 2 cells" in report.findings[0].summary  # both collectives


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"settled": False}, [("unsettled", "warning")]),
        ({"noisy": True}, [("noisy", "info")]),
        ({"skew": 0.2, "skew_s": 0.01}, [("skewed", "warning")]),
        ({"skew": 0.2, "skew_s": 90e-6}, []),  # a fifth of nothing
        ({"skew": 0.04, "skew_s": 0.01}, []),  # long calls drift by milliseconds
        ({"settled": False, "size_bytes": 4096}, [("unsettled", "info")]),
    ],
)
def test_limits_of_the_measurement_are_told_and_never_degrade(healthy, changes, expected):
    report = judge(with_point(healthy, **changes).report())
    assert told(report) == expected and report.verdict == "healthy"


def test_more_ranks_than_cores_explain_skew_and_silence_the_warning(healthy):
    healthy.everywhere(boot_id="one machine", cores=2)
    report = judge(with_point(healthy, skew=0.2, skew_s=0.01).report())
    assert told(report) == [("skewed", "info")]
    assert "4 ranks share 2 cores" in report.findings[0].summary


def test_hosts_with_their_own_cores_are_not_oversubscribed(healthy):
    assert oversubscribed(tuple(healthy.hosts.values())) is None
