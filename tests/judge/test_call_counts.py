"""Times that stand for other numbers of calls on the two sides: compared, or left open."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bench.judge import regress
from bench.judge.sides import call_counts
from bench.measure import clock
from bench.measure.clock import CudaClock
from bench.records import Comparison, SessionCurve, Side, SideSession

SIZES = tuple(1 << power for power in range(10, 31))
SMALL = np.array(SIZES) < 65536


def level(latency_s: float, slower: float = 1.0):
    """Small sizes take the latency, large ones what 200 GB/s let them."""
    return np.where(SMALL, latency_s * slower, 20e-6 + np.array(SIZES) / 200e9)


def curve(times_s, calls) -> SessionCurve:
    return SessionCurve(
        candidate="data", collective="all_reduce", ranks=16, dtype="float32", share=1.875,
        sizes_bytes=SIZES, times_s=tuple(map(float, times_s)), scatters=(0.003,) * len(SIZES),
        calls=tuple(calls),
    )  # fmt: skip


def side(times_s, seed: int, *, calls=None, noise: float = 0.01, bias: float = 0.0,
         sessions: int = 5, backend: str = "nccl") -> Side:  # fmt: skip
    """`calls`: by size, or those that a GPU's clock takes for the times of each session; `bias` is
    how much less a time is for each doubling of it."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(sessions):
        own = times_s * np.exp(noise * (0.9 * rng.normal() + 0.45 * rng.normal(size=len(SIZES))))
        taken = calls or [
            CudaClock.calls_per_time(None, t * np.exp(rng.normal(0, 0.02))) for t in own
        ]
        made.append(
            SideSession(
                name=f"run-{at}", run=f"run-{at}-{seed}", hosts=("host1", "host2"), host_count=2,
                backend=backend, curves=(curve(own * np.exp(-bias * np.log2(taken)), taken),),
            )
        )  # fmt: skip
    return Side(path=f"side-{seed}", sessions=tuple(made), told=("report",))


def codes(result: Comparison) -> set[str]:
    return {finding.code for finding in result.findings}


def small(result: Comparison):
    return next(gate for gate in result.lines[0].gates if gate.sizes == "small")


def test_the_rule_of_the_clock_is_the_one_that_is_taken_for_granted() -> None:
    assert clock._EVENT_SAMPLE_S == call_counts.FULL_S
    assert clock._MOST_CALLS_PER_TIME == call_counts.MOST_CALLS
    for one_s in np.geomspace(1e-6, 1.0, 200):
        calls = CudaClock.calls_per_time(None, one_s)
        assert all(call_counts.fills(calls, one_s * factor) for factor in (0.6, 1.0, 5.0))


@pytest.mark.parametrize("sessions", [3, 5])
@pytest.mark.parametrize("latency_s", [5e-6, 20e-6, 24.5e-6, 60e-6])
@pytest.mark.parametrize("factor", [1.3, 2.25, 10.0])
def test_a_latency_that_changes_its_number_of_calls_as_well_is_found(
    latency_s, factor, sessions
) -> None:
    fast = side(level(latency_s), 1, sessions=sessions, noise=0.006)
    slow = side(level(latency_s, factor), 2, sessions=sessions, noise=0.006)
    worse = regress.judge(fast, slow)
    assert worse.verdict == "regressed" and small(worse).verdict == "regressed"
    shown = small(worse).whole.time_s.change.value
    assert shown == pytest.approx(factor - 1, rel=0.05)
    assert any(f.code == "regressed" and f.severity == "degraded" for f in worse.findings)
    better = regress.judge(slow, fast)
    assert better.verdict == "improved" and small(better).verdict == "improved"


def test_sizes_of_other_numbers_of_calls_are_never_called_equal() -> None:
    for factor in (1.0, 1.03, 1.05):
        before = side(level(24.5e-6), 1, calls=[16 if s else 1 for s in SMALL])
        after = side(level(24.5e-6, factor), 2, calls=[8 if s else 1 for s in SMALL])
        result = regress.judge(before, after)
        assert small(result).verdict == "inconclusive" and result.verdict == "inconclusive"


@pytest.mark.parametrize("bias", [0.0, 0.02])
def test_the_number_of_calls_alone_raises_no_alarm(bias) -> None:
    found = []
    for seed in range(80):
        latency_s = 25e-6 * (0.98 + 0.0005 * seed)  # about where 16 calls become 8
        before, after = (side(level(latency_s), 2 * seed + n, bias=bias) for n in (0, 1))
        found.append(regress.judge(before, after).verdict)
    assert sum(verdict in ("regressed", "improved") for verdict in found) <= 0.05 * len(found)


def test_times_of_another_quantity_leave_their_sizes_open() -> None:
    piped = [4 if s else 1 for s in SMALL]
    before = side(level(20e-6), 1, calls=[1] * len(SIZES))
    result = regress.judge(before, side(level(10e-6), 2, calls=piped))
    (line,) = result.lines
    assert [cell.size_bytes for cell in line.cells] == [n for n in SIZES if n >= 65536]
    assert line.verdict == result.verdict == "inconclusive"
    (told,) = [f for f in result.findings if f.code == "inconclusive"]
    assert told.severity == "warning"
    assert "1 to 32 KiB cannot be compared: a time stands for 1 call before and for 4 calls" in (
        told.summary
    )
    assert not any("not on both sides" in note for note in line.notes)
    slower = msgspec.structs.replace(
        side(np.where(SMALL, 10e-6, 1.2 * level(20e-6)), 2, calls=piped), path="b"
    )
    worse = regress.judge(before, slower)
    assert worse.verdict == "regressed" and {"regressed", "inconclusive"} == codes(worse)
    assert not any("all else equal" in f.summary for f in worse.findings)


def test_interfaces_that_take_turns_are_no_line_to_be_compared_with_one_alone() -> None:
    before = side(level(1e-3), 1, calls=[1] * len(SIZES), backend="gloo")
    after = side(level(1e-3), 2, calls=[4] * len(SIZES), backend="gloo")
    result = regress.judge(before, after)
    assert result.verdict == "not-comparable"
    assert "a time stands for 1 call before and for 4 calls after" in result.findings[0].summary


def test_a_session_of_another_number_of_calls_is_left_out_where_it_is_another_quantity() -> None:
    one, four = [1] * len(SIZES), [4] * len(SIZES)
    before, other = (side(level(1e-3), 1, calls=n, backend="gloo") for n in (one, four))
    mixed = msgspec.structs.replace(before, sessions=(*before.sessions[:4], other.sessions[4]))
    result = regress.judge(mixed, side(level(1e-3), 2, calls=one, backend="gloo"))
    assert result.verdict == "equivalent" and result.lines[0].untold is None
    alone = msgspec.structs.replace(before, sessions=(*other.sessions[:4], before.sessions[4]))
    result = regress.judge(alone, side(level(1e-3), 2, calls=one, backend="gloo"))
    assert result.verdict == "not-comparable"
