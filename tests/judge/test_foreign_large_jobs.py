"""Logs of jobs whose rings are too long to be printed, and of hosts whose ports NCCL fuses."""

from __future__ import annotations

from bench.formats.nccl_log import read
from bench.formats.source import Source
from bench.judge.docket import Docket
from bench.judge.foreign import logs
from bench.records import Dossier

HEAD = "node0:1:1 [0] NCCL INFO "


def rings(version: str, channels: int) -> str:
    comm = "ncclCommInitRank comm 0x1 rank 0 nranks 64 cudaDev 0 nvmlDev 0 busId 1000 commId 0xaa"
    shown = " ".join(f"{rank:2d}" for rank in range(36))
    lines = [f"NCCL version {version}+cuda12.4", f"{comm} - Init START"]
    lines += [f"Channel {at:02d}/{channels:02d} : {shown} 3..." for at in range(channels)]
    return "".join(f"{HEAD}{line}\n" for line in [*lines, f"{comm} - Init COMPLETE"])


def test_channels_that_became_fewer_are_told_without_the_orders_that_are_cut() -> None:
    files = (rings("2.26.2", 16), rings("2.27.3", 2))
    docket = Docket()
    read_ = [read(Source.of_text(text, file=f"run{at}.log")) for at, text in enumerate(files)]
    logs.judge(Dossier(logs=tuple(read_)), docket)
    (found,) = [finding for finding in docket.findings if finding.code == "regressed"]
    assert "64 ranks use 2 channels, with 2.26.2+cuda12.4 they used 16: fewer" in found.summary
    assert "order" not in found.summary


def test_fused_ports_have_a_name_in_the_data_path_and_are_no_further_device() -> None:
    text = "".join(
        f"node{node}:1:1 [0] NCCL INFO {line}\n"
        for node in (0, 1)
        for line in (
            "NET/IB : Using [0]mlx4_0:1/IB [1]mlx4_0:2/IB [RO]; OOB eth0:10.0.0.1<0>",
            *["NET/IB : Made virtual device [2] name=mlx4_0+mlx4_0 speed=80000 ndevs=2"][node:],
            f"Channel 00/0 : {node}[0] -> {1 - node}[0] [send] via NET/IB/2",
        )
    )
    dossier = Dossier(logs=(read(Source.of_text(text)),))
    docket = Docket()
    logs.judge(dossier, docket)
    assert not [finding for finding in docket.findings if finding.code == "hca-set-differs"]
    assert any("NET/IB/2 = mlx4_0+mlx4_0" in sentence for sentence in logs.facts(dossier))
