"""What evidence shows is told in sentences that an operator could check by counting."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bench.judge.foreign import shown_logs, shown_topology
from bench.records import (
    Dossier,
    LogCommunicator,
    LogMember,
    LogNet,
    LogProcess,
    MatrixLink,
    NcclLog,
    NvlinkState,
    NvlinkStatus,
    PciBridge,
    PeerMatrix,
    PortsOf,
    RdmaPort,
    TopologyMatrix,
    TopologyTree,
    XmlGpu,
    XmlNet,
    XmlNvlink,
)


def matrix(gpus: int, kind: Callable[[int, int], str], **more: object) -> TopologyMatrix:
    links = [
        MatrixLink(source=f"GPU{a}", destination=f"GPU{b}", kind=kind(a, b))
        for a in range(gpus)
        for b in range(gpus)
        if a != b
    ]
    names = tuple(f"GPU{number}" for number in range(gpus))
    return TopologyMatrix(file="m", gpus=names, links=tuple(links), **more)  # type: ignore[arg-type]


def topology(**records: object) -> list[str]:
    return list(shown_topology.sentences(Dossier(**records)))  # type: ignore[arg-type]


def test_equal_pairs_are_counted_once() -> None:
    assert topology(matrices=(matrix(8, lambda a, b: "SYS"),)) == ["8 GPUs: all 28 pairs SYS"]
    assert topology(matrices=(matrix(2, lambda a, b: "PHB"),)) == ["2 GPUs: the pair PHB"]


def test_of_several_matrices_each_names_its_file_or_host() -> None:
    def found(name: str, host: str | None = None) -> TopologyMatrix:
        return msgspec.structs.replace(matrix(2, lambda a, b: "PHB"), file=name, host=host)

    assert topology(matrices=(found("d/a.txt"), found("d/b.txt", "node7"))) == [
        "a.txt: 2 GPUs: the pair PHB",
        "node7: 2 GPUs: the pair PHB",
    ]


def test_few_odd_pairs_are_named_and_the_others_counted() -> None:
    found = matrix(4, lambda a, b: "PIX" if a // 2 == b // 2 else "SYS")
    assert topology(matrices=(found,)) == [
        "4 GPUs: GPU0-GPU1 and GPU2-GPU3 PIX, the other 4 pairs SYS"
    ]


def test_nics_are_told_with_their_gpus() -> None:
    links = [
        MatrixLink(
            source=f"GPU{gpu}", destination=nic, kind="PXB" if nic == f"NIC{gpu}" else "SYS"
        )
        for gpu in (0, 1)
        for nic in ("NIC0", "NIC1", "NIC2")
    ]
    found = TopologyMatrix(
        file="m",
        host="a",
        gpus=("GPU0", "GPU1"),
        nics=("NIC0", "NIC1", "NIC2"),
        links=tuple(links),
        nic_names={"NIC0": "mlx5_0"},
    )
    assert topology(matrices=(found,)) == [
        "a: NIC0 (mlx5_0) is nearest to GPU0 (PXB); NIC1 is nearest to GPU1 (PXB); NIC2 SYS to all"
    ]


def test_a_tree_tells_links_and_what_a_net_claims() -> None:
    gpu = XmlGpu(
        device=3,
        nvlinks=tuple(
            XmlNvlink(target=f"{n}", count=count, target_kind="switch")
            for n, count in enumerate((5, 5, 4, 4))
        ),
        link_gts=32.0,
        link_width=16,
    )
    nets = (
        XmlNet(name="mlx5_0", speed_mbit=400_000, gdr=True, paths={0: "PIX"}, kind="rdma"),
        XmlNet(name="wlan0", speed_mbit=10_000, speed_told=False, kind="wifi", virtual=True),
    )
    assert topology(trees=(TopologyTree(file="x", gpus=(gpu,), nets=nets),)) == [
        "GPU 3: 18 NVLinks to 4 NVSwitches (5+5+4+4), PCIe 32 GT/s x16",
        "mlx5_0: RDMA, 400 Gbit/s, GPUDirect RDMA, PIX to GPU 3",
        "wlan0: Wi-Fi, claims no speed (10 Gbit/s is NCCL's default), no PCI device behind it",
    ]


def test_gpus_with_equal_links_are_one_sentence() -> None:
    def gpu(number: int, active: int) -> NvlinkStatus:
        links = [NvlinkState(link=n, active=n < active, rate_gbs=25.0) for n in range(6)]
        return NvlinkStatus(file="n", line=1, gpu=number, links=tuple(links))

    assert topology(nvlinks=(gpu(0, 6), gpu(1, 6), gpu(2, 4))) == [
        "GPUs 0 and 1: 6 of 6 NVLinks active, 150.0 GB/s together",
        "GPU 2: 4 of 6 NVLinks active, 100.0 GB/s together",
    ]


def test_peers_bridges_and_ports_are_told() -> None:
    peers = PeerMatrix(
        file="p", line=1, gpus=4, status={"0-1": "OK", "1-0": "OK", "2-3": "OK", "0-2": "CNS"}
    )
    bridges = (
        PciBridge(file="l", line=1, address="00:01.0", control={"ReqRedir": True}),
        PciBridge(file="l", line=2, address="00:02.0", control={"ReqRedir": False}),
    )
    port = RdmaPort(device="mlx5_0", port=1, state="ACTIVE", rate_gbit=100, active_mtu=1024)
    assert topology(
        peers=(peers,), bridges=bridges, ports=(PortsOf(file="i", host="b", ports=(port,)),)
    ) == [
        "peer access on 2 of 6 pairs of GPUs: 0-1 and 2-3",
        "ACS redirects peer traffic at 1 of 2 listed PCI ports (00:01.0)",
        "b: mlx5_0 port 1: ACTIVE, 100 Gbit/s, MTU 1024",
    ]
    assert topology(bridges=bridges[1:]) == [
        "ACS redirects peer traffic at none of the listed PCI ports"
    ]


def process(host: str, interface: str, **more: object) -> LogProcess:
    return LogProcess(host=host, pid=1, bootstrap=LogNet(name=interface), **more)  # type: ignore[arg-type]


def test_hosts_that_say_the_same_are_one_sentence() -> None:
    nets = (LogNet(name="mlx5_0", network="IB"), LogNet(name="eth0"))
    processes = (
        process("a", "eth0", network="IB", nets=nets),
        process("b", "eth0", network="IB", nets=nets, plugin="aws", plugin_outcome="failed"),
    )
    found = LogCommunicator(
        id="1",
        ranks=2,
        nodes=2,
        members=(LogMember(rank=0, host="a", pid=1, started=True, completed=True),),
        carriers={"NET/IB/0/GDRDMA": 4, "NET/IB/1/GDRDMA": 4, "P2P/CUMEM": 2},
    )
    log = NcclLog(
        file="d/l.log", versions=("2.27.3",), processes=processes, communicators=(found,)
    )
    assert list(shown_logs.sentences(Dossier(logs=(log,)))) == [
        "NCCL 2.27.3",
        "NCCL meets (bootstrap) on eth0 on a and b",
        "NCCL took the network IB; its devices: mlx5_0 on a and b",
        "network plugin aws was loaded, but failed on b",
        "2 ranks, 2 nodes (NCCL's count), 1 of 1 initialised: NET/IB/GDRDMA (8), P2P/CUMEM (2)",
    ]


def test_lo_is_told_with_what_it_can_do() -> None:
    log = NcclLog(file="l", processes=(process("a", "lo"), process("b", "lo")))
    assert list(shown_logs.sentences(Dossier(logs=(log,)))) == [
        "NCCL meets (bootstrap) on lo (right within one host only) on a and b"
    ]


def test_of_several_logs_each_sentence_names_its_file() -> None:
    logs = tuple(NcclLog(file=f"d/rank{n}.log", versions=("2.27.3",)) for n in range(40))
    told = list(shown_logs.sentences(Dossier(logs=logs)))
    assert told[1] == "rank1.log: NCCL 2.27.3"
    assert told[-1] == "8 more logs"


@pytest.mark.parametrize("state", ["3", "2"])
def test_multi_node_nvlink_names_its_domain(state: str) -> None:
    fabric = {"uuid": "11.55", "cliqueId": "0x7ffe", "state": state, "healthMask": "0xaa"}
    processes = tuple(LogProcess(host="a", pid=n, fabric=fabric) for n in range(4))
    (told,) = shown_logs.sentences(Dossier(logs=(NcclLog(file="l", processes=processes),)))
    assert told.startswith(
        f"multi-node NVLink (MNNVL): fabric 11.55, clique 0x7ffe, state {state}"
    )
    assert ("registration complete" in told) == (state == "3")
