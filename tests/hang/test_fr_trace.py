"""torchfrtrace's own output: taken at its word where it is sure, counted where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formats import fr_trace_text
from bench.formats.source import Source
from bench.hang import fr_trace
from bench.judge.docket import Docket
from bench.records import BadInput, Finding

# pytorch/tutorials, debug_hangs_with_flight_recorder.rst
JOINING = """Not all ranks joining collective, sequence number: 4
internal record id: 4
group info: main_comm:gloo
collective: nccl:all_reduce
missing ranks: {1}
input sizes: [[1024]]
output sizes: [[1024]]
world size: 2
expected ranks: {0, 1}
collective state: scheduled
"""
TABLE = """--- Collectives ---
  id  group_id    pass_check  collective_seq_id  collective_name    collective_state  missing_ranks
   3  main_comm   True        3                  nccl:broadcast     scheduled
   4  main_comm   True        4                  nccl:all_reduce    scheduled         {1}

--- NCCL Calls ---
   8                 main_comm            0  nccl:all_reduce
"""
# As torch 2.13 prints it when the odd rank's file was read first.
ERRORS = """2026-11-30 10:00:00,000 INFO: Collective sequence number: 7 has errors
internal record id: 6
group info: 0:default_pg
collective: nccl:all_reduce
input sizes: [[512]]
expected ranks: {{0, 1, 2, 3}}
error msg: {culprits}
"""


def judged(text: str) -> tuple[fr_trace.Named, tuple[Finding, ...]]:
    assert fr_trace_text.likeness(text, "out.txt") > 0.5
    docket = Docket()
    named = fr_trace.judge(fr_trace_text.read(Source.of_text(text)), docket)
    return named, docket.findings


@pytest.mark.parametrize("text", [JOINING, TABLE])
def test_who_did_not_join_is_taken_at_its_word(text: str) -> None:
    named, (finding,) = judged(text)
    assert named.ranks == (1,)
    assert finding.where.rank == 1
    assert "all_reduce #4 of main_comm" in finding.summary


def culprits(*ranks: int) -> str:
    why = "Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[512]]'"
    return ERRORS.format(culprits=", ".join(f"Culprit rank {rank}; {why}" for rank in ranks))


def test_the_smaller_side_is_odd_whichever_dump_was_read_first() -> None:
    assert judged(culprits(2))[0].ranks == (2,)
    named, (finding,) = judged(culprits(0, 1, 3))
    assert named.ranks == (2,)
    assert (finding.code, finding.kind) == ("collective-mismatch", "size")
    assert judged(culprits(0, 1))[0].ranks == ()


def test_missing_dumps_are_suspects() -> None:
    named, (finding,) = judged("because we missed FR dumps from ranks ({8}) so we don't have\n")
    assert (named.ranks, named.suspects) == ((), (8,))
    assert finding.code == "not-determinable"


def test_a_text_without_complaint_is_refused() -> None:
    with pytest.raises(BadInput):
        fr_trace_text.read(Source.of_text("nothing is wrong\n"))
    assert fr_trace_text.likeness("nothing is wrong\n", "x") == 0


def test_the_whole_command_prefers_the_dumps(tmp_path: Path) -> None:
    import io
    import json

    from bench.cli import main

    (tmp_path / "out.txt").write_text(JOINING)
    out = io.StringIO()
    assert main(["diagnose", str(tmp_path), "--json"], out) == 0
    told = json.loads(out.getvalue())
    assert (told["ranks"], told["flight"]) == ([1], None)
