"""RDMA ports of this host, from /sys/class/infiniband: state, rate, GID types, counters.

In: the sysfs root. Out: one `RdmaPort` per port and what could not be read. Traffic over RDMA
never shows in the interface's byte counters; port_xmit_data and port_rcv_data count it, in units
of 4 bytes as the InfiniBand specification has it.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.facts import sysfs
from bench.records import RdmaPort

WORD_BYTES = 4  # unit of port_xmit_data and port_rcv_data

DATA_COUNTERS = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
# What moves when a link or its peer is ill. port_xmit_wait is congestion, not an error.
ERROR_COUNTERS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_xmit_discards", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_wait",
)  # fmt: skip
# RoCE's own, in hw_counters; names as mlx5 has them, other drivers share some.
HARDWARE_COUNTERS = (
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
    "implied_nak_seq_err", "out_of_buffer", "duplicate_request", "np_cnp_sent", "rp_cnp_handled",
    "np_ecn_marked_roce_packets", "roce_adp_retrans", "roce_slow_restart", "rx_icrc_encapsulated",
)  # fmt: skip

GID_LIMIT = 256  # entries in the largest GID table seen; the rest would only cost time


def read(
    root: Path = Path("/sys/class/infiniband"),
) -> tuple[tuple[RdmaPort, ...], dict[str, str]]:
    """All ports, by device and number. Absent RDMA is no error; a device without ports is."""
    found = []
    unreadable: dict[str, str] = {}
    for device in sysfs.names(root):
        numbers = [name for name in sysfs.names(root / device / "ports") if name.isdigit()]
        if not numbers:
            unreadable[f"rdma.{device}"] = f"{root / device / 'ports'} shows no port"
        for number in sorted(map(int, numbers)):
            port = _port(root / device, device, number)
            if not any(name in port.counters for name in DATA_COUNTERS):
                unreadable[f"rdma.{device}:{number}.counters"] = "no byte counters in sysfs"
            found.append(port)
    return tuple(found), unreadable


def _port(folder: Path, device: str, number: int) -> RdmaPort:
    port = folder / "ports" / str(number)
    state = sysfs.text(port / "state")  # "4: ACTIVE"
    rate = re.match(r"[\d.]+", sysfs.text(port / "rate") or "")  # "100 Gb/sec (4X EDR)"
    return RdmaPort(
        device=device,
        port=number,
        state=state.partition(":")[2].strip() or state if state else None,
        rate_gbit=float(rate[0]) if rate else None,
        link_layer=sysfs.text(port / "link_layer"),
        interface=_interface(folder, port),
        firmware=sysfs.text(folder / "fw_ver"),
        numa_node=sysfs.numa_node(folder / "device"),
        pci_address=sysfs.pci_address(folder / "device"),
        gid_types=_gid_types(port),
        counters=counters(port),
    )


def _interface(folder: Path, port: Path) -> str | None:
    """The netdev of the port: its first GID's (RoCE), else the device's only one (IPoIB)."""
    named = sysfs.text(port / "gid_attrs/ndevs/0")
    if named is not None:
        return named
    beside = sysfs.names(folder / "device/net")
    return beside[0] if len(beside) == 1 else None


def _gid_types(port: Path) -> tuple[str, ...]:
    """Distinct types of the GIDs in use; reading the type of an empty entry is an error."""
    entries = sysfs.names(port / "gid_attrs/types")[:GID_LIMIT]
    return tuple(sorted({t for e in entries if (t := sysfs.text(port / "gid_attrs/types" / e))}))


def counters(port: Path) -> dict[str, int]:
    """Counters of one port folder, those that exist; data counters stay in 4-byte units."""
    places = [(port / "counters", name) for name in DATA_COUNTERS + ERROR_COUNTERS]
    places += [(port / "hw_counters", name) for name in HARDWARE_COUNTERS]
    values = {name: sysfs.number(folder / name) for folder, name in places}
    return {name: value for name, value in values.items() if value is not None}
