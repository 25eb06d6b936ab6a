"""Who would carry NCCL's data between hosts? By our reading of its rules: always *predicted*.

In: interfaces, RDMA ports, effective settings, what plugin would load. Out: one `DataPath`. The
bootstrap interface is not it. After NCCL's src/plugin/net.cc (order plugin, IB, Socket),
src/transport/net_socket.cc (claimed speeds) and src/graph/topo.cc (the fastest devices share).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.facts import name_lists, nccl_rules
from bench.records import DataPath, Interface, RdmaPort

MAX_RDMA_DEVICES = 32  # MAX_IB_DEVS
DEFAULT_SPEED_MBIT = 10_000  # what NCCL assumes where /sys/class/net/X/speed is <= 0 or unreadable
RDMA_LINK_LAYERS = ("InfiniBand", "Ethernet")  # others (EFA) need a plugin


def predict(
    interfaces: Sequence[Interface],
    *,
    rdma_ports: Sequence[RdmaPort] = (),
    settings: Mapping[str, str] | None = None,
    plugin: str | None = None,
    rdma_missing: str | None = None,
    version: str | None = None,
) -> DataPath:
    """Who would carry the data between hosts: a plugin, RDMA ports, or socket devices.

    `settings` are the effective NCCL_* settings (environment over conf files), `plugin` the
    network plugin's file if one would be loaded, `rdma_missing` why verbs cannot work here.
    """
    settings = settings or {}
    network = settings.get("NCCL_NET")
    named = (network or "").lower()
    if network is not None and named not in ("ib", "socket"):
        if network and plugin:
            return DataPath(transport="plugin", why=f"NCCL_NET={network} is left to {plugin}")
        return DataPath(
            why=f"NCCL_NET={network!r} names no network NCCL has here: it fails to start"
        )
    if network is None and plugin:
        return DataPath(transport="plugin", why=f"NCCL tries the plugin {plugin} first")
    devices = nccl_rules.matching(
        settings.get("NCCL_SOCKET_IFNAME"),
        interfaces,
        family=settings.get("NCCL_SOCKET_FAMILY"),
        comm_id=settings.get("NCCL_COMM_ID"),
        version=version,
    )
    if not devices:
        return DataPath(why="no interface matches, so neither sockets nor RDMA can start")
    ports, why_not = _rdma(rdma_ports, settings, rdma_missing)
    if named == "socket":
        ports, why_not = (), "NCCL_NET=Socket"
    if ports:
        return _fastest_ports(ports)
    if named == "ib":
        return DataPath(
            why=f"NCCL_NET=IB, but {why_not or 'there is no RDMA port'}: it fails to start"
        )
    return _socket_devices(devices, interfaces, why_not)


def _rdma(
    ports: Sequence[RdmaPort], settings: Mapping[str, str], missing: str | None
) -> tuple[tuple[RdmaPort, ...], str]:
    """Ports NCCL would use, else a clause that says why none (empty: the host has none)."""
    if not ports:
        return (), ""
    if _integer(settings.get("NCCL_IB_DISABLE")):
        return (), f"NCCL_IB_DISABLE={settings['NCCL_IB_DISABLE']}"
    if missing:
        return (), missing
    admitted = name_lists.parse(settings.get("NCCL_IB_HCA", ""), MAX_RDMA_DEVICES)
    active = [p for p in ports if p.state == "ACTIVE" and p.link_layer in RDMA_LINK_LAYERS]
    if not active:
        return (), "no RDMA port is active"
    found = tuple(p for p in active if admitted.admits(p.device, p.port))[:MAX_RDMA_DEVICES]
    return found, "" if found else f"NCCL_IB_HCA={settings['NCCL_IB_HCA']} matches no active port"


def _integer(text: str | None) -> int:
    """As strtoll with base 0 reads a parameter: words such as "true" are 0."""
    try:
        return int((text or "0").strip(), 0)
    except ValueError:
        return name_lists.leading_number((text or "").strip())


def _fastest_ports(ports: Sequence[RdmaPort]) -> DataPath:
    best = max(port.rate_gbit or 0 for port in ports)
    chosen = tuple(f"{p.device}:{p.port}" for p in ports if (p.rate_gbit or 0) == best)
    return DataPath(
        transport="rdma",
        interfaces=chosen,
        why=f"{len(ports)} active RDMA port(s) come before sockets; each GPU takes the nearest of "
        f"those that claim most ({best:g} Gbit/s)",
    )


def _socket_devices(
    devices: Sequence[str], interfaces: Sequence[Interface], why_not_rdma: str
) -> DataPath:
    by_name = {interface.name: interface for interface in interfaces}
    claims = {}
    for name in devices:  # an alias has no folder in sysfs, so it claims nothing
        told = by_name[name].speed_mbit if name in by_name else None
        claims[name] = told or DEFAULT_SPEED_MBIT
    best = max(claims.values())
    chosen = tuple(name for name in devices if claims[name] == best)
    slower = [f"{name} ({claims[name]})" for name in devices if claims[name] < best]
    if len(chosen) > 1:
        why = (
            f"{', '.join(chosen)} count as equally fast ({best} Mbit/s; no claim counts as "
            f"{DEFAULT_SPEED_MBIT}): channels are spread over them, the slowest sets the pace"
        )
    elif slower:
        why = f"{chosen[0]} claims {best} Mbit/s, more than {', '.join(slower)}"
    else:
        why = f"{chosen[0]} is the only match"
    if why_not_rdma:
        why += f"; not RDMA: {why_not_rdma}"
    return DataPath(transport="socket", interfaces=chosen, why=why)
