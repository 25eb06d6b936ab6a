"""Probes into findings: a failing network is told once, a host is named when it stands out."""

from __future__ import annotations

import pytest

from bench.judge.reach import culprits
from bench.judge.verdict import judge
from bench.records import PreflightPair, Report


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def around(host: str, outcome: str):
    return lambda a, b: outcome if host in (a, b) else None


@pytest.fixture
def blackhole(make_scene):
    """host3's switch port swallows large packets; NCCL and the fabric want data0."""
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data").expects(("data", "data", 0.5))
    scene.measured("mgmt", 0.012).probes("mgmt").probes("data", around("host3", "mtu-blackhole"))
    scene.outcome("data", "unreachable", "large segments vanish between host3 and the others")
    scene.outcome("(default)", "hung", "rank 2 (host3): made no progress in midrun")
    return scene.session("(default)", "hung", ranks=scene.ended(("hung", "midrun")))


def test_a_black_hole_names_the_host_and_takes_the_hang_as_evidence(blackhole):
    report = judge(blackhole.report())
    assert serious(report) == ["mtu-blackhole"] and report.verdict == "broken"
    finding = report.findings[0]
    assert (finding.severity, finding.where.host) == ("broken", "host3")
    assert finding.where.candidate == "data" and finding.where.interface == "data0"
    assert "between host3 and host1, host2 and host4" in finding.summary
    assert "6 of 12 probes" in finding.summary
    assert any("(default) hung in midrun" in e.text for e in finding.evidence)
    assert report.recommendation.environment == {}  # no setting mends a switch


def test_a_black_hole_between_two_hosts_names_the_pair_and_nobody(make_scene):
    scene = make_scene({"data": 500}, hosts=2).chooses("data")
    scene.probes("data", lambda a, b: "mtu-blackhole").outcome("data", "unreachable")
    finding = judge(scene.report()).findings[0]
    assert finding.where.host is None and finding.where.link == ("host1", "host2")


def test_one_bad_pair_among_many_hosts_is_a_link(make_scene):
    scene = make_scene({"data": 500}).chooses("data").outcome("data", "unreachable")
    scene.probes("data", lambda a, b: "timeout" if {a, b} == {"host2", "host4"} else None)
    finding = judge(scene.report()).findings[0]
    assert finding.where.host is None and finding.where.link == ("host2", "host4")


