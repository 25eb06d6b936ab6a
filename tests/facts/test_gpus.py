"""GPU facts through a fake NVML reader; the real one needs a driver and says so here."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.facts import errors, gpus
from bench.facts.nvml import NO_DRIVER, NvmlRefused
from bench.facts.nvml_items import ITEMS, PAIR_ITEMS, SYSTEM_ITEMS
from bench.records import HostFacts, Nvlink


def test_a_healthy_gpu_is_read_whole_and_nvml_is_closed(fake_nvml: ModuleType) -> None:
    reader = fake_nvml.FakeNvml(
        fake_nvml.H100 | {"nvlink_details": fake_nvml.switched_links(), "c2c_links": 0}
    )
    (gpu,), unreadable = gpus.read(reader)
    assert (gpu.nvlinks_active, gpu.nvlinks_inactive) == (18, 0)
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.mig_mode) == (5, 16, False)
    assert (gpu.ecc_mode, gpu.persistence_mode, gpu.compute_mode) == (True, True, "default")
    assert gpu.bar1_bytes == 128 * 2**30
    assert gpu.fabric is not None and gpu.fabric.state == "completed"
    assert gpu.unreadable == {}
    assert unreadable == {"driver": "Not Supported", "cuda_driver": "Not Supported"}
    assert reader.closed


def test_links_that_are_alike_are_one_record_and_those_down_are_named(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    healthy = gpu_hosts["healthy"].gpus[0].nvlinks
    assert [len(link.links) for link in healthy] == [4, 5, 5, 4]
    assert {(link.version, link.speed_gbs, link.remote) for link in healthy} == {
        ("4.0", 26.562, "switch")
    }
    ill = gpu_hosts["links-down"].gpus[3]
    assert (ill.nvlinks_active, ill.nvlinks_inactive) == (16, 2)
    down = [link for link in ill.nvlinks if not link.active]
    assert [link.links for link in down] == [(7,), (12,)]
    assert down[0].errors == {"nvlink_recoveries": 41}
    assert sum(len(link.links) for link in ill.nvlinks) == 18


def test_a_narrow_slot_shows_at_the_gpu_and_at_its_bridge(gpu_hosts: dict[str, HostFacts]) -> None:
    host = gpu_hosts["narrow-slot"]
    gpu = host.gpus[5]
    assert (gpu.pcie_width, gpu.pcie_max_width, gpu.pcie_idle) == (8, 16, False)
    devices = {device.address: device for device in host.pci_devices}
    own, port = (devices[address] for address in gpu.pci_path[:2])
    assert (own.kind, own.link_width, own.max_link_width) == ("gpu", 8, 16)
    assert (port.port, port.link_width, port.max_link_width) == ("downstream", 8, 16)


def test_a_gpu_at_rest_says_that_its_generation_proves_nothing(
    gpu_hosts: dict[str, HostFacts], fake_nvml: ModuleType
) -> None:
    gpu = gpu_hosts["acs"].gpus[0]
    assert (gpu.pcie_generation, gpu.pcie_max_generation, gpu.pcie_idle) == (1, 4, True)
    (rests_in_p0,), _ = gpus.read(fake_nvml.FakeNvml(fake_nvml.H100 | {"throttle_reasons": 0x1}))
    assert rests_in_p0.pcie_idle is True
    (untold,), _ = gpus.read(fake_nvml.FakeNvml({"pcie_generation": 1}))
    assert untold.pcie_idle is None


def test_pairs_tell_the_path_the_links_and_what_the_driver_allows(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    pairs = {pair.gpus: pair for pair in gpu_hosts["healthy"].gpu_pairs}
    assert len(pairs) == 28
    assert (pairs[0, 1].ancestor, pairs[0, 1].pci_path, pairs[0, 1].nvlinks) == ("NODE", "PHB", 18)
    assert (pairs[3, 4].ancestor, pairs[3, 4].pci_path) == ("SYS", "SYS")
    assert set(pairs[0, 1].p2p.values()) == {"OK"}
    ill = {pair.gpus: pair.nvlinks for pair in gpu_hosts["links-down"].gpu_pairs}
    assert (ill[0, 1], ill[0, 3], ill[3, 7]) == (18, 16, 16)
    behind = gpu_hosts["acs"].gpu_pairs[0]
    assert (behind.ancestor, behind.pci_path, behind.nvlinks) == ("PIX", "PIX", 0)
    assert behind.p2p["nvlink"] == "NS"


def test_peer_access_that_holds_one_way_only_is_told(fake_nvml: ModuleType) -> None:
    reader = fake_nvml.FakeNvml(
        fake_nvml.H100, fake_nvml.H100,
        pairs={
            (0, 1): {"p2p": {"read": "OK", "write": "OK"}},
            (1, 0): {"p2p": {"read": "OK", "write": "CNS"}},
        },
    )  # fmt: skip
    (pair,) = gpus.survey(reader).pairs
    assert pair.p2p_back == {"write": "CNS"}


def test_straight_links_are_counted_between_their_two_ends(fake_nvml: ModuleType) -> None:
    def device(own: str, to: str) -> dict[str, Any]:
        links = [
            Nvlink(links=(n,), active=n != 3, remote="gpu", remote_pci_address=to)
            for n in range(4)
        ]
        return fake_nvml.H100 | {"pci_address": own, "nvlink_details": links}  # type: ignore[no-any-return]

    near, far = "0000:18:00.0", "0000:19:00.0"
    reader = fake_nvml.FakeNvml(device(near, far), device(far, near), device("0000:20:00.0", "x"))
    assert [pair.nvlinks for pair in gpus.survey(reader).pairs] == [3, 0, 0]


def test_the_nearest_nic_is_that_below_the_same_switch(gpu_hosts: dict[str, HostFacts]) -> None:
    host = gpu_hosts["healthy"]
    assert host.gpus[2].nearest_nics == ("mlx5_2",)
    assert host.gpus[2].nic_paths["mlx5_2"] == "PIX"
    assert host.gpus[2].nic_paths["mlx5_0"] == "PHB"
    assert host.gpus[2].nic_paths["mlx5_7"] == "SYS"
    assert (host.rdma_ports[2].nearest_gpus, host.rdma_ports[2].gpu_path) == ((2,), "PIX")
    assert gpu_hosts["acs"].rdma_ports[0].nearest_gpus == (0, 1, 2, 3)


def test_what_a_device_refuses_is_unreadable_and_never_zero(fake_nvml: ModuleType) -> None:
    (gpu,), _ = gpus.read(fake_nvml.FakeNvml({"name": "Tesla K80", "pcie_width": 16}))
    assert gpu.nvlinks_active is None
    assert gpu.error_counters == {}
    assert gpu.throttled_s == {}
    assert gpu.unreadable["nvlinks"] == "Not Supported"
    assert "name" not in gpu.unreadable


def test_every_item_of_the_tables_is_asked_for(fake_nvml: ModuleType) -> None:
    reader = fake_nvml.FakeNvml({"nvlinks": [True]}, {"nvlinks": [True]})
    found = gpus.survey(reader)
    assert set(reader.asked) == {*ITEMS, *PAIR_ITEMS, *SYSTEM_ITEMS}
    assert set(found.gpus[0].unreadable) == set(ITEMS) - {"nvlinks"}
    assert set(found.unreadable) == {f"gpu_pairs.{i}" for i in PAIR_ITEMS} | set(SYSTEM_ITEMS)


def test_around_a_session_only_what_moves_is_asked_for(fake_nvml: ModuleType) -> None:
    reader = fake_nvml.FakeNvml(fake_nvml.H100)
    (gpu,) = gpus.pulse(reader).gpus
    assert (gpu.sm_clock_mhz, gpu.nvlinks_active, gpu.pcie_width) == (1980, 18, 16)
    assert not {"uuid", "nvlink_details", "fabric", "p2p"} & set(reader.asked)


def test_the_numa_node_is_the_slots(tmp_path: Path, fake_nvml: ModuleType) -> None:
    (tmp_path / "0000:18:00.0").mkdir()
    (tmp_path / "0000:18:00.0/numa_node").write_text("1\n")
    (gpu,), _ = gpus.read(fake_nvml.FakeNvml(fake_nvml.H100), pci_devices=tmp_path)
    assert gpu.numa_node == 1


def test_unknown_throttle_bits_keep_their_number() -> None:
    assert gpus.throttle_names(0x1001) == ("idle", "reason 0x1000")


def test_error_counters_name_the_gpu(fake_nvml: ModuleType) -> None:
    ill = fake_nvml.H100 | {"error_counters": {"pcie_replays": 7}}
    found, _ = gpus.read(fake_nvml.FakeNvml(fake_nvml.H100, ill))
    assert errors.of_gpus(found)["gpu1.pcie_replays"] == 7


def test_a_host_without_a_driver_says_so() -> None:
    if not Path("/proc/driver/nvidia/version").exists():
        assert gpus.read() == ((), {"nvml": NO_DRIVER})


def test_nvml_that_stands_still_costs_its_deadline_and_no_more(fake_nvml: ModuleType) -> None:
    free = threading.Event()

    class Stuck(fake_nvml.FakeNvml):  # type: ignore[misc, name-defined]
        def value(self, index: int, item: str) -> Any:
            free.wait(30)
            raise NvmlRefused("GPU is lost")

    found = gpus.survey(Stuck({}), deadline_s=0.05)
    free.set()
    assert found.unreadable == {"nvml": "gave no answer within 0.05 s"}


@pytest.mark.gpu
def test_a_real_gpu_tells_what_it_is_and_what_it_refuses() -> None:
    found = gpus.survey()
    assert found.gpus and found.driver and found.cuda_driver
    for gpu in found.gpus:
        assert gpu.name and gpu.uuid and gpu.pci_address
        assert gpu.pcie_width and gpu.pcie_generation
        assert all(why for why in gpu.unreadable.values())
    assert len(found.pairs) == len(found.gpus) * (len(found.gpus) - 1) // 2
    assert {gpu.index for gpu in gpus.pulse().gpus} == {gpu.index for gpu in found.gpus}
