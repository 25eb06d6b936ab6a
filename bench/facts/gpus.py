"""GPUs of this host through NVML: links, clocks, throttle reasons, error counters, pairs.

In: an `NvmlReader` (the real one speaks pynvml; tests inject a fake). Out: one `Gpu` per device,
one `GpuPair` per two; what a device, driver or container refuses stands in `unreadable` with
NVML's own reason. NVML makes no CUDA context. It may stand still for ever where a GPU has fallen
off the bus, so all questions together have a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from bench.facts import nvlinks, pci, sysfs
from bench.facts.nvml import NvmlReader, NvmlRefused, PynvmlReader
from bench.facts.patience import OutOfTime, within
from bench.records import Gpu, GpuPair, HostFacts, Nvlink

# nvmlClocksEventReasons*: bits of nvmlDeviceGetCurrentClocksEventReasons
THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks setting",
}

# Without persistence mode the driver wakes each GPU first, 1-3 s apiece; rank 0 waits 20 s for the
# facts of a host.
DEADLINE_S = 12.0
PULSE_DEADLINE_S = 5.0  # around a session, when the driver is awake
_NO_ANSWER = "gave no answer"
MOST_PAIRED = 16  # GPUs of one host whose pairs are asked about: 120 pairs

# Pstates below this one are at work (P2 is what CUDA gets on many boards), P5 and up are at rest.
_WORKING_STATES = 5

_PLAIN = (
    "name", "uuid", "serial", "board_part_number", "vbios", "pci_address", "cpu_affinity",
    "memory_bytes", "bar1_bytes", "pcie_max_generation", "pcie_device_max_generation",
    "pcie_max_width", "c2c_links", "fabric", "max_sm_clock_mhz", "power_limit_w", "mig_mode",
    "ecc_mode", "persistence_mode", "compute_mode",
)  # fmt: skip
# What may move while a session runs; these alone are read around each.
_MOVING = (
    "pcie_generation", "pcie_width", "performance_state", "sm_clock_mhz", "memory_clock_mhz",
    "temperature_c", "power_w", "throttled_s", "error_counters",
)  # fmt: skip


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All that NVML told; `unreadable` says why there is nothing ("nvml")."""

    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    driver: str | None = None
    cuda_driver: str | None = None
    unreadable: dict[str, str] = {}


def survey(
    reader: NvmlReader | None = None,
    *,
    devices: Path = pci.DEVICES,
    deadline_s: float = DEADLINE_S,
) -> Found:
    """All GPUs by NVML index with their pairs, and the driver's versions. Never raises."""
    reader = reader or PynvmlReader()

    def ask(count: int) -> Found:
        found = tuple(_gpu(reader, index, devices) for index in range(count))
        unreadable: dict[str, str] = {}
        pairs = _pairs(reader, found[:MOST_PAIRED], unreadable)
        if count > MOST_PAIRED:
            unreadable["gpu_pairs"] = f"only those of the first {MOST_PAIRED} of {count} GPUs"
        driver, cuda = (_system(reader, item, unreadable) for item in ("driver", "cuda_driver"))
        return Found(
            gpus=found, pairs=pairs, driver=driver, cuda_driver=cuda, unreadable=unreadable
        )

    return _opened(reader, ask, deadline_s)


def read(
    reader: NvmlReader | None = None, *, pci_devices: Path = pci.DEVICES
) -> tuple[tuple[Gpu, ...], dict[str, str]]:
    """All GPUs, and why there is none ("nvml" -> why). Never raises."""
    found = survey(reader, devices=pci_devices)
    return found.gpus, found.unreadable


def pulse(reader: NvmlReader | None = None, *, deadline_s: float = PULSE_DEADLINE_S) -> Found:
    """Only what may move while a session runs: clocks, throttling, link states, error counters."""
    reader = reader or PynvmlReader()

    def ask(count: int) -> Found:
        return Found(gpus=tuple(_moving(reader, index) for index in range(count)))

    return _opened(reader, ask, deadline_s)


def _opened(reader: NvmlReader, ask: Callable[[int], Found], deadline_s: float) -> Found:
    def whole() -> Found:
        try:
            count = reader.open()
        except NvmlRefused as refused:
            return Found(unreadable={"nvml": str(refused)})
        try:
            return ask(count)
        finally:
            reader.close()

    try:
        return within(deadline_s, whole)
    except OutOfTime:
        return Found(unreadable={"nvml": f"{_NO_ANSWER} within {deadline_s:g} s"})


