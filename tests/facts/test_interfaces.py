"""Interfaces of real network namespaces; what the kernel here cannot make is in test_kinds."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netifaces
import pytest

from bench.facts import ethtool, interfaces

Namespace = Callable[..., dict[str, Any]]

STEPS = [
    ["up", "lo", {}],
    ["veth", "data0", {}],
    ["address", "data0", {"address": "10.2.0.1/24"}],
    ["address", "data0", {"address": "10.2.9.1/16", "label": "data0:1"}],
    ["address", "data0", {"address": "fd00::1/64"}],
    ["address", "data0", {"address": "fe80::1/64"}],
    ["veth", "down0", {"up": False}],
    ["veth", "cut0", {"peer_up": False}],
    ["bridge", "docker0", {}],
    ["bridge", "br-0123456789ab", {}],
    ["bridge", "br-lan", {}],
    ["veth", "vethc", {}],
    ["port", "vethc", {"of": "docker0"}],
    ["macvlan", "mv0", {"of": "data0"}],
    ["tun", "tun0", {}],
    ["address", "tun0", {"address": "10.8.0.1/32", "peer": "10.8.0.2"}],
    ["tap", "vnet0", {}],
    ["port", "vnet0", {"of": "br-lan"}],
    ["veth", "zz9", {"index": 700}],
    ["address", "zz9", {"address": "10.3.0.1/24"}],
]


@pytest.fixture(scope="module")
def bare(in_namespace: Namespace) -> dict[str, Any]:
    """As after a bare setns: /sys still shows the parent's interfaces."""
    return in_namespace(STEPS)


@pytest.fixture(scope="module")
def found(bare: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {interface["name"]: interface for interface in bare["interfaces"]}


@pytest.mark.lab
def test_each_interface_has_its_kind(found: dict[str, dict[str, Any]]) -> None:
    kinds = {name: interface["kind"] for name, interface in found.items() if name[0] != "~"}
    assert kinds == {
        "lo": "loopback", "data0": "veth", "down0": "veth", "cut0": "veth", "docker0": "docker",
        "br-0123456789ab": "docker", "br-lan": "bridge", "vethc": "veth", "mv0": "virtual",
        "tun0": "vpn", "vnet0": "virtual", "zz9": "veth",
    }  # fmt: skip


@pytest.mark.lab
def test_all_addresses_come_in_order_with_alias_and_scope(
    found: dict[str, dict[str, Any]],
) -> None:
    assert found["data0"]["addresses"] == [
        {"family": "inet", "address": "10.2.0.1", "prefix_length": 24},
        {"family": "inet", "address": "10.2.9.1", "prefix_length": 16, "label": "data0:1"},
        {"family": "inet6", "address": "fd00::1", "prefix_length": 64},
        {"family": "inet6", "address": "fe80::1", "prefix_length": 64, "scope": "link"},
    ]
    assert found["tun0"]["addresses"][0]["address"] == "10.8.0.1"  # the own end, not the peer's


@pytest.mark.lab
def test_up_and_running_are_two_things(found: dict[str, dict[str, Any]]) -> None:
    state = {name: (i.get("up", False), i.get("running", False)) for name, i in found.items()}
    assert state["data0"] == (True, True)
    assert state["down0"] == (False, False)
    assert state["cut0"] == (True, False)  # up, but no carrier: NCCL skips it


@pytest.mark.lab
def test_masters_are_named_and_the_order_is_the_kernels(bare: dict[str, Any]) -> None:
    named = {interface["name"]: interface for interface in bare["interfaces"]}
    assert named["vethc"]["master"] == "docker0"
    assert named["vnet0"]["master"] == "br-lan"
    assert bare["interfaces"][0]["name"] == "lo"
    assert bare["interfaces"][-1]["name"] == "zz9"


@pytest.mark.lab
def test_a_foreign_sysfs_is_not_believed(
    bare: dict[str, Any], found: dict[str, dict[str, Any]]
) -> None:
    assert "shows other interfaces" in bare["unreadable"]["interfaces.sysfs"]
    assert found["data0"]["speed_mbit"] == 10_000  # ethtool follows the namespace
    assert "driver" not in found["data0"]


@pytest.mark.lab
def test_a_sysfs_of_the_own_namespace_is_used(in_namespace: Namespace) -> None:
    own = in_namespace(STEPS[:4], sysfs=True)
    assert own["unreadable"] == {}
    data = next(i for i in own["interfaces"] if i["name"] == "data0")
    assert data["speed_mbit"] == 10_000


@pytest.mark.lab
def test_a_namespace_with_nothing_but_lo_is_no_error(in_namespace: Namespace) -> None:
    nothing = in_namespace([], gather=True)
    assert [i["name"] for i in nothing["interfaces"]] == ["lo"]
    assert nothing["defaults"] == []
    assert nothing["host"]["data_path"]["why"]
    assert "bootstrap" not in nothing["host"]["nccl_choices"][0]


class _SockAddr(ctypes.Structure):
    _fields_ = (("family", ctypes.c_ushort), ("data", ctypes.c_ubyte * 26))


class _IfAddrs(ctypes.Structure):
    pass


_IfAddrs._fields_ = (
    ("next", ctypes.POINTER(_IfAddrs)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_SockAddr)),
)


