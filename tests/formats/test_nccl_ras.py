"""Answers of NCCL's RAS: JSON of 2.28 with its missing comma, text of 2.24, ranks of subgroups.

The forms are those of src/ras/client_support.cc and the NCCL User Guide, RAS; counts are made up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats import nccl_ras
from bench.formats.source import Source
from bench.hang import ras_counts
from bench.judge.docket import Docket
from bench.records import BadInput, Finding, RasStatus

BEHIND = [101, 100, 101, 101]


def rank(number: int, count: int, pid: int, **counts: int) -> dict[str, Any]:
    return {
        "rank": number,
        "host": "10.0.77.184",
        "pid": pid,
        "cuda_dev": number,
        "status": {"init_state": 0, "async_error": 0, "abort_flag": False},
        "collective_counts": {"Broadcast": 4, "AllReduce": count, **counts},
    }


def communicator(name: str, counts: Sequence[int], pids: Sequence[int]) -> dict[str, Any]:
    ranks = [rank(n, count, pid) for n, (count, pid) in enumerate(zip(counts, pids, strict=True))]
    return {"hash": name, "size": len(ranks), "ranks": ranks, "missing_ranks": []}


def answer(counts: Sequence[int], *subgroups: dict[str, Any]) -> dict[str, Any]:
    whole = communicator("0x514e98cf", counts, [8813 + n for n in range(len(counts))])
    return {
        "nccl_version": "2.28.9",
        "communicators_count": 1 + len(subgroups),
        "communicators": [whole, *subgroups],
    }


def read(told: object) -> RasStatus:
    text = told if isinstance(told, str) else json.dumps(told)
    assert nccl_ras.likeness(text[:4096], "ras.txt") == 1.0
    return nccl_ras.read(Source.of_text(text))[0]


def judged(*told: object) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    docket = Docket()
    return ras_counts.judge([read(each) for each in told], docket), docket.findings


TEXT = """\
NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======


Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  30 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 4 -- GPU 4 managed by process 483076 on node 172.16.64.210
  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210
"""


def test_the_rank_behind_is_named_once_two_answers_are_alike() -> None:
    parts, (finding,) = judged(answer(BEHIND), answer(BEHIND))
    assert parts["ranks"] == (1,) and finding.where.rank == 1
    assert "launched 100 AllReduce" in finding.summary and "8814" in (finding.remedy or "")


def test_one_answer_alone_proves_nothing() -> None:
    parts, (finding,) = judged(answer(BEHIND))
    assert parts == {} and finding.code == "not-determinable"


def test_halves_that_face_each_other_are_both_innocent() -> None:
    counts = [100, 100, 101, 101]
    _, (finding,) = judged(answer(counts), answer(counts))
    assert finding.code == "not-determinable"


def test_ranks_of_a_subgroup_are_told_by_the_jobs_numbers() -> None:
    sub = communicator("0xTP123", [50, 50, 49], [8814, 8815, 8816])
    told = answer([7, 7, 7, 7], sub)
    parts, _ = judged(told, told)
    assert parts["ranks"] == (3,)


def test_who_is_behind_in_one_and_waits_in_another_is_not_the_root() -> None:
    # rank 1 waits for rank 0 in the pair, and so comes late to everybody's collective
    pair = communicator("0xPAIR", [9, 10], [8813, 8814])
    told = answer([101, 100, 101, 101], pair)
    parts, (finding,) = judged(told, told)
    assert parts == {} and finding.code == "not-determinable"
    assert "waits in another" in finding.summary


def test_text_of_older_versions_tells_the_same() -> None:
    parts, (finding,) = judged(TEXT, TEXT)
    assert parts["ranks"] == (4, 5)
    assert "launched 6,649 collective" in finding.summary


def test_one_rank_in_text_and_ranks_of_a_part_of_the_job() -> None:
    text = TEXT[: TEXT.index("  2 ranks")].replace("  30 ranks have", "  7 ranks have")
    text += "  Rank 7 has launched up to operation 6600 -- "
    text += "GPU 3 managed by process 165 on node n\n"
    parts, (finding,) = judged(text, text)
    assert "Rank 7 of that communicator" in finding.summary and "ranks" not in parts


def test_dead_and_silent_ranks_are_named_though_2_28_9_forgets_a_comma() -> None:
    told = answer([12, 12, 12])
    told["communicators"][0]["missing_ranks"] = [
        {
            "rank": 3,
            "host": "h",
            "pid": 9,
            "status": {"unresponsive": True, "considered_dead": True},
        }
    ]
    text = json.dumps(told, indent=2).replace('"pid": 9,\n', '"pid": 9\n')
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    parts, (finding,) = judged(text)
    assert parts["ranks"] == (3,) and "considered dead" in finding.summary
    _, (other,) = judged(TEXT + "DEAD\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n")
    assert "Process 3487984 on 172.16.64.213" in other.summary


def test_a_healthy_job_is_left_in_peace() -> None:
    assert judged(answer([5, 5, 5]), answer([5, 5, 5])) == ({}, ())


@given(st.text(max_size=200) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["communicators", "ranks", "missing_ranks", "collective_counts", "pid"]),
        inner, max_size=4,
    ),
    max_leaves=12,
).map(lambda told: json.dumps({"communicators": told})))  # fmt: skip
def test_anything_at_all_is_read_or_refused(text: str) -> None:
    try:
        statuses = nccl_ras.read(Source.of_text(text))
    except BadInput:
        return
    ras_counts.judge(list(statuses) * 2, Docket())
