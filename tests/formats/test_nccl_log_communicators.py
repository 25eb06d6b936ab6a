"""Communicators without commId, and rings of which NCCL prints the first ranks only."""

from __future__ import annotations

import pytest

from bench.formats.nccl_log import groups, read
from bench.formats.source import Source
from bench.records import LogCommunicator, NcclLog

COLORS = (923304772, 1449462471, 120142604, 7)  # one a GPU
COUNTS = ("splitCount", "childCount")


def log_of(lines: list[str]) -> NcclLog:
    return read(Source.of_text("\n".join(lines) + "\n"))


def by_id(log: NcclLog) -> dict[str, LogCommunicator]:
    return {group.id: group for group in log.communicators}


def world(node: int, gpu: int, comm_id: str = "0xaa") -> list[str]:
    head = f"node{node}:{100 + gpu}:{100 + gpu} [{gpu}] NCCL INFO "
    own = f"ncclCommInitRankConfig comm 0x1{node}{gpu} rank {4 * node + gpu} nranks 8 cudaDev "
    own += f"{gpu} nvmlDev {gpu} busId {gpu + 1}000 commId {comm_id} - Init "
    return [f"{head}{own}START", f"{head}{own}COMPLETE"]


def split(
    node: int, gpu: int, *, count: str = "splitCount 1", color: int | None = None,
    parent: str = "", name: str = "ncclCommSplit", pointer: str = "",
) -> list[str]:  # fmt: skip
    """START, the channels of a pair of GPUs of equal number on two nodes, and COMPLETE."""
    head = f"node{node}:{100 + gpu}:{200 + gpu} [{gpu}] NCCL INFO "
    color = COLORS[gpu] if color is None else color
    own = f"{name} comm {pointer or f'0x2{node}{gpu}'} rank {node} nranks 2 cudaDev {gpu} nvmlDev "
    own += f"{gpu} busId {gpu + 1}000 parent {parent or f'0x1{node}{gpu}'} {count} color {color} "
    edge = f"Channel 00/0 : {node}[{gpu}] -> {1 - node}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA"
    return [
        f"{head}{own}key {node}- Init START",
        f"{head}{edge}",
        f"{head}{own}key {node} - Init COMPLETE",
    ]


# --- splits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", COUNTS)
def test_splits_of_one_parent_are_told_apart_by_their_color(word: str) -> None:
    lines = [line for node in (0, 1) for gpu in range(4) for line in world(node, gpu)]
    for node in (0, 1):
        for gpu in range(4):
            lines += split(node, gpu, count=f"{word} 1")
    found = by_id(log_of(lines))
    assert list(found) == ["0xaa", *(f"0xaa/1.{color}" for color in COLORS)]
    for gpu, color in enumerate(COLORS):
        group = found[f"0xaa/1.{color}"]
        assert (group.named, group.ranks) == (True, 2)
        assert [(m.rank, m.host, m.pid, m.completed) for m in group.members] == [
            (0, "node0", 100 + gpu, True),
            (1, "node1", 100 + gpu, True),
        ]
        assert group.carriers == {f"NET/IB/{gpu}/GDRDMA": 2}


def test_a_split_is_called_alike_in_the_files_of_all_ranks() -> None:
    files = [[*world(node, 0), *split(node, 0), *split(node, 0, count="splitCount 2",
              color=5, pointer="0x9")] for node in (0, 1)]  # fmt: skip
    ids = [list(by_id(log_of(lines))) for lines in files]
    assert ids == [["0xaa", f"0xaa/1.{COLORS[0]}", "0xaa/2.5"]] * 2


def test_a_split_of_a_split_is_called_after_both() -> None:
    child = split(0, 0, parent="0x200", color=8, pointer="0x9")
    shrunk = split(0, 0, name="ncclCommShrink", count="childCount 2", color=0, pointer="0x8")
    lines = [*world(0, 0), *split(0, 0), *child, *shrunk]
    assert list(by_id(log_of(lines))) == [
        "0xaa", f"0xaa/1.{COLORS[0]}", f"0xaa/1.{COLORS[0]}/1.8", "0xaa/2.0",
    ]  # fmt: skip


def test_a_split_that_prints_its_commid_keeps_it() -> None:
    lines = [line.replace(" parent", " commId 0xbb parent") for line in split(0, 0)]
    assert list(by_id(log_of([*world(0, 0), *lines]))) == ["0xaa", "0xbb"]


def test_a_grown_communicator_ends_as_what_it_began() -> None:
    """2.29: "[Rank 0] ncclCommGrow … commId … - Init START", "… parent … color … COMPLETE"."""
    begin, _, end = split(0, 0, name="ncclCommGrow")
    begin = begin[: begin.index(" parent")] + " commId 0xcc - Init START"
    begin = begin.replace("ncclCommGrow", "[Rank 0] ncclCommGrow")
    found = by_id(log_of([*world(0, 0), begin, end]))
    assert list(found) == ["0xaa", "0xcc"]
    assert [(m.started, m.completed) for m in found["0xcc"].members] == [(True, True)]


def test_a_split_whose_parent_is_not_told_is_ours_and_joins_no_runs() -> None:
    (group,) = log_of([*split(0, 0), *split(1, 0)]).communicators
    assert (group.id, group.named) == (f"split/1.{COLORS[0]}", False)
    assert [m.rank for m in group.members] == [0, 1]


