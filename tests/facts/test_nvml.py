"""The real reader and the real pynvml module; below them a fake driver library.

The fake stands in for libnvidia-ml.so: its functions get what pynvml hands to C, and write their
answers through the same pointers. So what is tested is every call that we make of pynvml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pynvml
import pytest

from bench.facts.nvml import NvmlRefused, PynvmlReader
from bench.facts.nvml_items import fabric_of
from bench.records import GpuFabric, Nvlink

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT


class FakeDriver:
    """A fake libnvidia-ml with two GPUs of six NVLinks, of which number 2 is down. What has no
    method here is a function that the driver does not have."""

    def __init__(self) -> None:
        self.fields = {173: 5, 208: 0, 164: 25_000}

    def function(self, name: str) -> Callable[..., int]:
        found = getattr(self, name, None)
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return found  # type: ignore[no-any-return]

    def nvmlInitWithFlags(self, flags: int) -> int:
        return 0

    def nvmlShutdown(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return 0

    def nvmlDeviceGetNvLinkState(self, device: Any, link: int, state: Any) -> int:
        if link >= 6:
            return INVALID
        state._obj.value = int(link != 2)
        return 0

    def nvmlDeviceGetNvLinkVersion(self, device: Any, link: int, version: Any) -> int:
        version._obj.value = 6
        return 0

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, device: Any, link: int, kind: Any) -> int:
        kind._obj.value = 2 if link else 0xFF
        return 0

    def nvmlDeviceGetNvLinkRemotePciInfo_v2(self, device: Any, link: int, info: Any) -> int:
        info._obj.busId = b"00000000:05:00.0"
        return 0

    def nvmlDeviceGetNvLinkErrorCounter(
        self, device: Any, link: int, kind: int, count: Any
    ) -> int:
        if kind > 1:
            return NOT_SUPPORTED
        count._obj.value = 3 if (link, kind) == (4, 0) else 0
        return 0

    def nvmlDeviceGetFieldValues(self, device: Any, count: Any, values: Any) -> int:
        for value in values._obj:
            told = self.fields.get(value.fieldId)
            value.nvmlReturn = 0 if told is not None else NOT_SUPPORTED
            value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
            value.value.ullVal = told or 0
        return 0

    def nvmlDeviceGetCpuAffinity(self, device: Any, words: int, mask: Any) -> int:
        mask._obj[0], mask._obj[1] = 0b1111, 1
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device: Any, reasons: Any) -> int:
        reasons._obj.value = 0x4
        return 0

    def nvmlDeviceGetSerial(self, *_: Any) -> int:
        return NOT_SUPPORTED

    def nvmlDeviceGetViolationStatus(self, device: Any, policy: Any, told: Any) -> int:
        told._obj.violationTime = 2_500_000_000 if policy.value == 1 else 0
        return 0

    def nvmlDeviceGetP2PStatus(self, first: Any, second: Any, question: Any, status: Any) -> int:
        if question == 4:
            return INVALID
        status._obj.value = {0: 0, 1: 0, 2: 5, 3: 1}[question]
        return 0

    def nvmlDeviceGetTopologyCommonAncestor(self, first: Any, second: Any, level: Any) -> int:
        level._obj.value = pynvml.NVML_TOPOLOGY_NODE
        return 0

    def nvmlDeviceGetGpuFabricInfoV(self, device: Any, info: Any) -> int:
        if info._obj.version != pynvml.c_nvmlGpuFabricInfo_v2_t().version:
            return int(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        info._obj.state, info._obj.status, info._obj.cliqueId = 3, 0, 7
        info._obj.clusterUuid[0] = 0xAB
        info._obj.healthMask = 1
        return 0

    def nvmlSystemGetCudaDriverVersion(self, version: Any) -> int:
        version._obj.value = 13020
        return 0

    def nvmlDeviceGetPerformanceState(self, device: Any, state: Any) -> int:
        state._obj.value = 32
        return 0


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[PynvmlReader]:
    driver = FakeDriver()
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", driver.function)
    monkeypatch.setattr(pynvml, "_LoadNvmlLibrary", lambda: None)
    found = PynvmlReader()
    assert found.open() == 2
    yield found
    found.close()


def test_links_are_read_one_by_one_with_speed_and_remote_end(reader: PynvmlReader) -> None:
    assert reader.value(0, "nvlinks") == [True, True, False, True, True, True]
    links = reader.value(0, "nvlink_details")
    assert links[0].remote == "unknown"
    assert links[2] == Nvlink(links=(2,), active=False)
    assert links[4] == Nvlink(
        links=(4,), active=True, version="4.0", speed_gbs=25.0, remote="switch",
        remote_pci_address="0000:05:00.0", errors={"nvlink_replays": 3},
    )  # fmt: skip


def test_errors_are_summed_over_links_and_uncounted_kinds_left_out(reader: PynvmlReader) -> None:
    counters = reader.value(0, "error_counters")
    assert counters["nvlink_replays"] == 3
    assert counters["nvlink_recoveries"] == 0
    assert counters["nvlink_receive_errors"] == 0
    assert counters["pcie_correctable"] == 5
    assert "nvlink_crc_flit" not in counters and "ecc_corrected" not in counters


def test_the_fabric_is_asked_for_in_the_form_that_the_driver_knows(reader: PynvmlReader) -> None:
    assert reader.value(0, "fabric") == GpuFabric(
        state="completed", status="Success", clique=7, health=("degraded bandwidth",),
        cluster_uuid="ab000000-0000-0000-0000-000000000000",
    )  # fmt: skip


def test_a_misconfigured_fabric_is_told_in_words() -> None:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.state, info.healthMask = 9, 5 << 8 | 1 << 4 | 2 << 14
    told = fabric_of(info, "Not Supported")
    assert told.state is None
    assert told.health == (
        "route unhealthy", "global fabric manager disconnected", "misconfigured: too few NVLinks",
    )  # fmt: skip


def test_pairs_are_told_in_the_words_of_nvidia_smi(reader: PynvmlReader) -> None:
    assert reader.pair(0, 1, "p2p") == {
        "read": "OK", "write": "OK", "nvlink": "NS", "atomics": "CNS",
    }  # fmt: skip
    assert reader.pair(0, 1, "ancestor") == "NODE"


def test_plain_values_are_turned_into_their_units(reader: PynvmlReader) -> None:
    assert reader.value(0, "cpu_affinity") == "0-3,64"
    assert reader.value(0, "throttle_reasons") == 0x4  # by its name before CUDA 12.2
    assert reader.value(0, "throttled_s") == {
        "power": 0.0, "thermal": 2.5, "sync_boost": 0.0, "board_limit": 0.0, "reliability": 0.0,
    }  # fmt: skip
    assert reader.system("cuda_driver") == "13.2"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("serial", "Not Supported"),
        ("uuid", "Function Not Found"),
        ("performance_state", "Not Supported"),
        ("c2c_links", "Not Supported"),
    ],
)
def test_refusals_carry_nvmls_reason(reader: PynvmlReader, item: str, reason: str) -> None:
    with pytest.raises(NvmlRefused, match=reason):
        reader.value(0, item)


def test_a_module_without_a_call_is_said_to_be_too_old(
    reader: PynvmlReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pynvml, "nvmlDeviceGetUUID")
    with pytest.raises(NvmlRefused, match="too old"):
        reader.value(0, "uuid")
