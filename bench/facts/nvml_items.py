"""Every single question that is put to NVML, by the name of what it answers.

In: the pynvml module and device handles. Out: plain values in the unit that the item's name says;
pynvml's own error where the device or driver does not tell. After nvml.h of CUDA 13.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable
from typing import Any, Literal

from bench.facts import nvlinks, placement
from bench.records import GpuFabric


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _cpu_affinity(nvml: Any, device: Any) -> str:
    words = nvml.nvmlDeviceGetCpuAffinity(device, 64)  # 64 words of 64 CPUs
    cpus = [w * 64 + bit for w, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    return placement.cpu_list(cpus)


def _throttle_reasons(nvml: Any, device: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(device))
    except (AttributeError, nvml.NVMLError_FunctionNotFound):  # its name before CUDA 12.2
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))


# nvmlPerfPolicyType_t; low utilization (4) is no complaint
_POLICIES = {"power": 0, "thermal": 1, "sync_boost": 2, "board_limit": 3, "reliability": 5}


def _throttled(nvml: Any, device: Any) -> dict[str, float]:
    """Seconds for which each policy has held the clocks down since the driver started."""
    return {
        name: nvml.nvmlDeviceGetViolationStatus(device, number).violationTime / 1e9
        for name, number in _POLICIES.items()
    }


# NVML_FI_DEV_PCIE_COUNT_*; numbers, because older modules lack names
_PCIE_FIELDS = {
    "pcie_correctable": 173, "pcie_receiver_errors": 175, "pcie_bad_tlp": 176,
    "pcie_bad_dllp": 178, "pcie_nonfatal": 179, "pcie_fatal": 180, "pcie_lcrc_errors": 182,
    "pcie_lane_errors": 183,
}  # fmt: skip


def _error_counters(nvml: Any, device: Any) -> dict[str, int]:
    """ECC, PCIe, remapped rows, NVLink errors summed over links; what is not told is left out,
    never zero."""
    found: dict[str, int] = {}

    def note(name: str, ask: Callable[[], Any]) -> None:
        try:
            found[name] = int(ask())
        except nvml.NVMLError:
            pass  # left out: the device does not count this

    ecc = nvml.nvmlDeviceGetTotalEccErrors
    corrected, uncorrected = (
        nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    )
    note("ecc_corrected", lambda: ecc(device, corrected, nvml.NVML_VOLATILE_ECC))
    note("ecc_uncorrected", lambda: ecc(device, uncorrected, nvml.NVML_VOLATILE_ECC))
    note("pcie_replays", lambda: nvml.nvmlDeviceGetPcieReplayCounter(device))
    note("remapped_rows", lambda: sum(nvml.nvmlDeviceGetRemappedRows(device)[:2]))
    found |= nvlinks.fields(nvml, device, _PCIE_FIELDS)
    for link in nvlinks.states(nvml, device):
        for name, count in nvlinks.errors(nvml, device, link).items():
            found[name] = found.get(name, 0) + count
    return found


_FABRIC_STATES: tuple[
    Literal["not supported"], Literal["not started"], Literal["in progress"], Literal["completed"]
] = ("not supported", "not started", "in progress", "completed")
# NVML_GPU_FABRIC_HEALTH_MASK_*: place of two bits, their value for trouble, what it means
_FABRIC_HEALTH = (
    (0, 1, "degraded bandwidth"), (2, 1, "route recovery in progress"), (4, 1, "route unhealthy"),
    (6, 1, "access timeout recovery in progress"), (12, 2, "no partition assigned"),
    (14, 2, "global fabric manager disconnected"),
)  # fmt: skip
_FABRIC_MISCONFIGURED = {
    2: "wrong system GUID", 3: "wrong chassis serial", 4: "no partition", 5: "too few NVLinks",
    6: "incompatible GPU firmware", 7: "invalid location", 8: "invalid GPU state",
}  # fmt: skip


def _fabric(nvml: Any, device: Any) -> GpuFabric:
    """What the newest form of the question gets that driver and module both know."""
    for name, call in (
        ("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    ):
        info = getattr(nvml, name, lambda: None)()
        if info is None:
            continue
        try:
            getattr(nvml, call)(device, ctypes.byref(info))
        except nvml.NVMLError_NotSupported:
            raise
        except (nvml.NVMLError, AttributeError):
            continue  # too new for this driver: ask in the older form
        return fabric_of(info, "Success" if info.status == 0 else str(nvml.NVMLError(info.status)))
    raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def fabric_of(info: Any, status: str) -> GpuFabric:
    """NVML's structure as a record. An invalid state number is none."""
    cluster = bytes(info.clusterUuid)
    mask = getattr(info, "healthMask", 0)
    health = [text for shift, bad, text in _FABRIC_HEALTH if mask >> shift & 3 == bad]
    if wrong := _FABRIC_MISCONFIGURED.get(mask >> 8 & 15):
        health.append(f"misconfigured: {wrong}")
    known = info.state < len(_FABRIC_STATES)
    return GpuFabric(
        state=_FABRIC_STATES[info.state] if known else None,
        status=status,
        cluster_uuid=str(uuid.UUID(bytes=cluster)) if any(cluster) else None,
        clique=int(info.cliqueId),
        health=tuple(health),
    )


_ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# nvmlGpuP2PStatus_t in the words of `nvidia-smi topo -p2p`
_P2P_STATUS = ("OK", "CNS", "GNS", "TNS", "DR", "NS", "U")
# Numbers, because pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple by mistake
_P2P_QUESTIONS = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3, "pci": 4}
_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")


def _p2p(nvml: Any, first: Any, second: Any) -> dict[str, str]:
    found = {}
    for name, number in _P2P_QUESTIONS.items():
        try:
            status = int(nvml.nvmlDeviceGetP2PStatus(first, second, number))
        except nvml.NVMLError_InvalidArgument:
            continue  # a question this driver does not know yet
        found[name] = _P2P_STATUS[status] if status < len(_P2P_STATUS) else "U"
    return found


def _performance_state(nvml: Any, device: Any) -> int:
    state = int(nvml.nvmlDeviceGetPerformanceState(device))
    if state > 15:  # NVML_PSTATE_UNKNOWN
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    return state


def _compute_mode(nvml: Any, device: Any) -> str:
    number = int(nvml.nvmlDeviceGetComputeMode(device))
    return _COMPUTE_MODES[number] if number < len(_COMPUTE_MODES) else str(number)


def _c2c_links(nvml: Any, device: Any) -> int:
    """NVML_FI_DEV_C2C_LINK_COUNT: links between a Grace CPU and its GPU."""
    told = nvlinks.fields(nvml, device, {"count": 170})
    if not told:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    return told["count"]


def _cuda(nvml: Any) -> str:
    number = int(nvml.nvmlSystemGetCudaDriverVersion())  # 13020 is 13.2
    return f"{number // 1000}.{number % 1000 // 10}"


# One entry per item: the place to add one (and a field in bench.records.Gpu).
ITEMS: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nvml, device: _text(nvml.nvmlDeviceGetName(device)),
    "uuid": lambda nvml, device: _text(nvml.nvmlDeviceGetUUID(device)),
    "serial": lambda nvml, device: _text(nvml.nvmlDeviceGetSerial(device)),
    "board_part_number": lambda nvml, d: _text(nvml.nvmlDeviceGetBoardPartNumber(d)),
    "vbios": lambda nvml, device: _text(nvml.nvmlDeviceGetVbiosVersion(device)),
    "pci_address": lambda nvml, d: nvlinks.pci_address(nvml.nvmlDeviceGetPciInfo(d)),
    "cpu_affinity": _cpu_affinity,
    "memory_bytes": lambda nvml, device: int(nvml.nvmlDeviceGetMemoryInfo(device).total),
    "bar1_bytes": lambda nvml, d: int(nvml.nvmlDeviceGetBAR1MemoryInfo(d).bar1Total),
    "pcie_generation": lambda nvml, d: int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(d)),
    "pcie_max_generation": lambda nvml, d: int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(d)),
    "pcie_device_max_generation": lambda nvml, d: int(
        nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration(d)
    ),
    "pcie_width": lambda nvml, device: int(nvml.nvmlDeviceGetCurrPcieLinkWidth(device)),
    "pcie_max_width": lambda nvml, device: int(nvml.nvmlDeviceGetMaxPcieLinkWidth(device)),
    "performance_state": _performance_state,
    "nvlinks": lambda nvml, device: list(nvlinks.states(nvml, device).values()),
    "nvlink_details": nvlinks.details,
    "c2c_links": _c2c_links,
    "fabric": _fabric,
    "sm_clock_mhz": lambda nvml, d: int(nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_SM)),
    "max_sm_clock_mhz": lambda nvml, d: int(nvml.nvmlDeviceGetMaxClockInfo(d, nvml.NVML_CLOCK_SM)),
    "memory_clock_mhz": lambda nvml, d: int(nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_MEM)),
    "temperature_c": lambda nvml, d: int(nvml.nvmlDeviceGetTemperature(d, 0)),
    "power_w": lambda nvml, device: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    "power_limit_w": lambda nvml, device: nvml.nvmlDeviceGetEnforcedPowerLimit(device) / 1000,
    "throttle_reasons": _throttle_reasons,
    "throttled_s": _throttled,
    "mig_mode": lambda nvml, device: bool(nvml.nvmlDeviceGetMigMode(device)[0]),
    "ecc_mode": lambda nvml, device: bool(nvml.nvmlDeviceGetEccMode(device)[0]),
    "persistence_mode": lambda nvml, device: bool(nvml.nvmlDeviceGetPersistenceMode(device)),
    "compute_mode": _compute_mode,
    "error_counters": _error_counters,
}
PAIR_ITEMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "ancestor": lambda nvml, first, second: _ANCESTORS.get(
        int(nvml.nvmlDeviceGetTopologyCommonAncestor(first, second))
    ),
    "p2p": _p2p,
}
SYSTEM_ITEMS: dict[str, Callable[[Any], Any]] = {
    "driver": lambda nvml: _text(nvml.nvmlSystemGetDriverVersion()),
    "cuda_driver": _cuda,
}
