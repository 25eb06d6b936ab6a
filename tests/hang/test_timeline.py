"""Every cell of the timeline against the dumps that it was made from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bench.formats import flight_dump
from bench.formats.source import Source
from bench.hang import flight, timeline
from bench.hang.timeline import COMPLETED, DIFFERS, SCHEDULED, STARTED, Timeline
from bench.judge.docket import Docket
from tests.hang.job import Call, Job, same, training

STATES = {"scheduled": SCHEDULED, "started": STARTED, "completed": COMPLETED}


def drawn(job: Job, ranks: list[int]) -> Timeline:
    dumps = [
        flight_dump.read(Source.of_text(pickle.dumps(job.dump(rank), protocol=2), f"rank_{rank}"))
        for rank in ranks
    ]
    return flight.look(dumps, Docket()).timeline()


def cells(told: Timeline, row: int) -> slice:
    begin = int(told.counts[:row].sum())
    return slice(begin, begin + int(told.counts[row]))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_every_cell_is_what_its_dump_says(order: list[int]) -> None:
    program = [*training(6), *(Call(group="1", inputs=[[64]]) for _ in range(3))]
    programs = same(4, program)
    programs[2] = program[:-3]
    job = Job(4, programs, {"1": [0, 1, 2, 3]}, ring=12, depth=2)
    told = drawn(job, order)
    assert [row.label for row in told.rows] == [f"rank {rank}" for rank in range(4)]
    for rank in range(4):
        own, entries = cells(told, rank), job.dump(rank)["entries"]
        assert told.record[own].tolist() == [e["record_id"] for e in entries]
        assert told.seq[own].tolist() == [e["collective_seq_id"] for e in entries]
        assert told.created_ns[own].tolist() == [e["time_created_ns"] for e in entries]
        assert told.state[own].tolist() == [STATES[e["state"]] for e in entries]
        names = [told.calls[call][0] for call in told.call[own].tolist()]
        assert names == [e["profiling_name"].partition(":")[2] for e in entries]
        stacks = [told.stacks[at] for at in told.stack[own].tolist()]
        assert all(stack[1].startswith("me/train.py:") for stack in stacks)
    (mark,) = told.marks
    assert (mark.rows, mark.absent) == ((2,), True)
    assert told.groups[mark.group].rows == (0, 1, 2, 3)
    assert [row.named for row in told.rows] == [False, False, True, False]


def test_who_differs_and_who_left_no_dump_have_their_own_rows() -> None:
    program = [Call(inputs=[[8]]), Call(inputs=[[8]])]
    programs = same(5, program)
    programs[1] = [program[0], Call(inputs=[[16]])]
    told = drawn(Job(5, programs), [0, 1, 2, 4])
    assert [row.has_dump for row in told.rows] == [True, True, True, False, True]
    assert told.groups[0].rows == (0, 1, 2, 3, 4)
    differing = np.flatnonzero(told.state == DIFFERS).tolist()
    assert differing == [cells(told, 1).stop - 1]
    assert told.marks[0].words.startswith("Rank 1 differs at all_reduce #2 of default_pg")


def test_beyond_the_limit_the_newest_calls_of_each_rank_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline, "MOST_CELLS", 30)
    job = Job(3, same(3, training(10)))
    told = drawn(job, [0, 1, 2])
    assert told.counts.tolist() == [10, 10, 10]
    assert told.left_out == sum(len(job.dump(rank)["entries"]) for rank in range(3)) - 30
    for rank in range(3):
        newest = [e["record_id"] for e in job.dump(rank)["entries"]][-10:]
        assert told.record[cells(told, rank)].tolist() == newest