def no_answer(host: HostFacts) -> bool:
    """NVML kept silent there, so that having found no GPU says nothing."""
    return not host.gpus and host.unreadable.get("nvml", "").startswith(_NO_ANSWER)


class _Asked:
    """Answers of one GPU, and why those are missing that are."""

    def __init__(self, reader: NvmlReader, index: int) -> None:
        self._reader, self._index = reader, index
        self.unreadable: dict[str, str] = {}

    def __call__(self, item: str) -> Any:
        try:
            return self._reader.value(self._index, item)
        except NvmlRefused as refused:
            self.unreadable[item] = str(refused)
            return None


def _moving(reader: NvmlReader, index: int) -> Gpu:
    value = _Asked(reader, index)
    fields = {item: value(item) for item in _MOVING}
    states, reasons = value("nvlinks"), value("throttle_reasons")
    return Gpu(
        index=index,
        **{name: told for name, told in fields.items() if told is not None},
        nvlinks_active=sum(states) if states is not None else None,
        nvlinks_inactive=len(states) - sum(states) if states is not None else None,
        throttle_reasons=throttle_names(reasons or 0),
        pcie_idle=_at_rest(fields["performance_state"], reasons),
        unreadable=value.unreadable,
    )


def _gpu(reader: NvmlReader, index: int, devices: Path) -> Gpu:
    value = _Asked(reader, index)
    moving = _moving(reader, index)
    plain = {item: told for item in _PLAIN if (told := value(item)) is not None}
    # Asked only where there are links: each takes five questions.
    links: Sequence[Nvlink] = ()
    if moving.nvlinks_active or moving.nvlinks_inactive:
        links = value("nvlink_details") or ()
    address = plain.get("pci_address")
    return msgspec.structs.replace(
        moving,
        **plain,
        pci_path=pci.chain(address, devices) if address else (),
        # NVML's own NUMA question is about the GPU's memory (Grace), not about its slot.
        numa_node=sysfs.numa_node(devices / address) if address else None,
        pci_power_state=sysfs.text(devices / address / "power_state") if address else None,
        nvlinks=nvlinks.grouped(links),
        unreadable={**moving.unreadable, **value.unreadable},
    )


def _at_rest(state: int | None, reasons: int | None) -> bool | None:
    """Whether the link may have slowed down to save power. "idle" among the reasons counts too:
    some boards rest in P0."""
    if state is None and reasons is None:
        return None
    return (state or 0) >= _WORKING_STATES or bool((reasons or 0) & 0x1)


def throttle_names(mask: int) -> tuple[str, ...]:
    """0x24 -> ("software power cap", "software thermal slowdown"); unknown bits as numbers."""
    names = [name for bit, name in THROTTLE_REASONS.items() if mask & bit]
    rest = mask & ~sum(THROTTLE_REASONS)
    return tuple(names + ([f"reason 0x{rest:x}"] if rest else []))


def _pairs(
    reader: NvmlReader, gpus: Sequence[Gpu], unreadable: dict[str, str]
) -> tuple[GpuPair, ...]:
    def value(first: Gpu, second: Gpu, item: str) -> Any:
        try:
            return reader.pair(first.index, second.index, item)
        except NvmlRefused as refused:
            unreadable[f"gpu_pairs.{item}"] = str(refused)
            return None

    found = []
    for first, second in combinations(gpus, 2):
        there = value(first, second, "p2p") or {}
        back = value(second, first, "p2p") or {}
        found.append(
            GpuPair(
                gpus=(first.index, second.index),
                ancestor=value(first, second, "ancestor"),
                pci_path=pci.path_class(
                    first.pci_path, second.pci_path, (first.numa_node, second.numa_node)
                ),
                nvlinks=nvlinks.between(first.nvlinks, second.nvlinks, second.pci_address)
                if first.nvlinks_active is not None
                else None,
                p2p=there,
                p2p_back={what: word for what, word in back.items() if word != there.get(what)},
            )
        )
    return tuple(found)


def _system(reader: NvmlReader, item: str, unreadable: dict[str, str]) -> Any:
    try:
        return reader.system(item)
    except NvmlRefused as refused:
        unreadable[item] = str(refused)
        return None
