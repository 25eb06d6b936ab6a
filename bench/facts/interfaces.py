"""Network interfaces of this network namespace, in the order in which NCCL sees them.

Main source is rtnetlink, which is what getifaddrs itself asks; netifaces stands in where rtnetlink
is closed. sysfs adds speed, driver, PCI address and NUMA node, but only for an interface that it
shows with the same index and hardware address: inside a bare setns, /sys still shows the parent's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import netifaces
import psutil

from bench.facts import ethtool, sysfs
from bench.facts.kinds import classify
from bench.records import Address, Interface, InterfaceCounters

IFF_UP = 0x1
IFF_RUNNING = 0x40
SPEED_UNKNOWN = 2**31 - 1  # drivers say -1; older kernels print it unsigned
AF_INET, AF_INET6 = 2, 10  # Linux numbers, as rtnetlink sends them

_SCOPES: dict[int, Literal["global", "link", "host"]] = {0: "global", 253: "link", 254: "host"}


def read(
    sysfs_net: Path = Path("/sys/class/net"),
) -> tuple[tuple[Interface, ...], dict[str, str]]:
    """All interfaces, and what could not be read (key -> why). Never raises."""
    unreadable: dict[str, str] = {}
    try:
        links, addresses = _rtnetlink()
    except Exception as error:  # noqa: BLE001 - pyroute2 raises its own kinds, and none may end a sweep
        unreadable["interfaces.rtnetlink"] = f"{type(error).__name__}: {error}"
        return _getifaddrs(), unreadable
    names = {link["index"]: text_name(link.get_attr("IFLA_IFNAME")) for link in links}
    by_link: dict[int, list[Address]] = {}
    inet_order: list[int] = []
    for message in addresses:
        index = message["index"]
        if message["family"] in (AF_INET, AF_INET6):
            by_link.setdefault(index, []).append(_address(message, names.get(index)))
        if message["family"] == AF_INET and index not in inet_order:
            inet_order.append(index)
    places = _places([link["index"] for link in links], inet_order)
    foreign: list[str] = []
    found = []
    for link in links:
        name = names[link["index"]]
        folder: Path | None = sysfs_net / name
        if not _same_interface(sysfs_net / name, link):
            folder = None
            if name != "lo":
                foreign.append(name)
        found.append(
            _interface(link, names, by_link.get(link["index"], ()), places[link["index"]], folder)
        )
    if foreign:
        unreadable["interfaces.sysfs"] = (
            f"{sysfs_net} shows other interfaces than this network namespace has "
            f"(not {', '.join(foreign[:4])}{' ...' if len(foreign) > 4 else ''}): "
            "drivers, PCI addresses and NUMA nodes are unknown"
        )
    return tuple(sorted(found, key=lambda interface: interface.index)), unreadable


def _rtnetlink() -> tuple[list[Any], list[Any]]:
    from pyroute2 import IPRoute  # 0.13 s to import, and not usable on a laptop's macOS

    with IPRoute() as route:
        return list(route.get_links()), list(route.get_addr())


def _places(link_order: Sequence[int], inet_order: Sequence[int]) -> dict[int, int]:
    """Position of every link such that links with IPv4 addresses follow the address listing.

    Both listings go by index since Linux 6.10. Before that, they go by hash bucket, so indexes
    above 255 come out of order; what NCCL sees is the order of the address listing.
    """
    with_inet = set(inet_order)
    following = iter(inet_order)
    order = [next(following) if index in with_inet else index for index in link_order]
    return {index: place for place, index in enumerate(order, start=1)}


def text_name(name: str | bytes) -> str:
    """A name as text: the kernel allows bytes that are none, and pyroute2 then tells bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _address(message: Any, name: str | None) -> Address:
    family: Literal["inet", "inet6"] = "inet" if message["family"] == AF_INET else "inet6"
    # IFA_LOCAL is the own end of a point-to-point link; IPv6 sends only IFA_ADDRESS.
    own = message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS")
    label = text_name(message.get_attr("IFA_LABEL") or "") or None
    return Address(
        family=family,
        address=own,
        prefix_length=message["prefixlen"],
        scope=_SCOPES.get(message["scope"], "global"),
        label=label if label != name else None,
    )


def _same_interface(folder: Path, link: Any) -> bool:
    """Whether sysfs and rtnetlink speak of one interface: name, index and hardware address."""
    if sysfs.number(folder / "ifindex") != link["index"]:
        return False
    shown, told = sysfs.text(folder / "address"), link.get_attr("IFLA_ADDRESS")
    # An InfiniBand address has 20 bytes, of which older pyroute2 tells the first ones only.
    return not shown or not told or shown.startswith(told) or told.startswith(shown)


