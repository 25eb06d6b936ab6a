"""Candidates from invented host facts: which interfaces form a network, and how it is pinned."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import pytest

from bench.facts.placement import gpu_of
from bench.plan import candidates
from bench.records import (
    Address,
    BadInput,
    Candidate,
    DataPath,
    Fabric,
    FabricNetwork,
    Gpu,
    HostFacts,
    Interface,
    NcclChoice,
    RankPlacement,
    RdmaPort,
)


def card(
    name: str, *cidrs: str, kind: str = "physical", up: bool = True, **more: object
) -> Interface:
    addresses = []
    for cidr in cidrs:
        address, _, length = cidr.partition("/")
        addresses.append(
            Address(
                family="inet6" if ":" in address else "inet",
                address=address,
                prefix_length=int(length),
                scope="link" if address.startswith("fe80") else "global",
            )
        )
    values = {"mtu": 1500, "running": up, "index": 2, **more}
    return Interface(name=name, kind=kind, addresses=tuple(addresses), up=up, **values)  # type: ignore[arg-type]


LO = Interface(
    name="lo",
    kind="loopback",
    index=1,
    addresses=(Address(family="inet", address="127.0.0.1", prefix_length=8, scope="host"),),
    up=True,
    running=True,
)


def host(number: int, *cards: Interface, **more: object) -> HostFacts:
    numbered = [
        Interface(**{f: getattr(c, f) for f in c.__struct_fields__} | {"index": i})
        for i, c in enumerate(cards, start=2)
    ]
    return HostFacts(
        host=f"host{number}",
        hostname=f"host{number}",
        identity=f"id{number}",
        ranks=more.pop("ranks", (number - 1,)),  # type: ignore[arg-type]
        interfaces=(LO, *numbered),
        **more,  # type: ignore[arg-type]
    )


def cluster(count: int, **more: object) -> list[HostFacts]:
    return [
        host(i, card("mgmt0", f"10.1.0.{i}/24"), card("data0", f"10.2.0.{i}/24"), **more)
        for i in range(1, count + 1)
    ]


def networks(found: Sequence[Candidate]) -> dict[str, Candidate]:
    return {candidate.name: candidate for candidate in found if candidate.kind == "network"}


def find(hosts: Sequence[HostFacts], **more: object) -> tuple[Candidate, ...]:
    return candidates.find(hosts, **{"backend": "gloo", **more})  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------- networks


def test_each_shared_subnet_is_one_candidate_and_the_default_comes_last() -> None:
    found = find(cluster(4))
    assert [candidate.name for candidate in found] == ["mgmt0", "data0", "(default)"]
    data = networks(found)["data0"]
    assert data.subnet == "10.2.0.0/24"
    assert data.interfaces == {f"host{i}": "data0" for i in range(1, 5)}
    assert data.addresses["host3"] == "10.2.0.3"
    assert data.environment == {"NCCL_SOCKET_IFNAME": "=data0", "GLOO_SOCKET_IFNAME": "data0"}
    assert data.outcome == "planned" and data.reason is None and data.per_host == {}


def test_hosts_that_name_an_interface_differently_get_each_its_own_setting() -> None:
    names = ["ens1f0", "enp65s0", "eth2"]
    hosts = [host(i, card(name, f"10.2.0.{i}/24")) for i, name in enumerate(names, start=1)]
    (data,) = networks(find(hosts)).values()
    assert data.name == "10.2.0.0/24"
    assert data.per_host["host2"] == {
        "NCCL_SOCKET_IFNAME": "=enp65s0", "GLOO_SOCKET_IFNAME": "enp65s0",
    }  # fmt: skip
    assert "NCCL_SOCKET_IFNAME" not in data.environment


def test_the_fabric_file_gives_the_name_by_glob_or_by_subnet() -> None:
    fabric = Fabric(
        name="lab",
        network=(
            FabricNetwork(name="fast", subnet="10.2.0.0/16"),
            FabricNetwork(name="slow", interfaces=("mgmt*",)),
        ),
    )
    assert set(networks(find(cluster(2), fabric=fabric))) == {"slow", "fast"}


def test_one_misaddressed_host_is_still_of_the_fabric_s_network() -> None:
    hosts = [*cluster(3), host(4, card("mgmt0", "10.1.0.4/24"), card("data0", "10.9.0.4/24"))]
    fabric = Fabric(name="lab", network=(FabricNetwork(name="fast", subnet="10.2.0.0/24"),))
    fast = networks(find(hosts, fabric=fabric))["fast"]
    assert fast.addresses["host4"] == "10.9.0.4"
    assert fast.outcome == "planned" and fast.subnet is None


def test_an_address_that_every_host_has_stays_a_candidate_with_a_note() -> None:
    docker = card("docker0", "172.17.0.1/16", kind="docker", running=False)
    hosts = [host(i, card("eth0", f"10.0.0.{i}/24"), docker) for i in (1, 2, 3)]
    found = networks(find(hosts))["docker0"]
    assert found.outcome == "planned"
    assert found.reason == "172.17.0.1 is every host's own address"


def test_an_address_that_two_of_many_share_is_noted() -> None:
    hosts = [*cluster(3), host(4, card("mgmt0", "10.1.0.4/24"), card("data0", "10.2.0.3/24"))]
    assert networks(find(hosts))["data0"].reason == "10.2.0.3 is the address of host3 and host4"


def test_a_down_interface_and_a_lost_carrier_are_skipped_with_the_host_named() -> None:
    hosts = cluster(3)
    hosts[2] = host(
        3, card("mgmt0", "10.1.0.3/24", running=False), card("data0", "10.2.0.3/24", up=False)
    )
    found = networks(find(hosts))
    assert (found["data0"].outcome, found["data0"].reason) == ("skipped", "data0 is down on host3")
    assert found["mgmt0"].reason == "mgmt0 has no carrier on host3"


def test_a_host_that_lacks_the_network_is_named() -> None:
    hosts = [
        *cluster(3),
        host(4, card("mgmt0", "10.1.0.4/24")),
        host(5, card("mgmt0", "10.1.0.5/24")),
    ]
    data = networks(find(hosts))["data0"]
    assert (data.outcome, data.reason) == (
        "skipped", "host4 and host5 have no interface on 10.2.0.0/24",
    )  # fmt: skip


def test_an_interface_of_one_host_only_is_no_candidate() -> None:
    hosts = [host(1, card("eth0", "10.0.0.1/24"), card("usb0", "192.168.7.1/24"))]
    hosts.append(host(2, card("eth0", "10.0.0.2/24")))
    assert set(networks(find(hosts))) == {"eth0"}


def test_ipv6_counts_where_an_interface_has_no_ipv4() -> None:
    hosts = [
        host(
            i,
            card("data0", f"fe80::{i}/64", f"fd00:2::{i}/64"),
            card("mgmt0", f"fd00:1::{i}/64", f"10.1.0.{i}/24"),
        )
        for i in (1, 2)
    ]
    found = networks(find(hosts, backend="nccl"))
    assert found["data0"].subnet == "fd00:2::/64"
    assert found["data0"].environment["NCCL_SOCKET_FAMILY"] == "AF_INET6"
    assert found["mgmt0"].addresses["host1"] == "10.1.0.1"
    assert found["mgmt0"].environment["NCCL_SOCKET_FAMILY"] == ""


def test_link_local_interfaces_count_only_alone_or_when_nccl_takes_them() -> None:
    def pair(**more: object) -> list[HostFacts]:
        return [
            host(i, card("eth0", f"10.0.0.{i}/24"), card("usb0", f"169.254.3.{i}/16"), **more)
            for i in (1, 2)
        ]

    assert set(networks(find(pair()))) == {"eth0"}
    chosen = (NcclChoice(bootstrap="usb0", interfaces=("usb0",)),)
    assert set(networks(find(pair(nccl_choices=chosen)))) == {"eth0", "usb0"}
    alone = [host(i, card("ib0", f"fe80::{i}/64"), card("ib1", f"fe80::1{i}/64")) for i in (1, 2)]
    assert set(networks(find(alone))) == {"ib0", "ib1"}


def test_an_alias_is_not_the_interface_of_its_name() -> None:
    alias = Address(family="inet", address="10.8.0.1", prefix_length=24, label="eth0:1")
    first = card("eth0", "10.0.0.1/24")
    first = Interface(
        **{f: getattr(first, f) for f in first.__struct_fields__}
        | {"addresses": (alias, *first.addresses)}
    )
    (found,) = networks(find([host(1, first), host(2, card("eth0", "10.0.0.2/24"))])).values()
    assert found.addresses["host1"] == "10.0.0.1"


# --------------------------------------------------------------------------------- routed fabrics


def test_a_slash_31_per_host_is_one_routed_candidate() -> None:
    hosts = [
        host(i, card("eth0", f"10.0.0.{i}/24"), card("data0", f"10.2.0.{2 * i}/31"))
        for i in range(1, 9)
    ]
    data = networks(find(hosts))["data0"]
    assert data.subnet is None and data.outcome == "planned" and len(data.interfaces) == 8


def test_a_subnet_per_rack_is_one_routed_candidate() -> None:
    hosts = [host(i, card("data0", f"10.2.{i // 4}.{i}/24")) for i in range(1, 9)]
    (data,) = networks(find(hosts)).values()
    assert (data.name, data.outcome, len(data.interfaces)) == ("data0", "planned", 8)


def test_a_subnet_per_rail_gives_one_candidate_per_rail() -> None:
    hosts = [host(i, *(card(f"rail{r}", f"10.{r}.0.{i}/24") for r in range(8))) for i in (1, 2, 3)]
    found = networks(find(hosts))
    assert list(found) == [f"rail{r}" for r in range(8)]
    assert found["rail5"].subnet == "10.5.0.0/24"


def test_rails_in_one_flat_subnet_are_told_apart_by_name() -> None:
    hosts = [host(i, *(card(f"rail{r}", f"10.0.{r}.{i}/16") for r in range(4))) for i in (1, 2, 3)]
    found = networks(find(hosts))
    assert list(found) == ["rail0", "rail1", "rail2", "rail3"]
    assert set(found["rail2"].interfaces.values()) == {"rail2"}


def test_routed_interfaces_of_different_names_are_joined_by_likeness_in_address_order() -> None:
    hosts = [
        host(1, card("ens2", "10.2.1.1/24", mtu=9000), card("ens1", "10.1.1.1/24", mtu=9000)),
        host(2, card("enp6", "10.1.2.1/24", mtu=9000), card("enp7", "10.2.2.1/24", mtu=9000)),
    ]
    found = {frozenset(c.interfaces.values()): c.name for c in networks(find(hosts)).values()}
    assert found == {
        frozenset({"ens1", "enp6"}): "10.1.0.0/22",
        frozenset({"ens2", "enp7"}): "10.2.0.0/22",
    }


def test_what_looks_unlike_is_not_guessed_at_and_the_fabric_file_joins_it() -> None:
    hosts = [
        host(1, card("ens1", "10.2.1.1/24"), card("ens2", "10.9.1.1/28")),
        host(2, card("enp6", "10.2.2.1/26", mtu=9000), card("enp7", "10.9.2.1/30")),
    ]
    assert networks(find(hosts)) == {}
    fabric = Fabric(name="f", network=(FabricNetwork(name="data", subnet="10.2.0.0/16"),))
    (joined,) = networks(find(hosts, fabric=fabric)).values()
    assert joined.interfaces == {"host1": "ens1", "host2": "enp6"}


def test_names_are_given_once() -> None:
    fabric = Fabric(name="f", network=(FabricNetwork(name="data", interfaces=("rail*",)),))
    hosts = [host(i, *(card(f"rail{r}", f"10.{r}.0.{i}/24") for r in (0, 1))) for i in (1, 2)]
    assert list(networks(find(hosts, fabric=fabric))) == ["data/rail0", "data/rail1"]
    crossed = [
        host(1, card("a", "10.1.0.1/24"), card("b", "10.2.0.1/24")),
        host(2, card("b", "10.1.0.2/24"), card("a", "10.2.0.2/24")),
    ]
    assert list(networks(find(crossed))) == ["10.1.0.0/24", "10.2.0.0/24"]


# ------------------------------------------------------------------------------------- one host


def test_one_host_has_its_loopback_and_the_default() -> None:
    one = host(1, card("eth0", "10.0.0.1/24"), nccl_choices=(NcclChoice(bootstrap="eth0"),))
    found = find([one])
    assert [candidate.name for candidate in found] == ["lo", "(default)"]
    assert found[1].environment == {"GLOO_SOCKET_IFNAME": "eth0"}
    over_nccl = find([one], backend="nccl")[0]
    assert (
        over_nccl.environment["NCCL_P2P_DISABLE"]
        == over_nccl.environment["NCCL_SHM_DISABLE"]
        == "1"
    )


# ------------------------------------------------------------------------------------- NCCL


def test_nccl_networks_are_pinned_to_sockets_and_on_two_hosts_to_the_ring() -> None:
    two, four = (networks(find(cluster(n), backend="nccl"))["data0"].environment for n in (2, 4))
    assert two.pop("NCCL_ALGO") == "Ring"
    assert two == four == {
        "NCCL_NET": "Socket", "NCCL_MNNVL_ENABLE": "0", "NCCL_SOCKET_FAMILY": "",
        "NCCL_SOCKET_IFNAME": "=data0",
    }  # fmt: skip


def gpu_host(number: int, **more: object) -> HostFacts:
    """Two GPUs and two adapters, one pair on each of two NUMA nodes."""
    return host(
        number,
        card("eth0", f"10.0.0.{number}/24"),
        ranks=(2 * number - 2, 2 * number - 1),
        gpus=tuple(
            Gpu(index=i, pci_address=f"00000000:{bus}:00.0", numa_node=i)
            for i, bus in enumerate(("1b", "a1"))
        ),
        placements=tuple(
            RankPlacement(rank=2 * number - 2 + i, local_rank=i, gpu=i) for i in (0, 1)
        ),
        rdma_ports=tuple(
            RdmaPort(
                device=f"mlx5_{i}", port=1, state="ACTIVE", link_layer="InfiniBand",
                pci_address=f"0000:{bus}:00.0", numa_node=i,
            )
            for i, bus in enumerate(("1c", "a2"))
        ),
        **more,
    )  # fmt: skip


def test_rdma_is_all_rails_together_and_each_with_the_nearest_rank_of_each_host() -> None:
    found = networks(find([gpu_host(1), gpu_host(2)], backend="nccl"))
    assert list(found) == ["eth0", "rdma", "rdma/mlx5_0", "rdma/mlx5_1"]
    assert found["rdma"].environment["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    assert found["rdma"].environment["NCCL_NET"] == "IB" and found["rdma"].ranks == ()
    assert found["rdma/mlx5_1"].environment["NCCL_IB_HCA"] == "=mlx5_1"
    assert found["rdma/mlx5_0"].ranks == (0, 2)
    assert found["rdma/mlx5_1"].ranks == (1, 3)


def test_rdma_is_tried_where_a_setting_forbids_it_and_left_out_where_it_cannot_be() -> None:
    (one, *_) = [c for c in find([gpu_host(1), gpu_host(2)], backend="nccl") if c.name == "rdma"]
    assert one.environment["NCCL_IB_DISABLE"] == "0"  # what is left unset nccl.conf would fill in
    why = "/dev/infiniband/uverbs* is not there"
    hosts = [gpu_host(1), gpu_host(2, unreadable={"rdma.verbs": why})]
    found = [c for c in find(hosts, backend="nccl") if c.transport == "rdma"]
    assert [(c.name, c.outcome) for c in found] == [("rdma", "skipped")]
    assert found[0].reason == f"NCCL cannot use RDMA on host2: {why}"


def test_a_rail_runs_from_the_gpu_that_each_rank_really_takes() -> None:
    def seeing(number: int, visible: str | None) -> HostFacts:
        facts = gpu_host(number)
        placements = tuple(
            RankPlacement(rank=rank, local_rank=i, gpu=gpu_of(i, facts.gpus, visible))
            for i, rank in enumerate(facts.ranks)
        )
        return msgspec.structs.replace(facts, placements=placements)

    found = networks(find([seeing(1, None), seeing(2, "1,0")], backend="nccl"))
    assert found["rdma/mlx5_0"].ranks == (0, 3)
    assert found["rdma/mlx5_1"].ranks == (1, 2)
    one_gpu = networks(find([seeing(1, "1"), seeing(2, "MIG-1")], backend="nccl"))
    assert one_gpu["rdma/mlx5_0"].ranks == (0, 2)  # the first of those that share it


def test_gpu_paths_need_a_gpu_for_each_rank() -> None:
    def paths(**more: object) -> list[str]:
        one = msgspec.structs.replace(gpu_host(1), **more)
        return [c.name for c in find([one], backend="nccl") if c.kind == "gpu-path"]

    assert paths(placements=()) == paths() == ["p2p", "shm", "net"]
    assert paths(placements=(), environment={"CUDA_VISIBLE_DEVICES": "1"}) == []
    assert paths(placements=(), ranks=(0, 1, 2)) == []
    assert paths(placements=(), gpus=()) == []
    shared = tuple(RankPlacement(rank=i, local_rank=i, gpu=0) for i in (0, 1))
    assert paths(placements=shared) == []
    own = {"CUDA_VISIBLE_DEVICES": "0"}  # a launcher that shows each rank its own GPU
    assert paths(environment=own) == ["p2p", "shm", "net"]


def test_a_host_without_an_active_rdma_port_is_named() -> None:
    bare = host(3, card("eth0", "10.0.0.3/24"))
    rdma = networks(find([gpu_host(1), gpu_host(2), bare], backend="nccl"))["rdma"]
    assert (rdma.outcome, rdma.reason) == ("skipped", "no active RDMA port on host3")


def test_gpu_paths_are_per_host_on_few_hosts_and_of_the_first_on_many() -> None:
    def paths(count: int) -> list[Candidate]:
        hosts = [gpu_host(i) for i in range(1, count + 1)]
        return [c for c in find(hosts, backend="nccl") if c.kind == "gpu-path"]

    assert [path.name for path in paths(1)] == ["p2p", "shm", "net"]
    assert [path.name for path in paths(2)][2:4] == ["net@host1", "p2p@host2"]
    assert paths(2)[5].ranks == (2, 3)
    assert len(paths(5)) == 3


def test_a_gpu_path_states_all_that_decides_it() -> None:
    """facts: P2P_DISABLE acts with the value 1 only and beats P2P_LEVEL; NVLS needs no P2P; both
    P2P and SHM off makes each GPU a node of its own; a user's settings would turn one into
    another."""
    paths = {c.name: c.environment for c in find([gpu_host(1)], backend="nccl")
             if c.kind == "gpu-path"}  # fmt: skip
    decided = {name: (e["NCCL_P2P_DISABLE"], e["NCCL_SHM_DISABLE"]) for name, e in paths.items()}
    assert decided == {"p2p": ("0", "0"), "shm": ("1", "0"), "net": ("1", "1")}
    for environment in paths.values():
        assert environment["NCCL_NVLS_ENABLE"] == environment["NCCL_MNNVL_ENABLE"] == "0"
        assert environment["NCCL_P2P_LEVEL"] == ""  # unset, nccl.conf would fill it in
    assert [e["NCCL_NET_DISABLE_INTRA"] for e in paths.values()] == ["1", "1", "0"]


# ------------------------------------------------------------------------------------ default


def test_the_default_over_nccl_touches_nothing() -> None:
    default = find(cluster(2), backend="nccl")[-1]
    assert (default.name, default.environment, default.per_host) == ("(default)", {}, {})


def test_the_default_over_gloo_is_what_nccl_would_use() -> None:
    path = DataPath(transport="socket", interfaces=("mgmt0", "data0"))
    choice = (NcclChoice(bootstrap="mgmt0"),)
    default = find(cluster(4, data_path=path, nccl_choices=choice))[-1]
    assert default.environment == {"GLOO_SOCKET_IFNAME": "mgmt0,data0"}
    assert default.devices == 2 and default.interfaces["host2"] == "mgmt0+data0"
    assert default.outcome == "planned"


def test_hosts_with_fewer_interfaces_repeat_theirs_so_that_gloo_can_pair_them() -> None:
    hosts = cluster(1, data_path=DataPath(transport="socket", interfaces=("mgmt0", "data0")))
    hosts.append(
        host(2, card("mgmt0", "10.1.0.2/24"), card("data0", "10.2.0.2/24"),
             data_path=DataPath(transport="socket", interfaces=("data0",)))
    )  # fmt: skip
    default = find(hosts)[-1]
    assert default.per_host["host1"] == {"GLOO_SOCKET_IFNAME": "mgmt0,data0"}
    assert default.per_host["host2"] == {"GLOO_SOCKET_IFNAME": "data0,data0"}
    assert default.interfaces["host2"] == "data0" and default.devices == 2


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            {
                "nccl_choices": (NcclChoice(code=5),),
                "environment": {"NCCL_SOCKET_IFNAME": "=nope"},
            },
            "NCCL finds no interface on host1 and host2 with NCCL_SOCKET_IFNAME==nope",
        ),
        (
            {"data_path": DataPath(transport="rdma", interfaces=("mlx5_0:1",))},
            "with nothing set NCCL would move data by RDMA, which gloo cannot use",
        ),
        (
            {
                "data_path": DataPath(
                    why="NCCL_NET=IB, but there is no RDMA port: it fails to start"
                )
            },
            "on host1 NCCL_NET=IB, but there is no RDMA port: it fails to start",
        ),
        ({}, "what NCCL would take on host1 and host2 is not known"),
    ],
)
def test_a_default_that_cannot_be_tried_says_why(facts: dict[str, object], reason: str) -> None:
    default = find(cluster(2, **facts))[-1]
    assert (default.outcome, default.reason) == ("skipped", reason)


# --------------------------------------------------------------------------------------- only


def test_only_keeps_the_named_candidates_and_the_default() -> None:
    found = find(cluster(2), only=["data0"])
    assert [candidate.name for candidate in found] == ["data0", "(default)"]


def test_only_rejects_unknown_names_and_lists_what_there_is() -> None:
    with pytest.raises(
        BadInput, match=r"no interface or candidate 'eth9'; to choose from: mgmt0, data0"
    ):
        find(cluster(2), only=["eth9"])
    with pytest.raises(BadInput, match="'lo' connects no two hosts"):
        find(cluster(2), only=["lo"])


def test_a_thousand_hosts_with_ten_interfaces_take_less_than_a_second() -> None:
    hosts = [
        host(
            i,
            *(card(f"eth{n}", f"10.{n}.{i // 250}.{i % 250 + 1}/16") for n in range(6)),
            *(card(f"rail{n}", f"10.{20 + n}.{i // 128}.{2 * (i % 128)}/31") for n in range(4)),
        )
        for i in range(1024)
    ]
    fabric = Fabric(name="f", network=(FabricNetwork(name="store", subnet="10.3.0.0/16"),))
    began = time.process_time()
    found = networks(find(hosts, fabric=fabric))
    took = time.process_time() - began
    assert len(found) == 10 and "store" in found
    assert all(candidate.outcome == "planned" for candidate in found.values())
    assert took < 1.0