def test_a_black_hole_on_a_management_network_is_a_warning(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data")
    scene.expects(("data", "data", 0.5), ("mgmt", "management", 0.1))
    scene.all_measured().probes("mgmt", around("host3", "mtu-blackhole"))
    scene.outcome("mgmt", "unreachable")
    report = judge(scene.report())
    assert serious(report) == [] and report.verdict == "healthy"
    assert [f.severity for f in report.findings if f.code == "mtu-blackhole"] == ["warning"]


@pytest.fixture
def firewalled(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("mgmt", "data")
    scene.expects(("data", "data", 0.5)).measured("mgmt", 0.012).probes("mgmt")
    scene.probes("data", around("host3", "timeout"))
    scene.outcome("data", "unreachable", "no answer between host3 and the others")
    scene.outcome("(default)", "hung", "rank 0 (host1): made no progress in init")
    return scene.session("(default)", "hung", ranks=scene.ended(("hung", "init")))


def test_a_firewalled_data_network_is_one_broken_finding_naming_the_host(firewalled):
    report = judge(firewalled.report())
    assert serious(report) == ["interface-unreachable"] and report.verdict == "broken"
    finding = report.findings[0]
    assert finding.where.host == "host3" and finding.severity == "broken"
    assert any(e.basis == "expected" for e in finding.evidence)
    assert any("(default) hung in init" in e.text for e in finding.evidence)
    assert finding.remedy is not None and finding.remedy.startswith("ip route get 10.2.0.")


def test_an_unreachable_network_that_nobody_wants_is_a_remark(make_scene):
    scene = make_scene({"data": 500, "docker": 0}).chooses("data").all_measured()
    scene.probes("docker", lambda a, b: "wrong-host")
    scene.outcome("docker", "unreachable", "172.17.0.1 is every host's own address")
    report = judge(scene.report())
    assert [f.severity for f in report.findings] == ["info"] and report.verdict == "healthy"
    assert "172.17.0.1 is every host's own address" in report.findings[0].summary


def test_a_network_the_default_needs_but_does_without_is_a_warning(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("mgmt", "data", path=["data"])
    scene.all_measured().probes("mgmt", around("host3", "timeout")).outcome("mgmt", "unreachable")
    report = judge(scene.report())
    assert serious(report) == []
    assert [f.severity for f in report.findings] == ["warning"]


def test_an_expected_interface_that_is_down_on_one_host_is_found_from_the_facts(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).expects(("data", "data", 0.5))
    scene.chooses("mgmt", "data").chooses("mgmt", hosts=["host3"])
    scene.interface("host3", "data0", up=False, running=False).measured("mgmt", 0.012)
    scene.outcome("data", "skipped", "data0 is down on host3").measured("(default)", 0.012)
    report = judge(scene.report())
    assert serious(report) == ["interface-unreachable"]
    finding = report.findings[0]
    assert finding.where.host == "host3" and finding.where.interface == "data0"
    assert "data0 is down" in finding.evidence[0].text and finding.evidence[0].basis == "claimed"


def test_an_interface_that_is_down_where_others_send_is_found_without_a_fabric_file(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500})
    scene.chooses("mgmt", "data").chooses("mgmt", hosts=["host3"])
    scene.interface("host3", "data0", running=False).measured("mgmt", 0.012)
    scene.outcome("data", "skipped", "data0 has no carrier on host3").measured("(default)", 0.012)
    report = judge(scene.report())
    assert serious(report) == ["interface-unreachable"]
    assert report.findings[0].severity == "degraded"
    assert report.findings[0].where.host == "host3"


def pairs(bad: set[tuple[str, str]], hosts: int = 4):
    names = [f"h{n}" for n in range(1, hosts + 1)]
    failed, passed = [], []
    for a in names:
        for b in names:
            if a != b:
                outcome = "timeout" if (a, b) in bad else "ok"
                pair = PreflightPair(candidate="c", source=a, destination=b, outcome=outcome)
                (failed if (a, b) in bad else passed).append(pair)
    return failed, passed


def both(host: str, *others: str) -> set[tuple[str, str]]:
    return {(host, o) for o in others} | {(o, host) for o in others}


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (both("h3", "h1", "h2", "h4"), ("h3",)),
        ({("h1", "h3"), ("h2", "h3"), ("h4", "h3")}, ("h3",)),  # only towards it
        ({("h3", "h1"), ("h3", "h2"), ("h3", "h4")}, ("h3",)),  # only from it
        (both("h3", "h1", "h2", "h4") | both("h4", "h1", "h2"), ("h3", "h4")),
        (both("h1", "h2"), ()),  # one pair
        (both("h1", "h2") | both("h3", "h4"), ()),  # two pairs, no host in common
        (both("h3", "h1", "h2"), ()),  # h4 reaches h3: not the whole host
        (both("h1", "h2", "h3", "h4") | both("h2", "h3", "h4") | both("h3", "h4"), ()),  # all
    ],
)
def test_a_host_is_named_only_when_it_explains_every_failure(bad, named):
    assert culprits(*pairs(bad)) == named


def test_two_hosts_with_one_address_are_both_named_and_neither_accused(make_scene):
    scene = make_scene({"data": 500}).chooses("data").outcome("(default)", "hung")
    scene.outcome(
        "data", "unreachable", "10.1.0.2 is the address of host2 and host3",
        addresses=scene.candidates["data"].addresses | {"host3": "10.1.0.2"},
    )  # fmt: skip
    scene.probes("data", lambda a, b: "wrong-host" if "host3" in (a, b) else None)
    finding = judge(scene.report()).findings[0]
    assert finding.code == "interface-unreachable" and finding.severity == "broken"
    assert finding.where.host is None and finding.where.hosts == ("host2", "host3")
    assert finding.evidence[0].text == "host2 and host3 have the same address, 10.1.0.2"


def test_no_match_because_a_port_is_down_is_told_as_the_port(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).expects(("data", "data", 0.5)).sets("=data0")
    scene.chooses("data").chooses(hosts=["host3"]).measured("mgmt", 0.012)
    scene.interface("host3", "data0", up=False, running=False)
    scene.outcome("data", "skipped", "data0 is down on host3")
    scene.outcome("(default)", "skipped", "NCCL finds no interface on host3")
    report = judge(scene.report())
    assert serious(report) == ["interface-unreachable"] and report.verdict == "broken"
    assert report.findings[0].where.host == "host3"
    assert any("takes no interface (code 5)" in e.text for e in report.findings[0].evidence)
