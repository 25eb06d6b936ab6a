"""What a link should carry, and fabric files that speak of what is not there."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge import expected
from bench.records import BadInput, Fabric, FabricBusbw, FabricGpus, FabricNetwork, Gpu


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


# ----------------------------------------------------------------- figures of the file itself


def line_of(scene, name="data", collective="all_reduce"):
    return next(x for x in scene.lines if (x.candidate, x.collective) == (name, collective))


def stating(scene, *entries: FabricBusbw, **changes):
    scene.expects(("data", "data", 0.5), busbw=entries, **changes)
    return scene


def told(scene, name="data", collective="all_reduce"):
    line = line_of(scene, name, collective)
    return expected.of_line(scene.report(), scene.candidates[name], line)


GOOD = FabricBusbw(
    collective="all_reduce", hosts=4, ranks_per_host=1, candidate="data", backend="gloo",
    busbw_gbs=0.055, tolerance=0.03, runs=5,
)  # fmt: skip


def test_a_learned_figure_goes_before_the_rate_with_its_own_tolerance(make_scene):
    scene = stating(make_scene({"data": 500}).chooses("data").all_measured(), GOOD)
    found = told(scene)
    assert (found.busbw_gbs, found.tolerance) == (0.055, 0.03)
    assert found.source.endswith("for all_reduce, learned from 5 good runs")
    rate = told(scene, collective="all_gather")
    assert rate.busbw_gbs == pytest.approx(0.0625 * 1448 / 1514) and rate.tolerance is None


@pytest.mark.parametrize(
    "change",
    [
        {"candidate": "mgmt"}, {"hosts": 2}, {"hosts": 8}, {"ranks_per_host": 8},
        {"backend": "nccl"}, {"collective": "broadcast"}, {"from_bytes": 64 * 2**20},
        {"candidate": None},  # of NCCL as it comes
    ],
)  # fmt: skip
def test_a_figure_of_another_line_is_not_used(make_scene, change):
    entry = msgspec.structs.replace(GOOD, **change)
    scene = stating(make_scene({"data": 500}).chooses("data").all_measured(), entry)
    assert told(scene).busbw_gbs != 0.055


def test_many_means_more_than_two_without_an_entry_of_their_own(make_scene):
    many = msgspec.structs.replace(GOOD, hosts="many", busbw_gbs=0.04)
    scene = make_scene({"data": 500}).chooses("data").all_measured()
    assert told(stating(scene, many)).busbw_gbs == 0.04
    assert told(stating(scene, many, GOOD)).busbw_gbs == 0.055
    two = make_scene({"data": 500}, hosts=2).chooses("data").all_measured()
    assert told(stating(two, many)).busbw_gbs != 0.04


def test_a_ladder_that_ended_one_step_early_is_still_held_against_the_figure(make_scene):
    scene = make_scene({"data": 500}).chooses("data").all_measured()  # up to 4 MiB
    for size, used in ((8 * 2**20, True), (16 * 2**20, False)):
        entry = msgspec.structs.replace(GOOD, from_bytes=size)
        assert (told(stating(scene, entry)).busbw_gbs == 0.055) is used


def test_a_hint_is_shown_and_judges_nothing(make_scene):
    entry = FabricBusbw(collective="all_reduce", hosts=4, busbw_gbs=400.0)
    scene = make_scene({"data": 500}, backend="nccl").chooses("data").all_measured()
    found = told(stating(scene, entry, hint=True), "(default)")
    assert found.busbw_gbs == 400.0 and not found.judged
    assert not told(scene).judged  # nor does its rate: plugins reach it, sockets need not
    assert told(stating(scene, entry), "(default)").judged  # the operator's own word does


def test_what_a_hint_does_not_find_here_is_not_bad_input(make_scene):
    hosts = tuple(make_scene({"mgmt": 100}).hosts.values())
    networks = (FabricNetwork(name="compute"), FabricNetwork(name="ib", interfaces=("ib*",)))
    expected.check_fabric(Fabric(name="kind", hint=True, network=networks), hosts)


def with_gpus(scene, name, count=8):
    gpus = tuple(Gpu(index=i, name=name) for i in range(count))
    return tuple(scene.everywhere(gpus=gpus).hosts.values())


def test_a_file_of_other_gpus_is_the_wrong_file(make_scene):
    hosts = with_gpus(make_scene({"data": 500}), "NVIDIA H200")
    fabric = Fabric(name="lab", gpus=FabricGpus(model=("H100*",), per_host=8))
    with pytest.raises(BadInput, match=r"fabric lab is of H100\*; GPUs here: NVIDIA H200"):
        expected.check_fabric(fabric, hosts, file="x.toml")


def test_too_few_gpus_or_none_are_no_bad_input(make_scene):
    fabric = Fabric(name="lab", gpus=FabricGpus(model=("H200",), per_host=8))
    expected.check_fabric(fabric, with_gpus(make_scene({"data": 500}), "NVIDIA H200", 7))
    expected.check_fabric(fabric, with_gpus(make_scene({"data": 500}), "NVIDIA H200", 0))


def test_a_pcie_link_that_is_none_is_bad_input(make_scene):
    fabric = Fabric(name="lab", gpus=FabricGpus(pcie="gen5"))
    with pytest.raises(BadInput, match="pcie of fabric lab is 'gen5'; expected generation x"):
        expected.check_fabric(fabric, with_gpus(make_scene({"data": 500}), "NVIDIA H200"))
