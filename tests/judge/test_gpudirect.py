"""GPUDirect RDMA: missed where it should be, never where it cannot be."""

from __future__ import annotations

import pytest

from bench.records import DataPath

PLAIN = "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/7"
DIRECT = "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/7/GDRDMA"
BACK = "Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0"


@pytest.fixture
def two(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"], gpu_hosts["narrow-slot"])
    return scene.facts(1, gpus=gpu_hosts["healthy"].gpus)  # nothing else is wrong


def test_no_channel_with_it_beside_an_adapter_is_a_warning_with_the_reason(two):
    two.facts(kernel_modules=("nvidia",)).log("(default)", PLAIN, BACK, gbs=20.0)
    (found,) = [f for f in two.findings() if f.where.host == "h100-a"]
    assert (found.code, found.severity) == ("gdr-disabled", "warning")
    told = " ".join(evidence.text for evidence in found.evidence)
    assert "PIX" in told and "nvidia_peermem" in told and "2 channel edges" in found.summary


def test_a_users_level_is_named(two):
    two.facts(environment={"NCCL_NET_GDR_LEVEL": "LOC"}).log("(default)", PLAIN, gbs=20.0)
    (found,) = two.findings()
    assert found.remedy == "unset NCCL_NET_GDR_LEVEL"


@pytest.mark.parametrize("change", ["direct", "far", "geforce", "no adapter", "socket"])
def test_it_is_not_missed_where_it_is_or_cannot_be(two, change):
    line = DIRECT if change == "direct" else PLAIN
    if change == "far":
        for gpu in range(8):
            two.gpu(gpu, nic_paths={f"mlx5_{n}": "PHB" for n in range(8)})
    if change == "geforce":
        two.every_gpu(name="NVIDIA GeForce RTX 4090")
    if change == "no adapter":
        two.facts(rdma_ports=())
    if change == "socket":
        line = line.replace("NET/IB", "NET/Socket")
    two.log("(default)", line, gbs=20.0)
    assert two.findings() == []


def test_a_missing_module_alone_is_a_note_where_rdma_is_used(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).facts(
        data_path=DataPath(transport="rdma", interfaces=("mlx5_0:1",)), kernel_modules=("nvidia",)
    )
    (found,) = scene.findings()
    assert (found.code, found.severity) == ("gdr-disabled", "info")
    assert scene.facts(kernel_modules=("nvidia", "nvidia_peermem")).findings() == []
