"""Hung jobs of known cause, from their dumps: who is named, who is not, and when nobody is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.hang.selection import Selection, seq_range
from bench.records import BadInput
from tests.hang import judged
from tests.hang.job import Call, Job, same, training

DATA = Path(__file__).resolve().parents[1] / "data" / "flight"


# Real jobs of gloo ------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "code", "kind", "rank"),
    [
        ("gloo_missing", "hang-midrun", None, 2),
        ("gloo_async", "hang-midrun", None, 2),
        ("gloo_otherop", "collective-mismatch", "type", 1),
        ("gloo_order", "collective-mismatch", "order", 1),
        ("gloo_shape_first", "collective-mismatch", "size", 1),
        ("gloo_dtype_first", "collective-mismatch", "dtype", 1),
        ("gloo_shape_silent", "collective-mismatch", "size", 0),
        ("gloo_dtype_silent", "collective-mismatch", "dtype", 1),
    ],
)
def test_a_real_job_is_explained_by_the_rank_at_fault(
    folder: str, code: str, kind: str | None, rank: int
) -> None:
    found = judged.files(DATA / folder)
    assert (found.only.code, found.only.kind, found.only.where.rank) == (code, kind, rank)
    assert found.picture.named == (rank,)
    assert any("gloo_fr.py:" in proof.text for proof in found.only.evidence)


def test_a_real_job_that_ended_well_has_no_finding() -> None:
    found = judged.files(DATA / "gloo_healthy")
    assert found.findings == ()
    assert found.picture.collectives == 15


@pytest.mark.parametrize("folder", ["gloo_detail_shape", "gloo_detail_missing"])
def test_what_detail_mode_hides_is_not_guessed(folder: str) -> None:
    found = judged.files(DATA / folder)
    assert found.codes == ["not-determinable"]
    assert "DETAIL" in found.only.summary
    assert found.picture.named == ()


def test_a_rank_that_died_without_a_dump_is_a_suspect_and_no_more() -> None:
    found = judged.files(DATA / "gloo_died")
    assert found.codes == ["not-determinable"]
    assert (found.picture.missing, found.picture.suspects) == ((2,), (2,))
    assert found.picture.named == ()


def test_the_tutorials_dump_points_to_the_rank_that_never_called() -> None:
    """All its states are "scheduled": they may not be taken for work under way."""
    found = judged.files(DATA / "tutorial")
    assert found.only.where.rank == 1
    assert "all_reduce #4 of main_comm" in found.only.summary
    assert found.only.confidence == "inferred"


def test_two_ranks_that_disagree_are_both_told_and_neither_is_blamed() -> None:
    found = judged.files(DATA / "reduce_scatter", "*[0-9]")
    assert found.codes == ["collective-mismatch", "not-determinable"]
    assert found.findings[0].where.ranks == (0, 1)
    assert found.findings[0].where.rank is None
    assert "[960]" in found.findings[0].summary and "[1024]" in found.findings[0].summary
    assert found.picture.named == ()


# Ranks that never joined ------------------------------------------------------


def cut(world: int, program: list[Call], rank: int, length: int) -> dict[int, list[Call]]:
    programs = same(world, program)
    programs[rank] = programs[rank][:length]
    return programs


@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("ring", [25, 2000])
def test_data_that_ran_out_is_an_end_at_a_whole_number_of_steps(depth: int, ring: int) -> None:
    programs = cut(4, training(20), 2, 1 + 3 * 17)
    found = judged.job(Job(4, programs, depth=depth, ring=ring))
    assert (found.only.code, found.only.where.rank) == ("hang-end", 2)
    assert any("whole number of steps" in proof.text for proof in found.only.evidence)
    assert "drop_last" in (found.only.remedy or "")


def test_half_of_the_ranks_may_end_early_together() -> None:
    programs = cut(4, training(20), 2, 1 + 3 * 17)
    programs[3] = programs[2]
    found = judged.job(Job(4, programs))
    assert (found.only.code, found.only.where.ranks) == ("hang-end", (2, 3))


@pytest.mark.parametrize("extra", [1, 2])
@pytest.mark.parametrize("ring", [25, 2000])
def test_a_rank_that_stops_in_the_middle_of_a_step_did_not_run_out_of_data(
    extra: int, ring: int
) -> None:
    found = judged.job(Job(4, cut(4, training(20), 2, 1 + 3 * 17 + extra), ring=ring))
    assert (found.only.code, found.only.where.rank) == ("hang-midrun", 2)


def test_a_step_of_one_collective_says_nothing_about_the_end() -> None:
    found = judged.job(Job(4, cut(4, [Call()] * 20, 2, 12)))
    assert (found.only.code, found.only.where.rank) == ("hang-midrun", 2)


def test_a_rank_that_left_the_loop_for_something_else_is_an_early_end_too() -> None:
    programs = cut(4, training(20), 2, 1 + 3 * 17)
    programs[2] = [*programs[2], Call(name="barrier", inputs=[])]
    found = judged.job(Job(4, programs))
    assert (found.only.code, found.only.where.rank) == ("collective-mismatch", 2)
    assert found.picture.phase == "end"


def test_the_rank_at_the_end_of_the_chain_is_named_and_not_who_waits_for_it() -> None:
    """Ranks 2 and 3 share a group; 2 waits there for 3, and 0 and 1 for both elsewhere."""
    groups = {"tp0": [0, 1], "tp1": [2, 3]}
    programs = {
        rank: [
            call
            for _ in range(10)
            for call in (Call(group=f"tp{rank // 2}"), Call(group=f"tp{rank // 2}"), Call())
        ]
        for rank in range(4)
    }
    programs[3] = programs[3][:16]
    for depth in (1, 5):
        for backend in ("nccl", "gloo"):
            found = judged.job(Job(4, programs, groups, depth=depth, backend=backend))
            assert found.picture.named == (3,), (depth, backend)


def test_a_rank_that_called_nothing_at_all_is_absent() -> None:
    for backend in ("nccl", "gloo"):
        found = judged.job(Job(4, {**same(4, [Call()] * 3), 1: []}, backend=backend))
        assert (found.only.code, found.only.where.rank) == ("hang-first-collective", 1)


def test_a_call_that_one_rank_alone_makes_blames_nobody() -> None:
    found = judged.job(Job(4, {**same(4, [Call()] * 5), 0: [Call()] * 6}))
    assert found.only.code == "hang-midrun"
    assert "Only rank 0 called" in found.only.summary
    assert found.picture.named == ()


def test_a_missing_dump_is_named_and_not_accused() -> None:
    programs = cut(4, [Call()] * 5, 3, 3)
    found = judged.job(Job(4, programs), [0, 1, 2])
    assert found.only.code == "not-determinable"
    assert (found.only.where.rank, found.only.severity) == (3, "info")
    assert (found.picture.named, found.picture.suspects) == ((), (3,))


def test_proof_against_one_rank_stands_beside_the_missing_dump_of_another() -> None:
    found = judged.job(Job(5, cut(5, [Call()] * 5, 1, 3)), [0, 1, 2, 4])
    assert found.picture.named == (1,)
    assert any("no dump of rank 3" in proof.text for proof in found.only.evidence)


# Where nobody is missing ------------------------------------------------------


def unfinished(made: Job, ranks: list[int], started: list[int] | None = None) -> Job:
    """The newest call of these ranks is not over after all."""
    for rank in ranks:
        made.made[rank][-1].completed_ns = 0
        made.made[rank][-1].started = started is not None and rank in started
    return made


def test_the_first_collective_that_all_joined_points_to_the_path() -> None:
    found = judged.job(unfinished(Job(4, same(4, [Call()])), [0, 1, 2, 3]))
    assert found.only.code == "hang-first-collective"
    assert found.picture.named == ()
    assert "interface" in (found.only.remedy or "")


def test_a_collective_that_all_joined_later_blames_no_rank() -> None:
    found = judged.job(unfinished(Job(4, same(4, [Call()] * 6)), [0, 1, 2, 3]))
    assert found.only.code == "hang-midrun"
    assert found.picture.named == ()


def test_the_rank_that_alone_has_not_finished_is_named() -> None:
    found = judged.job(unfinished(Job(4, same(4, [Call()] * 6)), [1]))
    assert found.picture.named == (1,)


def test_the_rank_whose_gpu_alone_has_not_started_is_named() -> None:
    made = unfinished(Job(4, same(4, [Call()] * 6)), [0, 1, 2, 3], started=[0, 2, 3])
    found = judged.job(made)
    assert found.picture.named == (1,)
    assert "not started" in found.only.summary


# Mismatches -------------------------------------------------------------------


def test_the_majority_is_right_in_whatever_order_the_files_are_read() -> None:
    programs = same(5, [Call()] * 4)
    programs[3] = [Call(), Call(), Call(inputs=[[7]]), Call()]
    made = Job(5, programs)
    for order in ([3, 0, 1, 2, 4], [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]):
        found = judged.job(made, order, name="9{rank}_trace.{rank}")
        assert (found.only.code, found.only.kind) == ("collective-mismatch", "size")
        assert found.picture.named == (3,)


def test_two_against_two_is_level() -> None:
    programs = same(4, [Call()] * 3)
    programs[2] = programs[3] = [Call(), Call(inputs=[[7]]), Call()]
    found = judged.job(Job(4, programs))
    assert found.codes == ["collective-mismatch", "not-determinable"]
    assert found.picture.named == ()


def test_shapes_of_equal_size_fit_together() -> None:
    programs = same(3, [Call(inputs=[[2, 8]])] * 3)
    programs[1] = [Call(inputs=[[16]])] * 3
    assert judged.job(Job(3, programs)).findings == ()


def test_roots_and_uneven_parts_are_no_mismatch() -> None:
    chance = random.Random(7)
    programs = {
        rank: [
            Call(name="gather", inputs=[[4]], outputs=[[3, 4]] if rank == 0 else []),
            Call(name="scatter", inputs=[[3, 4]] if rank == 1 else [], outputs=[[4]]),
            Call(name="all_to_all", inputs=[[chance.randint(1, 9)]], outputs=[[5]]),
            Call(name="all_gather", inputs=[[rank + 1]], outputs=[[1], [2], [3]]),
            Call(name="barrier", inputs=[]),
        ]
        for rank in range(3)
    }
    found = judged.job(Job(3, programs))
    assert found.findings == ()
    assert found.picture.collectives == 5


def test_a_call_that_was_left_out_is_told_as_such() -> None:
    sizes = [[1], [2], [3], [4], [5], [6], [7], [8]]
    programs = same(3, [Call(inputs=[size]) for size in sizes])
    programs[1] = programs[1][:3] + programs[1][4:]
    found = judged.job(Job(3, programs, depth=5))
    assert found.picture.named == (1,)
    assert any("left one out" in proof.text for proof in found.only.evidence)


def test_two_calls_in_the_other_order_are_told_as_such() -> None:
    programs = same(3, [Call(), Call(inputs=[[5]]), Call(name="barrier", inputs=[])])
    programs[2] = [Call(), Call(name="barrier", inputs=[]), Call(inputs=[[5]])]
    found = judged.job(Job(3, programs, depth=4))
    assert (found.only.kind, found.picture.named) == ("order", (2,))


# Order across groups ----------------------------------------------------------


def test_groups_called_in_the_other_order_are_a_ring_that_the_majority_breaks() -> None:
    groups = {"x": range(4), "y": range(4)}
    programs = same(4, [Call(), Call(group="x"), Call(group="y")])
    programs[3] = [Call(), Call(group="y"), Call(group="x")]
    for backend in ("nccl", "gloo"):
        found = judged.job(Job(4, programs, groups, backend=backend))
        assert (found.findings[0].code, found.findings[0].kind) == ("collective-mismatch", "order")
        assert found.picture.named in ((3,), ()), backend  # gloo lists no members of x and y
    assert judged.job(Job(4, programs, groups)).picture.named == (3,)


def test_only_ranks_in_both_groups_have_a_vote_on_their_order() -> None:
    """Rank 0 is in one of the two groups: what it waits in says nothing about their order."""
    groups = {"g": [1, 2]}
    programs = {
        0: [Call(), Call()],
        1: [Call(), Call(group="g"), Call()],
        2: [Call(), Call(), Call(group="g")],
    }
    found = judged.job(Job(3, programs, groups))
    assert found.codes == ["collective-mismatch", "not-determinable"]
    assert found.picture.named == ()


def test_a_ring_of_three_groups_has_no_majority() -> None:
    groups = {"a": [0, 1], "b": [1, 2], "c": [0, 2]}
    programs = {
        0: [Call(), Call(group="a"), Call(group="c")],
        1: [Call(), Call(group="b"), Call(group="a")],
        2: [Call(), Call(group="c"), Call(group="b")],
    }
    found = judged.job(Job(3, programs, groups))
    assert found.codes == ["collective-mismatch", "not-determinable"]
    assert found.picture.named == ()


# Sends and receives -----------------------------------------------------------


def pipeline(rank: int, world: int, steps: int) -> list[Call]:
    calls = [Call()]
    for _ in range(steps):
        if rank:
            calls.append(Call(name="recv", peer=rank - 1))
        if rank < world - 1:
            calls.append(Call(name="send", peer=rank + 1))
    return calls


def test_a_pipeline_that_went_through_has_no_finding() -> None:
    programs = {rank: pipeline(rank, 4, 6) for rank in range(4)}
    assert judged.job(Job(4, programs)).findings == ()


def test_the_rank_that_never_posted_its_half_is_named_once() -> None:
    programs = {rank: pipeline(rank, 4, 6) for rank in range(4)}
    programs[1] = programs[1][:6]
    found = judged.job(Job(4, programs))
    assert (found.only.code, found.picture.named) == ("hang-midrun", (1,))


# Dumps that do not belong -----------------------------------------------------


def test_a_dump_of_an_earlier_moment_accuses_nobody() -> None:
    """Rank 1's file is of minute one; the others have finished work with it since."""
    long, short = Job(3, same(3, [Call()] * 40)), Job(3, same(3, [Call()] * 10))
    unfinished(long, [0, 1, 2])
    dumps = {0: long.dump(0), 1: short.dump(1), 2: long.dump(2)}
    import pickle

    from bench.formats import flight_dump
    from bench.formats.source import Source

    found = judged.of(
        [
            flight_dump.read(Source.of_text(pickle.dumps(dump, protocol=2), f"rank_{rank}"))
            for rank, dump in dumps.items()
        ]
    )
    assert found.picture.named == ()
    assert found.codes == ["not-determinable"]
    assert found.picture.suspects == (1,)


