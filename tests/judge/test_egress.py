"""The other two witnesses: the kernel's route and the byte counters."""

from __future__ import annotations

import msgspec

from bench.judge.verdict import judge
from bench.records import Interface, Report


def told(report: Report) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in report.findings]


def leaving_by(scene, name: str, hosts=("host1",)):
    scene.pairs = [
        msgspec.structs.replace(pair, egress=name) if pair.source in hosts else pair
        for pair in scene.pairs
    ]
    return scene


def test_witnesses_that_agree_are_silent(healthy):
    assert told(judge(healthy.probes("data").report())) == []


def test_a_route_by_another_interface_is_a_warning(healthy):
    report = judge(leaving_by(healthy.probes("data"), "mgmt0").report())
    assert told(report) == [("egress-differs", "warning")]
    assert report.findings[0].where.host == "host1"
    assert "goes by mgmt0 on 1 of 4 hosts" in report.findings[0].summary


def test_route_and_counters_together_are_degraded(healthy):
    leaving_by(healthy.probes("data"), "mgmt0")
    carried = dict(healthy.candidates["data"].carried)
    carried["host2"] = {"mgmt0": 9 * 10**7, "data0": 10**6}
    report = judge(healthy.outcome("data", "measured", carried=carried).report())
    assert told(report) == [("egress-differs", "degraded")]
    assert any("mgmt0 carried 99 % of the bytes" in e.text for e in report.findings[0].evidence)


def test_control_traffic_on_another_interface_is_no_finding(healthy):
    carried = {host: {"mgmt0": 5 * 10**6, "data0": 10**8} for host in healthy.names}
    assert told(judge(healthy.outcome("data", "measured", carried=carried).report())) == []


def test_a_few_bytes_are_no_witness(healthy):
    carried = {host: {"mgmt0": 9000, "data0": 100} for host in healthy.names}
    assert told(judge(healthy.outcome("data", "measured", carried=carried).report())) == []


def test_bytes_that_a_bond_counts_twice_are_counted_once(healthy):
    for host in healthy.names:
        members = tuple(
            Interface(name=f"eth{n}", kind="physical", index=10 + n, master="data0", up=True)
            for n in range(2)
        )
        healthy.facts(host, interfaces=(*healthy.hosts[host].interfaces, *members))
    carried = {
        host: {"data0": 10**8, "eth0": 5 * 10**7, "eth1": 5 * 10**7} for host in healthy.names
    }
    assert told(judge(healthy.outcome("data", "measured", carried=carried).report())) == []


def test_a_vlans_parent_counts_the_same_bytes(make_scene):
    names = {"data": ["eth0.100"] * 4}
    scene = make_scene({"data": 500}, names=names).chooses("data").all_measured()
    carried = {host: {"eth0.100": 10**8, "eth0": 11 * 10**7} for host in scene.names}
    assert told(judge(scene.outcome("data", "measured", carried=carried).report())) == []


def stacked(scene, name: str, lower: str, *, members=()):
    """`name` lies on `lower` (a VLAN of any name on a bond), whose ports are `members`."""
    for host in scene.names:
        scene.interface(host, name, lower=lower)
        below = [Interface(name=lower, kind="bond", index=9, up=True)]
        below += [
            Interface(name=port, kind="physical", index=10 + n, master=lower, up=True)
            for n, port in enumerate(members)
        ]
        scene.facts(host, interfaces=(*scene.hosts[host].interfaces, *below))
    return scene


def test_a_vlan_of_any_name_shares_its_bytes_with_what_it_lies_on(make_scene):
    names = {"data": ["data"] * 4}
    scene = make_scene({"data": 500}, names=names).chooses("data").all_measured()
    stacked(scene, "data", "bond0", members=("eth0", "eth1"))
    counts = {"data": 10**8, "bond0": 105 * 10**6, "eth0": 105 * 10**6, "eth1": 0}
    carried = dict.fromkeys(scene.names, counts)
    scene.outcome("data", "measured", carried=carried).probes("data")
    assert told(judge(leaving_by(scene, "bond0").report())) == []
    assert told(judge(leaving_by(scene, "eth0").report())) == []


def test_a_little_traffic_on_a_vlan_hides_nothing_of_what_its_parent_carries(healthy):
    for host in healthy.names:
        vlan = Interface(name="storage", kind="virtual", index=9, lower="data0", up=True)
        healthy.facts(host, interfaces=(*healthy.hosts[host].interfaces, vlan))
    carried = {host: {"data0": 10**8, "storage": 2 * 10**6} for host in healthy.names}
    assert told(judge(healthy.outcome("data", "measured", carried=carried).report())) == []


def test_another_interface_of_the_same_bridge_is_another_way(healthy):
    for host in healthy.names:
        healthy.interface(host, "data0", master="br0").interface(host, "mgmt0", master="br0")
    report = judge(leaving_by(healthy.probes("data"), "mgmt0").report())
    assert told(report) == [("egress-differs", "warning")]
