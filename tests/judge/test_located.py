"""What pairs of hosts add to a sweep's findings: the host that drags the ring, once, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
import pytest

from bench.judge.catalogue import CATALOGUE
from bench.judge.pairs import findings, scope
from bench.judge.pairs.evidence import Context
from bench.judge.pairs.locating import Search, locating
from bench.judge.verdict import judge
from bench.plan.amounts import amounts
from bench.plan.rounds import factorisation
from bench.records import (
    PHASES,
    Candidate,
    Finding,
    HostEvidence,
    InterfaceCounters,
    Interval,
    Location,
    MeasuredRound,
    PairFigure,
    PairRound,
    PairTime,
    RankPlacement,
    RdmaPort,
    Report,
    Suspect,
)
from tests.judge.simulated_fabric import Fabric

GOOD_S = 0.035  # 2 MiB at 500 Mbit/s
SIZE = 2 << 20
Slow = Callable[[str, str], float]  # sender, receiver: how many times longer


def pairs_of(order: PairRound, slow: Slow, bad: dict[frozenset[str], str]) -> list[PairFigure]:
    figures = []
    for a, b in order.pairs:
        outcome = bad.get(frozenset((a, b)), "ok")
        empty = PairFigure(
            round=order.number, stage=order.stage, hosts=(a, b), size_bytes=SIZE, outcome=outcome,
            reason=None if outcome == "ok" else f"rank 1 ({b}): made no progress in init",
            phase=None if outcome == "ok" else "init",
        )  # fmt: skip
        luck = 1 + 0.001 * ((order.number + len(figures)) % 3)
        one = PairTime(
            forward_s=GOOD_S * slow(a, b) * luck, backward_s=GOOD_S * slow(b, a) * luck,
            both_s=GOOD_S, latency_s=6e-5,
        )  # fmt: skip
        times = (one,) * order.repeats if outcome == "ok" else ()
        figures.append(msgspec.structs.replace(empty, times=times))
    return figures


def located(
    hosts: Sequence[str],
    slow: Slow = lambda a, b: 1.0,
    *,
    bad: dict[frozenset[str], str] | None = None,
    **search: object,
) -> Location:
    """The real search over a network on which these are slow."""
    settings = {"candidate": "data", "size_bytes": SIZE, "map_links": True, **search}
    process = locating(hosts, Search(**settings))  # type: ignore[arg-type]
    order = next(process)
    try:
        while True:
            order = process.send(pairs_of(order, slow, bad or {}))
    except StopIteration as end:
        location = end.value
        assert isinstance(location, Location)
        return location


def host_at(name: str, times: float) -> Slow:
    return lambda a, b: times if name in (a, b) else 1.0


def serious(report: Report) -> list[Finding]:
    return [f for f in report.findings if f.severity in ("degraded", "broken")]


@pytest.fixture
def dragged(make_scene):
    """data0 reaches a quarter of what the fabric file says."""
    scene = make_scene({"data": 500}).chooses("data").expects(("data", "data", 0.5))
    return scene.measured("data", 0.0149).measured("(default)", 0.0149)


def test_the_host_that_drags_the_ring_takes_its_place_as_the_finding(dragged) -> None:
    location = located(dragged.names, host_at("host3", 4.0), confirm=True)
    report = judge(dragged.report(location=location))
    (finding,) = serious(report)
    assert (finding.code, finding.severity, finding.where.host) == (
        "host-slow", "degraded", "host3",
    )  # fmt: skip
    assert finding.where.candidate == "data" and finding.where.interface == "data0"
    assert "4.00 times as long" in finding.summary and "in both directions" in finding.summary
    texts = [e.text for e in finding.evidence]
    assert any(text.startswith("host1 with host3: 140 ms, 4.00 times") for text in texts)
    assert any(re.search(r"other 3 pairs take 35(\.\d)? ms for 2 MiB", t) for t in texts)
    assert any("25 % of 0.05978 GB/s" in text for text in texts), "what it explains"
    assert "ethtool data0" in (finding.remedy or "")
    assert report.verdict == "degraded" and finding.confidence == "measured"


def test_a_host_that_is_a_little_slow_does_not_explain_a_ring_at_a_quarter(dragged) -> None:
    location = located(dragged.names, host_at("host3", 1.2))
    found = {f.code: f for f in serious(judge(dragged.report(location=location)))}
    assert set(found) == {"host-slow", "link-degraded"}
    assert "do not explain all of it" in found["link-degraded"].summary


def test_one_direction_is_told(dragged) -> None:
    location = located(dragged.names, lambda a, b: 4.0 if a == "host2" else 1.0)
    (finding,) = serious(judge(dragged.report(location=location)))
    assert finding.where.host == "host2"
    assert "in what it sends" in finding.summary


def test_a_slow_link_that_no_ring_uses_is_found_though_the_line_is_as_expected(healthy) -> None:
    location = located(healthy.names, lambda a, b: 2.0 if {a, b} == {"host2", "host4"} else 1.0)
    report = judge(healthy.report(location=location))
    (finding,) = serious(report)
    assert (finding.code, finding.where.host) == ("link-degraded", None)
    assert set(finding.where.link) == {"host2", "host4"}
    assert "both do well with others" in finding.summary


def test_nothing_slow_adds_nothing(healthy) -> None:
    report = judge(healthy.report(location=located(healthy.names)))
    assert report.verdict == "healthy" and not serious(report)


def test_every_pair_slow_alike_is_a_switch_or_a_setting_and_no_host(dragged) -> None:
    location = located(dragged.names, lambda a, b: 4.0, confirm=True, expected_s=GOOD_S)
    (finding,) = serious(judge(dragged.report(location=location)))
    assert finding.code == "below-expectation" and finding.where.host is None
    assert "switch" in finding.summary and "not at a host" in finding.summary
    assert any(e.basis == "expected" for e in finding.evidence)


def test_pairs_alone_accuse_no_network_that_its_ring_clears(healthy) -> None:
    """One flow between two hosts may be slower than a port: the ring had the whole of it."""
    location = located(healthy.names, lambda a, b: 1.5, expected_s=GOOD_S)
    assert location.every_pair_slow
    assert judge(healthy.report(location=location)).verdict == "healthy"


def test_a_shortfall_that_pairs_do_not_show_says_so(dragged) -> None:
    location = located(dragged.names, expected_s=GOOD_S, confirm=True)
    (finding,) = serious(judge(dragged.report(location=location)))
    assert finding.code == "link-degraded" and finding.where.host is None
    assert "no host and no link stands out among pairs of hosts" in finding.summary


def test_loss_that_counters_cannot_place_is_placed_by_the_pairs(dragged) -> None:
    evidence = [
        HostEvidence(host=host, tcp_segments_out=100_000, tcp_retransmits=2_000)
        for host in dragged.names
    ]
    location = located(dragged.names, host_at("host3", 3.0))
    scene = dragged.session("data", hosts=evidence)
    (finding,) = serious(judge(scene.report(location=location)))
    assert (finding.code, finding.where.host) == ("link-lossy", "host3")
    assert "of all pairs of hosts those with host3 are slow" in finding.summary
    assert any("host3" in e.text and "good pair" in e.text for e in finding.evidence)


def test_a_port_that_runs_below_its_peers_keeps_the_finding_and_gets_the_pairs(make_scene) -> None:
    scene = make_scene({"data": 500}, kinds={"data": "physical"}).chooses("data")
    for host in scene.names:
        scene.interface(host, "data0", speed_mbit=1000 if host == "host2" else 10_000)
    scene.measured("data", 0.118).measured("(default)", 0.118)
    location = located(scene.names, host_at("host2", 10.0))
    (finding,) = serious(judge(scene.report(location=location)))
    assert finding.code == "link-negotiated-down"
    assert any("host2" in e.text and "10 times" in e.text for e in finding.evidence)


def test_errors_of_an_interface_and_its_pairs_are_one_finding(dragged) -> None:
    evidence = [
        HostEvidence(
            host=host,
            interfaces={"data0": InterfaceCounters(rx_errors=400 if host == "host3" else 0)},
        )
        for host in dragged.names
    ]
    scene = dragged.session("data", hosts=evidence)
    location = located(dragged.names, host_at("host3", 4.0), confirm=True)
    (finding,) = serious(judge(scene.report(location=location)))
    assert (finding.code, finding.where.host) == ("host-slow", "host3")
    assert any("400 errors" in e.text for e in finding.evidence)


def test_a_slow_host_on_a_network_that_nobody_needs_wakes_nobody(make_scene) -> None:
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data")
    scene.expects(("data", "data", 0.5), ("mgmt", "management", 0.1)).all_measured()
    location = located(scene.names, host_at("host3", 2.0), candidate="mgmt")
    report = judge(scene.report(location=location))
    assert not serious(report)
    assert [f.severity for f in report.findings if f.code == "host-slow"] == ["warning"]


def test_less_than_the_fabric_files_tolerance_is_a_warning(healthy) -> None:
    report = judge(healthy.report(location=located(healthy.names, host_at("host3", 1.07))))
    assert [(f.code, f.severity) for f in report.findings if f.where.host == "host3"] == [
        ("host-slow", "warning")
    ]
    assert report.verdict == "healthy"


# -------------------------------------------------------------------------------------- hangs


def test_a_pair_that_hung_names_both_and_is_broken_if_it_did_so_each_time(healthy) -> None:
    bad = {frozenset(("host1", "host4")): "hung"}
    location = located(healthy.names, bad=bad)
    often = [f for f in location.figures if f.outcome == "hung"]
    once = msgspec.structs.replace(
        location, figures=tuple(f for f in location.figures if f not in often[1:])
    )
    for seen, severity in ((once, "warning"), (location, "broken")):
        found = [f for f in judge(healthy.report(location=seen)).findings if f.where.link]
        (finding,) = found
        assert (finding.code, set(finding.where.link)) == ("hang-init", {"host1", "host4"})
        assert finding.severity == severity
        assert any("made no progress in init" in e.text for e in finding.evidence)
    assert len(often) > 1, "what is doubtful is tried again"


def test_a_host_that_hangs_with_everybody_is_named_once(healthy) -> None:
    bad = {frozenset((a, "host3")): "hung" for a in healthy.names if a != "host3"}
    location = located(healthy.names, bad=bad)
    (finding,) = serious(judge(healthy.report(location=location)))
    assert (finding.code, finding.where.host, finding.severity) == (
        "hang-init", "host3", "broken",
    )  # fmt: skip
    assert "None of host3's pairs" in finding.summary


def test_a_host_that_the_sweep_has_accused_already_is_not_accused_again(healthy) -> None:
    ranks = healthy.ended(("aborted", "midrun"), r2={"outcome": "died", "signal": 9})
    scene = healthy.session("data", "failed", ranks=ranks)
    bad = {frozenset((a, "host3")): "hung" for a in healthy.names if a != "host3"}
    report = judge(scene.report(location=located(healthy.names, bad=bad)))
    (finding,) = serious(report)
    assert finding.where.host == "host3" and finding.code.startswith("hang-")
    assert any("host3" in e.text and "hung" in e.text for e in finding.evidence)


def test_a_fabric_on_which_nothing_gets_through_is_not_told_pair_by_pair() -> None:
    names = [f"h{at}" for at in range(12)]
    everybody = {frozenset((a, b)): "hung" for a in names for b in names if a != b}
    location = located(names, bad=everybody, map_links=False)
    found = findings.findings(location, Context(name="data0"))
    (finding,) = found
    assert "pairs of hosts did not get through" in finding.summary


def test_a_host_whose_agent_went_is_named_from_one_pair_even_if_it_had_answered() -> None:
    names = ("a", "b", "c")
    figures = (
        PairFigure(
            round=0, stage="screen", hosts=("a", "b"),
            times=(PairTime(forward_s=1.0, backward_s=1.0),),
        ),
        PairFigure(
            round=1, stage="screen", hosts=("b", "c"),
            times=(PairTime(forward_s=1.0, backward_s=1.0),),
        ),
        PairFigure(
            round=2, stage="screen", hosts=("a", "c"), outcome="absent",
            reason="c stopped answering", silent=("c",),
        ),
    )  # fmt: skip
    location = Location(hosts=names, figures=figures, reference_s=1.0)
    (finding,) = findings.findings(location, Context())
    assert (finding.code, finding.where.host) == ("hang-midrun", "c")


def test_a_gpu_that_a_host_lacks_is_no_hang() -> None:
    lacking = PairFigure(
        round=0, stage="rails", hosts=("a", "b"), rail=7, outcome="absent",
        reason="b has no rank on GPU 7",
    )  # fmt: skip
    location = Location(hosts=("a", "b", "c"), figures=(lacking,), reference_s=1.0)
    assert findings.findings(location, Context()) == []


# ---------------------------------------------------------------------------------- sentences


def suspect(**more: object) -> Suspect:
    return Suspect(slowdown=Interval(value=1.5, low=1.4, high=1.6), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("who", "code", "said"),
    [
        ({"rail": 3}, "rail-slow", "Rail 3 is slow on every host"),
        ({"rail": 3, "across": True}, "rail-slow", "its uplinks are slow"),
        ({"host": "a", "rail": 3}, "host-slow", "a is slow on rail 3"),
        ({"group": ("a", "b"), "across": True}, "link-degraded", "The leaf of a and b is slow"),
        ({"link": ("a", "b"), "direction": "transmit"}, "link-degraded", "From a to b"),
        ({"host": "a", "quantity": "latency"}, "latency-degraded", "Small messages to and from a"),
    ],
)
def test_each_part_has_its_code_and_its_sentence(
    who: dict[str, object], code: str, said: str
) -> None:
    location = Location(hosts=("a", "b", "c"), reference_s=1.0, size_bytes=SIZE)
    finding = findings.of_suspect(location, suspect(**who), Context(name="data0"))
    assert finding.code == code and said in finding.summary
    assert "1.50 times as long (1.40-1.60)" in finding.summary
    assert finding.where.gpu == who.get("rail")
    assert finding.severity == ("warning" if code == "latency-degraded" else "degraded")


def test_hosts_measured_only_with_each_other_cannot_be_told_apart() -> None:
    """The pairs of a thread in a tracker: one of A and E is slow, whichever."""
    slow = (PairTime(forward_s=2.0, backward_s=2.0),)
    good = (PairTime(forward_s=1.0, backward_s=1.0),)
    location = Location(
        hosts=("A", "B", "E", "F"),
        reference_s=1.0,
        undecided=(("A", "E"),),
        figures=(
            PairFigure(round=0, stage="screen", hosts=("A", "E"), times=slow, basis="foreign"),
            PairFigure(round=0, stage="screen", hosts=("B", "F"), times=good, basis="foreign"),
        ),
    )
    (finding,) = findings.findings(location, Context())
    assert (finding.code, finding.where.hosts) == ("not-determinable", ("A", "E"))
    assert finding.severity == "warning" and "One of A and E is slow" in finding.summary
    assert "2.00 times" in finding.summary or "2.0 times" in finding.summary


# -------------------------------------------------------------------------------------- scope


def test_the_network_of_the_jobs_is_measured_at_a_size_of_its_own_pace(dragged, healthy) -> None:
    look = scope.of_report(healthy.report(), limit_s=60)
    assert look is not None
    assert (look.candidate.name, look.hosts) == ("data", tuple(healthy.names))
    assert look.amounts.size_bytes == amounts(0.05978e9).size_bytes
    assert look.amounts.one_s == pytest.approx(look.amounts.size_bytes / 0.05978e9, rel=1e-3)
    assert not look.search.confirm and look.search.map_links
    assert look.search.expected_s == pytest.approx(look.amounts.size_bytes / 0.05978e9, rel=1e-3)
    slow = scope.of_report(dragged.report(), limit_s=60)
    assert slow is not None and slow.search.confirm, "its line is below expectation"
    assert slow.amounts.size_bytes == look.amounts.size_bytes, "good pairs are as fast as ever"


def test_a_misselected_default_is_not_what_is_measured(misselected) -> None:
    look = scope.of_report(misselected.report(), limit_s=60)
    assert look is not None and look.candidate.name == "data"


def test_what_users_get_is_measured_where_it_is_surely_faster(make_scene) -> None:
    """As with a plugin that no candidate can force."""
    scene = make_scene({"eth": 1000}, backend="nccl").chooses("eth", transport="plugin")
    scene.measured("eth", 0.1).measured("(default)", 10.0)
    look = scope.of_report(scene.report(), limit_s=60)
    assert look is not None and look.candidate.kind == "default"
    assert look.search.expected_s is None


def test_a_network_that_hung_though_probes_passed_is_measured(make_scene) -> None:
    scene = make_scene({"data": 500}).chooses("data").expects(("data", "data", 0.5))
    scene.outcome("data", "hung").outcome("(default)", "hung").probes("data")
    look = scope.of_report(scene.report(), limit_s=60)
    assert look is not None and look.candidate.name == "data"


def test_a_network_that_the_probes_found_broken_is_not(make_scene) -> None:
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data").expects(("data", "data", 0.5))
    scene.measured("mgmt", 0.012).outcome("data", "unreachable").outcome("(default)", "hung")
    scene.probes("data", lambda a, b: "timeout" if "host3" in (a, b) else None)
    assert scope.of_report(scene.report(), limit_s=60) is None


def test_two_hosts_have_nothing_to_be_compared_with(make_scene) -> None:
    scene = make_scene({"data": 500}, hosts=2).chooses("data").all_measured()
    assert scope.of_report(scene.report(), limit_s=60) is None


def test_rounds_that_ended_early_still_say_what_they_decide() -> None:
    names = [f"host{at}" for at in range(1, 5)]
    process, done = locating(names, Search(candidate="data", size_bytes=SIZE)), []
    order = next(process)
    for _ in range(3):
        figures = pairs_of(order, host_at("host3", 2.0), {})
        done.append(
            MeasuredRound(
                candidate="data", size_bytes=SIZE, interest=0.1, pair_round=order,
                figures=tuple(figures),
            )
        )  # fmt: skip
        try:
            order = process.send(figures)
        except StopIteration:
            break
    location = scope.concluded(names, done)
    assert location is not None and len(location.rounds) == len(done)
    assert [s.host for s in location.suspects] == ["host3"]
    assert scope.concluded(names, []) is None


def test_of_rounds_that_ended_early_those_that_were_measured_again_count_alone() -> None:
    names = [f"h{at}" for at in range(6)]
    noisy, quiet = Fabric(6, noise=0.2, seed=1), Fabric(6, noise=0.002, slow={2: 1.0})
    done = []
    for number, pairs in enumerate([*factorisation(6)] * 2):
        order = PairRound(
            number=number, stage="screen", repeats=1 if number < 5 else 9,
            pairs=tuple((names[a], names[b]) for a, b in pairs),
        )  # fmt: skip
        figures = tuple((noisy if number < 5 else quiet).run(order))
        done.append(
            MeasuredRound(
                candidate="data", size_bytes=SIZE, interest=0.1, pair_round=order, figures=figures
            )
        )
    location = scope.concluded(names, done)
    assert location is not None and location.rounds == tuple(one.pair_round for one in done[5:])
    assert [s.host for s in location.suspects] == ["h2"] and location.noise < 0.01
    begun = scope.concluded(names, done[:6])  # one round says too little: all that there is
    assert begun is not None and len(begun.rounds) == 6


def test_the_codes_of_hung_pairs_are_in_the_catalogue() -> None:
    for phase in PHASES:
        figure = PairFigure(
            round=0, stage="screen", hosts=("a", "b"), outcome="hung", phase=phase,
            reason="rank 1 (b): made no progress",
        )  # fmt: skip
        location = Location(hosts=("a", "b", "c"), figures=(figure,))
        (finding,) = findings.findings(location, Context())
        assert finding.code in CATALOGUE and finding.code.startswith("hang-")


def rails_scene(make_scene, ports: int = 4, gpus: int = 4) -> Report:
    """Two ranks' worth of GPUs and ports on each of four hosts, measured over all rails."""
    scene = make_scene({"eth": 1000}, backend="nccl").chooses("eth", transport="rdma")
    names = "+".join(f"mlx5_{at}" for at in range(ports))
    scene.candidates["rdma"] = Candidate(
        name="rdma", kind="network", transport="rdma",
        interfaces=dict.fromkeys(scene.names, names), outcome="skipped",
    )  # fmt: skip
    scene.measured("eth", 0.1).measured("rdma", 12.0 * ports).measured("(default)", 12.0 * ports)
    for number, host in enumerate(scene.names):
        ranks = tuple(range(number * gpus, (number + 1) * gpus))
        scene.facts(
            host,
            ranks=ranks,
            placements=tuple(
                RankPlacement(rank=rank, local_rank=at, gpu=at) for at, rank in enumerate(ranks)
            ),
            rdma_ports=tuple(RdmaPort(device=f"mlx5_{at}", port=1) for at in range(ports)),
        )
    return scene.report()


