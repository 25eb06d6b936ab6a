"""Virtual interfaces: accused only where they lead nowhere and something else leads somewhere."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge.networks import Networks
from bench.judge.verdict import judge
from bench.judge.virtual import is_virtual
from bench.records import Report


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


@pytest.fixture
def docker_everywhere(make_scene):
    """docker0 and a user-defined bridge with one address on every host come first; data0 works."""
    names = {"docker": ["docker0"] * 4, "bridge": ["br-1f2e3d4c"] * 4}
    scene = make_scene({"docker": 0, "bridge": 0, "data": 500}, names=names)
    scene.chooses("bridge", "data")
    for name, address in (("docker", "172.17.0.1"), ("bridge", "172.18.0.1")):
        scene.outcome(name, "unreachable", f"{address} is every host's own address")
        scene.probes(name, lambda a, b: "wrong-host")
    scene.probes("data").measured("data", 0.0597)
    scene.outcome("(default)", "failed", "rank 0 (host1): connect: connection refused")
    scene.session(
        "(default)", "failed",
        ranks=scene.ended(("failed", "init"), r0={"error": "connection refused"}),
    )  # fmt: skip
    return scene


def test_an_isolated_bridge_that_nccl_takes_is_one_finding_with_the_line_to_paste(
    docker_everywhere,
):
    report = judge(docker_everywhere.report())
    assert serious(report) == ["interface-virtual"]
    assert report.verdict == "misconfigured"
    finding = report.findings[0]
    assert finding.severity == "broken" and finding.where.interface == "br-1f2e3d4c"
    assert "meets on br-1f2e3d4c on 4 of 4 hosts" in finding.summary
    assert finding.remedy == "export NCCL_SOCKET_IFNAME='=data0'"
    assert any("(default) failed in init" in e.text for e in finding.evidence)
    assert report.recommendation.environment == {"NCCL_SOCKET_IFNAME": "=data0"}


def test_docker0_that_nccl_leaves_out_is_a_remark(docker_everywhere):
    notes = [f for f in judge(docker_everywhere.report()).findings if f.severity == "info"]
    assert [(f.code, f.where.candidate) for f in notes] == [("interface-unreachable", "docker")]


def test_a_bridge_offered_only_for_data_is_found_when_the_default_fails(docker_everywhere):
    docker_everywhere.chooses("data", "bridge").outcome("(default)", "hung")
    report = judge(docker_everywhere.report())
    assert serious(report) == ["interface-virtual"]
    assert "offers for data br-1f2e3d4c" in report.findings[0].summary
    assert report.findings[0].confidence == "predicted"


def test_a_prediction_that_the_measurement_refutes_is_only_a_remark(docker_everywhere):
    docker_everywhere.sessions.clear()
    docker_everywhere.chooses("data", "bridge").measured("(default)", 0.0597)
    report = judge(docker_everywhere.report())
    assert serious(report) == [] and report.verdict == "healthy"


def test_a_veth_that_is_the_only_way_out_is_not_accused(make_scene):
    scene = make_scene({"pod": 500}, names={"pod": ["eth0"] * 4}).chooses("pod").all_measured()
    assert judge(scene.report()).verdict == "healthy"


def test_a_vpn_that_is_the_only_way_out_is_not_accused(make_scene):
    scene = make_scene({"vpn": 50}, names={"vpn": ["tailscale0"] * 2}, hosts=2,
                       kinds={"vpn": "vpn"}).chooses("vpn").all_measured()  # fmt: skip
    assert judge(scene.report()).findings == ()


def test_a_vpn_that_works_but_is_slower_is_misselected_not_virtual(make_scene):
    scene = make_scene({"vpn": 50, "data": 500}, kinds={"vpn": "vpn"}).chooses("vpn")
    assert serious(judge(scene.all_measured().report())) == ["interface-misselected"]


def test_a_bridge_over_a_port_is_a_way_out(make_scene):
    scene = make_scene({"data": 500}, names={"data": ["br0"] * 2}, hosts=2,
                       kinds={"data": "bridge"})  # fmt: skip
    host = scene.hosts["host1"]
    bridge = next(i for i in host.interfaces if i.name == "br0")
    assert is_virtual(Networks(scene.report()), "host1", bridge)
    port = msgspec.structs.replace(bridge, name="eno1", kind="physical", master="br0", index=9)
    scene.facts("host1", interfaces=(*host.interfaces, port))
    assert not is_virtual(Networks(scene.report()), "host1", bridge)