def test_equal_colors_of_parents_that_are_not_told_are_not_one() -> None:
    lines = [line for gpu in range(2) for node in (0, 1) for line in split(node, gpu, color=0)]
    members = [
        [(m.rank, m.host, m.pid) for m in group.members] for group in log_of(lines).communicators
    ]
    assert members == [
        [(0, "node0", 100), (1, "node1", 100)],
        [(0, "node0", 101), (1, "node1", 101)],
    ]


def test_an_excerpt_that_begins_within_a_split_is_placed_by_its_end() -> None:
    lines = [line for node in (0, 1) for gpu in range(2) for line in world(node, gpu)]
    ends = []
    for node in (0, 1):
        for gpu in range(2):
            head = f"node{node}:{100 + gpu}:{200 + gpu} [{gpu}] NCCL INFO "
            lines.append(f"{head}comm 0x2{node}{gpu} rank {node} nRanks 2 nNodes 2 localRanks 1")
            ends.append(split(node, gpu)[2])
    found = by_id(log_of([*lines, *ends]))
    members = {name: [(m.host, m.pid) for m in group.members] for name, group in found.items()}
    assert len(members.pop("0xaa")) == 4
    assert members == {
        f"0xaa/1.{COLORS[gpu]}": [("node0", 100 + gpu), ("node1", 100 + gpu)] for gpu in (0, 1)
    }


def test_beyond_the_most_unnamed_ones_no_size_is_mistaken(monkeypatch) -> None:
    monkeypatch.setattr(groups, "MOST_UNNAMED", 2)
    lines = [
        f"h:{pid}:{pid} [0] NCCL INFO comm 0x{pid} rank 0 nranks {ranks} cudaDev 0 - Init COMPLETE"
        for pid, ranks in ((1, 2), (2, 2), (3, 2), (4, 8))
    ]
    found = log_of(lines).communicators
    assert [(g.ranks, [m.pid for m in g.members]) for g in found] == [(2, [1]), (2, [2]), (8, [4])]


def test_without_room_for_another_communicator_the_rest_is_read(monkeypatch) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 1)
    lines = [
        *world(0, 0), *split(0, 0), "h:1:1 [0] NCCL INFO comm 0x5 rank 0 nranks 9 - Init COMPLETE",
        "h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC comm 0x7 nRanks 03",
    ]  # fmt: skip
    assert [g.id for g in log_of(lines).communicators] == ["0xaa"]


# --- rings ---------------------------------------------------------------------------------------


def newest(ring: list[int], channel: int = 0) -> str:
    """As NCCL prints it now: 127 characters, the last three dots."""
    width = len(str(len(ring) - 1))
    text = f"Channel {channel:02d}/16 :" + "".join(f" {rank:{width}d}" for rank in ring)
    return text if len(text) < 128 else text[:124] + "..."


def former(ring: list[int], channel: int = 0) -> str:
    """127 characters without a mark."""
    return (f"Channel {channel:02d}/16 :" + "".join(f" {rank:3d}" for rank in ring))[:127]


def oldest(ring: list[int], channel: int = 0) -> str:
    """The first 20 ranks without a mark."""
    return f"Channel {channel:02d}/16 :" + "".join(f" {rank:3d}" for rank in ring[:20])


def ring_log(lines: list[str], ranks: int | None) -> LogCommunicator:
    head = "h0:1:1 [0] NCCL INFO "
    comm = f"comm 0x1 rank 0 nranks {ranks} cudaDev 0 busId 1000 commId 0xaa - Init "
    told = [head + line for line in lines]
    if ranks is not None:
        told = [f"{head}{comm}START", *told, f"{head}{comm}COMPLETE"]
    (group,) = log_of(told).communicators
    return group


@pytest.mark.parametrize("printed", [newest, former, oldest])
@pytest.mark.parametrize("ranks", [4, 16, 20, 28, 29, 36, 37, 38, 64, 128, 1024, 5000])
@pytest.mark.parametrize("told", [True, False])
def test_a_ring_is_kept_whole_or_not_at_all(printed, ranks: int, told: bool) -> None:
    rings = [list(range(ranks)), [0, *range(ranks - 1, 0, -1)]]
    lines = [printed(ring, channel) for channel, ring in enumerate(rings)]
    group = ring_log(lines, ranks if told else None)
    assert group.ring_channels == 16
    if lines[1].endswith(f" {rings[1][-1]}") and (told or ranks < 20):
        assert group.rings == {channel: tuple(ring) for channel, ring in enumerate(rings)}
    else:
        assert group.rings == {}


def test_a_number_that_the_dots_cut_through_is_no_rank() -> None:
    group = ring_log(["Channel 00/16 : 0 1 2 3 35 3...", "Channel 01/16 : 0 1 2 35..."], 64)
    assert (group.ring_channels, group.rings) == (16, {})


def test_an_order_that_lacks_or_repeats_a_rank_is_no_ring() -> None:
    assert ring_log(["Channel 00/02 : 0 1 2 2", "Channel 01/02 : 0 1 2 4"], 4).rings == {}