def test_all_rails_are_measured_at_once_at_the_pace_of_one(make_scene) -> None:
    look = scope.of_report(rails_scene(make_scene), limit_s=600)
    assert look is not None and look.candidate.name == "rdma"
    assert look.search.rails == (0, 1, 2, 3)
    assert look.amounts.size_bytes == amounts(12.0e9).size_bytes


def test_one_port_or_one_gpu_a_host_has_no_rails(make_scene) -> None:
    for ports, gpus in ((1, 4), (4, 1)):
        look = scope.of_report(rails_scene(make_scene, ports, gpus), limit_s=600)
        assert look is not None and look.search.rails == ()
        assert look.amounts.size_bytes == amounts(12.0e9).size_bytes, "one GPU takes one port"


def test_leaves_of_the_fabric_file_group_the_hosts_that_are_here(make_scene) -> None:
    scene = make_scene({"data": 500}, hosts=6).chooses("data")
    leaves = (("host1", "host9"), ("host[2-4]",), ("*",), ("nobody",))
    scene.expects(("data", "data", 0.5), leaves=leaves).all_measured()
    look = scope.of_report(scene.report(), limit_s=60)
    assert look is not None
    assert look.search.leaves == (("host1",), ("host2", "host3", "host4"), ("host5", "host6"))
    scene.expects(("data", "data", 0.5), leaves=(("host1", "host2"),))
    look = scope.of_report(scene.report(), limit_s=60)
    assert look is not None and look.search.leaves == (), "one leaf has nothing to be held against"
