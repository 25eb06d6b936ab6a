"""Kinds that this kernel may not be able to make; test_interfaces makes the others for real."""

from __future__ import annotations

import pytest

from bench.facts import kinds


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("lo", {"hardware_type": kinds.ARPHRD_LOOPBACK}, "loopback"),
        ("ens1f0np0", {"has_device": True, "hardware_type": 1}, "physical"),
        ("ib0", {"link_kind": "ipoib", "has_device": True, "hardware_type": 32}, "physical"),
        ("hsn0", {"has_device": True}, "physical"),
        ("eth0", {"has_device": None}, "physical"),
        ("bond0", {"link_kind": "bond"}, "bond"),
        ("team0", {"link_kind": "team"}, "bond"),
        ("docker0", {"link_kind": "bridge"}, "docker"),
        ("docker0", {"link_kind": "veth"}, "docker"),
        ("docker_gwbridge", {"link_kind": "bridge"}, "docker"),
        ("br-0123456789ab", {"link_kind": "bridge"}, "docker"),
        ("br-lan", {"link_kind": "bridge"}, "bridge"),
        ("cni0", {"link_kind": "bridge"}, "docker"),
        ("virbr0", {"link_kind": "bridge"}, "bridge"),
        ("wg0", {"link_kind": "wireguard"}, "vpn"),
        ("tailscale0", {"link_kind": "tun", "hardware_type": kinds.ARPHRD_NONE}, "vpn"),
        ("tailscale0", {}, "vpn"),
        ("tunl0", {"link_kind": "ipip", "hardware_type": kinds.ARPHRD_TUNNEL}, "vpn"),
        ("ip6tnl0", {"hardware_type": kinds.ARPHRD_TUNNEL6}, "vpn"),
        ("ppp0", {"hardware_type": kinds.ARPHRD_PPP}, "vpn"),
        ("vnet3", {"link_kind": "tun", "enslaved": True}, "virtual"),
        ("wlP9s9", {"has_device": True, "wireless": True}, "wifi"),
        ("wlan0", {"has_device": None}, "wifi"),
        ("flannel.1", {"link_kind": "vxlan"}, "virtual"),
        ("eth0.100", {"link_kind": "vlan"}, "virtual"),
        ("eth0", {"link_kind": "macvlan"}, "virtual"),
        ("eth0", {"link_kind": "veth"}, "veth"),
        ("dummy0", {"link_kind": "dummy"}, "virtual"),
        ("something", {"has_device": False}, "virtual"),
    ],
)
def test_each_kind_of_interface_is_told_apart(name: str, options: dict, kind: str) -> None:
    assert kinds.classify(name, **options) == kind