def getifaddrs() -> list[tuple[str, str]]:
    """(name, address) of every IP address as the C library lists them, NCCL's own source."""
    libc = ctypes.CDLL(None)
    first = ctypes.POINTER(_IfAddrs)()
    assert libc.getifaddrs(ctypes.byref(first)) == 0
    listed, entry = [], first
    while entry:
        now = entry.contents
        if now.address and now.address.contents.family in (socket.AF_INET, socket.AF_INET6):
            family = now.address.contents.family
            raw = bytes(now.address.contents.data)
            raw = raw[2:6] if family == socket.AF_INET else raw[6:22]
            listed.append((now.name.decode(), socket.inet_ntop(family, raw)))
        entry = now.next
    libc.freeifaddrs(first)
    return listed


def listed(found: tuple[Any, ...]) -> list[tuple[str, str]]:
    """The same from our records: IPv4 first, each by `index`."""
    return [
        (address.label or interface.name, address.address)
        for family in ("inet", "inet6")
        for interface in found
        for address in interface.addresses
        if address.family == family
    ]


def test_addresses_come_in_the_order_of_getifaddrs() -> None:
    found, _ = interfaces.read()
    assert listed(found) == getifaddrs()


def test_without_rtnetlink_the_same_addresses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, _ = interfaces.read()

    def closed() -> Any:
        raise PermissionError("no netlink in this sandbox")

    monkeypatch.setattr(interfaces, "_rtnetlink", closed)
    found, unreadable = interfaces.read()
    assert unreadable["interfaces.rtnetlink"] == "PermissionError: no netlink in this sandbox"
    assert sorted(listed(found)) == sorted(listed(usual))
    assert {i.name: i.mtu for i in found} == {i.name: i.mtu for i in usual}
    assert {i.name for i in found} == {n.partition(":")[0] for n in netifaces.interfaces()}


def test_places_follow_the_address_listing_where_the_link_listing_differs() -> None:
    """Kernels before 6.10 list by hash bucket: index 300 is in bucket 44."""
    assert interfaces._places([1, 300, 2, 7], [1, 2, 300]) == {1: 1, 2: 2, 300: 3, 7: 4}


class Link(dict[str, Any]):
    """A link as rtnetlink tells it."""

    def __init__(self, index: int, name: str, kind: str | None = None, **told: int) -> None:
        super().__init__(index=index, flags=0x41, ifi_type=1)
        self.kind, self.told = kind, {"IFLA_IFNAME": name, **told}

    def get_attr(self, name: str) -> Any:
        return self.told.get(name)

    def get_nested(self, *names: str) -> str | None:
        return self.kind


def test_what_an_interface_lies_on_is_told_by_the_kernel_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    links = [
        Link(2, "bond0", "bond"),
        Link(3, "data", "vlan", IFLA_LINK=2),
        Link(4, "mv0", "macvlan", IFLA_LINK=2),
        Link(5, "eth0", "macvlan", IFLA_LINK=2, IFLA_LINK_NETNSID=0),  # of another namespace
        Link(6, "va", "veth", IFLA_LINK=7),
        Link(7, "vb", "veth", IFLA_LINK=6),  # a peer is nothing to lie on
        Link(8, "tunl0", "ipip", IFLA_LINK=0),
    ]
    monkeypatch.setattr(interfaces, "_rtnetlink", lambda: (links, []))
    found = {i.name: i.lower for i in interfaces.read(tmp_path)[0]}
    assert found == {
        "bond0": None, "data": "bond0", "mv0": "bond0", "eth0": None, "va": None, "vb": None,
        "tunl0": None,
    }  # fmt: skip


def test_a_name_that_is_no_text_stays_printable() -> None:
    """The kernel takes any bytes but white space, a slash and a colon."""
    assert interfaces.text_name(b"w\xff0") == "w\ufffd0"
    assert ethtool.speeds("\ufffd" * 15) == (None, None)
