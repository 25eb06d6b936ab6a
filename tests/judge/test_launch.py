"""Whether a job can start: what is said of names, limits, clocks, versions, seats and the meeting
place, and what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bench.judge.launch import verdict
from bench.records import (
    Gpu,
    HostFacts,
    Interface,
    Meeting,
    Preflight,
    PreflightPair,
    RankPlacement,
    RdmaPort,
    Readiness,
    Software,
)

GIB = 1 << 30
RDMA = {"rdma_ports": (RdmaPort(device="mlx5_0", port=1),)}
READY = Readiness(
    name_addresses=("10.1.0.1",), open_files=65536, shm_bytes=64 * GIB, shm_free_bytes=64 * GIB
)


def host(name: str, **more: Any) -> HostFacts:
    return HostFacts(
        **{"host": name, "hostname": name, "identity": name, "readiness": READY} | more
    )


def met(outcome: str, **more: Any) -> Meeting:
    known = {"host": "node1", "port": 29500, "seen_from": "node2", "addresses": ("10.1.0.1",)}
    return Meeting(**{**known, "outcome": outcome} | more)


def kinds(
    seen: Preflight, *, several: bool = True, waiting: bool = False, rank: int | None = None
) -> dict[str, str]:
    judged = verdict.judge(seen, several=several, waiting=waiting, rank=rank)
    return {f"{f.code}:{f.kind}": f.severity for f in judged.findings}


def test_a_cluster_in_order_is_healthy_and_nothing_is_said() -> None:
    seen = Preflight(together=True, hosts=(host("a"), host("b")), meetings=(met("store"),))
    judged = verdict.judge(seen, several=True, waiting=True)
    assert (judged.verdict, judged.findings) == ("healthy", ())


@pytest.mark.parametrize(
    ("outcome", "before", "later"),
    [
        ("unresolved", "broken", "broken"),
        ("no-route", "broken", "broken"),
        ("no-answer", "broken", "broken"),
        ("stranger", "broken", "broken"),
        ("silent", "broken", "broken"),
        ("refused", None, "broken"),
        ("store", None, None),
    ],
)
def test_nobody_listening_is_a_fault_only_once_rank_0_waits(
    outcome: str, before: str | None, later: str | None
) -> None:
    seen = Preflight(meetings=(met(outcome),))
    name = f"rendezvous-unreachable:{outcome}"
    assert kinds(seen, waiting=False).get(name) == before
    assert kinds(seen, waiting=True).get(name) == later


def test_a_silence_is_a_firewall_only_where_the_host_answers_below() -> None:
    def told(neighbour: str | None) -> str:
        seen = Preflight(meetings=(met("no-answer", neighbour=neighbour),))
        (finding,) = verdict.judge(seen, several=True, waiting=True).findings
        return " ".join(proof.text for proof in finding.evidence)

    assert "firewall" in told("present")
    assert "the host is down, or it is the wrong one" in told("absent")
    assert "firewall" not in told(None) and "down" not in told(None)


def test_a_name_on_the_loopback_line_is_broken_for_several_hosts_and_silent_for_one() -> None:
    trapped = met("refused", addresses=("127.0.1.1",), own=True)
    assert kinds(Preflight(meetings=(trapped,)))["rendezvous-address:loopback"] == "broken"
    alone = met("free", host="localhost", addresses=("127.0.0.1",), own=True)
    assert kinds(Preflight(meetings=(alone,)), several=False) == {}


@pytest.mark.parametrize(
    ("rank", "own", "said"),
    [(0, True, False), (0, False, True), (2, True, True), (2, False, False)],
)
def test_the_address_has_to_be_rank_0s(rank: int, own: bool, said: bool) -> None:
    seen = Preflight(meetings=(met("free" if own else "refused", own=own),))
    assert ("rendezvous-address:elsewhere" in kinds(seen, rank=rank)) == said


def test_public_addresses_vpns_and_bridges_are_told_but_a_pods_own_link_is_not() -> None:
    assert kinds(Preflight(meetings=(met("store", addresses=("8.8.4.4",)),))) == {
        "rendezvous-address:public": "warning"
    }
    for kind, expected in (("vpn", True), ("docker", True), ("veth", False), ("physical", False)):
        card = {
            "name": "x0", "kind": kind, "index": 2, "up": True,
            "addresses": ({"family": "inet", "address": "10.1.0.1", "prefix_length": 24},),
        }  # fmt: skip
        facts = host("node1", interfaces=(msgspec.convert(card, Interface),))
        seen = Preflight(meetings=(met("free", own=True),), hosts=(facts,))
        assert ("rendezvous-address:virtual" in kinds(seen)) == expected, kind


def test_names_that_lead_nowhere_or_to_two() -> None:
    loop = Readiness(name_addresses=("127.0.1.1",))
    lost = Readiness(name_trouble="name or service not known")
    assert kinds(Preflight(hosts=(host("a", readiness=loop),)))["host-name:loopback"] == "warning"
    known = {"GLOO_SOCKET_IFNAME": "data0"}
    quiet = host("a", readiness=loop, environment=known)
    assert kinds(Preflight(hosts=(quiet,)))["host-name:loopback"] == "info"
    assert kinds(Preflight(hosts=(host("a", readiness=loop),)), several=False) == {}
    assert "host-name:unresolved" in kinds(Preflight(hosts=(host("a", readiness=lost),)))
    twins = (host("a"), host("a#2", hostname="a"))
    assert "host-name:twice" in kinds(Preflight(together=True, hosts=twins))


@pytest.mark.parametrize(
    ("ready", "more", "kind"),
    [
        ({"shm_bytes": 64 << 20, "shm_free_bytes": 64 << 20}, {}, "shm-size"),
        ({"shm_bytes": 64 * GIB, "shm_free_bytes": 1 << 20}, {}, "shm-full"),
        ({"open_files": 256}, {}, "open-files"),
        ({"locked_bytes": 65536}, RDMA, "locked-memory"),
        ({"locked_bytes": 65536}, {}, None),
        ({"locked_bytes": None}, RDMA, None),
        ({}, {}, None),
    ],
)  # fmt: skip
def test_limits_that_stop_jobs(ready: dict[str, Any], more: dict[str, Any], kind: str) -> None:
    facts = host("a", readiness=Readiness(name_addresses=("10.1.0.1",), **ready), **more)
    assert set(kinds(Preflight(hosts=(facts,)))) == ({f"host-limits:{kind}"} if kind else set())


def test_a_clock_is_named_only_where_most_others_agree() -> None:
    def pairs(offsets: dict[str, float]) -> tuple[PreflightPair, ...]:
        return tuple(
            PreflightPair(
                candidate="data", source=a, destination=b, outcome="ok", rtt_s=2e-4,
                ahead_s=offsets[b] - offsets[a],
            )
            for a in offsets
            for b in offsets
            if a != b
        )  # fmt: skip

    def told(offsets: dict[str, float]) -> tuple[str, ...] | None:
        seen = Preflight(together=True, hosts=tuple(map(host, offsets)), pairs=pairs(offsets))
        found = verdict.judge(seen, several=True, waiting=True).findings
        return next((f.where.hosts for f in found if f.code == "clock-offset"), None)

    assert told({"a": 0.0, "b": 0.01, "c": -0.02}) is None
    assert told({"a": 0.0, "b": 0.0, "c": 37.0}) == ("c",)
    assert told({"a": 0.0, "b": 37.0}) == ()


def test_versions_between_ranks_weigh_more_than_those_of_a_kernel() -> None:
    def severity(**other: str) -> str | None:
        two = (host("a", software=Software(nccl="2.27.3", torch="2.8.0", kernel="6.8")),
               host("b", software=Software(**{"nccl": "2.27.3", "torch": "2.8.0", "kernel": "6.8"}
                                           | other)))  # fmt: skip
        return kinds(Preflight(together=True, hosts=two)).get("software-differs:None")

    assert severity() is None
    assert severity(nccl="2.26.2") == "degraded"
    assert severity(driver="580.95") is None  # one host does not tell
    assert severity(kernel="6.1") == "info"


def test_ranks_that_share_or_miss_a_gpu_or_sit_on_the_other_socket() -> None:
    gpus = (Gpu(index=0, name="H100", numa_node=0), Gpu(index=1, name="H100", numa_node=1))

    def told(*places: RankPlacement) -> set[str]:
        return set(kinds(Preflight(hosts=(host("a", gpus=gpus, cores=64, placements=places),))))

    def place(rank: int, gpu: int | None, numa: int, **more: Any) -> RankPlacement:
        return RankPlacement(rank=rank, local_rank=rank, gpu=gpu, numa_nodes=(numa,), **more)

    assert told(place(0, 0, 0, cpus="0-31"), place(1, 1, 1, cpus="32-63")) == set()
    assert told(place(0, 0, 0), place(1, 1, 0)) == {"rank-placement:far-cpu"}
    assert told(place(0, 0, 0), place(1, 0, 0)) == {"rank-placement:one-gpu"}
    assert told(place(0, None, 0, visible="")) == {"rank-placement:no-gpu"}
    assert told(place(0, 0, 0, cpus="3"), place(1, 1, 1, cpus="3")) >= {"rank-placement:one-core"}


def test_nodes_that_did_not_come_are_told() -> None:
    seen = Preflight(together=True, hosts=(host("a"),), missing=("node 1 sent no facts",))
    assert kinds(seen)["rendezvous-unreachable:absent"] == "broken"
