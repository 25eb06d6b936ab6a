"""All hardware of a host together: fake GPUs and trees, real threads, tools and deadlines."""

from __future__ import annotations

import time
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from bench.facts import affinity, gpus, hardware, host, tool
from bench.records import HostFacts, Interface, RdmaPort

MATRIX = "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-47\nGPU1\tNV18\t X \t0-47\n"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nvidia-smi, first on PATH; the test writes what it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    script = folder / "nvidia-smi"
    script.touch(mode=0o755)
    return script


def says(script: Path, body: str) -> None:
    script.write_text(f"#!/bin/sh\n{body}\n")


def test_a_host_is_gathered_from_fake_gpus_and_survives_json(
    fake_nvml: ModuleType, tmp_path: Path
) -> None:
    played = fake_nvml.h100_two_links_down(tmp_path)
    found = host.gather(ask_nccl=False, nvml=played.reader, root=tmp_path)
    assert len(found.gpus) == 8 and len(found.gpu_pairs) == 28 and len(found.rdma_ports) == 8
    assert found.software.cuda_driver == "12.8"
    assert found.gpus[0].nearest_nics == ("mlx5_0",)
    assert found.machine is not None and found.machine.product == "DGXH100"
    assert found.error_counters == {}
    assert msgspec.json.decode(msgspec.json.encode(found), type=HostFacts) == found


def test_the_topology_matrix_is_kept_as_the_tool_prints_it(
    fake_nvml: ModuleType, tmp_path: Path, smi: Path
) -> None:
    (tmp_path / "matrix").write_text(MATRIX)
    says(smi, f'[ "$*" = "topo -m" ] && cat {tmp_path}/matrix')
    played = fake_nvml.pcie_behind_acs_bridge(tmp_path)
    found = hardware.read(played.reader, root=tmp_path)
    assert found.tool_outputs == {
        "nvidia-smi topo -m": MATRIX.replace("\x1b[4m", "").replace("\x1b[0m", "")
    }


def test_a_tool_that_fails_is_told_where_there_are_gpus_and_nowhere_else(
    fake_nvml: ModuleType, tmp_path: Path, smi: Path
) -> None:
    says(smi, "echo 'Failed to initialize NVML'; exit 255")
    played = fake_nvml.pcie_behind_acs_bridge(tmp_path)
    found = hardware.read(played.reader, root=tmp_path)
    assert found.tool_outputs == {}
    assert "Failed to initialize NVML" in found.unreadable["nvidia-smi topo -m"]
    without = hardware.read(fake_nvml.FakeNvml(), root=tmp_path / "absent")
    assert "nvidia-smi topo -m" not in without.unreadable


def test_a_driver_that_stands_still_costs_one_deadline_for_all_questions(
    fake_nvml: ModuleType, tmp_path: Path, smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(smi, "exec sleep 60")

    class Stuck(fake_nvml.FakeNvml):  # type: ignore[misc, name-defined]
        def open(self) -> int:
            time.sleep(5)
            return 0

    def soon(*arguments: Any, **named: Any) -> Any:
        return whole(*arguments, **{**named, "deadline_s": 0.5})

    whole = tool.output
    monkeypatch.setattr(tool, "output", soon)
    survey = gpus.survey
    monkeypatch.setattr(
        gpus, "survey", lambda nvml, devices: survey(nvml, devices=devices, deadline_s=0.5)
    )
    began = time.monotonic()
    found = hardware.read(Stuck(), root=tmp_path)
    assert time.monotonic() - began < 4.5
    assert found.unreadable["nvml"] == "gave no answer within 0.5 s"


def test_nothing_at_all_is_no_failure(fake_nvml: ModuleType, tmp_path: Path) -> None:
    """A container without /sys and /proc."""
    found = hardware.read(fake_nvml.FakeNvml(), root=tmp_path)
    assert (found.gpus, found.pci_devices, found.iommu, found.services) == ((), (), None, ())
    assert found.unreadable["iommu"] == "no iommu_groups in sysfs"
    assert found.unreadable["kernel_words"] == "/proc/cmdline cannot be read"


def test_an_interface_of_an_rdma_device_is_not_a_second_nic(
    gpu_hosts: dict[str, HostFacts], fake_sysfs: ModuleType, tmp_path: Path
) -> None:
    (gpu_address,) = fake_sysfs.pcie_switch(tmp_path, gpus=1)
    devices = tmp_path / "sys/bus/pci/devices"
    nic = "0000:60:00.0"
    interfaces = [
        Interface(name="ens1np0", kind="physical", index=2, pci_address=nic),
        Interface(name="eth9", kind="physical", index=3, pci_address=gpu_address),
        Interface(name="bond0", kind="bond", index=4, pci_address=nic),
        Interface(name="veth0", kind="veth", index=5),
    ]
    port = RdmaPort(device="mlx5_0", port=1, pci_address=nic)
    assert affinity.nics([port], interfaces) == {"mlx5_0": nic, "eth9": gpu_address}
    gpu = msgspec.structs.replace(
        gpu_hosts["acs"].gpus[0], pci_address=gpu_address, nic_paths={}, nearest_nics=()
    )
    (joined,), (near,) = affinity.joined([gpu], [port], interfaces, devices)
    assert joined.nic_paths["mlx5_0"] == "PIX"
    assert (near.nearest_gpus, near.gpu_path) == ((0,), "PIX")


def test_a_nic_that_is_nowhere_in_the_tree_has_no_path(gpu_hosts: dict[str, HostFacts]) -> None:
    port = RdmaPort(device="ghost_0", port=1)
    (gpu, *_), (near,) = affinity.joined(gpu_hosts["acs"].gpus, [port])
    assert gpu.nic_paths == {} and gpu.nearest_nics == ()
    assert (near.nearest_gpus, near.gpu_path) == ((), None)
