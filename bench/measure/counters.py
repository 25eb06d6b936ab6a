"""What moved on this host around one session: bytes, errors, retransmissions, throttling.

In: the kernel, and what `Watch` names besides. Out: snapshots and their difference as
HostEvidence. Everything is read from /proc/self/net, so it is this network
namespace's: /sys/class/net shows the parent's until /sys is mounted anew (facts/lab.md).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bench.facts import errors, gpu_groups, gpus, rdma
from bench.measure import gpu_motion
from bench.records import Gpu, HostEvidence, InterfaceCounters

ROOT = Path("/")
MOST_STILL_INTERFACES = 32  # a container host has hundreds of veths; still ones are left out then

# Fields of a line of /proc/net/dev after the name: 8 of receive, 8 of transmit.
_COLUMNS = {
    "rx_bytes": 0, "rx_errors": 2, "rx_dropped": 3,
    "tx_bytes": 8, "tx_errors": 10, "tx_dropped": 11,
}  # fmt: skip

# Signs of trouble that segment counts do not show; all of TcpExt is over a hundred.
_TCP_EXTENDED = ("TCPTimeouts", "TCPLostRetransmit", "TCPSynRetrans")

_TRAFFIC = ("port_xmit_", "port_rcv_")  # kept at zero too; of forty error counters those that rose
_WORDS = ("port_xmit_data", "port_rcv_data")  # counted in four bytes each, see facts.rdma
_SATURATED = 2**32 - 1  # where old adapters stop instead of wrapping


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute counters at one moment. `indexes` tell an interface from its later namesake."""

    interfaces: dict[str, InterfaceCounters] = {}
    indexes: dict[str, int] = {}
    tcp: dict[str, int] = {}
    rdma: dict[str, dict[str, int]] = {}
    errors: dict[str, int] = {}
    xids: dict[str, int] = {}
    gpus: tuple[Gpu, ...] = ()
    unreadable: dict[str, str] = {}


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """What is read beyond the kernel's plain counters: `gpus` asks NVML, `pci` are addresses of
    devices and bridges, `log` is the kernel's."""

    gpus: Callable[[], gpus.Found] | None = None
    pci: tuple[str, ...] = ()
    log: errors.KernelLog | None = None


def snapshot(watch: Watch = Watch(), *, root: Path = ROOT) -> Snapshot:  # noqa: B008 - frozen
    """Read all counters, in under 5 ms on a host with few interfaces. Never raises.

    The network namespace is our own. NVML takes some ms a GPU more.
    """
    net = root / "proc/self/net"
    found = watch.gpus() if watch.gpus is not None else gpus.Found()
    unreadable = {**found.unreadable, **gpu_groups.refusals(found.gpus)}
    counts = errors.of_gpus(found.gpus)
    counts |= errors.of_pci(watch.pci, root / "sys/bus/pci/devices")
    extended = _tables(net / "netstat", unreadable)
    counts |= {
        f"tcp.{k}": extended[f"TcpExt.{k}"] for k in _TCP_EXTENDED if f"TcpExt.{k}" in extended
    }
    counts |= _killed(root)
    xids = watch.log.counts() if watch.log is not None else {}
    if watch.log is not None:
        unreadable |= watch.log.unreadable
    return Snapshot(
        interfaces=_interfaces(net / "dev", unreadable),
        indexes={name: index for index, name in socket.if_nameindex()},
        tcp=_tables(net / "snmp", unreadable),
        rdma=_rdma(root / "sys/class/infiniband"),
        errors=counts,
        xids=xids,
        gpus=found.gpus,
        unreadable=unreadable,
    )


