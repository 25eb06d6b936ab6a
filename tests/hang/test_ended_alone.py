"""Who had come to its end while others waited: told by a last word, not by a word on the way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.formats import rank_log
from bench.formats.rank_log import progress
from bench.formats.source import Source
from bench.hang import logs
from bench.judge.docket import Docket
from bench.records import Finding

LOADING = (
    "loading annotations into memory...",
    "Done (t=12.43s)",
    "creating index...",
    "index created!",
)
TIME_OUT = (
    "[rank0]:[E1130 18:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=4096, "
    "NumelOut=4096, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
)
STEPS = ("step 410/2000 loss=1.9", "step 411/2000 loss=1.8")


def judged(odd: Sequence[str], silent: Sequence[str] = LOADING) -> tuple[Finding, ...]:
    """Rank 0 logs its steps and times out; ranks 1 and 2 are ended without a word; of rank 3 the
    lines are given."""
    files = [(*LOADING, *STEPS, TIME_OUT), silent, silent, odd]
    docket = Docket()
    read = [
        rank_log.of(Source.of_text("\n".join(lines) + "\n", f"rank{rank}.log"))
        for rank, lines in enumerate(files)
    ]
    logs.judge(read, docket)
    return docket.findings


def named(findings: Sequence[Finding]) -> set[int | None]:
    return {f.where.rank for f in findings if f.code == "hang-end"}


def test_what_a_loader_has_done_at_the_start_is_no_end() -> None:
    findings = judged(LOADING)
    assert [f.code for f in findings] == ["hang-midrun", "not-determinable"], findings


@pytest.mark.parametrize(
    "line",
    [
        "Training tokenizer: training complete.",
        "dry run finished",
        "Epoch 1 finished",
        "Finished all checks",
    ],
)
def test_an_end_behind_which_the_program_goes_on_is_none(line: str) -> None:
    lines = (*LOADING, line, "building the model", "")
    assert not named(judged(lines, lines))
    assert not named(judged(lines))


@pytest.mark.parametrize(
    "last",
    [
        (),
        ("done",),
        ("2026-11-30 17:28:46,107 INFO done rank=3", "", "---"),
        ("destroying the process group", "wandb: Synced 5 files", "Bye!"),
        ("slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-30T18:10:00 ***",),
        ("node1:88:88 [0] NCCL INFO comm 0x5581 rank 3 nranks 4 - Destroy COMPLETE",),
    ],
)
def test_an_end_that_is_the_last_word_is_one(last: Sequence[str]) -> None:
    assert named(judged((*STEPS, "Training complete", *last))) == {3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Done (t=12.43s)", False),
        ("done", False),
        ("Epoch 3 done", True),
        ("training is complete", True),
        ("Finished training", True),
    ],
)
def test_an_end_says_of_what(text: str, expected: bool) -> None:
    assert progress.ended(text) is expected
