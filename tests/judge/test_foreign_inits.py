"""A rank whose "Init COMPLETE" is missing: it hangs, or the line is only not in the file."""

from __future__ import annotations

import pytest

from bench.formats.source import Source
from bench.records import Finding, Reading
from tests.judge.evidence import judged_from

TABLE = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid     11 on      hostA device  0 [0x01] NVIDIA A40
#  Rank  1 Group  0 Pid     12 on      hostA device  1 [0x02] NVIDIA A40
"""
ROWS = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   \
algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  \
(GB/s)  (GB/s)
           8             2     float     sum      -1    20.10    0.00    0.00      0    20.10    \
0.00    0.00      0
          16             4     float     sum      -1    20.10    0.00    0.00      0    20.10    \
0.00    0.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.0008
"""


def line(rank: int, ends: str, ranks: int = 2, comm: str = "0x9") -> str:
    return (
        f"hostA:{11 + rank}:{31 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank "
        f"{rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId {comm} - "
        f"Init {ends}\n"
    )


def said(rank: int, text: str) -> str:
    return f"hostA:{11 + rank}:{31 + rank} [{rank}] NCCL INFO {text}\n"


def timed(rank: int, ranks: int = 2) -> str:
    return said(rank, f"Init timings - ncclCommInitRank: rank {rank} nranks {ranks} total 0.61")


def judged(*texts: str) -> Reading:
    return judged_from(*(Source.of_text(text, f"rank{at}.log") for at, text in enumerate(texts)))


def hangs(*texts: str) -> list[Finding]:
    return [f for f in judged(*texts).findings if f.code == "hang-init"]


STARTS = "".join(line(rank, "START", 4) for rank in range(4))
COMPLETES = [line(rank, "COMPLETE", 4) for rank in range(4)]


@pytest.mark.parametrize(
    "rest",
    [
        "".join(COMPLETES[:2]),
        "".join(COMPLETES[:3]),
        COMPLETES[0] + timed(0, 4) + COMPLETES[1] + timed(1, 4),
        COMPLETES[0] + COMPLETES[1] + timed(0, 4) + timed(1, 4) + "\n",
        COMPLETES[0] + said(1, "Connected all rings") + COMPLETES[1],
        COMPLETES[0] + COMPLETES[1] + said(3, "Connected all rings"),
    ],
)
def test_a_log_that_ends_among_these_lines_may_be_cut(rest: str) -> None:
    (found,) = hangs(STARTS + rest)
    assert found.severity == "info"
    assert "or the log was cut here" in found.summary
    assert "of 4 ranks completed, rank" in found.summary


@pytest.mark.parametrize(
    "rest",
    [
        said(1, "Imported shareable buffer device 1 size 2097152 ptr 0x30200")
        + "".join(COMPLETES[::2]),
        "".join(COMPLETES[:3]) + said(0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
        "".join(COMPLETES[:3]) + line(0, "START", 2, "0x77"),
        "".join(COMPLETES[:3]) + "Epoch 0: training begins\nstep 1\nstep 2\n",
        "".join(COMPLETES[:3])
        + "otherhost:77:77 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n",
    ],
)
def test_a_rank_that_lags_while_others_go_on_hangs(rest: str) -> None:
    (found,) = hangs(STARTS + rest)
    assert found.severity == "broken"


def test_a_log_per_rank_has_no_common_end() -> None:
    texts = [line(rank, "START", 4) + (COMPLETES[rank] if rank else "") for rank in range(4)]
    (found,) = hangs(*texts)
    assert (found.severity, found.where.rank) == ("broken", 0)


LOG = line(0, "START") + line(1, "START") + line(0, "COMPLETE")
DESTROYED = said(1, "comm 0xa1 rank 1 nranks 2 cudaDev 1 busId 2000 - Destroy COMPLETE")


def test_what_is_destroyed_was_initialised() -> None:
    assert hangs(LOG + DESTROYED + said(0, "something else")) == []


def test_results_of_all_ranks_prove_that_they_were_there() -> None:
    assert hangs(TABLE + LOG + ROWS) == []
    assert hangs(LOG + TABLE + ROWS) == []
    (found,) = hangs(TABLE + LOG + said(0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"))
    assert found.severity == "broken"  # a table without rows proves nothing


def test_results_of_an_earlier_run_prove_nothing_of_the_next() -> None:
    first = TABLE + LOG.replace("0x9", "0x8") + line(1, "COMPLETE", comm="0x8") + ROWS
    second = LOG.replace("hostA:1", "hostA:5") + said(0, "x").replace("hostA:1", "hostA:5")
    (found,) = hangs(first + second)
    assert found.severity == "broken"
    assert "0x9" in found.summary
    # And those of a later one nothing of the one before.
    (found,) = hangs(LOG + said(0, "x") + first.replace("hostA:1", "hostA:5"))
    assert "0x9" in found.summary
