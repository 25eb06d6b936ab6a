"""Errors outside GPUs' and ports' own counters: Xid messages and PCIe's error reporting.

In: the kernel log (Xid: a GPU's complaint; SXid: an NVSwitch's), PCI addresses. Out: name ->
count. A name that is missing was not readable or never happened: `unreadable` tells which.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.facts import pci
from bench.records import Gpu

KERNEL_LOG = Path("/dev/kmsg")
# A full ring buffer of some ten thousand records takes about 0.2 s.
KERNEL_LOG_WITHIN_S = 0.5
RECORD_BYTES = 8192  # the kernel's own limit of one /dev/kmsg record

_XID = re.compile(rb"(?:NVRM: Xid|nvidia-nvswitch\d+: (S)Xid) \((?:PCI:)?([^)]{1,64})\): (\d+)")


class KernelLog:
    """Counts Xid messages from its opening on (`anew`) or since boot. Containers and ordinary
    users usually may not read the log; `unreadable` then says why. `close` it."""

    def __init__(self, path: Path = KERNEL_LOG, *, anew: bool = True) -> None:
        self._path = path
        self._counts: dict[str, int] = {}
        self._file: int | None = None
        self.unreadable: dict[str, str] = {}
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if anew:
                os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self._give_up(f"{path}: {error.strerror}")

    def counts(self) -> dict[str, int]:
        """All Xids so far: "xid79@0000:17:00" -> how often."""
        end = time.monotonic() + KERNEL_LOG_WITHIN_S
        while self._file is not None:
            if time.monotonic() > end:
                self.unreadable["xid"] = f"{self._path}: too long to read to its end"
                break
            try:
                record = os.read(self._file, RECORD_BYTES)
            except BlockingIOError:
                break  # the newest record was the last one
            except BrokenPipeError:
                continue  # the ring moved on while we read; the next read starts at its tail
            except OSError as error:
                self._give_up(f"{self._path}: {error.strerror}")
                break
            if not record:
                break
            for switch, device, number in _XID.findall(record):
                kind = "sxid" if switch else "xid"
                key = f"{kind}{number.decode()}@{device.decode(errors='replace')}"
                self._counts[key] = self._counts.get(key, 0) + 1
        return dict(self._counts)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _give_up(self, why: str) -> None:
        self.unreadable["xid"] = why
        self.close()


def xid(kernel_log: Path = KERNEL_LOG) -> tuple[dict[str, int], dict[str, str]]:
    """Xid messages in the kernel's log since boot, and why the log could not be read."""
    log = KernelLog(kernel_log, anew=False)
    try:
        return log.counts(), log.unreadable
    finally:
        log.close()


def of_gpus(gpus: Sequence[Gpu]) -> dict[str, int]:
    """Counters that these records hold: "gpu0.pcie_replays"."""
    return {
        f"gpu{gpu.index}.{name}": count
        for gpu in gpus
        for name, count in gpu.error_counters.items()
    }


def of_pci(addresses: Iterable[str], devices: Path = pci.DEVICES) -> dict[str, int]:
    """Advanced Error Reporting now: "pci.0000:17:00.0.correctable"."""
    return {
        f"pci.{address}.{name}": count
        for address in addresses
        for name, count in pci.errors(address, devices).items()
    }
