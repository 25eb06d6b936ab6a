"""What a session keeps of NCCL's log: enough to know the way between any two ranks of a host."""

from __future__ import annotations

from bench.measure.nccl_log import local_edges, telling, united

HEAD = "node1:51:77 [{}] NCCL INFO "


def edge(channel: int, source: int, destination: int, via: str) -> str:
    line = f"Channel {channel:02}/0 : {source}[{source}] -> {destination}[{destination}] {via}"
    return HEAD.format(source) + line


def test_an_edge_is_kept_once_whatever_its_channel_and_every_neighbour_is() -> None:
    text = "\n".join(
        edge(channel, 0, peer, via)
        for channel in range(24)
        for peer, via in ((1, "via P2P/CUMEM"), (7, "via P2P/CUMEM"), (3, "via SHM/direct"))
    )
    kept = telling(text)
    assert len(kept) == 3 and kept[0].startswith("node1:51:77 [0] NCCL INFO Channel 00/0 : 0[0]")
    assert [line.split(" -> ")[1][0] for line in kept] == ["1", "7", "3"]


def test_many_neighbours_of_one_kind_leave_room_for_the_odd_one() -> None:
    alike = [edge(0, 0, peer, "[send] via NET/IB/0/GDRDMA") for peer in range(1, 400)]
    odd = edge(0, 0, 400, "[send] via NET/IB/1")
    warning = "node1:51:77 [0] misc/socket.cc:502 NCCL WARN Call to connect failed"
    kept = telling("\n".join([*alike, odd, warning]))
    assert odd in kept and warning in kept and len(kept) == 10


def test_the_other_ranks_of_a_host_tell_only_their_own_ways() -> None:
    lines = telling(
        "\n".join(
            [
                HEAD.format(3) + "Bootstrap: Using eth0:10.0.0.1<0>",
                edge(0, 3, 4, "via P2P/CUMEM"),
                edge(0, 3, 2, "via SHM/direct/direct"),
                edge(0, 3, 11, "[send] via NET/IB/3/GDRDMA"),
                edge(1, 3, 19, "[send] via NET/IB/3/GDRDMA"),
            ]
        )
    )
    assert [line.rpartition("via ")[2] for line in local_edges(lines)] == [
        "P2P/CUMEM", "SHM/direct/direct", "NET/IB/3/GDRDMA",
    ]  # fmt: skip


def test_what_several_ranks_tell_is_kept_once() -> None:
    own = (HEAD.format(0) + "NCCL version 2.32.3", edge(0, 0, 1, "via P2P/CUMEM"))
    more = (edge(5, 0, 1, "via P2P/CUMEM"), edge(0, 1, 2, "via SHM/direct"))
    assert united(own, more) == (*own, more[1])
