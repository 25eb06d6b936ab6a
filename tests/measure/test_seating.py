"""Ranks find out which of them share a host; over a real store, with real deadlines cut short."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from bench.facts import host
from bench.measure import rendezvous, seating
from bench.measure.control import Control, StoreAddress
from bench.measure.launcher import Launch, Seat
from bench.measure.seating import Presence, assign
from bench.records import BadInput

ROOT = Path(__file__).parents[2]


def launch(rank: int, ranks: int = 3, **more) -> Launch:
    wanted = {"launcher": "Slurm", "host": "127.0.0.1", "port": 1, "own_store": True, "run": "t"}
    return Launch(rank=rank, ranks=ranks, **{**wanted, **more})


@pytest.fixture
def join() -> Callable[[int, int], Control]:
    """Control planes of several ranks of one store."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def control(rank: int, ranks: int = 3) -> Control:
        client = dist.TCPStore("127.0.0.1", store.port, is_master=False)
        address = StoreAddress("127.0.0.1", store.port, "t")
        return Control(
            dist.PrefixStore("t", client), address, rank=rank, ranks=ranks, own_store=True
        )

    control.store = store  # type: ignore[attr-defined]  # it must outlive its clients
    return control


def settle_all(
    join: Callable[..., Control], ranks: list[int], of: int, **more
) -> dict[int, Seat | str]:
    """What each of `ranks` gets: a seat, or a sentence."""
    got: dict[int, Seat | str] = {}

    def play(rank: int) -> None:
        control = join(rank, of)
        try:
            got[rank] = seating.settle(launch(rank, of, **more), control)
        except BadInput as bad:
            got[rank] = bad.sentence
        control.close()

    threads = [threading.Thread(target=play, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return got


def test_ranks_of_one_host_are_one_node(join: Callable[..., Control]) -> None:
    got = settle_all(join, [0, 1, 2], 3)
    for rank, seat in got.items():
        assert isinstance(seat, Seat)
        assert (seat.rank, seat.local_rank, seat.node, seat.nodes) == (rank, rank, 0, 1)
        assert seat.node_ranks == (0, 1, 2)


def test_ranks_dealt_round_the_hosts_keep_their_numbers() -> None:
    seats = assign(["a", "b", "a", "b", "c"])
    assert [seats[rank].node for rank in range(5)] == [0, 1, 0, 1, 2]
    assert [seats[rank].local_rank for rank in range(5)] == [0, 0, 1, 1, 0]
    assert seats[2].node_ranks == (0, 2) and seats[4].node_ranks == (4,)


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=40))
def test_every_rank_has_one_seat_and_every_node_one_leader(identities: list[str]) -> None:
    seats = assign(identities)
    assert sorted(seats) == list(range(len(identities)))
    leaders = [seat.node for seat in seats.values() if seat.leads]
    assert sorted(leaders) == list(range(len(set(identities))))
    for rank, seat in seats.items():
        assert seat.node_ranks[seat.local_rank] == rank
        assert {identities[mate] for mate in seat.node_ranks} == {identities[rank]}
    assert [seats[rank].node for rank in range(len(identities)) if seats[rank].leads] == sorted(
        leaders
    ), "nodes are numbered by their lowest rank"


def test_a_rank_that_does_not_come_is_named_to_all(
    join: Callable[..., Control], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seating, "_ALL_HERE_S", 1.0)
    got = settle_all(join, [0, 2], 4)
    assert got[0] == got[2]
    assert str(got[0]).startswith("ranks 1, 3 of 4 did not come to 127.0.0.1:1 within 1 s")
    assert f"runs on {host.own_name()}" in str(got[0])


def test_a_second_job_at_the_same_port_takes_no_seat(join: Callable[..., Control]) -> None:
    assert isinstance(settle_all(join, [0, 1], 2)[1], Seat)
    assert "another job's rank 0 answers at 127.0.0.1:1" in str(settle_all(join, [1], 2)[1])


@pytest.mark.parametrize(
    ("visible", "gpus", "refused"),
    [
        (["0", "0"], 2, True),  # Slurm's --gpus-per-task under cgroups
        (["0", "1"], 2, False),
        (["0,1", "0,1"], 2, False),
        ([None, None], 2, False),
        (["0", "0"], 1, False),  # the host has one: they share it, and know it
        (["0", "0"], None, False),
        (["0"], 8, False),
    ],
)
def test_ranks_that_all_see_one_gpu_of_several_are_refused(
    visible: list[str | None], gpus: int | None, refused: bool
) -> None:
    everybody = [
        Presence(process=str(i), identity="a", hostname="gpu1", visible=one, node_gpus=gpus)
        for i, one in enumerate(visible)
    ]
    sentence = seating._narrow(everybody)
    assert (sentence is not None) == refused
    if sentence is not None:
        assert sentence.startswith("all 2 ranks of gpu1 see one GPU, number 0, of the 2 ")


# ------------------------------------------------------------------ rank 0's own store


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def test_rank_0_opens_the_store_and_waits_until_all_have_left() -> None:
    port = free_port()
    left = []

    def other() -> None:  # starts before rank 0
        control = Control.join(launch(1, 2, port=port))
        control.put("hello", 1)
        assert control.get("answer", int, deadline_s=10) == 2
        left.append(1)
        control.close()

    thread = threading.Thread(target=other)
    thread.start()
    lead = Control.join(launch(0, 2, port=port))
    assert lead.get("hello", int, deadline_s=10) == 1
    lead.put("answer", 2)
    lead.close()
    assert left == [1], "close came back before the other rank had read the answer"
    thread.join(10)


def test_a_port_that_is_taken_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            BadInput, match=f"cannot open its store at port {port}.* in use.*; set"
        ):
            rendezvous.join(launch(0, port=port))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_stranger_at_the_port_is_one_sentence(words: bytes) -> None:
    """torch itself waits without end for one that says nothing: hence a process of its own."""
    program = """
import sys
from bench.measure import rendezvous
from bench.measure.launcher import Launch
from bench.records import BadInput
rendezvous._ANSWER_S = 0.5
try:
    rendezvous.join(Launch(rank=1, ranks=2, launcher="Slurm", host="127.0.0.1",
                           port=int(sys.argv[1]), own_store=True, run="t"))
except BadInput as bad:
    print(f"fabric-bench: {bad}", file=sys.stderr)
    sys.exit(2)
"""
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def serve() -> None:
            while True:
                try:
                    caller, _ = stranger.accept()
                except OSError:
                    return
                callers.append(caller)
                caller.sendall(words)

        callers: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        port = stranger.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", program, str(port)], cwd=ROOT, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"what listens at 127.0.0.1:{port} is no store of torch: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_rank_0_that_never_comes_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_CONNECT_S", 0.5)
    with pytest.raises(
        BadInput, match=r"was not to be reached for .*refused\): rank 0 has not st"
    ):
        rendezvous.join(launch(1, port=free_port()))


def test_a_name_without_an_address_is_told_at_once() -> None:
    named = launch(1, host="no-such-host.invalid", named_by="SLURM_STEP_NODELIST")
    with pytest.raises(BadInput, match=r"invalid \(from SLURM_STEP_NODELIST\) has no address"):
        rendezvous.join(named)
