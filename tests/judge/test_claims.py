"""A fabric file from what machines say of themselves, accepted by a sweep on those machines."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.facts import host as this_host
from bench.formats import fabric_file, toml_file
from bench.judge import claims, expected, systems
from bench.records import (
    Address,
    Candidate,
    Fabric,
    FabricNetwork,
    Gpu,
    GpuPair,
    HostFacts,
    Interface,
    Nvlink,
    RdmaPort,
)


def interface(name: str, number: int = 0, **more: object) -> Interface:
    plain = {
        "kind": "physical", "index": 2, "up": True, "running": True, "mtu": 1500,
        "addresses": (Address(family="inet", address=f"10.{number}.0.5", prefix_length=24),),
    }  # fmt: skip
    return Interface(name=name, **{**plain, **more})  # type: ignore[arg-type]


def host(*interfaces: Interface, name: str = "host1", **more: object) -> HostFacts:
    return HostFacts(
        host=name, hostname=name, identity=name, interfaces=interfaces,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def drafted(*hosts: HostFacts) -> tuple[Fabric, tuple[str, ...]]:
    """The draft, once it has been written, read back, and accepted on those hosts."""
    made = claims.draft(hosts, name="mine")
    text = fabric_file.render(made.fabric, head=made.notes)
    fabric = toml_file.load_text(text, Fabric, file="mine.toml")
    assert fabric == made.fabric
    expected.check_fabric(fabric, hosts)
    return fabric, made.notes


def test_a_file_of_this_machine_is_accepted_on_this_machine() -> None:
    facts = this_host.gather(ask_nccl=False)
    fabric, _ = drafted(facts)
    wired = {i.name for i in facts.interfaces if i.up and i.kind in claims.WIRED}
    named = {name for network in fabric.network for name in network.interfaces}
    assert named <= wired | {port.device for port in facts.rdma_ports}


def test_the_faster_port_is_for_data_and_each_keeps_what_it_claims() -> None:
    fabric, notes = drafted(
        host(
            interface("eno1", 1, speed_mbit=1000),
            interface("ens1f0", 2, speed_mbit=25000, mtu=9000),
            interface("docker0", 3, kind="docker"),
            interface("wlp3s0", 4, kind="wifi"),
            interface("enp9s0", 5, up=False, speed_mbit=100000),
            interface("lo", 6, kind="loopback"),
        )
    )
    assert fabric.network == (
        FabricNetwork(name="eno1", role="management", interfaces=("eno1",), rate_gbps=1,
                      mtu=1500, claimed=True),
        FabricNetwork(name="ens1f0", role="data", interfaces=("ens1f0",), rate_gbps=25,
                      mtu=9000, claimed=True),
    )  # fmt: skip
    assert "eno1: slower than others, so taken for management" in notes
    assert "left out: docker0 (docker), wlp3s0 (wifi)" in notes


def test_a_port_that_claims_nothing_gets_no_rate() -> None:
    silent = interface("eth0", speed_mbit=None)
    virtual = interface("eth1", 1, kind="veth", speed_mbit=10000)
    fabric, _ = drafted(host(silent, virtual))
    assert [(n.rate_gbps, n.claimed) for n in fabric.network] == [(None, False)] * 2
    assert {n.role for n in fabric.network} == {"data"}, "nothing tells them apart"


def port(device: str, rate: float, **more: object) -> RdmaPort:
    plain = {"port": 1, "state": "ACTIVE", "link_layer": "InfiniBand"}
    return RdmaPort(device=device, rate_gbit=rate, **{**plain, **more})  # type: ignore[arg-type]


def test_rails_are_one_data_network_and_the_odd_ports_are_storage() -> None:
    ports = (
        *(port(f"mlx5_{i}", 400.0) for i in range(8)),
        port("mlx5_8", 200.0), port("mlx5_9", 200.0),
        port("mlx5_10", 400.0, state="DOWN"),
    )  # fmt: skip
    fabric, notes = drafted(host(interface("eno1", speed_mbit=10000), rdma_ports=ports))
    first, second, socket = fabric.network
    assert (first.name, first.role, first.rate_gbps, first.ports_per_host) == (
        "infiniband", "data", 400, 8,
    )  # fmt: skip
    assert (second.name, second.role, second.ports_per_host) == ("infiniband-200", "storage", 2)
    assert (socket.name, socket.role) == ("eno1", "management")
    assert any("so taken for storage" in note for note in notes)


def test_the_interface_of_an_rdma_port_is_for_data_though_sockets_do_not_fill_it() -> None:
    rail = port("rocep1s0f0", 400.0, link_layer="Ethernet", interface="enp1s0f0np0")
    cards = (
        interface("eno1", 1, speed_mbit=100000),
        interface("enp1s0f0np0", 2, speed_mbit=400000),
    )
    fabric, _ = drafted(host(*cards, rdma_ports=(rail,)))
    roles = {network.name: network.role for network in fabric.network}
    assert roles == {"roce": "data", "eno1": "management", "enp1s0f0np0": "data"}


def test_hosts_that_call_a_network_differently_are_found_by_its_subnet() -> None:
    many = [
        host(
            msgspec.structs.replace(
                interface(f"ens{i}", speed_mbit=10000),
                addresses=(Address(family="inet", address=f"10.0.0.{i + 1}", prefix_length=24),),
            ),
            name=f"host{i}",
        )
        for i in range(12)
    ]
    fabric, _ = drafted(*many)
    (network,) = fabric.network
    assert network.subnet == "10.0.0.0/24"
    assert network.interfaces == ()
    assert network.rate_gbps == 10


def test_ports_and_mtus_that_differ_are_told() -> None:
    def one(number: int, speed: int, mtu: int) -> HostFacts:
        card = msgspec.structs.replace(
            interface("data0", speed_mbit=speed, mtu=mtu),
            addresses=(Address(family="inet", address=f"10.0.0.{number}", prefix_length=24),),
        )
        return host(card, name=f"host{number}")

    fabric, notes = drafted(one(1, 25000, 9000), one(2, 25000, 9000), one(3, 10000, 1500))
    assert fabric.network[0].rate_gbps == 25
    assert fabric.network[0].mtu is None
    assert "data0: ports claim 10 to 25 Gbit/s; the usual rate is written" in notes
    assert "data0: MTU 1500 to 9000 on its interfaces; none is written" in notes


# -------------------------------------------------------------------------------------- GPUs


def gpus(count: int, **more: object) -> tuple[Gpu, ...]:
    plain = {"name": "NVIDIA H100 80GB HBM3", "pcie_max_generation": 5, "pcie_max_width": 16}
    return tuple(Gpu(index=i, **{**plain, **more}) for i in range(count))  # type: ignore[arg-type]


def pairs(count: int, word: str) -> tuple[GpuPair, ...]:
    return tuple(
        GpuPair(gpus=(a, b), p2p={"read": word}) for a in range(count) for b in range(a + 1, count)
    )


def test_eight_gpus_with_nvlink() -> None:
    links = (Nvlink(links=tuple(range(18)), active=True, speed_gbs=25.0, remote="switch"),)
    found, _ = drafted(
        host(interface("eth0"), gpus=gpus(8, nvlinks_active=18, nvlinks_inactive=0, nvlinks=links))
    )
    assert found.gpus.path == "nvlink"
    assert (found.gpus.nvlinks, found.gpus.nvlink_gbs, found.gpus.per_host) == (18, 450, 8)
    assert found.gpus.pcie == "5x16"
    # A file of one's own machine is of the system that is known by that name.
    assert systems.match(["NVIDIA H100 80GB HBM3"], 8, 1, found)[0] == found


@pytest.mark.parametrize(
    ("word", "path"), [("OK", "pcie"), ("CNS", "none"), ("GNS", "none"), (None, None)]
)
def test_without_nvlink_the_drivers_word_decides(word, path) -> None:
    told = pairs(4, word) if word else ()
    found, _ = drafted(
        host(interface("eth0"), gpus=gpus(4, name="NVIDIA L40S", nvlinks_active=0), gpu_pairs=told)
    )
    assert found.gpus.path == path


def test_bridges_between_some_pairs_only_leave_the_path_open() -> None:
    some = (*gpus(2, nvlinks_active=4), *(
        msgspec.structs.replace(g, index=g.index + 2) for g in gpus(2, nvlinks_active=0)
    ))  # fmt: skip
    found, notes = drafted(host(interface("eth0"), gpus=some, gpu_pairs=pairs(4, "OK")))
    assert found.gpus.path is None
    assert "GPUs have 0 to 4 active NVLinks; no number is written" in notes


def test_bridges_two_by_two_are_no_nvlink_between_all_gpus() -> None:
    told = tuple(
        msgspec.structs.replace(pair, nvlinks=12 if pair.gpus in ((0, 1), (2, 3)) else 0)
        for pair in pairs(4, "OK")
    )
    found, _ = drafted(host(interface("eth0"), gpus=gpus(4, nvlinks_active=12), gpu_pairs=told))
    assert (found.gpus.path, found.gpus.nvlinks) == (None, 12)
    both = tuple(msgspec.structs.replace(pair, nvlinks=12) for pair in told)
    found, _ = drafted(host(interface("eth0"), gpus=gpus(4, nvlinks_active=12), gpu_pairs=both))
    assert found.gpus.path == "nvlink"


def test_links_that_are_down_now_are_told_and_not_expected() -> None:
    found, notes = drafted(
        host(interface("eth0"), gpus=gpus(2, nvlinks_active=16, nvlinks_inactive=2))
    )
    assert found.gpus.nvlinks == 16
    assert "4 NVLinks are inactive and not expected: look whether they should be" in notes


def test_hosts_with_other_numbers_of_gpus_and_slots_are_told() -> None:
    found, notes = drafted(
        host(interface("eth0"), gpus=gpus(8)),
        host(interface("eth0"), name="host2", gpus=gpus(7, pcie_max_width=8)),
    )
    assert found.gpus.per_host is None
    assert found.gpus.pcie is None
    assert "hosts have 7 to 8 GPUs; no number is written" in notes
    assert "PCIe slots differ (5x16, 5x8); none is written" in notes


# ----------------------------------------------------------------------------- hostile names


NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=15)


@settings(max_examples=40, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), NAMES)
def test_any_interface_and_gpu_name_survives_the_file(names, gpu) -> None:
    cards = [interface(name, number) for number, name in enumerate(names) if ":" not in name]
    fabric, _ = drafted(host(*cards, gpus=gpus(1, name=gpu)))
    for card, network in zip(cards, fabric.network, strict=True):
        alone = Candidate(name="x", kind="network", interfaces={"host1": card.name})
        assert expected.network_of(alone, fabric) is not None
        assert network.name == card.name


# --------------------------------------------------------- what claims in a file may be used for


def test_claims_in_a_file_are_judged_no_harder_than_claims(make_scene) -> None:
    scene = make_scene({"data": 500}, kinds={"data": "physical"}, backend="nccl").chooses("data")

    def found(gbps: float, transport: str = "socket"):
        network = FabricNetwork(
            name="data", interfaces=("data0",), rate_gbps=gbps, claimed=True, ports_per_host=2
        )
        candidate = msgspec.structs.replace(scene.candidates["data"], transport=transport)
        fabric = Fabric(name="x", network=(network,))
        return expected.of_network(candidate, fabric, scene.report().hosts, backend="nccl")

    assert (found(10).basis, found(10).judged) == ("claimed", True)
    assert not found(100).judged
    assert not found(10, "rdma").judged
