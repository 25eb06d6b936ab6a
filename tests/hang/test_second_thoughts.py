"""Dumps and logs of one job together: what each alone would get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.commands import evidence
from bench.formats import file_walk
from bench.hang.selection import Selection
from bench.judge.docket import Docket
from bench.records import Finding
from tests.hang.job import Call, Job, same, write

STEP = [Call(inputs=[[1024]]), Call(inputs=[[2048]]), Call(name="broadcast", inputs=[[8]])]
ABORTED = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. "
    "1056 vs 1024. Received data size doesn't match expected size. Is there a distributed "
    "collective mismatch in your code?\n"
)


def serious(folder: Path) -> list[Finding]:
    gathered, docket = evidence.gather(file_walk.files([str(folder)])), Docket()
    for judge in evidence.JUDGES:
        judge(gathered, docket, Selection())
    return [each for each in docket.findings if each.severity == "broken"]


def steps(rank: int, last: int, of: int) -> str:
    lines = [f"INFO rank={rank} world_size=3"]
    lines += [f"INFO rank={rank} step={at}/{of} loss=0.5" for at in range(1, last + 1)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("of", "words", "code"),
    [
        (12, "", "hang-midrun"),
        (5, "", "hang-end"),
        (12, "INFO rank=1 epoch 1 finished\n", "hang-end"),
        (None, "", "hang-end"),
    ],
)
def test_whole_steps_are_the_end_only_if_the_log_does_not_say_otherwise(
    tmp_path: Path, of: int | None, words: str, code: str
) -> None:
    programs = same(3, STEP * 8)
    programs[1] = STEP * 5
    job = Job(3, programs)
    write(tmp_path / "dumps", {rank: job.dump(rank) for rank in range(3)})
    if of is not None:
        for rank in range(3):
            text = steps(rank, 5, of) + (words if rank == 1 else "")
            (tmp_path / f"rank_{rank}.log").write_text(text)
    (told,) = serious(tmp_path)
    assert (told.code, told.where.rank) == (code, 1)
    assert ("step 5 of 12" in str(told.evidence)) == (code == "hang-midrun")


def test_who_was_aborted_for_a_message_of_the_wrong_size_is_no_culprit(tmp_path: Path) -> None:
    """Its dump is of a moment before; by the others' dumps alone it never came."""
    programs = same(3, STEP * 4)
    programs[0] = programs[0][:-2]
    job = Job(3, programs, backend="gloo")
    write(tmp_path / "dumps", {rank: job.dump(rank) for rank in range(3)})
    assert [each.where.rank for each in serious(tmp_path)] == [0]
    (tmp_path / "rank_0.log").write_text(steps(0, 3, 12) + ABORTED)
    (told,) = serious(tmp_path)
    assert (told.code, told.kind) == ("collective-mismatch", "size")
    assert told.where.rank is None and not told.where.ranks
    assert "1,056 instead of 1,024 bytes" in told.summary


def test_a_backtrace_of_symbols_is_no_fault(tmp_path: Path) -> None:
    """As torch 2.13 prints it below a time-out of the store."""
    (tmp_path / "console.log").write_text(
        "[E1130 19:50:21.147328393 socket.cpp:1028] [c10d] The client socket has timed out after "
        "3000ms while trying to connect to (10.2.0.1, 29500).\n"
        "frame #2: c10::DistNetworkError::DistNetworkError(c10::SourceLocation) + 0x72\n"
    )
    (told,) = serious(tmp_path)
    assert told.code == "hang-rendezvous"
    assert "Nobody answered at 10.2.0.1:29500." in told.summary
    assert told.remedy is not None and "nc -vz 10.2.0.1 29500" in told.remedy


BARRIER = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 30, in <module>\n'
    "    dist.monitored_barrier()\n"
    "RuntimeError: Rank 2 failed to pass monitoredBarrier in 60000 ms\n"
    " Original exception:\n"
    "[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 60000ms for recv operation\n"
)
STUCK = (
    "[rank3]:[F605 12:10:00.000 ProcessGroupNCCL.cpp:1169] [PG 0 Rank 3] ProcessGroupNCCL's "
    "watchdog got stuck for 600 seconds without making progress in monitoring enqueued "
    "collectives. This typically indicates a NCCL/CUDA API hang blocking the watchdog.\n"
)
NCCL2 = (
    "[rank2]:[E1130 10:00:00.000000000 ProcessGroupNCCL2.cpp:100] Watchdog caught collective "
    "operation timeout: NCCL operation timed out\n"
)


@pytest.mark.parametrize(("text", "rank"), [(BARRIER, 2), (STUCK, None), (NCCL2, None)])
def test_a_wait_that_tells_neither_collective_nor_phase_is_told_all_the_same(
    tmp_path: Path, text: str, rank: int | None
) -> None:
    (tmp_path / "console.log").write_text(text)
    (told,) = serious(tmp_path)
    assert (told.code, told.where.rank) == ("hang-midrun", rank)
    assert "it may be the first collective" in str(told.evidence)
    assert "console.log:" in str(told.evidence)


def test_the_host_to_which_the_connection_was_lost_is_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_text(
        "[rank0]:[E1130 10:00:00.000000000 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID "
        "0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 812 PG status: "
        "last enqueued work: 812, last completed work: 811\n"
        "socketProgressOpt: Call to recv from 10.0.0.7<51234> failed : Connection reset by peer\n"
    )
    (told,) = serious(tmp_path)
    assert "the connection that was lost was to 10.0.0.7 (" in str(told.evidence)
