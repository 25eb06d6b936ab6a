"""What an interface of a log is, by its name and the class of its address.

In: a LogNet (name and address as NCCL printed them). Out: what it cannot do. A private range alone
says nothing: 172.18.0.0/16 is a LAN here and Docker's there.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from bench.facts import kinds
from bench.judge.virtual import VIRTUAL_NAMES
from bench.records import LogNet

Net = LogNet

DOCKER_RANGE = ipaddress.ip_network("172.17.0.0/16")
WORDS = {"vpn": "a VPN", "wifi": "Wi-Fi", "docker": "a container bridge"}
# A pod's host side in AWS's network plugin; OpenStack's and Hyper-V's ports of virtual machines.
_HOST_SIDE = re.compile(r"(eni[0-9a-f]{11}|qvo|qbr|qvb|ovs|azv[0-9a-f]{9})")
_TUNNELS = re.compile(r"(ip6tnl|sit|gre|tun|tap|ipip|vti|wg)")
_SLINGSHOT = re.compile(r"hsn\d{1,3}\Z")
# IPoIB: ib0, ibs1f0, ibp5s0; not "ibm" names of other vendors.
_IPOIB = re.compile(r"ib(\d|s\d|p\d|o\d)")


def address(net: Net) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address as a number; None where it is missing, redacted or no address."""
    return parsed(net.address)


def parsed(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address((text or "").partition("%")[0])
    except ValueError:
        return None


def is_loopback(net: Net) -> bool:
    found = address(net)
    return net.name == "lo" or (found is not None and found.is_loopback)


def is_link_local(net: Net) -> bool:
    found = address(net)
    return found is not None and found.is_link_local


def virtual_word(net: Net) -> str | None:
    """What kind of virtual interface the name gives away; None for one that may be a way out."""
    if _TUNNELS.match(net.name):
        return "a tunnel"
    kind = kinds.classify(net.name)
    if kind in WORDS:
        return WORDS[kind]
    if net.name.startswith("veth") or _HOST_SIDE.match(net.name):
        return "a container's veth"
    if VIRTUAL_NAMES.match(net.name):
        return "a virtual interface"
    return None


def is_slingshot(name: str) -> bool:
    return bool(_SLINGSHOT.match(name))


def is_ipoib(name: str) -> bool:
    return bool(_IPOIB.match(name))


def in_docker_range(found: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Whether an address is of 172.17.0.0/16, docker0's unless told otherwise."""
    return found is not None and found.version == 4 and found in DOCKER_RANGE


def usable(nets: Iterable[Net]) -> list[Net]:
    """Interfaces with an address that another host can reach, real ones first."""
    fit = [net for net in nets if not is_loopback(net) and not is_link_local(net)]
    real = [net for net in fit if virtual_word(net) is None]
    return real or fit


def named(net: Net) -> str:
    """ "eth0 (10.0.0.1)"."""
    return f"{net.name} ({net.address})" if net.address else net.name


def address_class(net: Net) -> str:
    """ "IPv6 link-local" and the like, for a sentence."""
    found = address(net)
    if found is None:
        return "no address shown"
    family = f"IPv{found.version}"
    if found.is_loopback:
        return f"{family} loopback"
    return f"{family} link-local" if found.is_link_local else f"{family}"
