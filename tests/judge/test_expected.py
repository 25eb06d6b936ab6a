"""What a link should carry, and fabric files that speak of what is not there."""

from __future__ import annotations

import pytest

from bench.judge import expected
from bench.records import BadInput, Fabric, FabricNetwork


@pytest.mark.parametrize(
    ("mtu", "on_wire", "share"),
    [(1500, True, 1448 / 1538), (1500, False, 1448 / 1514), (9000, True, 8948 / 9038)],
)
def test_the_payload_share_follows_the_frame(mtu, on_wire, share):
    assert expected.payload_share(mtu, on_wire=on_wire) == pytest.approx(share)


def of(scene, name="data"):
    report = scene.report()
    return expected.of_report(report, scene.candidates[name])


def test_the_fabric_files_rate_under_a_shaper(make_scene):
    scene = make_scene({"data": 500}).expects(("data", "data", 0.5))
    found = of(scene)
    assert found.busbw_gbs == pytest.approx(0.0625 * 1448 / 1514) and found.basis == "expected"


def test_a_wire_counts_preamble_and_gap(make_scene):
    scene = make_scene({"data": 500}, kinds={"data": "physical"}).expects(("data", "data", 10.0))
    assert of(scene).busbw_gbs == pytest.approx(1.25 * 1448 / 1538)


def test_the_slowest_claim_counts_and_a_bond_claims_nothing(make_scene):
    scene = make_scene({"data": 500}, kinds={"data": "physical"})
    scene.interface("host2", "data0", speed_mbit=1000)
    assert of(scene).busbw_gbs == pytest.approx(0.125 * 1448 / 1538)
    assert of(make_scene({"data": 500}, kinds={"data": "bond"})) is None


def test_one_silent_port_leaves_no_claim(make_scene):
    scene = make_scene({"data": 500}, kinds={"data": "physical"})
    assert of(scene.interface("host2", "data0", speed_mbit=None)) is None


def test_one_host_alone_has_no_link_to_expect_anything_of(make_scene):
    scene = make_scene({"data": 500}, hosts=1, kinds={"data": "physical"})
    assert of(scene.expects(("data", "data", 10.0))) is None


def test_the_default_is_held_against_the_fastest_data_network(make_scene):
    scene = make_scene({"a": 500, "b": 500, "mgmt": 100}).chooses("mgmt")
    scene.expects(("a", "data", 0.5), ("b", "data", 1.0), ("mgmt", "management", 9.0))
    assert of(scene, "(default)").busbw_gbs == pytest.approx(0.125 * 1448 / 1514)


def test_gloo_reduce_scatter_is_not_held_against_a_ring():
    assert "reduce_scatter" in expected.ring_collectives("nccl")
    assert "reduce_scatter" not in expected.ring_collectives("gloo")


def test_a_fabric_that_names_absent_hosts_is_bad_input(make_scene):
    hosts = tuple(make_scene({"data": 500}).hosts.values())
    with pytest.raises(BadInput, match=r"x.toml: fabric lab names host9, absent .* host1, host2"):
        expected.check_fabric(Fabric(name="lab", hosts=("host1", "host9")), hosts, file="x.toml")


def test_a_fabric_that_names_hosts_by_their_full_name_fits(make_scene):
    hosts = tuple(make_scene({"data": 500}).hosts.values())
    expected.check_fabric(Fabric(name="lab", hosts=("host1.cluster.example",)), hosts)


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (FabricNetwork(name="data", interfaces=("ib*",)), "wants ib\\*, which no host has"),
        (FabricNetwork(name="data", subnet="10.9.0.0/24"), "wants 10.9.0.0/24"),
        (FabricNetwork(name="data", subnet="10.9"), "subnet '10.9' is not of the form"),
        (FabricNetwork(name="data"), "needs interfaces or a subnet"),
    ],
)
def test_a_network_that_no_host_has_is_bad_input(make_scene, network, told):
    hosts = tuple(make_scene({"mgmt": 100}).hosts.values())
    with pytest.raises(BadInput, match=told):
        expected.check_fabric(Fabric(name="lab", network=(network,)), hosts)


def test_a_network_by_subnet_or_glob_that_some_host_has_passes(make_scene):
    hosts = tuple(make_scene({"mgmt": 100}).hosts.values())
    networks = (
        FabricNetwork(name="a", subnet="10.1.0.0/24"),
        FabricNetwork(name="b", interfaces=("mg*",)),
    )
    expected.check_fabric(Fabric(name="lab", network=networks), hosts)