def test_rings_that_do_not_overlap_accuse_nobody() -> None:
    long = unfinished(Job(3, same(3, [Call()] * 400), ring=20), [0, 1, 2])
    short = Job(3, same(3, [Call()] * 100), ring=20)
    long.made[1] = short.made[1]
    found = judged.job(long)
    assert found.picture.named == ()


def test_a_ring_that_forgot_what_is_under_way_is_told() -> None:
    groups = {"g": range(3)}
    programs = same(3, [Call()] + [Call(group="g")] * 30)
    made = Job(3, programs, groups, depth=40, ring=5)
    for rank in range(3):
        made.made[rank][0].completed_ns = 0
    found = judged.job(made)
    assert found.codes == ["not-determinable"]
    assert "forgotten" in found.only.summary


# Ranks that are late ----------------------------------------------------------


def test_the_rank_that_the_others_wait_for_is_named_in_a_job_that_moves() -> None:
    programs = {
        rank: [Call(pause_ns=(400 if rank == 2 else 20) * 1_000_000) for _ in range(40)]
        for rank in range(4)
    }
    made = Job(4, programs)  # whose clocks differ by up to 50 ms
    found = judged.job(made)
    assert (found.only.code, found.only.where.rank) == ("skewed", 2)
    assert found.only.severity == "warning"


