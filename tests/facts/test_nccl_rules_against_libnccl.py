"""Our reading of NCCL's interface rules against the real library, setting by setting.

Every scenario is a network namespace with real interfaces; every question a fresh process that
calls ncclGetUniqueId. The two must name the same interface and the same address in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.facts import libraries

pytestmark = pytest.mark.lab

Steps = list[list[Any]]


def veth(name: str, *addresses: str, **options: Any) -> Steps:
    steps: Steps = [["veth", name, options]]
    return steps + [["address", name, {"address": address}] for address in addresses]


LO: Steps = [["up", "lo", {}]]
DOCKER: Steps = [
    ["bridge", "docker0", {}],
    ["address", "docker0", {"address": "172.17.0.1/16"}],
    ["veth", "vethd", {}],
    ["port", "vethd", {"of": "docker0"}],
]
VIRBR: Steps = [
    ["bridge", "virbr0", {}],
    ["address", "virbr0", {"address": "192.168.122.1/24"}],
    ["veth", "vnet0", {}],
    ["port", "vnet0", {"of": "virbr0"}],
]
CONTAINERS: Steps = [
    ["bridge", "br-0123456789ab", {}],
    ["address", "br-0123456789ab", {"address": "172.18.0.1/16"}],
    ["veth", "vethx", {}],
    ["port", "vethx", {"of": "br-0123456789ab"}],
    ["tun", "tun0", {}],
    ["address", "tun0", {"address": "10.8.0.1/32", "peer": "10.8.0.2"}],
    *veth("veth0", "10.7.0.1/24"),
]
USUAL: Steps = (
    LO
    + veth("eth0", "10.0.0.1/24", "fd00:0::1/64")
    + veth("eth1", "10.0.1.1/24", "fd00:1::1/64", "fe80::1/64")
    + veth("eth10", "10.0.10.1/24")
    + veth("mgmt0", "10.9.0.1/24")
    + DOCKER
    + VIRBR
)

SCENARIOS: dict[str, Steps] = {
    "usual": USUAL,
    "ib after eth": LO
    + veth("eth0", "10.0.0.1/24")
    + veth("ib0", "10.4.0.1/24")
    + veth("ibs1", "10.5.0.1/24"),
    "ib down": LO + veth("ib0", "10.4.0.1/24", up=False) + veth("eth0", "10.0.0.1/24"),
    "ib without carrier": LO
    + veth("ib0", "10.4.0.1/24", peer_up=False)
    + veth("eth0", "10.0.0.1/24"),
    "only docker": LO + DOCKER + VIRBR,
    "docker bridge without ports": LO + DOCKER[:2] + VIRBR,
    "only lo": LO,
    "only virbr": VIRBR,
    "nothing": [],
    "names that begin like an excluded one": LO
    + veth("lomgmt", "10.1.0.1/24")
    + veth("dockerx", "10.2.0.1/24")
    + veth("virbrx", "10.3.0.1/24"),
    "container bridges, tunnels and veth are not excluded": LO + CONTAINERS,
    "first one down": LO
    + veth("eth0", "10.0.0.1/24", up=False)
    + veth("eth1", "10.0.1.1/24", peer_up=False)
    + veth("eth2", "10.0.2.1/24"),
    "all down": veth("eth0", "10.0.0.1/24", up=False) + veth("eth1", "10.0.1.1/24", up=False),
    "link-local only": LO + veth("eth0", "fe80::1/64") + veth("eth1", "169.254.7.1/16"),
    "link-local before global": LO + veth("eth0", "fe80::1/64") + veth("eth1", "fd00:1::1/64"),
    "IPv6 only": LO + veth("eth0", "fd00::1/64", "fe80::1/64"),
    "IPv6 on the first, IPv4 on the last": LO
    + veth("eth0", "fd00::1/64")
    + veth("eth1", "10.0.1.1/24"),
    "several addresses on one": LO
    + veth("eth0", "10.0.0.9/24", "10.0.0.1/24", "192.168.0.1/16", "fd00::9/64")
    + veth("eth1", "10.0.1.1/24"),
    "indexes against the order of creation": LO
    + veth("zz0", "10.0.0.1/24", index=700)
    + veth("aa0", "10.1.0.1/24", index=300)
    + veth("eth0", "10.2.0.1/24"),
    "aliases": LO
    + veth("eth0", "10.0.0.1/24")
    + [["address", "eth0", {"address": "10.0.5.1/24", "label": "eth0:1"}]]
    + [["address", "eth0", {"address": "10.0.6.1/24", "label": "eth0:web"}]]
    + veth("eth1", "10.0.1.1/24"),
    "alias only": LO
    + veth("eth0")
    + [["address", "eth0", {"address": "10.0.5.1/24", "label": "eth0:1"}]]
    + veth("eth1", "10.0.1.1/24"),
    "macvlan and tap": LO
    + veth("eth0")
    + [["macvlan", "mv0", {"of": "eth0"}], ["address", "mv0", {"address": "10.0.0.1/24"}]]
    + [["tap", "tap0", {}], ["address", "tap0", {"address": "10.3.0.1/24"}]],
    "same address on two": LO + veth("eth0", "10.0.0.1/24") + veth("eth1", "10.0.0.1/24"),
    "twenty interfaces": LO
    + [step for i in range(20) for step in veth(f"d{i:02d}", f"10.{i}.0.1/24")],
}  # fmt: skip

# Asked in every scenario.
GENERAL = [
    None,
    "",
    "e",
    "eth",
    "eth1",
    "=eth1",
    "^eth",
    "^=eth0",
    "lo",
    "^lo",
    "ib",
    "docker",
    "x0",
]
# Asked where all kinds of interfaces are.
GRAMMAR = [
    "=", "^", "==", "^=", "=^eth1", "^^eth0", "^==eth0", "===eth0", "^^^eth0", ",", ",,eth1", ":",
    "::", "eth1,eth0", "=eth1,eth0", "=eth,eth1", "=eth", "=eth10", "eth10", "eth1,nope",
    "nope,eth1",
    "^=eth0,eth1", "^eth0,docker", "^docker", "^lo,docker", "^docker,lo,virbr", "=docker0",
    "=lo", "virbr", "=virbr0", "^virbr", "=nope", "^nope", " eth0", "eth0 ", "eth0, eth1",
    "^ eth0",
    "ETH0", "eth1:1", "=eth1:5", "eth0:,eth1", ":eth0", ":eth0,eth1", ":eth0,docker",
    "eth1:x,mgmt",
    "=mgmt0,", "^mgmt,eth", "eth*", "eth?", "eth0;eth1", "^eth0,^eth1", "=eth0,=eth1",
    "eth0,=eth1",
    "mgmt0|eth0", "eth0abcdefghijklmno", "=eth0,eth0,eth0", "m,d", "vir,mg", "^m,d,v,e",
    "^m,d,v,e,l", "%", "\u00e9th",
    ",".join(["nope"] * 15 + ["mgmt0"]), ",".join(["nope"] * 16 + ["mgmt0"]),
    "^" + ",".join(["nope"] * 16 + ["eth"]), "=" + ",".join(["nope"] * 15 + ["eth1"]) + ",eth0",
    ",,," + ",".join(["nope"] * 15 + ["eth1"]),
]  # fmt: skip
FAMILIES = ["AF_INET", "AF_INET6", "INET6", "af_inet6", "", "10"]
COMM_IDS = [
    "10.0.1.77:1234", "10.9.0.5:1", "127.0.0.1:5", "127.9.9.9:5", "8.8.8.8:1", "10.0.1.77",
    "172.17.5.5:1", "192.168.122.9:1", "10.1:7", "[fd00:1::9]:5", "[fd00:1::9%eth1]:5",
    "[fe80::9%eth1]:5", "[fe80::9%eth0]:5", "[fe80::9]:5", "[::1]:5", "=10.0.1.77:1",
]  # fmt: skip


def questions_for(scenario: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"setting": setting} for setting in GENERAL]
    if scenario == "usual":
        found += [{"setting": setting} for setting in GRAMMAR]
        found += [
            {"setting": setting, "environment": {"NCCL_COMM_ID": comm_id}}
            for comm_id in COMM_IDS
            for setting in (None, "=mgmt0")
        ]
    if scenario in (
        "usual",
        "link-local only",
        "IPv6 only",
        "IPv6 on the first, IPv4 on the last",
    ):
        found += [
            {"setting": setting, "environment": {"NCCL_SOCKET_FAMILY": family}}
            for family in FAMILIES
            for setting in (None, "eth1", "^eth0", "lo")
        ]
    if scenario.startswith("alias"):
        found += [
            {"setting": s} for s in ("=eth0", "=eth0:1", "eth0:1", "^=eth0", "^eth0", "=eth0:web")
        ]
    if scenario == "twenty interfaces":
        names = [f"d{i:02d}" for i in range(19, -1, -1)]
        found += [
            {"setting": text + ",".join(names[:count])}
            for text in ("", "=", "^", "^=")
            for count in (15, 16, 17, 20)
        ]
    if scenario.startswith("only") or scenario in ("nothing", "same address on two"):
        found += [
            {"setting": s} for s in ("virbr", "=docker0", "^docker", "^lo,docker", "^virbr", "==")
        ]
    return found


@pytest.fixture(scope="module")
def answers(in_namespace: Callable[..., dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    if libraries.find_nccl() is None:
        pytest.fail("these tests need libnccl: pip install nvidia-nccl-cu13 (extra `nccl`)")
    found = {}
    for scenario, steps in SCENARIOS.items():
        questions = questions_for(scenario)
        result = in_namespace(steps, questions=questions)
        found[scenario] = [
            question | answer
            for question, answer in zip(questions, result["answers"], strict=True)
        ]
    return found


def test_our_rules_name_the_interface_and_address_that_libnccl_takes_in_every_case(
    answers: dict[str, list[dict[str, Any]]],
) -> None:
    asked = [dict(answer, scenario=name) for name, all_ in answers.items() for answer in all_]
    differ = [answer for answer in asked if answer["asked"] != answer["predicted"]]
    print(
        f"\n{len(asked) - len(differ)} of {len(asked)} answers agree, {len(SCENARIOS)} scenarios"
    )
    assert len(asked) >= 60
    assert not differ, "\n".join(map(str, differ))


def test_libnccl_fails_exactly_where_no_interface_matches(
    answers: dict[str, list[dict[str, Any]]],
) -> None:
    for scenario, found in answers.items():
        for answer in found:
            succeeded = answer["code"] == 0
            assert succeeded == (answer["predicted"][0] is not None), (scenario, answer)


def test_the_whole_list_of_matches_has_the_order_of_libnccl(
    in_namespace: Callable[..., dict[str, Any]],
) -> None:
    """NCCL on a CPU tells only its first match; taking that one down shows the next."""
    plain = LO + veth("eth10", "10.0.10.1/24") + veth("eth1", "fd00:1::1/64")
    plain += veth("zz0", "10.5.0.1/24", index=600) + veth("eth0", "10.0.0.1/24", "fd00::1/64")
    for setting in ("eth", "^docker", "^=eth0", "=eth0,zz0", "z,l", "=="):
        result = in_namespace(plain, peel=[{"setting": setting}])
        assert result["peeled"][0]["asked"] == result["peeled"][0]["predicted"], setting


def test_never_more_than_sixteen_devices(in_namespace: Callable[..., dict[str, Any]]) -> None:
    result = in_namespace(SCENARIOS["twenty interfaces"], peel=[{"setting": "d0,d1"}])
    peeled = result["peeled"][0]
    # The library finds the seventeenth once others are down; as devices it takes sixteen.
    assert peeled["predicted"] == peeled["asked"][:16]
    assert len(peeled["asked"]) == 20
