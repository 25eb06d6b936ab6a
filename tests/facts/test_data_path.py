"""Who would carry the data: predictions for hosts as they are found in the field."""

from __future__ import annotations

from typing import Any

import pytest

from bench.facts import data_path, nccl_rules
from bench.records import Address, DataPath, Interface, RdmaPort


def host(*speeds: tuple[str, int | None]) -> tuple[Interface, ...]:
    return tuple(
        Interface(
            name=name,
            kind="physical",
            index=place,
            addresses=(Address(family="inet", address=f"10.{place}.0.1", prefix_length=24),),
            up=True,
            running=True,
            speed_mbit=speed,
        )
        for place, (name, speed) in enumerate(speeds, start=1)
    )


def port(device: str, **fields: Any) -> RdmaPort:
    usual = {"port": 1, "state": "ACTIVE", "rate_gbit": 400.0, "link_layer": "InfiniBand"}
    return RdmaPort(device=device, **(usual | fields))


MGMT_AND_DATA = host(("mgmt0", 1_000), ("data0", 100_000))
RAILS = (port("mlx5_0"), port("mlx5_1"), port("mlx5_bond_0", rate_gbit=25.0))


def socket_names(path: DataPath) -> tuple[str, ...]:
    assert path.transport == "socket", path
    return path.interfaces


def test_a_faster_interface_that_tells_its_speed_takes_all_the_data() -> None:
    assert nccl_rules.matching(None, MGMT_AND_DATA)[0] == "mgmt0"  # the bootstrap is elsewhere
    path = data_path.predict(MGMT_AND_DATA)
    assert socket_names(path) == ("data0",)
    assert "100000" in path.why


def test_unknown_speeds_count_as_10_gbits_and_share() -> None:
    path = data_path.predict(host(("mgmt0", None), ("data0", None)))
    assert socket_names(path) == ("mgmt0", "data0")
    assert "slowest sets the pace" in path.why


def test_an_interface_without_a_claim_beats_one_that_honestly_tells_less() -> None:
    assert socket_names(data_path.predict(host(("eth0", 1_000), ("veth9", None)))) == ("veth9",)


def test_the_setting_narrows_the_devices() -> None:
    settings = {"NCCL_SOCKET_IFNAME": "=mgmt0"}
    assert socket_names(data_path.predict(MGMT_AND_DATA, settings=settings)) == ("mgmt0",)


def test_active_rdma_ports_of_the_highest_rate_come_first() -> None:
    path = data_path.predict(MGMT_AND_DATA, rdma_ports=RAILS)
    assert (path.transport, path.interfaces) == ("rdma", ("mlx5_0:1", "mlx5_1:1"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=1"),
        ({"NCCL_IB_DISABLE": "0x1"}, "NCCL_IB_DISABLE=0x1"),
        ({"NCCL_NET": "Socket"}, "NCCL_NET=Socket"),
        ({"NCCL_NET": "socket"}, "NCCL_NET=Socket"),
        ({"NCCL_IB_HCA": "=mlx5_9"}, "matches no active port"),
    ],
)
def test_what_turns_rdma_off_is_told(settings: dict[str, str], said: str) -> None:
    path = data_path.predict(MGMT_AND_DATA, rdma_ports=RAILS, settings=settings)
    assert socket_names(path) == ("data0",)
    assert said in path.why


def test_a_word_is_no_number_to_nccl() -> None:
    settings = {"NCCL_IB_DISABLE": "true"}
    assert (
        data_path.predict(MGMT_AND_DATA, rdma_ports=RAILS, settings=settings).transport == "rdma"
    )


@pytest.mark.parametrize(
    ("hca", "ports"),
    [
        ("mlx5", ("mlx5_0:1", "mlx5_1:1")),
        ("=mlx5_1", ("mlx5_1:1",)),
        ("^mlx5_0", ("mlx5_1:1",)),
        ("mlx5_1:1", ("mlx5_1:1",)),
        ("mlx5_0:2,mlx5_1:1:0:0", ("mlx5_1:1",)),
        ("mlx5_bond_0", ("mlx5_bond_0:1",)),
    ],
)
def test_the_hca_list_selects_ports(hca: str, ports: tuple[str, ...]) -> None:
    settings = {"NCCL_IB_HCA": hca}
    path = data_path.predict(MGMT_AND_DATA, rdma_ports=RAILS, settings=settings)
    assert path.interfaces == ports


@pytest.mark.parametrize("fields", [{"state": "DOWN"}, {"link_layer": "Unspecified"}])
def test_a_port_that_is_down_or_speaks_something_else_is_not_used(fields: dict[str, str]) -> None:
    path = data_path.predict(MGMT_AND_DATA, rdma_ports=[port("efa_0", **fields)])
    assert socket_names(path) == ("data0",)
    assert "no RDMA port is active" in path.why


def test_a_container_without_verbs_falls_back_to_sockets_and_says_why() -> None:
    path = data_path.predict(MGMT_AND_DATA, rdma_ports=RAILS, rdma_missing="libibverbs is missing")
    assert socket_names(path) == ("data0",)
    assert "libibverbs is missing" in path.why


def test_a_plugin_comes_before_everything() -> None:
    path = data_path.predict(MGMT_AND_DATA, rdma_ports=RAILS, plugin="libnccl-net.so")
    assert path.transport == "plugin"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"settings": {"NCCL_NET": ""}}, "fails to start"),
        ({"settings": {"NCCL_NET": "AWS Libfabric"}}, "fails to start"),
        ({"settings": {"NCCL_NET": "IB"}}, "no RDMA port"),
        ({"settings": {"NCCL_SOCKET_IFNAME": "=nosuch"}, "rdma_ports": RAILS}, "no interface"),
    ],
)
def test_a_network_that_cannot_start_is_unknown_and_says_why(
    arguments: dict[str, Any], said: str
) -> None:
    path = data_path.predict(MGMT_AND_DATA, **arguments)
    assert path.transport == "unknown"
    assert said in path.why


def test_an_alias_has_no_claim_of_its_own() -> None:
    (eth0,) = host(("eth0", 1_000))
    alias = Address(family="inet", address="10.9.0.1", prefix_length=24, label="eth0:1")
    both = Interface(
        name="eth0", kind="physical", index=1, running=True, speed_mbit=1_000,
        addresses=(*eth0.addresses, alias),
    )  # fmt: skip
    assert nccl_rules.matching(None, [both]) == ("eth0", "eth0:1")
    assert socket_names(data_path.predict([both])) == ("eth0:1",)


@pytest.mark.parametrize(
    ("version", "first"), [("2.27.7", "down0"), ("2.28.3", "eth0"), (None, "eth0"), ("x", "eth0")]
)
def test_older_versions_take_an_interface_that_is_not_running(version: str, first: str) -> None:
    down = Interface(
        name="down0", kind="physical", index=1,
        addresses=(Address(family="inet", address="10.7.0.1", prefix_length=24),),
    )  # fmt: skip
    assert (
        nccl_rules.matching(None, (down, host(("x", 1), ("eth0", 1))[1]), version=version)[0]
        == first
    )
