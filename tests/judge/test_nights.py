"""A night held against baseline and past: what is an alarm, since when, and what is none."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.judge.history import drift, fleet
from bench.judge.history.drift import Past
from bench.judge.history.nights import night_of, started_at, trouble_of
from bench.judge.history.series import series_of
from bench.judge.pairs.search import Search
from bench.records import (
    Fabric,
    Finding,
    Location,
    Night,
    Nightly,
    NightlySeries,
    PairFigure,
    PairTime,
    Report,
)
from tests import made_nights as made
from tests.judge import simulated_fabric as simulated

Shifts = Mapping[tuple[str, str, str], float]
ALL_LARGE = {(c, k, "large"): 1.0 for c in ("data", "(default)") for k in made.COLLECTIVES}
RNG_SEED = 6


def large(log: float) -> Shifts:
    return {key: log * share for key, share in ALL_LARGE.items()}


def only(candidate: str, log: float) -> Shifts:
    return {key: log for key in ALL_LARGE if key[0] == candidate}


def nights(*steps: Shifts, quiet: int = 20, cv: float = 0.005) -> list[Report]:
    """`quiet` good nights, then one for each of `steps`."""
    rng = np.random.default_rng(RNG_SEED)
    shifts = [*([{}] * quiet), *steps]
    return [made.report(at, made.noisy(rng, step, cv)) for at, step in enumerate(shifts)]


def judge(
    reports: Sequence[Report], *, again: Report | None = None, before: Nightly | None = None
) -> Nightly:
    """Tonight is the last of them, the first is the baseline that nobody set."""
    return drift.judge(
        Past(
            report=reports[-1],
            nights=[night_of(report) for report in reports],
            baseline=reports[0].run,
            lines=reports[0].lines,
            before=before,
            again=night_of(again) if again else None,
            again_folder="again" if again else None,
        )
    )


def one(told: Nightly, candidate: str = "data", part: str = "large") -> NightlySeries:
    return next(s for s in told.series if (s.candidate, s.part) == (candidate, part))


def codes(told: Nightly) -> list[tuple[str, str | None, str]]:
    return [(f.code, f.kind, f.severity) for f in told.findings]


# ---------------------------------------------------------------------------------- alarms


def test_nights_as_ever_say_nothing() -> None:
    told = judge(nights())
    assert (told.verdict, told.findings, told.recovered) == ("healthy", (), ())
    assert {series.state for series in told.series} == {"steady"}
    assert drift.second_look(told) == ()


def test_three_nights_of_five_per_cent_are_one_finding_with_its_first_night() -> None:
    reports = nights(*[large(0.05)] * 3)
    told = judge(reports)
    assert codes(told) == [("regressed", None, "degraded")]
    assert told.verdict == "degraded"
    (found,) = told.findings
    assert found.where.candidate == "data" and found.where.from_bytes == 65536
    assert f"since {reports[20].run} (3 nights)" in found.summary
    assert "in all_reduce and all_gather (64 KiB and more)" in found.summary
    # What the network explains of the case with nothing set is told with it.
    assert any(line.text.startswith("(default), ") for line in found.evidence)
    assert one(told).since == reports[20].run
    assert judge(reports[:-1]).verdict == "healthy", "two nights are not three"


def test_a_night_far_beyond_the_gate_is_told_at_once() -> None:
    told = judge(nights(large(0.4)))
    assert codes(told) == [("regressed", None, "degraded")]
    assert told.findings[0].summary.endswith(", tonight.")
    assert {s.part for s in drift.second_look(told)} == {"large"}


def test_a_fault_is_as_large_on_its_second_night_as_on_its_first() -> None:
    reports = nights(large(0.4), large(0.4))
    first = judge(reports[:-1])
    told = judge(reports, before=first)
    (found,) = told.findings
    assert one(told).changes == (), "two nights are no change point yet"
    assert f"since {reports[20].run} (2 nights)" in found.summary
    for text in (found.summary, *(line.text for line in found.evidence)):
        assert "0.0 %" not in text
    assert found.summary.startswith("data is 49 % slower")
    assert f"level since {reports[20].run} +49 %" in found.evidence[0].text


def test_a_fault_of_the_first_week_is_told_by_its_own_nights() -> None:
    (found,) = judge(nights(*[large(0.08)] * 3, quiet=6)).findings
    assert re.match(r"data is [78]\.\d % slower", found.summary)


def test_a_second_look_that_disagrees_takes_the_alarm_back() -> None:
    reports = nights(large(0.4))
    told = judge(reports, again=made.report(20, large(0.01), run="again"))
    assert codes(told) == [("inconclusive", None, "info")]
    assert "+1.0 % at a second look the same night" in told.findings[0].summary
    assert told.verdict == "healthy"
    assert drift.second_look(told) == (), "two looks a night are enough"


def test_a_second_look_that_agrees_is_evidence() -> None:
    told = judge(nights(large(0.4)), again=made.report(20, large(0.38), run="again"))
    assert codes(told) == [("regressed", None, "degraded")]
    looks = [e.text for e in told.findings[0].evidence if "second look" in e.text]
    assert looks == ["a second look the same night: +46 % in all_reduce, +46 % in all_gather"]


def test_a_night_that_stands_out_below_the_gate_needs_a_second_look_and_two_more_nights() -> None:
    reports = nights(only("data", 0.06))
    alone = judge(reports)
    assert {s.candidate for s in drift.second_look(alone)} == {"data"}
    assert codes(alone) == [("inconclusive", None, "info")]
    assert "One night like that is no alarm" in alone.findings[0].summary
    seen_twice = judge(reports, again=made.report(20, only("data", 0.06), run="again"))
    assert codes(seen_twice) == [("regressed", "tonight", "warning")]
    assert seen_twice.verdict == "healthy", "a warning fails no night"


def test_a_night_whose_interval_does_not_exclude_chance_is_no_alarm() -> None:
    reports = nights(large(0.4))
    wide = [
        msgspec.structs.replace(
            line,
            points=tuple(
                msgspec.structs.replace(p, low_s=p.time_s / 2, high_s=p.time_s * 2)
                for p in line.points
            ),
        )
        for line in reports[-1].lines
    ]
    reports[-1] = msgspec.structs.replace(reports[-1], lines=tuple(wide))
    told = judge(reports)
    assert codes(told) == [("inconclusive", None, "info")]
    assert "an interval that does not exclude chance" in told.findings[0].summary


def test_a_fault_of_the_first_week_does_not_become_the_level() -> None:
    told = judge(nights(*[large(0.05)] * 3, quiet=6))
    assert codes(told) == [("regressed", None, "degraded")]


def test_faster_is_told_after_a_week_and_asks_for_a_new_baseline() -> None:
    reports = nights(*[large(-0.1)] * 7)
    assert codes(judge(reports[:-1])) == []
    told = judge(reports)
    assert {code for code, *_ in codes(told)} == {"improved"}
    assert "set a new baseline once the reason is known" in told.findings[0].summary
    assert told.verdict == "healthy"


def test_a_network_that_carries_nothing_only_warns() -> None:
    rng = np.random.default_rng(RNG_SEED)
    names = ("data", "mgmt", "(default)")
    reports = [made.report(at, made.noisy(rng, cv=0.005), candidates=names) for at in range(20)]
    slow = {("mgmt", k, "large"): 0.4 for k in made.COLLECTIVES}
    reports.append(made.report(20, slow, candidates=names))
    idle = dict.fromkeys(("host1", "host2", "host3", "host4"), "mgmt0")
    for at, report in enumerate(reports):
        data, mgmt, default = report.candidates
        mgmt = msgspec.structs.replace(mgmt, interfaces=idle, carried={})
        reports[at] = msgspec.structs.replace(report, candidates=(data, mgmt, default))
    told = judge(reports)
    assert codes(told) == [("regressed", None, "warning")]
    assert told.findings[0].where.candidate == "mgmt"
    assert told.verdict == "healthy"


def test_where_ranks_outnumber_cores_small_sizes_are_shown_and_not_judged() -> None:
    reports = [made.report(at, cores=2) for at in range(20)]
    slow = {(c, k, "small"): 0.7 for c in ("data", "(default)") for k in made.COLLECTIVES}
    hosts = [
        msgspec.structs.replace(facts, boot_id="one", identity="one") for facts in reports[0].hosts
    ]
    reports.append(made.report(20, slow, cores=2))
    reports = [msgspec.structs.replace(r, hosts=tuple(hosts)) for r in reports]
    told = judge(reports)
    assert one(told, part="small").state == "unjudged"
    assert one(told, part="small").note == "4 ranks share 2 cores"
    assert told.findings == ()


# --------------------------------------------------------------------- holes, shapes, past


def test_a_night_that_did_not_measure_a_way_is_a_hole_and_no_fault() -> None:
    reports = nights(quiet=20)
    reports.append(made.report(20, candidates=("(default)",)))
    told = judge(reports)
    assert one(told).state == "hole" and one(told).last is None
    assert one(told, "(default)").state == "steady"
    assert told.findings == () and told.verdict == "healthy"


def test_holes_in_the_past_move_no_night() -> None:
    reports = nights(*[large(0.05)] * 3)
    holes = [r for at, r in enumerate(reports) if at not in (3, 4, 11, 21)]
    assert judge(holes).verdict == "healthy"  # two nights are left of the step
    holes = [r for at, r in enumerate(reports) if at not in (3, 4, 11)]
    told = judge(holes)
    assert one(told).since == reports[20].run
    assert "(3 nights)" in told.findings[0].summary


def test_a_slow_night_that_ends_its_ladder_early_is_compared_size_by_size() -> None:
    reports = nights(large(1.5))
    short = [msgspec.structs.replace(line, points=line.points[:-3]) for line in reports[-1].lines]
    reports[-1] = msgspec.structs.replace(reports[-1], lines=tuple(short))
    told = judge(reports)
    assert one(told).last == pytest.approx(math.expm1(1.5), rel=0.05)
    few = [msgspec.structs.replace(line, points=line.points[:6]) for line in reports[-1].lines]
    reports[-1] = msgspec.structs.replace(reports[-1], lines=tuple(few))
    assert one(judge(reports)).state == "hole", "it shares no large size with the baseline"


def test_nights_of_another_shape_are_counted_and_not_compared() -> None:
    other = made.report(20, large(0.4), hosts=("host1", "host2"))
    told = drift.judge(Past(report=other, nights=[night_of(r) for r in [*nights(), other]]))
    assert told.series == () and (told.nights, told.other_shapes) == (1, 20)
    assert codes(told) == [("not-comparable", None, "info")]
    back = [*nights(), other, made.report(21)]
    told = judge(back)
    assert (told.nights, told.other_shapes, told.verdict) == (21, 1, "healthy")
    assert one(told).runs == tuple(r.run for r in back if r is not other)


def test_what_the_sweep_finds_is_told_with_its_first_night_and_its_end() -> None:
    bad = made.degraded()
    reports = nights(quiet=10)
    reports += [made.report(at, findings=[bad]) for at in (10, 11)]
    told = judge(reports)
    assert told.troubles == {"link-degraded (data)": reports[10].run}
    assert told.recovered == () and told.verdict == "degraded"
    reports.append(made.report(12))
    told = judge(reports, before=told)
    assert told.troubles == {}
    assert told.recovered == ("link-degraded (data) is gone, after 2 nights",)
    assert codes(told) == [("improved", "recovered", "info")]
    assert judge([*reports, made.report(13)], before=told).recovered == ()


def test_a_night_that_was_cut_short_or_looked_elsewhere_recovers_nothing() -> None:
    reports = [*nights(quiet=10), made.report(10, findings=[made.degraded()])]
    assert judge([*reports, made.report(11, complete=False)]).recovered == ()
    assert judge([*reports, made.report(11, candidates=("(default)",))]).recovered == ()


def test_a_regression_that_is_over_is_said_to_be_over_once_three_nights_confirm_it() -> None:
    reports = nights(*[large(0.08)] * 6, *[{}] * 3)
    told = judge(reports[:-3])
    for end in (-2, -1, None):
        before, told = told, judge(reports[:end], before=told)
        if end is not None:  # tonight as before, but that may be luck
            assert codes(told) == [("regressed", None, "warning")], end
            assert "three such nights confirm that" in told.findings[0].summary
    assert before.verdict == "healthy", "what is as before tonight fails no night"
    assert codes(told) == [("improved", "recovered", "info")]
    assert any("data is as its baseline again" in sentence for sentence in told.recovered)


def test_a_night_names_each_trouble_by_what_and_where() -> None:
    assert trouble_of(made.degraded()) == "link-degraded (data)"
    plain = Finding(code="hang-init", kind="late", severity="broken", summary="x")
    assert trouble_of(plain) == "hang-init: late"


def test_a_night_knows_when_it_was_from_its_sessions_or_its_name() -> None:
    report = made.report(3)
    assert started_at(report) == made.FIRST_NIGHT + 3 * made.DAY_S
    bare = msgspec.structs.replace(report, sessions=())
    assert started_at(bare) == made.FIRST_NIGHT + 3 * made.DAY_S
    for run in ("my run", "2026-13-45T99-00-00Z", ""):
        assert started_at(msgspec.structs.replace(bare, run=run)) == 0.0


# ----------------------------------------------------------------------------- whole fleets


def located(report: Report, slow: Mapping[str, float], rng: np.random.Generator) -> Report:
    """With five rounds of pairs; pairs with a host of `slow` take that much longer (logs)."""
    names = [facts.host for facts in report.hosts]
    figures = []
    for number in range(5):
        order = [names[at] for at in rng.permutation(len(names))]
        for a, b in zip(order[::2], order[1::2], strict=False):
            log = 0.005 * rng.standard_normal() + slow.get(a, 0.0) + slow.get(b, 0.0)
            time = PairTime(forward_s=1e-3 * math.exp(log), backward_s=1e-3 * math.exp(log))
            figures.append(
                PairFigure(round=number, stage="screen", hosts=(a, b), size_bytes=2**21,
                           times=(time,))
            )  # fmt: skip
    where = Location(hosts=tuple(names), figures=tuple(figures), threshold=0.05)
    return msgspec.structs.replace(report, location=where)


def fleet_nights(hosts_of: Sequence[Sequence[str]], slow: Mapping[str, float]) -> list[Report]:
    rng = np.random.default_rng(9)
    return [located(made.report(at, hosts=hosts), slow, rng) for at, hosts in enumerate(hosts_of)]


NODES = tuple(f"node{number:02d}" for number in range(24))


def test_a_host_that_is_slow_on_each_of_its_own_nights_is_named_wherever_it_ran() -> None:
    """Jobs run on whatever twelve of 24 nodes are idle: no two nights on the same hosts."""
    rng = np.random.default_rng(4)
    parts = [tuple(sorted(rng.choice(NODES, 12, replace=False).tolist())) for _ in range(12)]
    reports = fleet_nights(parts, {"node07": 0.07})
    own = [at for at, part in enumerate(parts) if "node07" in part]
    assert len(own) > 4, "the seed gives the node enough nights"
    for at in range(len(parts)):
        told = judge(reports[: at + 1])
        expected = ["node07"] if at in own[2:] else []
        assert [slow.host for slow in told.slow_hosts] == expected, at
        assert told.missing_hosts == {}, "who has no job tonight is not missing"
    told = judge(reports[: own[3] + 1])
    (found,) = [f for f in told.findings if f.code == "host-slow"]
    assert (found.severity, found.where.host) == ("degraded", "node07")
    assert all(reports[at].run in found.evidence[0].text for at in own[1:4])
    assert told.slow_hosts[0].slowdown == pytest.approx(0.0725, abs=0.02)


def test_a_host_below_what_a_sweep_accuses_of_is_a_warning_and_a_healthy_fleet_is_silent() -> None:
    told = judge(fleet_nights([NODES] * 3, {"node03": 0.04}))
    assert [(f.code, f.severity) for f in told.findings] == [("host-slow", "warning")]
    assert told.verdict == "healthy"
    for seed in range(4):
        rng = np.random.default_rng(seed)
        quiet = [located(made.report(at, hosts=NODES), {}, rng) for at in range(3)]
        assert fleet.slow_hosts([night_of(r) for r in quiet]) == ()


def test_a_rail_is_named_with_its_host() -> None:
    quiet = {f"host{n}, rail {rail}": 0.001 for n in (1, 2, 3) for rail in (0, 1)}
    hosts = ("host1", "host2", "host3")
    past = [
        Night(run=made.name_of(at), hosts=hosts, fleet=quiet | {"host2, rail 1": 0.08},
              fleet_spread=0.004)
        for at in range(3)
    ]  # fmt: skip
    (slow,) = fleet.slow_hosts(past)
    assert (slow.host, slow.rail) == ("host2", 1)
    assert fleet.slow_hosts(past[:2]) == ()
    wild = msgspec.structs.replace(past[1], fleet=quiet | {"host2, rail 1": 0.0})
    assert fleet.slow_hosts([past[0], wild, past[2]]) == (), "one of three nights was good"


LEAVES = tuple(tuple(range(at, at + 4)) for at in range(0, 24, 4))


def nights_on_leaves(*, told: bool, maps: bool = False, **faults: object) -> list[Report]:
    """Three nights on 24 hosts of six leaves, which the fabric file tells or not."""
    reports = []
    for night in range(3):
        net = simulated.Fabric(24, leaves=LEAVES, noise=0.005, seed=night, **faults)  # type: ignore[arg-type]
        leaves = net.leaf_names if told else ()
        report = made.report(night, hosts=net.names)
        reports.append(
            msgspec.structs.replace(
                report,
                fabric=Fabric(name="mine", leaves=leaves),
                location=net.located(Search(leaves=leaves, map_links=maps)),
            )
        )
    return reports


def slow_of(reports: Sequence[Report]) -> list[str]:
    return [slow.host for slow in fleet.slow_hosts([night_of(report) for report in reports])]


@pytest.mark.parametrize(
    "faults",
    [{"uplinks": {2: 0.3}}, {"slow": dict.fromkeys(LEAVES[2], 0.3)}, {"oversubscribed": 0.6}],
    ids=["uplink", "switch", "spine"],
)
def test_hosts_of_a_slow_leaf_are_not_accused_one_by_one(faults: dict[str, object]) -> None:
    assert slow_of(nights_on_leaves(told=True, **faults)) == []
    assert slow_of(nights_on_leaves(told=False, maps=True, uplinks={2: 0.3})) == []


def test_a_slow_host_is_named_beside_slow_leaves() -> None:
    assert slow_of(nights_on_leaves(told=True, slow={1: 0.3}, uplinks={4: 0.3})) == ["h1"]
    assert slow_of(nights_on_leaves(told=True, slow={13: 0.2}, oversubscribed=0.6)) == ["h13"]


def test_only_who_is_always_there_can_be_missing() -> None:
    four = ("host1", "host2", "host3", "host4")
    always = [Night(run=str(at), hosts=four) for at in range(20)]
    three = Night(run="20", hosts=four[:3])
    assert fleet.missing_hosts([*always, three]) == {"host4": 20}
    assert fleet.missing_hosts([*always, three, three]) == {}, "told once, on the first night"
    now_and_then = [Night(run=str(at), hosts=four if at % 3 else four[:3]) for at in range(19)]
    assert fleet.missing_hosts([*now_and_then, Night(run="x", hosts=four), three]) == {}
    assert fleet.missing_hosts([three]) == {}


# ------------------------------------------------------------------------- anything at all


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-8, 8)), min_size=1, max_size=30),
    st.booleans(),
)
def test_any_nights_have_a_judgement(logs: list[float | None], looked_again: bool) -> None:
    reports = [
        made.report(at, large(log)) if log is not None else made.report(at, candidates=())
        for at, log in enumerate(logs)
    ]
    first = next((r for r in reports if r.lines), None)
    night = [night_of(r) for r in reports]
    told = drift.judge(
        Past(
            report=reports[-1],
            nights=night,
            baseline=first.run if first else None,
            lines=first.lines if first else (),
            again=night[-1] if looked_again else None,
        )
    )
    for series in told.series:
        assert (series.state == "hole") == (logs[-1] is None)
        assert len(series.values) == len(logs)
        assert series.since is None or series.since in series.runs
    assert msgspec.json.decode(msgspec.json.encode(told), type=Nightly) == told


@pytest.mark.parametrize("time_s", [0.0, -1.0, 1e-300, 1e300])
def test_times_that_no_collective_takes_are_left_out(time_s: float) -> None:
    def spoilt(report: Report) -> Report:
        lines = []
        for line in report.lines:
            bad = msgspec.structs.replace(line.points[-1], time_s=time_s, low_s=time_s)
            points = (*line.points[:-1], bad)
            lines.append(msgspec.structs.replace(line, points=points))
        return msgspec.structs.replace(report, lines=tuple(lines))

    reports = nights(quiet=12)
    assert judge([*reports[:-1], spoilt(reports[-1])]).verdict == "healthy"
    assert judge([spoilt(reports[0]), *reports[1:]]).verdict == "healthy"


def test_series_are_few_whatever_number_of_sizes_there_is() -> None:
    reports = nights(quiet=2)
    found = series_of(reports[0].lines, [night_of(r) for r in reports])
    assert len(found) == 2 * 2 * 2  # candidates, collectives, small and large
    assert [s.values[0].value for s in found if s.values[0]] == pytest.approx([0.0] * 8, abs=1e-4)
