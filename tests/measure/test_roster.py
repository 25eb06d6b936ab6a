"""Nodes into hosts: labels, leaders, GPUs and layouts, from invented arrivals."""

from __future__ import annotations

import msgspec
import pytest

from bench.measure.messages import Arrival, Probed
from bench.measure.roster import Roster
from bench.records import (
    BadInput,
    Candidate,
    Gpu,
    HostFacts,
    NcclChoice,
    PreflightPair,
    RankPlacement,
)


def arrival(
    node: int,
    ranks: tuple[int, ...],
    *,
    identity: str | None = None,
    gpus: int = 0,
    hostname: str = "gpu",
    environment: dict[str, str] | None = None,
) -> Arrival:
    facts = HostFacts(
        host=hostname, hostname=hostname, identity=identity or f"boot/{node}", node_rank=node,
        ranks=ranks, gpus=tuple(Gpu(index=i, uuid=f"GPU-{i}") for i in range(gpus)),
        environment=environment or {},
    )  # fmt: skip
    return Arrival(facts=facts, nccl=gpus > 0, ports={f"10.0.0.{node + 1}": 1000 + node})


def placed(*ranks: int) -> dict[int, RankPlacement]:
    return {rank: RankPlacement(rank=rank, local_rank=rank % 2) for rank in ranks}


NETWORK = Candidate(
    name="data", kind="network", interfaces={"gpu": "data0", "gpu#2": "data0"},
    addresses={"gpu": "10.0.0.1", "gpu#2": "10.0.0.2"},
    per_host={"gpu": {"GLOO_SOCKET_IFNAME": "data0"}},
)  # fmt: skip


def test_hosts_with_one_name_get_labels_and_each_node_learns_its_own() -> None:
    roster = Roster([arrival(0, (0, 1)), arrival(1, (2, 3))], placed(0, 1, 2, 3))
    layouts = roster.layouts([NETWORK], "gloo")
    assert [layouts[0].host, layouts[1].host] == ["gpu", "gpu#2"]
    assert layouts[0].settings["data"].environment == {"GLOO_SOCKET_IFNAME": "data0"}
    assert layouts[0].settings["data"].ask == "=data0"
    assert [peer.host for peer in layouts[0].peers] == ["gpu#2"]
    assert layouts[0].ranks == (0, 1)


def test_the_backend_is_what_all_hosts_can_do_and_no_guess() -> None:
    both = Roster([arrival(0, (0,), gpus=1), arrival(1, (1,), gpus=1)], placed(0, 1))
    one = Roster([arrival(0, (0,), gpus=1), arrival(1, (1,))], placed(0, 1))
    assert (both.backend(None), one.backend(None), both.backend("gloo")) == (
        "nccl",
        "gloo",
        "gloo",
    )
    with pytest.raises(BadInput, match="gpu#2 lacks one of them"):
        one.backend("nccl")

    came = arrival(1, (1,))
    slow = {"nvml": "gave no answer within 12 s"}
    came = msgspec.structs.replace(
        came, facts=msgspec.structs.replace(came.facts, unreadable=slow)
    )
    unknown = Roster([arrival(0, (0,), gpus=1), came], placed(0, 1))
    with pytest.raises(BadInput, match="NVML on gpu#2 gave no answer within 12 s"):
        unknown.backend(None)
    assert unknown.backend("gloo") == unknown.backend(None, guess=True) == "gloo"


def test_two_nodes_of_one_machine_are_one_host_that_one_of_them_leads() -> None:
    roster = Roster(
        [arrival(0, (0, 1), identity="same"), arrival(1, (2, 3), identity="same")],
        placed(0, 1, 2, 3),
    )
    layouts = roster.layouts([], "gloo")
    assert [host.ranks for host in roster.hosts] == [(0, 1, 2, 3)]
    assert [layouts[0].leads, layouts[1].leads] == [True, False]
    hosts, _, silent = roster.informed([None, Probed(choices=(NcclChoice(setting="=x"),))])
    assert silent == ("gpu",), "the other node's answer does not stand in for the leader's"
    assert hosts[0].nccl_choices == ()


def test_a_node_that_never_spoke_is_told_by_its_number() -> None:
    roster = Roster([arrival(0, (0,)), None], placed(0))
    assert roster.silent == (1,)
    assert set(roster.layouts([], "gloo")) == {0}


def test_ranks_take_the_visible_gpus_in_turn_and_more_ranks_than_gpus_share() -> None:
    seen = {"CUDA_VISIBLE_DEVICES": "3,1"}
    roster = Roster([arrival(0, (0, 1), gpus=4, environment=seen)], placed(0, 1))
    assert [place.gpu for place in roster.hosts[0].placements] == [3, 1]
    assert not roster.layouts([], "nccl")[0].shares_gpu
    crowded = Roster([arrival(0, (0, 1), gpus=1)], placed(0, 1))
    assert crowded.layouts([], "nccl")[0].shares_gpu
    assert crowded.with_nccl == {"gpu"}


def test_each_rank_takes_of_the_gpus_that_its_own_launcher_shows_it() -> None:
    """One GPU a task: every rank has another variable, and the host's is only its first rank's."""
    own = {rank: RankPlacement(rank=rank, local_rank=0, visible=str(rank)) for rank in range(4)}
    nodes = [
        arrival(rank, (rank,), identity="same", gpus=4, environment={"CUDA_VISIBLE_DEVICES": "0"})
        for rank in range(4)
    ]
    roster = Roster(nodes, own)
    assert [place.gpu for place in roster.hosts[0].placements] == [0, 1, 2, 3]
    layout = roster.layouts([], "nccl")[0]
    assert not layout.shares_gpu and layout.visible == "0,1,2,3"
    one = {rank: msgspec.structs.replace(place, visible="2") for rank, place in own.items()}
    layout = Roster(nodes, one).layouts([], "nccl")[0]
    assert layout.shares_gpu and layout.visible == "2"
    assert Roster(nodes, placed(0, 1, 2, 3)).layouts([], "nccl")[0].visible is None


def test_probes_of_all_hosts_come_together() -> None:
    roster = Roster([arrival(0, (0,)), arrival(1, (1,))], placed(0, 1))
    pair = PreflightPair(candidate="data", source="gpu", destination="gpu#2", outcome="ok")
    answer = NcclChoice(setting="=data0", bootstrap="data0")
    hosts, pairs, silent = roster.informed([Probed(pairs=(pair,), choices=(answer,)), Probed()])
    assert pairs == (pair,) and silent == ()
    assert hosts[0].nccl_choices == (answer,)
