"""What `facts` shows of a host: tables that fit, no zero for what could not be read."""

from __future__ import annotations

from bench.records import (
    Address,
    DataPath,
    Gpu,
    HostFacts,
    Interface,
    NcclChoice,
    NcclConf,
    RdmaPort,
    Software,
)
from bench.report.host_screen import screen

HOST = HostFacts(
    host="gpu-a",
    hostname="gpu-a",
    identity="x",
    cores=96,
    interfaces=(
        Interface(
            name="ens1f0",
            kind="physical",
            index=2,
            mtu=9000,
            up=True,
            running=True,
            speed_mbit=25_000,
            addresses=(Address(family="inet", address="10.1.0.7", prefix_length=24),),
        ),
        Interface(name="veth0", kind="veth", index=3, mtu=1500, up=True, speed_mbit=10_000),
    ),
    rdma_ports=(
        RdmaPort(device="mlx5_0", port=1, state="ACTIVE", rate_gbit=400, link_layer="InfiniBand"),
    ),
    gpus=(
        Gpu(
            index=0,
            name="NVIDIA H100 80GB HBM3",
            pcie_generation=4,
            pcie_width=16,
            pcie_max_generation=5,
            pcie_max_width=16,
            nvlinks_active=17,
            nvlinks_inactive=1,
        ),
    ),
    software=Software(kernel="6.8", python="3.11.7", torch="2.13.0", packages={"peft": "0.20"}),
    environment={"NCCL_SOCKET_IFNAME": "ens1f0"},
    nccl_conf=(NcclConf(path="/etc/nccl.conf", settings={"NCCL_IB_HCA": "mlx5_0"}),),
    nccl_choices=(
        NcclChoice(
            basis="asked",
            bootstrap="ens1f0",
            address="10.1.0.7",
            line="Bootstrap: Using ens1f0:10.1.0.7<0>",
        ),
    ),
    data_path=DataPath(transport="rdma", interfaces=("mlx5_0:1",), why="RDMA before sockets"),
    unreadable={"mlx5_0 counters": "no such file in this container"},
)


def row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(name))


def test_everything_that_was_found_is_shown_within_80_columns() -> None:
    text = screen(HOST)
    for words in (
        "gpu-a · 96 cores · 1 GPU",
        "torch 2.13.0",
        "peft 0.20",
        "25.0 Gbit/s",
        "mlx5_0:1",
        "400 Gbit/s",
        "gen 4 x16 of gen 5 x16",
        "17 (1 inactive)",
        "bootstrap asked with nothing set: ens1f0 (10.1.0.7)",
        '"Bootstrap: Using ens1f0:10.1.0.7<0>"',
        "predicted rdma over mlx5_0:1: RDMA before sockets",
        "/etc/nccl.conf sets NCCL_IB_HCA=mlx5_0",
        "NCCL_SOCKET_IFNAME=ens1f0",
        "mlx5_0 counters: no such file in this container",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_virtual_interface_claims_no_speed_and_no_carrier_is_said() -> None:
    assert "10 Gbit/s" not in row(screen(HOST), "veth0")
    assert "no carrier" in row(screen(HOST), "veth0")


def test_a_bare_host_has_no_empty_tables() -> None:
    text = screen(HostFacts(host="h", hostname="h", identity="x"))
    assert "no GPU" in text
    assert "RDMA" not in text
    assert "\n\n\n" not in text


def test_what_a_host_calls_itself_cannot_move_the_cursor() -> None:
    text = screen(HostFacts(host="h", hostname="\x1b[2Jh", identity="x"))
    assert "\x1b" not in text
