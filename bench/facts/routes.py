"""By which interface does the kernel leave towards an address? Asked of rtnetlink.

NCCL's interface setting selects the address it listens on; connecting sockets are never bound, so
the sender's egress is the routing table's decision. A difference between the two is a finding.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any, Literal

import netifaces

from bench.facts.interfaces import text_name
from bench.records import Route

# States of the kernel's neighbour table (linux/neighbour.h).
_ANSWERED = 0x02 | 0x04 | 0x08 | 0x10 | 0x80  # reachable, stale, delay, probe, permanent
_UNANSWERED = 0x01 | 0x20  # incomplete, failed


def egress(address: str) -> Route:
    """The route to `address` ("10.2.0.3", "fd00::3", "fe80::1%eth0"); `why` where there is none.

    Never raises. Costs one netlink question (1 ms) and sends nothing on the network.
    """
    text, _, zone = address.partition("%")
    try:
        version = ipaddress.ip_address(text).version
    except ValueError:
        return Route(destination=address, why="not an IP address")
    query: dict[str, Any] = {
        "dst": text,
        "family": socket.AF_INET if version == 4 else socket.AF_INET6,
    }
    try:
        from pyroute2 import IPRoute  # 0.13 s to import, and not usable on a laptop's macOS

        with IPRoute() as netlink:
            if zone:
                query["oif"] = socket.if_nametoindex(zone)
            answer = netlink.route("get", **query)[0]
            names = {
                link["index"]: text_name(link.get_attr("IFLA_IFNAME"))
                for link in netlink.get_links()
            }
    except Exception as error:  # noqa: BLE001 - pyroute2's errors have no common base but this
        return Route(destination=address, why=_reason(error))
    index = answer.get_attr("RTA_OIF")
    return Route(
        destination=address,
        interface=names.get(index, str(index)),
        source=answer.get_attr("RTA_PREFSRC"),
        gateway=answer.get_attr("RTA_GATEWAY"),
    )


def neighbour(address: str) -> Literal["present", "absent"] | None:
    """Whether anybody on a network of this host's own has answered for `address` below IP (by ARP
    or neighbour discovery); None where the kernel has not asked lately, or a router lies between.
    """
    try:
        from pyroute2 import IPRoute

        with IPRoute() as netlink:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            entries = netlink.get_neighbours(family=family, dst=address)
            states = {int(entry["state"]) for entry in entries}
    except Exception:  # noqa: BLE001 - pyroute2's errors have no common base, see egress
        return None
    if any(state & _ANSWERED for state in states):
        return "present"
    return "absent" if any(state & _UNANSWERED for state in states) else None


def defaults() -> tuple[Route, ...]:
    """The default routes of this namespace, IPv4 first; empty where there is none."""
    try:
        gateways: dict[Any, Any] = dict(netifaces.gateways())
    except OSError:
        return ()
    families = ((netifaces.AF_INET, "0.0.0.0/0"), (netifaces.AF_INET6, "::/0"))
    return tuple(
        Route(destination=destination, interface=entry[1], gateway=entry[0])
        for family, destination in families
        for entry in gateways.get(family, ())
    )


def _reason(error: Exception) -> str:
    code = getattr(error, "code", None) or getattr(error, "errno", None)
    if isinstance(code, int) and code > 0:
        return os.strerror(code)
    return f"{type(error).__name__}: {error}"
