"""The door to NVML: one method per question, refusals as sentences.

In: a device index and the name of an item. Out: its value in the unit its name says. The real
reader speaks pynvml (nvidia-ml-py); a test injects a fake with the same three methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from bench.facts import placement

NO_DRIVER = "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)"


class NvmlRefused(Exception):
    """NVML did not answer; the message is its reason."""


class NvmlReader(Protocol):
    """What `gpus.read` needs of NVML."""

    def open(self) -> int:
        """Start; number of GPUs. NvmlRefused where there is no NVML."""

    def value(self, index: int, item: str) -> Any:
        """One item of one GPU; NvmlRefused where the device or driver does not tell it."""

    def close(self) -> None:
        """Let go."""


class PynvmlReader:
    """The real thing."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}

    def open(self) -> int:
        import pynvml  # a host without GPUs need not load it

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError_LibraryNotFound:
            raise NvmlRefused(NO_DRIVER) from None
        except pynvml.NVMLError as error:
            raise NvmlRefused(str(error)) from None

    def value(self, index: int, item: str) -> Any:
        nvml = self._nvml
        try:
            if index not in self._handles:
                self._handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
            return ITEMS[item](nvml, self._handles[index])
        except nvml.NVMLError as error:
            raise NvmlRefused(str(error)) from None
        except AttributeError as error:
            raise NvmlRefused(f"this nvidia-ml-py is too old: {error}") from None

    def close(self) -> None:
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            pass  # nothing more can be done with it anyway


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _pci_address(nvml: Any, device: Any) -> str:
    return _text(nvml.nvmlDeviceGetPciInfo(device).busId).lower().removeprefix("0000")


def _cpu_affinity(nvml: Any, device: Any) -> str:
    words = nvml.nvmlDeviceGetCpuAffinity(device, 64)  # 64 words of 64 CPUs
    cpus = [w * 64 + bit for w, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    return placement.cpu_list(cpus)


def _throttle_reasons(nvml: Any, device: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(device))
    except (AttributeError, nvml.NVMLError_FunctionNotFound):  # its name before CUDA 12.2
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))


def _nvlinks(nvml: Any, device: Any) -> list[bool]:
    """State of every NVLink the device has; a number it does not have is refused."""
    states = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(bool(nvml.nvmlDeviceGetNvLinkState(device, link)))
        except nvml.NVMLError_NotSupported:
            continue
        except nvml.NVMLError_InvalidArgument:
            break
    return states


def _error_counters(nvml: Any, device: Any) -> dict[str, int]:
    """ECC, PCIe replays, remapped rows, NVLink errors summed over links; what is not told is
    left out, never zero."""
    found: dict[str, int] = {}

    def note(name: str, ask: Callable[[], Any]) -> None:
        try:
            found[name] = found.get(name, 0) + int(ask())
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
    kinds = {
        "nvlink_replays": nvml.NVML_NVLINK_ERROR_DL_REPLAY,
        "nvlink_recoveries": nvml.NVML_NVLINK_ERROR_DL_RECOVERY,
        "nvlink_crc_flit": nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
        "nvlink_crc_data": nvml.NVML_NVLINK_ERROR_DL_CRC_DATA,
    }
    for link in range(len(_nvlinks(nvml, device))):
        for name, kind in kinds.items():
            note(name, lambda k=kind, n=link: nvml.nvmlDeviceGetNvLinkErrorCounter(device, n, k))  # type: ignore[misc]
    return found


# One entry per item: the place to add one (and a field in bench.records.Gpu).
ITEMS: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nvml, device: _text(nvml.nvmlDeviceGetName(device)),
    "uuid": lambda nvml, device: _text(nvml.nvmlDeviceGetUUID(device)),
    "serial": lambda nvml, device: _text(nvml.nvmlDeviceGetSerial(device)),
    "pci_address": _pci_address,
    "cpu_affinity": _cpu_affinity,
    "memory_bytes": lambda nvml, device: int(nvml.nvmlDeviceGetMemoryInfo(device).total),
    "pcie_generation": lambda nvml, d: int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(d)),
    "pcie_max_generation": lambda nvml, d: int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(d)),
    "pcie_width": lambda nvml, device: int(nvml.nvmlDeviceGetCurrPcieLinkWidth(device)),
    "pcie_max_width": lambda nvml, device: int(nvml.nvmlDeviceGetMaxPcieLinkWidth(device)),
    "nvlinks": _nvlinks,
    "sm_clock_mhz": lambda nvml, d: int(nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_SM)),
    "max_sm_clock_mhz": lambda nvml, d: int(nvml.nvmlDeviceGetMaxClockInfo(d, nvml.NVML_CLOCK_SM)),
    "memory_clock_mhz": lambda nvml, d: int(nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_MEM)),
    "throttle_reasons": _throttle_reasons,
    "mig_mode": lambda nvml, device: bool(nvml.nvmlDeviceGetMigMode(device)[0]),
    "error_counters": _error_counters,
}
