"""The rounds of a sweep as a whole: told before, measured, kept, ended early, left out."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import msgspec
import pytest

from bench.commands import location
from bench.plan.amounts import Amounts
from bench.plan.cases import Locate
from bench.records import (
    Candidate,
    CostLine,
    HostFacts,
    Interval,
    Location,
    MeasuredRound,
    PairFigure,
    PairRound,
    Plan,
    PlanSettings,
    Point,
    Report,
)
from tests.judge.simulated_fabric import Fabric

SIZES = tuple(64 * 1024 * 4**at for at in range(4))
GBS = 0.05978  # payload of 500 Mbit/s


def report_of(hosts: int, *, backend: str = "gloo", budget_s: float = 60.0) -> Report:
    """A healthy sweep over one network, lines fitted."""
    names = [f"h{at}" for at in range(hosts)]
    candidate = Candidate(
        name="data", kind="network", interfaces=dict.fromkeys(names, "data0"), outcome="measured"
    )
    line = CostLine(
        candidate="data", collective="all_reduce", ranks=hosts,
        busbw_gbs=Interval(value=GBS, low=0.99 * GBS, high=1.01 * GBS),
        points=tuple(
            Point(
                size_bytes=size, time_s=size / GBS / 1e9, low_s=size / GBS / 1e9,
                high_s=size / GBS / 1e9, iterations=9, sessions=3, algbw_gbs=GBS, busbw_gbs=GBS,
            )
            for size in SIZES
        ),
    )  # fmt: skip
    settings = PlanSettings(name="quick", budget_s=budget_s)
    return Report(
        run="r", verdict="inconclusive", backend=backend,
        hosts=tuple(
            HostFacts(host=name, hostname=name, identity=name, ranks=(at,))
            for at, name in enumerate(names)
        ),
        plan=Plan(settings=settings, backend=backend, ranks=hosts, hosts=hosts),
        candidates=(candidate,), lines=(line,),
    )  # fmt: skip


@dataclass
class Measurer:
    """A fabric of numbers in the place of workers. `ends_after` rounds it is told to stop."""

    fabric: Fabric
    ends_after: int = 1000
    round_s: float = 1.0
    now: float = 100.0
    asked: list[tuple[PairRound, str, Amounts]] = field(default_factory=list)

    def pair_round(
        self, report: Report, order: PairRound, candidate: str, amounts: Amounts
    ) -> tuple[PairFigure, ...] | None:
        del report
        if len(self.asked) == self.ends_after:
            return None
        self.asked.append((order, candidate, amounts))
        self.now += self.round_s
        return tuple(self.fabric.run(order))


def locate(
    measurer: Measurer, how: Locate = "auto", *, began: float = 80.0, report: Report | None = None
) -> tuple[Location | None, list[str], str, list[MeasuredRound]]:
    kept: list[MeasuredRound] = []
    stdout = io.StringIO()
    done, sentences = location.located(
        report or report_of(measurer.fabric.hosts), how, measurer, began=began,
        keep=kept.append, stdout=stdout, clock=lambda: measurer.now,
    )  # fmt: skip
    return done.location, sentences, stdout.getvalue(), kept


def test_the_rounds_are_told_before_they_start_then_measured_and_kept() -> None:
    measurer = Measurer(Fabric(hosts=6, noise=0.003, slow={2: 1.0}))
    found, sentences, told, kept = locate(measurer)
    assert found is not None and [s.host for s in found.suspects] == ["h2"]
    assert sentences == []
    assert told.startswith("locate  ") and "over data" in told and "2 MiB each way" in told
    assert "about" in told and "GPU-hours" not in told
    assert all(len(line) <= 80 for line in told.splitlines())
    assert [one.pair_round.number for one in kept] == [
        order.number for order, _, _ in measurer.asked
    ]
    assert {name for _, name, _ in measurer.asked} == {"data"}
    assert all(one.duration_s == 1.0 and one.figures for one in kept)
    assert len({amounts for _, _, amounts in measurer.asked}) == 1


def test_gpu_hours_are_told_where_gpus_are_held() -> None:
    report = report_of(32, backend="nccl", budget_s=1800)
    _, _, told, _ = locate(Measurer(Fabric(hosts=32, noise=0.003)), report=report)
    assert "GPU-hours" in told


def test_two_hosts_and_never_measure_nothing() -> None:
    for hosts, how in ((2, "auto"), (6, "never")):
        measurer = Measurer(Fabric(hosts=hosts))
        assert locate(measurer, how) == (None, [], "", [])  # type: ignore[arg-type]
        assert not measurer.asked
    found, sentences, _, _ = locate(Measurer(Fabric(hosts=2)), "always")
    assert found is None and sentences == ["pairs of hosts tell something from 3 hosts on"]


def test_a_sweep_without_room_for_pairs_says_so_unless_they_are_wanted() -> None:
    late = {"began": 42.5}  # 57.5 of 60 s are spent
    measurer = Measurer(Fabric(hosts=6, noise=0.003))
    found, sentences, told, _ = locate(measurer, **late)  # type: ignore[arg-type]
    assert (found, told) == (None, "") and not measurer.asked
    assert sentences == ["the budget had no room for pairs of hosts"]
    found, sentences, _, _ = locate(measurer, "always", **late)  # type: ignore[arg-type]
    assert found is not None and sentences == []


def test_always_measures_every_pair_of_few_hosts_and_of_many_if_there_is_time() -> None:
    measurer = Measurer(Fabric(hosts=16, noise=0.003))
    locate(measurer, "always")
    pairs = {frozenset(pair) for order, _, _ in measurer.asked for pair in order.pairs}
    assert len(pairs) == 16 * 15 / 2
    many = Measurer(Fabric(hosts=40, noise=0.003))
    found, sentences, _, _ = locate(many, "always")
    assert found is not None and len(many.asked) == 2
    assert "the budget had no room for a map of all pairs" in sentences[0]
    many = Measurer(Fabric(hosts=40, noise=0.003))
    _, sentences, _, _ = locate(many, "always", report=report_of(40, budget_s=1800))
    assert sentences == [] and len(many.asked) >= 39


def test_a_line_below_expectation_brings_rounds_that_confirm() -> None:
    from bench.records import Fabric as Expected
    from bench.records import FabricNetwork

    wanted = Expected(
        name="lab", network=(FabricNetwork(name="data", interfaces=("data0",), rate_gbps=2.0),)
    )
    report = msgspec.structs.replace(report_of(12), fabric=wanted)
    measurer = Measurer(Fabric(hosts=12, noise=0.003))
    _, _, _, kept = locate(measurer, report=report)
    assert [one.pair_round.stage for one in kept].count("confirm") == 3
    healthy = Measurer(Fabric(hosts=12, noise=0.003))
    _, _, _, kept = locate(healthy)
    assert {one.pair_round.stage for one in kept} <= {"screen", "map"}


@pytest.mark.parametrize("ends_after", [0, 1, 3])
def test_a_sweep_that_ends_meanwhile_keeps_what_was_measured(ends_after: int) -> None:
    measurer = Measurer(Fabric(hosts=6, noise=0.003, slow={2: 1.0}), ends_after=ends_after)
    found, sentences, _, kept = locate(measurer)
    assert len(kept) == ends_after and sentences == []
    if ends_after == 0:
        assert found is None
    else:
        assert found is not None and len(found.figures) == 3 * ends_after
        assert found.candidate == "data"


def test_rounds_that_take_far_longer_than_was_told_end_with_a_sentence() -> None:
    measurer = Measurer(Fabric(hosts=6, noise=0.003), round_s=40.0)
    found, sentences, _, kept = locate(measurer)
    assert found is not None and 1 <= len(kept) < 5
    assert sentences == [f"the rounds of pairs took too long and ended after {len(kept)}"]