def difference(before: Snapshot, after: Snapshot, host: str) -> HostEvidence:
    """What moved between two snapshots; `unreadable` names what cannot be told, and why.

    Counters of 32 bits that wrapped once are put right. An interface that is a new one of an old
    name, or whose counters were reset, counts from its beginning, and is named. Error counters are
    those that rose; throttle reasons those that held at either end. `port_xmit_bytes` and
    `port_rcv_bytes` of RDMA ports are bytes; the kernel's own port_*_data counts four at a time.
    """
    notes = {**before.unreadable, **after.unreadable}
    interfaces = {name: _moved(name, before, after, notes) for name in after.interfaces}
    gone = [name for name in before.interfaces if name not in after.interfaces]
    notes |= dict.fromkeys(gone, "the interface is gone")
    if len(interfaces) > MOST_STILL_INTERFACES:
        interfaces = {name: c for name, c in interfaces.items() if c != InterfaceCounters()}
    ports = {
        port: _moved_rdma(port, before.rdma[port], counts, notes)
        for port, counts in after.rdma.items()
        if port in before.rdma
    }
    risen = {
        key: rise for key in after.errors if (rise := _rise(key, before.errors, after.errors))
    }
    risen |= {
        key: count - before.xids.get(key, 0)  # the first of its kind has no count before
        for key, count in after.xids.items()
        if count > before.xids.get(key, 0)
    }
    return HostEvidence(
        host=host,
        interfaces=interfaces,
        tcp_segments_out=_rise("Tcp.OutSegs", before.tcp, after.tcp),
        tcp_retransmits=_rise("Tcp.RetransSegs", before.tcp, after.tcp),
        rdma=ports,
        error_counters=risen,
        throttle_reasons=gpu_motion.reasons(before.gpus, after.gpus),
        throttled_s=gpu_motion.throttled_s(before.gpus, after.gpus),
        gpu_clocks_mhz=gpu_motion.clocks_mhz(before.gpus, after.gpus),
        changed=gpu_motion.changed(before.gpus, after.gpus),
        unreadable=notes,
    )


# ------------------------------------------------------------------------------------ reading


def _interfaces(path: Path, unreadable: dict[str, str]) -> dict[str, InterfaceCounters]:
    found = {}
    for line in _lines(path, unreadable)[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        found[name.strip()] = InterfaceCounters(
            **{key: int(fields[column]) for key, column in _COLUMNS.items()}
        )
    return found


def _tables(path: Path, unreadable: dict[str, str]) -> dict[str, int]:
    """/proc/net/snmp and netstat: a line of names, then a line of numbers, per protocol."""
    lines = _lines(path, unreadable)
    found = {}
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, keys = names.partition(":")
        values = numbers.partition(":")[2]
        for key, value in zip(keys.split(), values.split(), strict=False):
            found[f"{protocol}.{key}"] = int(value)
    return found


def _lines(path: Path, unreadable: dict[str, str]) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError as error:
        unreadable[str(path)] = error.strerror or str(error)
        return []


def _rdma(folder: Path) -> dict[str, dict[str, int]]:
    """By "mlx5_0:1", with the pauses of the port's interface; counters that an adapter does not
    have are left out."""
    found = {}
    for port in sorted(folder.glob("*/ports/*")):
        device = port.parent.parent
        found[f"{device.name}:{port.name}"] = {
            **rdma.counters(port),
            **rdma.pauses(rdma.interface_of(device, port)),
        }
    return found


def _killed(root: Path) -> dict[str, int]:
    """Processes that the kernel killed for want of memory."""
    for line in _lines(root / "proc/vmstat", {}):
        if line.startswith("oom_kill "):
            return {"oom_kill": int(line.split()[1])}
    return {}


# ---------------------------------------------------------------------------------- comparing


def _moved(
    name: str, before: Snapshot, after: Snapshot, notes: dict[str, str]
) -> InterfaceCounters:
    now = after.interfaces[name]
    if before.indexes.get(name) != after.indexes.get(name):
        notes[name] = "the interface is a new one; counted from its beginning"
        return now
    then = before.interfaces.get(name)
    if then is None:
        return now
    moved = {}
    for field in InterfaceCounters.__struct_fields__:
        old, new = getattr(then, field), getattr(now, field)
        if new < old and not _wrapped(old):
            notes[name] = "its counters were reset; counted from there"
            old = 0
        moved[field] = new - old if new >= old else new + 2**32 - old
    return InterfaceCounters(**moved)


def _wrapped(old: int) -> bool:
    """A counter that fell was one of 32 bits near its end, or has been reset."""
    return 2**31 <= old < 2**32


def _moved_rdma(
    port: str, then: Mapping[str, int], now: Mapping[str, int], notes: dict[str, str]
) -> dict[str, int]:
    moved = {}
    for key, value in now.items():
        if key not in then:
            continue
        if value == _SATURATED:
            notes[f"{port}.{key}"] = "the counter has reached its end and stands still"
            continue
        if value < then[key] and not _wrapped(then[key]):
            notes[f"{port}.{key}"] = "the counter was reset"
            continue
        moved[key] = value - then[key] if value >= then[key] else value + 2**32 - then[key]
    moved |= {
        key.replace("data", "bytes"): rdma.WORD_BYTES * moved[key]
        for key in _WORDS
        if key in moved
    }
    return {key: n for key, n in moved.items() if n or key.startswith(_TRAFFIC)}


def _rise(key: str, then: Mapping[str, int], now: Mapping[str, int]) -> int | None:
    """None where it was not read both times, or fell."""
    if key not in then or key not in now or now[key] < then[key]:
        return None
    return now[key] - then[key]
