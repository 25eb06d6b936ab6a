"""Error counters of a host in one flat table, for a difference before and after a session.

In: RDMA ports and GPUs as read, and the kernel log for Xid messages. Out: name -> count. A name
that is missing was not readable, which is not the same as zero. Interface errors stand in
`Interface.counters` and are not repeated here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from bench.facts import rdma
from bench.records import Gpu, RdmaPort

KERNEL_LOG_WITHIN_S = 0.1  # a full ring buffer of some thousand records takes about 20 ms
RECORD_BYTES = 8192  # the kernel's own limit of one /dev/kmsg record

_XID = re.compile(rb"NVRM: Xid \((?:PCI:)?([^)]*)\): (\d+)")


def collect(rdma_ports: Sequence[RdmaPort], gpus: Sequence[Gpu]) -> dict[str, int]:
    """Counters that these records hold: "mlx5_0:1.symbol_error", "gpu0.pcie_replays"."""
    found: dict[str, int] = {}
    for port in rdma_ports:
        for name, value in port.counters.items():
            if name not in rdma.DATA_COUNTERS:
                found[f"{port.device}:{port.port}.{name}"] = value
    for gpu in gpus:
        for name, value in gpu.error_counters.items():
            found[f"gpu{gpu.index}.{name}"] = value
    return found


def xid(kernel_log: Path = Path("/dev/kmsg")) -> tuple[dict[str, int], dict[str, str]]:
    """Xid messages in the kernel's log since boot, "xid79@0000:17:00" -> how often; and why the
    log could not be read (containers and ordinary users usually may not)."""
    found: dict[str, int] = {}
    try:
        log = os.open(kernel_log, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return {}, {"xid": f"{kernel_log}: {error.strerror}"}
    end = time.monotonic() + KERNEL_LOG_WITHIN_S
    try:
        while time.monotonic() < end:
            try:
                record = os.read(log, RECORD_BYTES)
            except BlockingIOError:
                break  # the newest record was the last one
            except BrokenPipeError:
                continue  # the ring moved on while we read; the next read starts at its tail
            if not record:
                break
            for device, number in _XID.findall(record):
                key = f"xid{number.decode()}@{device.decode(errors='replace')}"
                found[key] = found.get(key, 0) + 1
    except OSError as error:
        return {}, {"xid": f"{kernel_log}: {error.strerror}"}
    finally:
        os.close(log)
    return found, {}