def test_equal_ranks_with_different_clocks_are_not_late() -> None:
    chance = random.Random(3)
    programs = {
        rank: [Call(pause_ns=chance.randint(150, 250) * 1_000_000) for _ in range(60)]
        for rank in range(4)
    }
    assert judged.job(Job(4, programs, seed=5)).findings == ()


# Lists ------------------------------------------------------------------------


def test_a_selection_changes_the_list_and_never_the_judgement() -> None:
    groups = {"tp": [0, 1]}
    programs = {r: [Call(), Call(group="tp", name="broadcast"), Call(), Call()] for r in (0, 1)}
    programs[2] = [Call(), Call()]
    made = Job(3, programs, groups)
    everything = judged.job(made)
    assert everything.picture.listed_of == 4
    for selection, listed in (
        (Selection(collectives=("ALLREDUCE",)), 3),
        (Selection(groups=("mesh_tp",)), 1),
        (Selection(ranks=(2,)), 2),
        (Selection(seq=seq_range("2-")), 2),
        (Selection(seq=seq_range("1-2"), collectives=("all_reduce",)), 2),
    ):
        found = judged.job(made, selection=selection)
        assert found.picture.listed_of == listed
        assert found.findings == everything.findings
    row = everything.picture.listed[-1]
    assert (row.seq, row.joined, row.missing) == (3, 2, (2,))


def test_a_selection_that_nothing_passes_says_what_there_is() -> None:
    with pytest.raises(BadInput, match="all_reduce"):
        judged.job(Job(2, same(2, [Call()])), selection=Selection(groups=("pp",)))
    for text in ("x", "3-1", "-", "1 2"):
        with pytest.raises(BadInput, match="--seq"):
            seq_range(text)
