"""The kernel's own answer to "by which interface?", in real namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.facts import routes

STEPS = [
    ["up", "lo", {}],
    ["veth", "mgmt0", {}],
    ["address", "mgmt0", {"address": "10.1.0.1/24"}],
    ["veth", "data0", {}],
    ["address", "data0", {"address": "10.2.0.1/24"}],
    ["address", "data0", {"address": "fd00::1/64"}],
    ["address", "data0", {"address": "fe80::1/64"}],
    ["route", "10.3.0.0/24", {"by": "10.1.0.254"}],
]


@pytest.mark.lab
def test_egress_names_interface_source_and_gateway(
    in_namespace: Callable[..., dict[str, Any]],
) -> None:
    asked = ["10.2.0.9", "10.3.0.9", "fd00::9", "fe80::9%data0", "10.2.0.1"]
    found = in_namespace(STEPS, egress=asked)["routes"]
    assert found[0] == {"destination": "10.2.0.9", "interface": "data0", "source": "10.2.0.1"}
    # Another subnet than mgmt0's, yet it leaves by mgmt0: what the routing table says counts.
    assert found[1]["interface"] == "mgmt0"
    assert found[1]["gateway"] == "10.1.0.254"
    assert found[2]["interface"] == "data0"
    assert found[3]["interface"] == "data0"
    assert found[4]["interface"] == "lo"  # one's own address never leaves


@pytest.mark.lab
def test_no_route_is_told_in_the_kernels_words(
    in_namespace: Callable[..., dict[str, Any]],
) -> None:
    found = in_namespace(STEPS, egress=["192.0.2.1", "2001:db8::1"])["routes"]
    assert [route["why"] for route in found] == ["Network is unreachable"] * 2
    assert "interface" not in found[0]


@pytest.mark.lab
def test_default_routes_name_interface_and_gateway(
    in_namespace: Callable[..., dict[str, Any]],
) -> None:
    steps = [*STEPS, ["route", "default", {"by": "10.1.0.254"}]]
    assert in_namespace(steps)["defaults"] == [
        {"destination": "0.0.0.0/0", "interface": "mgmt0", "gateway": "10.1.0.254"}
    ]


@pytest.mark.parametrize("address", ["", "nonsense", "10.0.0.300", "fe80::1%nosuchif", "a\0b"])
def test_a_bad_address_is_an_answer_and_no_exception(address: str) -> None:
    route = routes.egress(address)
    assert route.interface is None
    assert route.why
