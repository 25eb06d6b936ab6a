"""Maker, IOMMU, kernel words and services, from made-up trees and from this machine."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from bench.facts import machine, services, tool
from bench.records import HostFacts, Service


def test_the_maker_is_told_and_what_firmware_left_blank_is_not(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    told = gpu_hosts["healthy"].machine
    assert told is not None
    assert (told.vendor, told.product, told.serial) == ("NVIDIA", "DGXH100", "1660523000123")
    assert told.board is None  # "Default string"
    assert (told.cpu, told.sockets, told.numa_nodes, told.hypervisor) == (
        "Intel(R) Xeon(R) Platinum 8480C", 2, 2, False,
    )  # fmt: skip


def test_of_the_command_line_only_words_about_iommu_and_pci_are_kept(
    tmp_path: Path, gpu_hosts: dict[str, HostFacts]
) -> None:
    assert gpu_hosts["acs"].kernel_words == ("intel_iommu=on",)  # its command line has a token
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text(
        "ro password=x iommu.passthrough=1 amd_iommu=off pci=realloc=off,noacs pcie_aspm=off "
        "pcie_acs_override=downstream root=/dev/pci quiet\n"
    )
    assert machine.kernel_words(tmp_path) == (
        "iommu.passthrough=1", "amd_iommu=off", "pci=realloc=off,noacs", "pcie_aspm=off",
        "pcie_acs_override=downstream",
    )  # fmt: skip
    assert machine.kernel_words(tmp_path / "absent") is None


def test_the_iommu_is_told_by_its_units_and_the_types_of_its_groups(
    gpu_hosts: dict[str, HostFacts], tmp_path: Path
) -> None:
    on, through = gpu_hosts["acs"].iommu, gpu_hosts["healthy"].iommu
    assert on is not None and through is not None
    assert on.units == ("dmar0", "dmar1")
    assert set(on.groups) == {"DMA-FQ"}
    assert (through.units, set(through.groups)) == ((), {"identity"})
    assert machine.iommu(tmp_path) is None


def test_modules_for_peer_memory_are_listed(gpu_hosts: dict[str, HostFacts]) -> None:
    assert "nvidia_peermem" in gpu_hosts["healthy"].kernel_modules
    assert "nvidia_peermem" not in gpu_hosts["acs"].kernel_modules


def test_this_machine_is_read_without_a_failure() -> None:
    told, unreadable = machine.read()
    assert told.numa_nodes
    assert (told.serial is None) == any(key.startswith("machine") for key in unreadable)


def test_a_bare_root_tells_nothing_and_does_not_fail(tmp_path: Path) -> None:
    told, unreadable = machine.read(tmp_path)
    assert told == type(told)()
    assert "no DMI" in unreadable["machine"]
    assert machine.modules(tmp_path) == ()


SHOWN = """\
Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed

Id=nvidia-imex.service
LoadState=not-found
ActiveState=inactive

Id=nvidia-persistenced.service
LoadState=loaded
ActiveState=active
"""


def test_systemd_is_asked_once_for_all_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    asked: list[list[str]] = []

    def output(command: list[str], *, deadline_s: float) -> str:
        asked.append(command)
        return SHOWN

    monkeypatch.setattr(tool, "output", output)
    assert {s.name: s.state for s in services.read(tmp_path)} == {
        "fabric-manager": "failed", "imex": "not-found", "persistence": "active",
    }  # fmt: skip
    assert len(asked) == 1


def test_without_systemd_a_visible_process_is_proof_and_its_absence_is_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/comm").write_text("nv-fabricmanage\n")
    manager, imex, _ = services.read(tmp_path)
    assert manager == Service(name="fabric-manager", state="running")
    assert (imex.state, imex.why) == (None, "no systemd here; no process of that name is visible")


def test_imex_says_itself_how_it_is_and_how_large_its_domain_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proc/9").mkdir(parents=True)
    (tmp_path / "proc/9/comm").write_text("nvidia-imex\n")
    (tmp_path / "etc/nvidia-imex").mkdir(parents=True)
    (tmp_path / "etc/nvidia-imex/nodes_config.cfg").write_text("# domain\n10.0.0.1\n10.0.0.2\n\n")
    (tmp_path / "dev/nvidia-caps-imex-channels/channel0").mkdir(parents=True)
    monkeypatch.setattr(tool, "output", lambda command, deadline_s: "READY\n")
    assert services.read(tmp_path)[1] == Service(
        name="imex", state="running", detail="READY", nodes=2, channels=1
    )


def test_a_fake_host_without_services_says_why(
    fake_nvml: ModuleType, gpu_hosts: dict[str, HostFacts]
) -> None:
    assert {s.state for s in gpu_hosts["healthy"].services} == {None}
    assert all(s.why for s in gpu_hosts["healthy"].services)