def _interface(
    link: Any,
    names: dict[int, str],
    addresses: Sequence[Address],
    place: int,
    folder: Path | None,
) -> Interface:
    name: str = names[link["index"]]
    device = folder / "device" if folder else None
    master = link.get_attr("IFLA_MASTER")
    kind = classify(
        name,
        link_kind=link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND"),
        hardware_type=link["ifi_type"],
        has_device=device.exists() if device else None,
        wireless=bool(
            folder and ((folder / "wireless").exists() or (folder / "phy80211").exists())
        ),
        enslaved=master is not None,
    )
    claimed, most = (
        ethtool.speeds(name) if kind in ("physical", "bond") or not folder else (None, None)
    )
    if folder:
        claimed = sysfs.number(folder / "speed")
    statistics = link.get_attr("IFLA_STATS64") or link.get_attr("IFLA_STATS")
    return Interface(
        name=name,
        kind=kind,
        index=place,
        addresses=tuple(addresses),
        mtu=link.get_attr("IFLA_MTU") or 0,
        up=bool(link["flags"] & IFF_UP),
        running=bool(link["flags"] & IFF_RUNNING),
        speed_mbit=claimed if claimed and 0 < claimed < SPEED_UNKNOWN else None,
        max_speed_mbit=most,
        driver=_link_name(device / "driver") if device else None,
        mac=link.get_attr("IFLA_ADDRESS"),
        # A master may live in another namespace (a container's veth): then it has no name here.
        master=names.get(master) if master is not None else None,
        lower=_lower(link, names),
        pci_address=sysfs.pci_address(device) if device else None,
        numa_node=sysfs.numa_node(device) if device else None,
        counters=_counters(statistics) if statistics else None,
    )


def _lower(link: Any, names: dict[int, str]) -> str | None:
    """The interface that this one lies on: a VLAN's or macvlan's parent, a tunnel's device. A
    veth's other end is a peer, and what lives in another namespace has no name here."""
    if link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") == "veth":
        return None
    if link.get_attr("IFLA_LINK_NETNSID") is not None:
        return None
    lower = link.get_attr("IFLA_LINK")
    return names.get(lower) if lower and lower != link["index"] else None


def _link_name(path: Path) -> str | None:
    try:
        return path.readlink().name
    except OSError:
        return None


def _counters(statistics: Any) -> InterfaceCounters:
    return InterfaceCounters(
        **{field: int(statistics[field]) for field in InterfaceCounters.__struct_fields__}
    )


def _getifaddrs() -> tuple[Interface, ...]:
    """Without rtnetlink: addresses by getifaddrs (netifaces), state and MTU by psutil.

    netifaces lists an alias after all interfaces, so its place among them is lost here.
    """
    states = psutil.net_if_stats()
    addresses: dict[str, list[Address]] = {}
    for listed in netifaces.interfaces():
        name = listed.partition(":")[0]
        own = addresses.setdefault(name, [])
        families = netifaces.ifaddresses(listed)
        for number in (netifaces.AF_INET, netifaces.AF_INET6):
            for entry in families.get(number, ()):
                address = ipaddress.ip_interface(_with_prefix(entry))
                own.append(
                    Address(
                        family="inet" if address.version == 4 else "inet6",
                        address=str(address.ip),
                        prefix_length=address.network.prefixlen,
                        scope=_scope(address),
                        label=listed if listed != name else None,
                    )
                )
    return tuple(
        Interface(
            name=name,
            kind=classify(name),
            index=place,
            addresses=tuple(own),
            mtu=states[name].mtu if name in states else 0,
            # Unknown state does not hide an interface: it is then taken for a running one.
            up=states[name].isup if name in states else True,
            running=states[name].isup if name in states else True,
            speed_mbit=states[name].speed or None if name in states else None,
        )
        for place, (name, own) in enumerate(addresses.items(), start=1)
    )


def _with_prefix(entry: dict[str, str]) -> str:
    """ "10.0.0.1/255.255.255.0" or "fd00::1/64" from what netifaces tells of one address."""
    address = entry["addr"].partition("%")[0]
    mask = entry.get("netmask", "")
    return f"{address}/{mask.rpartition('/')[2]}" if mask else address


def _scope(
    address: ipaddress.IPv4Interface | ipaddress.IPv6Interface,
) -> Literal["global", "link", "host"]:
    if address.is_loopback:
        return "host"
    return "link" if address.version == 6 and address.is_link_local else "global"
