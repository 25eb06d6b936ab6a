"""GPU facts through a fake NVML reader; the real one needs a driver and says so here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.facts import errors, gpus
from bench.facts.nvml import ITEMS, NO_DRIVER, NvmlRefused, PynvmlReader

HEALTHY: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1", "serial": "1650",
    "pci_address": "0000:17:00.0", "cpu_affinity": "0-47", "memory_bytes": 85_520_809_984,
    "pcie_generation": 5, "pcie_max_generation": 5, "pcie_width": 16, "pcie_max_width": 16,
    "nvlinks": [True] * 18, "sm_clock_mhz": 1980, "max_sm_clock_mhz": 1980,
    "memory_clock_mhz": 2619, "throttle_reasons": 0, "mig_mode": False,
    "error_counters": {"pcie_replays": 0, "ecc_uncorrected": 0},
}  # fmt: skip


class FakeNvml:
    """A fake of bench.facts.nvml.NvmlReader: devices are dicts, a missing item is refused."""

    def __init__(self, *devices: dict[str, Any]) -> None:
        self.devices = devices
        self.closed = False

    def open(self) -> int:
        return len(self.devices)

    def value(self, index: int, item: str) -> Any:
        if item not in self.devices[index]:
            raise NvmlRefused("Not Supported")
        return self.devices[index][item]

    def close(self) -> None:
        self.closed = True


def test_a_healthy_gpu_is_read_whole_and_nvml_is_closed() -> None:
    reader = FakeNvml(HEALTHY)
    (gpu,), unreadable = gpus.read(reader)
    assert (gpu.nvlinks_active, gpu.nvlinks_inactive) == (18, 0)
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.mig_mode) == (5, 16, False)
    assert gpu.unreadable == {}
    assert unreadable == {}
    assert reader.closed


def test_inactive_nvlinks_and_a_narrow_pcie_slot_show() -> None:
    ill = HEALTHY | {
        "nvlinks": [True] * 4 + [False] * 2,
        "pcie_width": 8,
        "throttle_reasons": 0x44,
    }
    (gpu,), _ = gpus.read(FakeNvml(ill))
    assert (gpu.nvlinks_active, gpu.nvlinks_inactive) == (4, 2)
    assert gpu.throttle_reasons == ("software power cap", "hardware thermal slowdown")
    assert gpu.pcie_width == 8


def test_what_a_device_refuses_is_unreadable_and_never_zero() -> None:
    (gpu,), _ = gpus.read(FakeNvml({"name": "Tesla K80", "pcie_width": 16}))
    assert gpu.nvlinks_active is None
    assert gpu.error_counters == {}
    assert gpu.unreadable["nvlinks"] == "Not Supported"
    assert "name" not in gpu.unreadable


def test_every_item_of_the_table_is_asked_for() -> None:
    (gpu,), _ = gpus.read(FakeNvml({}))
    assert set(gpu.unreadable) == set(ITEMS)


def test_the_numa_node_is_the_slots(tmp_path: Path) -> None:
    (tmp_path / "0000:17:00.0").mkdir()
    (tmp_path / "0000:17:00.0/numa_node").write_text("1\n")
    (gpu,), _ = gpus.read(FakeNvml(HEALTHY), pci_devices=tmp_path)
    assert gpu.numa_node == 1


def test_unknown_throttle_bits_keep_their_number() -> None:
    assert gpus.throttle_names(0x1001) == ("idle", "reason 0x1000")


def test_error_counters_name_the_gpu() -> None:
    found, _ = gpus.read(FakeNvml(HEALTHY, HEALTHY | {"error_counters": {"pcie_replays": 7}}))
    assert errors.collect((), found)["gpu1.pcie_replays"] == 7


def test_a_host_without_a_driver_says_so() -> None:
    if not Path("/proc/driver/nvidia/version").exists():
        assert gpus.read() == ((), {"nvml": NO_DRIVER})


class FakeLibrary:
    """A fake of the pynvml module, as far as links, affinity and throttle reasons need it."""

    NVML_NVLINK_MAX_LINKS = 18

    class NVMLError(Exception):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    class NVMLError_InvalidArgument(NVMLError):
        pass

    class NVMLError_FunctionNotFound(NVMLError):
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetNvLinkState(self, device: int, link: int) -> int:
        if link >= 6:
            raise self.NVMLError_InvalidArgument("Invalid Argument")
        return int(link != 2)

    def nvmlDeviceGetCpuAffinity(self, device: int, words: int) -> list[int]:
        return [0b1111, 1] + [0] * (words - 2)

    def nvmlDeviceGetCurrentClocksEventReasons(self, device: int) -> int:
        raise self.NVMLError_FunctionNotFound("Function Not Found")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device: int) -> int:
        return 0x4

    def nvmlDeviceGetSerial(self, device: int) -> str:
        raise self.NVMLError_NotSupported("Not Supported")


def test_the_real_reader_speaks_nvml_as_the_library_answers() -> None:
    reader = PynvmlReader()
    reader._nvml = FakeLibrary()
    assert reader.value(0, "nvlinks") == [True, True, False, True, True, True]
    assert reader.value(0, "cpu_affinity") == "0-3,64"
    assert reader.value(0, "throttle_reasons") == 0x4
    with pytest.raises(NvmlRefused, match="Not Supported"):
        reader.value(0, "serial")
    with pytest.raises(NvmlRefused, match="too old"):
        reader.value(0, "uuid")
