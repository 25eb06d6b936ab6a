"""RDMA ports of this host, from /sys/class/infiniband: state, rate, GIDs, names, counters.

In: the sysfs root, ibv_devinfo where it is installed (the active MTU stands nowhere else). Out:
one `RdmaPort` per port and what could not be read. Traffic over RDMA never shows in the
interface's byte counters; port_xmit_data and port_rcv_data count it, in units of 4 bytes as the
InfiniBand specification has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.facts import ethtool, sysfs, tool
from bench.records import RdmaPort

WORD_BYTES = 4  # unit of port_xmit_data and port_rcv_data

DATA_COUNTERS = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
# What moves when a link or its peer is ill. port_xmit_wait is congestion, not an error.
ERROR_COUNTERS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_xmit_discards", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_wait",
)  # fmt: skip
# In hw_counters: retransmissions, order, congestion (CNP, ECN); names as the drivers have them.
HARDWARE_COUNTERS = (
    # mlx5 (docs: "RDMA counters" of NVIDIA's Linux drivers)
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err",
    "implied_nak_seq_err", "out_of_buffer", "duplicate_request", "np_cnp_sent", "rp_cnp_handled",
    "rp_cnp_ignored", "np_ecn_marked_roce_packets", "roce_adp_retrans", "roce_adp_retrans_to",
    "roce_slow_restart", "rx_icrc_encapsulated", "req_cqe_error", "resp_cqe_error",
    "req_remote_access_errors", "req_transport_retries_exceeded",
    # bnxt_re
    "to_retransmits", "seq_err_naks_rcvd", "rx_cnp_pkts", "tx_cnp_pkts", "rx_ecn_marked_pkts",
    "missing_resp", "rx_roce_discard_pkts",
    # irdma
    "RetransSegs", "cnpSent", "cnpHandled", "cnpIgnored", "RxECNMrkd",
    # efa (drivers/infiniband/hw/efa/efa_verbs.c)
    "retrans_pkts", "retrans_timeout_events", "impaired_remote_conn_events",
    "unresponsive_remote_events", "rx_drops",
)  # fmt: skip

GID_LIMIT = 256  # entries in the largest GID table seen; the rest would only cost time


def read(
    root: Path = Path("/sys/class/infiniband"), *, tools: bool = True
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
            for item, reason in _untold(root / device / "ports" / str(number), port):
                unreadable[f"rdma.{device}:{number}.{item}"] = reason
            found.append(port)
    if found and tools:
        mtus, why = _active_mtus()
        found = [
            msgspec.structs.replace(port, active_mtu=mtus.get((port.device, port.port)))
            for port in found
        ]
        unreadable |= why
    return tuple(found), unreadable


def _untold(folder: Path, port: RdmaPort) -> Iterator[tuple[str, str]]:
    """Counters that one would look for and that are not there, and why."""
    if not any(name in port.counters for name in DATA_COUNTERS):
        yield "counters", "no byte counters in sysfs"
    if not (folder / "hw_counters").is_dir():
        yield "hw_counters", "the adapter's own counters are not in sysfs"
    if port.link_layer == "Ethernet" and "rx_pauses" not in port.counters:
        where = port.interface or "an interface that is not in this namespace"
        yield "pauses", f"the driver of {where} tells no pause frames here"


def _active_mtus() -> tuple[dict[tuple[str, int], int], dict[str, str]]:
    try:
        return active_mtus(tool.output(["ibv_devinfo"])), {}
    except tool.NoText as no:
        return {}, {"rdma.active_mtu": str(no)}


def active_mtus(devinfo: str) -> dict[tuple[str, int], int]:
    """(device, port) -> bytes, from what ibv_devinfo prints."""
    found = {}
    device, port = "", 0
    for line in devinfo.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        number = value.partition(" ")[0]
        if key == "hca_id":
            device = value
        elif key == "port" and number.isdigit():
            port = int(number)
        elif key == "active_mtu" and number.isdigit():
            found[device, port] = int(number)
    return found


def _port(folder: Path, device: str, number: int) -> RdmaPort:
    port = folder / "ports" / str(number)
    state = sysfs.text(port / "state")  # "4: ACTIVE"
    physical = sysfs.text(port / "phys_state")  # "5: LinkUp"
    rate = re.match(r"[\d.]+", sysfs.text(port / "rate") or "")  # "100 Gb/sec (4X EDR)"
    interface = interface_of(folder, port)
    gids = _gid_types(port)
    return RdmaPort(
        device=device,
        port=number,
        state=_word(state),
        physical_state=_word(physical),
        rate_gbit=float(rate[0]) if rate else None,
        link_layer=sysfs.text(port / "link_layer"),
        interface=interface,
        driver=sysfs.link_name(folder / "device/driver"),
        firmware=sysfs.text(folder / "fw_ver"),
        board_id=sysfs.text(folder / "board_id"),
        node_guid=sysfs.text(folder / "node_guid"),
        port_guid=_port_guid(port),
        lid=sysfs.number(port / "lid"),
        numa_node=sysfs.numa_node(folder / "device"),
        pci_address=sysfs.pci_address(folder / "device"),
        gid_types=tuple(sorted(set(gids))),
        gid_count=len(gids) if sysfs.names(port / "gid_attrs/types") else None,
        counters={**counters(port), **pauses(interface)},
    )


def _word(state: str | None) -> str | None:
    """ "4: ACTIVE" -> "ACTIVE"."""
    return (state.partition(":")[2].strip() or state) if state else None


def _port_guid(port: Path) -> str | None:
    """The lower half of the first GID, in which a port's GUID stands."""
    gid = sysfs.text(port / "gids/0") or ""
    words = gid.split(":")
    return (
        ":".join(words[4:]) if len(words) == 8 and any(w.strip("0") for w in words[4:]) else None
    )


def pauses(interface: str | None) -> dict[str, int]:
    """Pause frames of its interface: the sums, and of the rest those that counted any."""
    found = ethtool.pauses(interface) if interface else {}
    return {name: n for name, n in found.items() if n or name in ("rx_pauses", "tx_pauses")}


def interface_of(folder: Path, port: Path) -> str | None:
    """The netdev of the port: its first GID's (RoCE), else the device's only one (IPoIB)."""
    named = sysfs.text(port / "gid_attrs/ndevs/0")
    if named is not None:
        return named
    beside = sysfs.names(folder / "device/net")
    return beside[0] if len(beside) == 1 else None


def _gid_types(port: Path) -> list[str]:
    """Types of the GIDs in use; reading the type of an empty entry is an error."""
    entries = sysfs.names(port / "gid_attrs/types")[:GID_LIMIT]
    return [kind for e in entries if (kind := sysfs.text(port / "gid_attrs/types" / e))]


def counters(port: Path) -> dict[str, int]:
    """Counters of one port folder, those that exist; data counters stay in 4-byte units."""
    places = [(port / "counters", name) for name in DATA_COUNTERS + ERROR_COUNTERS]
    places += [(port / "hw_counters", name) for name in HARDWARE_COUNTERS]
    values = {name: sysfs.number(folder / name) for folder, name in places}
    return {name: value for name, value in values.items() if value is not None}
