"""Networks that are slow, lossy or misconfigured: one cause is one finding."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge.verdict import judge
from bench.records import HostEvidence, InterfaceCounters, Report


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


@pytest.fixture
def slow(make_scene):
    """data0 is expected at 0.5 Gbit/s and reaches a quarter: one host drags the ring."""
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data")
    scene.expects(("data", "data", 0.5)).all_measured().lines.clear()
    return scene.measured("mgmt", 0.012).measured("data", 0.0149).measured("(default)", 0.0149)


def test_a_line_at_a_quarter_is_one_finding_that_names_the_network_and_no_host(slow):
    report = judge(slow.report())
    assert serious(report) == ["link-degraded"] and report.verdict == "degraded"
    finding = report.findings[0]
    assert finding.where.candidate == "data" and finding.where.interface == "data0"
    assert finding.where.host is None and "cannot tell which of 4 hosts" in finding.summary
    assert "25 % of the expected 0.05978 GB/s in all_reduce and all_gather" in finding.summary


def test_the_lines_carry_what_they_are_held_against(slow):
    lines = {(x.candidate, x.collective): x for x in judge(slow.report()).lines}
    assert lines["data", "all_reduce"].expected_busbw_gbs == pytest.approx(0.05978, rel=1e-3)
    assert lines["data", "all_reduce"].expected_basis == "expected"
    assert lines["(default)", "all_gather"].expected_busbw_gbs == pytest.approx(0.05978, rel=1e-3)
    assert lines["mgmt", "all_reduce"].expected_busbw_gbs is None


def test_errors_on_one_host_name_it(slow):
    evidence = [
        HostEvidence(
            host=host,
            interfaces={"data0": InterfaceCounters(rx_errors=400 if host == "host3" else 0)},
        )
        for host in slow.names
    ]
    finding = judge(slow.session("data", hosts=evidence).report()).findings[0]
    assert finding.code == "link-degraded" and finding.where.host == "host3"


def test_a_shortfall_within_tolerance_or_interval_is_none(make_scene):
    for gbs, spread in ((0.0560, 0.003), (0.050, 0.10)):
        scene = make_scene({"data": 500}).chooses("data").expects(("data", "data", 0.5))
        scene.measured("data", gbs, spread=spread).measured("(default)", gbs, spread=spread)
        assert serious(judge(scene.report())) == []


def test_a_wider_tolerance_in_the_fabric_file_is_respected(make_scene):
    from bench.records import Tolerance

    scene = make_scene({"data": 500}).chooses("data")
    scene.expects(("data", "data", 0.5), tolerance=Tolerance(bandwidth=0.30))
    scene.measured("data", 0.045).measured("(default)", 0.045)
    assert serious(judge(scene.report())) == []


def test_a_slow_management_network_wakes_nobody(make_scene):
    scene = make_scene({"mgmt": 50, "data": 500}).chooses("data")
    scene.expects(("data", "data", 0.5), ("mgmt", "management", 0.1)).all_measured()
    report = judge(scene.report())
    assert serious(report) == [] and report.verdict == "healthy"
    assert [f.severity for f in report.findings if f.code == "link-degraded"] == ["warning"]


def physical(make_scene, speed: int, gbs: float, *, backend: str = "nccl", **more):
    scene = make_scene({"data": 500}, kinds={"data": "physical"}, backend=backend, **more)
    for host in scene.names:
        scene.interface(host, "data0", speed_mbit=speed)
    return scene.chooses("data").measured("data", gbs).measured("(default)", gbs)


def test_without_a_fabric_file_the_ports_claim_is_the_expectation(make_scene):
    report = judge(physical(make_scene, 10_000, 0.6).report())
    assert serious(report) == ["link-degraded"]
    assert any(e.basis == "claimed" for e in report.findings[0].evidence)


@pytest.mark.parametrize(("speed", "backend"), [(100_000, "nccl"), (25_000, "gloo")])
def test_a_claim_that_one_flow_rarely_fills_accuses_nobody(make_scene, speed, backend):
    report = judge(physical(make_scene, speed, 1.5, backend=backend).report())
    assert serious(report) == []
    assert report.lines[0].expected_basis == "claimed"  # shown all the same


def test_a_virtual_interface_claims_nothing(make_scene):
    scene = make_scene({"data": 500}).chooses("data").measured("data", 0.06)  # veth: 10 Gbit/s
    assert judge(scene.measured("(default)", 0.06).report()).findings == ()


# -------------------------------------------------------------------------------- losses


def sending(scene, again: dict[str, int], sessions: int = 3, sent: int = 40_000):
    for number in range(sessions):
        evidence = [
            HostEvidence(host=h, tcp_segments_out=sent, tcp_retransmits=again.get(h, 0))
            for h in scene.names
        ]
        scene.session("data", hosts=evidence, number=number)
    return scene


def test_loss_is_told_as_a_rate_and_which_end_loses_is_not_guessed(healthy):
    report = judge(sending(healthy, {"host2": 400}).report())
    assert serious(report) == ["link-lossy"] and report.verdict == "degraded"
    finding = report.findings[0]
    assert finding.where.candidate == "data" and finding.where.interface == "data0"
    assert finding.where.host is None
    assert "host2 sent 1,200 of 120,000 segments again (1.00 %)" in finding.evidence[0].text


@pytest.mark.parametrize("again", [16, 20, 30])
def test_the_few_segments_that_healthy_bbr_sends_again_are_forgiven(healthy, again):
    scene = sending(healthy, dict.fromkeys(healthy.names, again), sent=6_000)
    assert judge(scene.report()).findings == ()


def test_drops_on_one_interface_name_its_host(healthy):
    evidence = [
        HostEvidence(
            host=h,
            tcp_segments_out=40_000,
            tcp_retransmits=800 if h == "host2" else 0,
            interfaces={"data0": InterfaceCounters(rx_dropped=700 if h == "host3" else 2)},
        )
        for h in healthy.names
    ]
    finding = judge(healthy.session("data", hosts=evidence).report()).findings[0]
    assert (finding.code, finding.where.host) == ("link-lossy", "host3")


def test_loss_explains_a_slow_network_and_is_then_the_only_finding(slow):
    report = judge(sending(slow, {"host2": 130}).report())
    assert serious(report) == ["link-lossy"]
    assert any("all_reduce busbw" in e.text for e in report.findings[0].evidence)


def test_little_loss_without_harm_is_a_warning(healthy):
    report = judge(sending(healthy, {"host2": 130}).report())
    assert [(f.code, f.severity) for f in report.findings] == [("link-lossy", "warning")]


def test_loss_that_could_not_be_read_is_not_zero_and_not_a_finding(healthy):
    evidence = [HostEvidence(host=h, unreadable={"tcp": "no rights"}) for h in healthy.names]
    assert judge(healthy.session("data", hosts=evidence).report()).findings == ()


# --------------------------------------------------------------------- speed and MTU claims


def test_a_port_below_its_peers_is_named_and_explains_the_slow_ring(make_scene):
    scene = physical(make_scene, 10_000, 0.118)
    scene.interface("host3", "data0", speed_mbit=1000, max_speed_mbit=10_000)
    report = judge(scene.report())
    assert serious(report) == ["link-negotiated-down"]
    finding = report.findings[0]
    assert finding.where.host == "host3" and "negotiated 1 Gbit/s" in finding.summary


def test_a_port_below_the_fabric_file_is_named_with_the_shortfall_as_evidence(make_scene):
    scene = make_scene({"data": 500}, kinds={"data": "physical"}, backend="nccl").chooses("data")
    for host in scene.names:
        scene.interface(host, "data0", speed_mbit=1000 if host == "host3" else 10_000)
    scene.expects(("data", "data", 10.0)).measured("data", 0.118).measured("(default)", 0.118)
    report = judge(scene.report())
    assert serious(report) == ["link-negotiated-down"]
    assert report.findings[0].where.host == "host3"
    assert any("all_reduce busbw" in e.text for e in report.findings[0].evidence)


def test_ports_that_all_could_do_more_are_a_remark(make_scene):
    scene = physical(make_scene, 10_000, 1.17)
    for host in scene.names:
        scene.interface(host, "data0", max_speed_mbit=25_000)
    report = judge(scene.report())
    assert [(f.code, f.severity) for f in report.findings] == [("link-negotiated-down", "info")]


def test_an_odd_mtu_is_a_warning_that_names_the_host(healthy):
    healthy.interface("host3", "data0", mtu=9000)
    report = judge(healthy.report())
    finding = report.findings[0]
    assert (finding.code, finding.severity) == ("mtu-mismatch", "warning")
    assert finding.where.host == "host3"
    assert finding.remedy == "sudo ip link set dev data0 mtu 1500"


def test_an_odd_mtu_that_explains_a_shortfall_is_degraded_and_the_only_finding(make_scene):
    scene = make_scene({"data": 500}).chooses("data").expects(("data", "data", 0.5))
    for host in scene.names:
        scene.interface(host, "data0", mtu=1500 if host == "host3" else 9000)
    scene.measured("data", 0.045).measured("(default)", 0.045)
    report = judge(scene.report())
    assert serious(report) == ["mtu-mismatch"]
    assert report.findings[0].where.host == "host3"


def test_an_mtu_that_cannot_explain_a_quarter_leaves_the_link_accused(slow):
    slow.interface("host3", "data0", mtu=1400)
    assert serious(judge(slow.report())) == ["link-degraded"]


def test_an_mtu_other_than_the_fabric_file_says_is_told(healthy):
    network = msgspec.structs.replace(healthy.the_fabric.network[0], mtu=9000)
    healthy.the_fabric = msgspec.structs.replace(healthy.the_fabric, network=(network,))
    report = judge(healthy.report())
    assert (
        codes(report) == ["mtu-mismatch"] and "fabric file says 9000" in report.findings[0].summary
    )


def test_an_odd_mtu_against_the_fabric_file_is_degraded(healthy):
    network = msgspec.structs.replace(healthy.the_fabric.network[0], mtu=1500)
    healthy.the_fabric = msgspec.structs.replace(healthy.the_fabric, network=(network,))
    report = judge(healthy.interface("host3", "data0", mtu=1400).report())
    assert serious(report) == ["mtu-mismatch"] and report.findings[0].where.host == "host3"


def test_the_default_case_speaks_for_a_network_that_was_not_reached_in_time(slow):
    slow.lines = [line for line in slow.lines if line.candidate != "data"]
    slow.outcome("data", "skipped", "not reached in time")
    report = judge(slow.report())
    assert serious(report) == ["link-degraded"]
    assert report.findings[0].where.candidate == "data"


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_a_port_at_its_own_maximum_has_negotiated_nothing_down(make_scene, backend):
    scene = physical(make_scene, 100_000, 2.8, backend=backend)
    for host in scene.names:
        scene.interface(host, "data0", max_speed_mbit=100_000)
    scene.interface("host3", "data0", speed_mbit=25_000, max_speed_mbit=25_000)
    report = judge(scene.report())
    assert serious(report) == [] and report.verdict == "healthy"
    (found,) = report.findings
    assert (found.code, found.severity) == ("link-negotiated-down", "info")
    assert found.where.host == "host3" and found.remedy is None
    assert "a slower NIC: 25 Gbit/s is its own maximum" in found.summary


def test_a_port_at_its_own_maximum_below_the_fabric_file_is_another_nic_than_was_bought(
    make_scene,
):
    scene = physical(make_scene, 100_000, 2.8)
    scene.interface("host3", "data0", speed_mbit=25_000, max_speed_mbit=25_000)
    report = judge(scene.expects(("data", "data", 100.0)).report())
    (found,) = [f for f in report.findings if f.code == "link-negotiated-down"]
    assert (found.severity, found.where.host) == ("degraded", "host3")
    assert "can do no more than 25 Gbit/s, below the 100 Gbit/s of the fabric" in found.summary
    assert found.remedy == "ethtool data0"
