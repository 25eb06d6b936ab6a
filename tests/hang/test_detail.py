"""TORCH_DISTRIBUTED_DEBUG=DETAIL: its one line beside dumps, or alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.commands import evidence
from bench.formats import file_walk
from bench.hang.selection import Selection
from bench.judge.docket import Docket
from bench.records import Finding
from tests.hang.job import Call, Job, write

# As torch prints it; github.com/pytorch/torchtitan/issues/2747 has such a pair of shapes.
OPTIONS = "TensorOptions(dtype=float (default), device=cuda)"
SAID = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
    "CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, TensorShape=[1024], "
    f"TensorDtypes=BFloat16, TensorDeviceTypes={OPTIONS}), but Rank 0 is running collective: "
    "CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, TensorShape=[960], "
    f"TensorDtypes=BFloat16, TensorDeviceTypes={OPTIONS}).Collectives differ in the following "
    "aspects: \t Tensor Tensor shapes: 1024vs 960\n"
)


def findings(folder: Path) -> tuple[Finding, ...]:
    gathered, docket = evidence.gather(file_walk.files([str(folder)])), Docket()
    for judge in evidence.JUDGES:
        judge(gathered, docket, Selection())
    return docket.findings


def test_the_one_line_that_detail_prints_is_a_log_even_without_its_traceback(
    tmp_path: Path,
) -> None:
    (tmp_path / "error.txt").write_text(SAID.format(seq=3))
    mismatch, open_ = findings(tmp_path)
    assert (mismatch.code, mismatch.kind) == ("collective-mismatch", "size")
    assert mismatch.where.ranks == (0, 1)
    assert "960 elements" in mismatch.summary and "1,024 elements" in mismatch.summary
    assert (open_.code, open_.kind) == ("not-determinable", "mismatch")


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_dumps_and_the_line_tell_one_difference_once(tmp_path: Path, form: str) -> None:
    program = [Call(), Call(), Call(inputs=[[1024]])]
    odd = [*program[:2], Call(inputs=[[960]])]
    made = Job(2, {0: odd, 1: program})
    write(tmp_path, {rank: made.dump(rank) for rank in range(2)}, form=form)
    (tmp_path / "rank_1.log").write_text(SAID.format(seq=3))
    codes = [finding.code for finding in findings(tmp_path)]
    assert codes == ["collective-mismatch", "not-determinable"]
    quoted = msgspec.json.encode(findings(tmp_path)[0]).decode()
    assert "[960]" in quoted and "rank_1.log:1" in quoted


def test_a_cuda_error_of_a_teardown_accuses_nobody_while_other_logs_are_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "rank_0.log").write_text(
        "INFO starting rank=0 world_size=2\nTraceback (most recent call last):\n"
        '  File "train.py", line 3, in step\n'
        "RuntimeError: CUDA error: unspecified launch failure\n"
    )
    (told,) = findings(tmp_path)
    assert told.code == "not-determinable"
    assert "rank 1 are not at hand" in told.summary
