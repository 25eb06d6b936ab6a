"""RDMA ports of ibv_devinfo, ibstat, ibstatus and ibdev2netdev."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import ibv_devinfo
from bench.formats.source import Source
from bench.records import BadInput, PortsOf, RdmaPort

DATA = Path(__file__).resolve().parents[1] / "data/ibv_devinfo"


def of(name: str) -> PortsOf:
    source = Source.open(DATA / name)
    assert ibv_devinfo.likeness(source.head(), name) == 1
    (ports,) = ibv_devinfo.read(source)
    return ports


def by_name(ports: PortsOf) -> dict[str, RdmaPort]:
    return {port.device: port for port in ports.ports}


@pytest.mark.parametrize(("host", "mtu"), [("hostA", 4096), ("hostB", 1024)])
def test_the_active_mtu_of_a_host_is_read(host: str, mtu: int) -> None:
    ports = of(f"{host}_ibv.txt")
    (port,) = ports.ports
    assert ports.host == host
    assert (port.device, port.port, port.state) == ("mlx5_0", 1, "ACTIVE")
    assert (port.active_mtu, port.max_mtu, port.link_layer) == (mtu, 4096, "Ethernet")
    assert port.firmware == "22.39.1002"


def test_a_port_that_is_down_is_a_port() -> None:
    ports = by_name(of("devinfo_h100.txt"))
    assert (ports["mlx5_2"].state, ports["mlx5_2"].board_id) == ("ACTIVE", "MT_0000000838")
    assert (ports["mlx5_12"].state, ports["mlx5_12"].active_mtu) == ("DOWN", 1024)
    assert ports["mlx5_12"].rate_gbit == 100  # 4 lanes of 25


def test_ibstat_and_ibstatus_say_the_same_in_other_words() -> None:
    ports = by_name(of("ibstat.txt"))
    assert (ports["mlx5_0"].state, ports["mlx5_0"].rate_gbit) == ("ACTIVE", 200)
    assert ports["mlx5_0"].physical_state == "LinkUp"
    assert (ports["mlx5_10"].state, ports["mlx5_10"].board_id) == ("DOWN", "MT4125")
    ports = by_name(of("ibstatus.txt"))
    assert (ports["mlx5_0"].state, ports["mlx5_0"].rate_gbit) == ("ACTIVE", 100)
    assert (ports["mlx5_1"].state, ports["mlx5_1"].link_layer) == ("DOWN", "InfiniBand")


def test_ibdev2netdev_names_the_interface_of_a_port() -> None:
    text = "mlx5_0 port 1 ==> enp27s0f0np0 (Up)\nmlx5_bond_0 port 1 ==> bond0 (Down)\n"
    assert ibv_devinfo.likeness(text, "x.txt") == 1
    (ports,) = ibv_devinfo.read(Source.of_text(text))
    assert [port.interface for port in ports.ports] == ["enp27s0f0np0", "bond0"]


def test_hosts_behind_pdsh_are_kept_apart() -> None:
    text = (DATA / "hostA_ibv.txt").read_text()
    both = "".join(f"{n}: {line}\n" for line in text.splitlines() for n in ("node1", "node2"))
    found = ibv_devinfo.read(Source.of_text(both))
    assert [(ports.host, ports.ports[0].active_mtu) for ports in found] == [
        ("node1", 4096), ("node2", 4096),
    ]  # fmt: skip


def test_an_excerpt_without_its_device_is_read() -> None:
    (ports,) = ibv_devinfo.read(Source.of_text("\tmax_mtu:\t4096 (5)\n\tactive_mtu:\t1024 (3)\n"))
    assert [(port.active_mtu, port.max_mtu) for port in ports.ports] == [(1024, 4096)]


def test_a_file_without_ports_is_refused() -> None:
    with pytest.raises(BadInput, match="no RDMA port"):
        ibv_devinfo.read(Source.of_text("eth0: flags=4163<UP> mtu 1500\n"))
    assert ibv_devinfo.likeness("eth0: flags=4163<UP> mtu 1500\n", "x") == 0


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    (ports,) = ibv_devinfo.read(Source.of_text(f"hca_id: mlx5_0\n\tport: 1\n{text}"))
    assert ports.ports
