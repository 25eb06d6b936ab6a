"""Hung jobs of known cause, from their dumps: who is named, who is not, and when nobody is."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from bench.formats import flight_dump
from bench.formats.source import Source
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
    made = Job(4, same(4, [Call()] * 6), timing=range(4))
    found = judged.job(unfinished(made, [0, 1, 2, 3], started=[0, 2, 3]))
    assert found.picture.named == (1,)
    assert "not started" in found.only.summary


@pytest.mark.parametrize("ring", [1, 2000])
def test_a_dump_without_starts_says_nothing_about_its_gpu(ring: int) -> None:
    """TORCH_NCCL_ENABLE_TIMING is exported on three of four hosts."""
    made = Job(4, same(4, [Call()] * 6), timing=(0, 2, 3), ring=ring)
    found = judged.job(unfinished(made, [0, 1, 2, 3], started=[0, 2, 3]))
    assert found.only.code == "hang-midrun"
    assert found.picture.named == ()
    assert "All 4 ranks" in found.only.summary


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


@pytest.mark.parametrize(("dumped", "named"), [(range(3), ()), (range(5), (2,))])
def test_a_majority_of_those_that_left_dumps_convicts_nobody(
    dumped: range, named: tuple[int, ...]
) -> None:
    """Of seven ranks: those without a dump may have called what the odd one did."""
    programs = same(7, [Call()] * 12)
    programs[2] = [*programs[2][:9], Call(name="barrier", inputs=[]), Call()]
    found = judged.job(Job(7, programs), list(dumped))
    assert found.findings[0].code == "collective-mismatch"
    assert found.picture.named == named
    if not named:
        assert found.codes[1:] == ["not-determinable"]
        assert "of its 7 members" in found.findings[1].summary


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


def test_a_missing_dump_could_turn_the_order_of_two_groups() -> None:
    groups = {"x": range(4), "y": range(4)}
    programs = same(4, [Call(), Call(group="x"), Call(group="y")])
    programs[3] = [Call(), Call(group="y"), Call(group="x")]
    found = judged.job(Job(4, programs, groups), [0, 1, 3])
    assert found.picture.named == ()
    assert found.codes == ["collective-mismatch", "not-determinable"]


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


def pipelined(world: int = 4) -> Job:
    return Job(world, {rank: pipeline(rank, world, 6) for rank in range(world)})


def test_a_link_that_is_dead_from_the_start_blames_no_rank() -> None:
    """Rank 3's first receive is posted as well as rank 2's send."""
    made = pipelined()
    made.made[2] = made.made[2][:3]
    made.made[3] = made.made[3][:2]
    unfinished(made, [2, 3])
    made.made[0], made.made[1] = made.made[0][:2], made.made[1][:3]
    found = judged.job(made)
    assert (found.only.code, found.picture.named) == ("not-determinable", ())
    assert "rank 2 in send to rank 3" in found.only.summary
    assert "which has posted the recv" in found.only.summary
    assert found.picture.undecided


def test_a_send_posted_before_a_receive_that_is_over_is_posted() -> None:
    """Rank 1's send to rank 2 is still open, its later receive is over."""
    send, recv = Call(name="send", peer=2), Call(name="recv", peer=0)
    back = Call(name="recv", peer=1)
    programs = {
        0: [Call(name="send", peer=1)] * 2,
        1: [recv, send, send, recv],
        2: [back, back],
    }
    made = Job(3, programs, depth=4)
    made.made[1][2].completed_ns = made.made[2][1].completed_ns = 0
    found = judged.job(made)
    assert (found.only.code, found.picture.named) == ("not-determinable", ())
    assert "rank 2 in recv from rank 1" in found.only.summary


def test_who_receives_from_each_other_is_told_and_nobody_is_named() -> None:
    programs = {
        rank: [
            Call(),
            *(Call(name=name, peer=1 - rank) for name in ("send", "recv")[:: 1 - 2 * rank]),
            Call(name="recv", peer=1 - rank),
        ]
        for rank in (0, 1)
    }
    found = judged.job(Job(2, programs))
    assert found.codes == ["hang-midrun", "not-determinable"]
    assert found.findings[0].where.ranks == (0, 1) and found.picture.named == ()
    assert "rank 0 in recv from rank 1" in found.findings[0].summary
    assert "rank 1 in recv from rank 0" in found.findings[0].summary


def test_a_receive_and_a_collective_that_wait_for_each_other_are_told() -> None:
    programs = {
        0: [Call(name="send", peer=1), Call()],
        1: [Call(name="recv", peer=0), Call(name="recv", peer=0)],
    }
    found = judged.job(Job(2, programs))
    assert found.codes == ["hang-midrun", "not-determinable"]
    assert found.findings[0].where.ranks == (0, 1) and found.picture.named == ()


@pytest.mark.parametrize("ring", [3, 2000])
def test_an_older_dump_is_not_where_a_send_waits_for_its_half(ring: int) -> None:
    """Rank 3's file ends before sends that rank 2 has finished with it."""
    world, steps = 4, 600
    programs = {rank: pipeline(rank, world, steps) for rank in range(world)}
    long = Job(world, programs, ring=ring)
    long.made[2][-1].completed_ns = 0
    short = Job(world, {rank: calls[:301] for rank, calls in programs.items()}, ring=ring)
    short.made[3] = short.made[3][:90]
    found = judged.dumps({**{r: long.dump(r) for r in range(3)}, 3: short.dump(3)})
    assert found.picture.named == ()
    assert found.codes == ["not-determinable"]


def batched(dump: dict[str, Any]) -> dict[str, Any]:
    """Sends as batches of one: torch marks the closing entry and never the call."""
    entries: list[dict[str, Any]] = []
    for number, entry in enumerate(dump["entries"], 1):
        if not entry["is_p2p"]:
            entries.append(entry)
            continue
        call = entry | {"state": "scheduled", "retired": False, "collective_seq_id": number}
        closing = entry | {"profiling_name": "nccl:coalesced", "collective_seq_id": number}
        for each in (call | {"time_discovered_completed_ns": None}, closing):
            entries.append(each | {"record_id": len(entries)})
    return dump | {"entries": entries}


@pytest.mark.parametrize("stops", [True, False])
def test_calls_of_a_batch_are_over_with_its_closing_entry(stops: bool) -> None:
    programs = {rank: pipeline(rank, 3, 6) for rank in range(3)}
    if stops:
        programs[1] = programs[1][:6]
    found = judged.dumps({rank: batched(Job(3, programs).dump(rank)) for rank in range(3)})
    assert found.picture.named == ((1,) if stops else ())
    assert found.codes == (["hang-midrun"] if stops else [])


@pytest.mark.parametrize("ring", [8, 2000])
def test_ranks_in_an_exchange_that_both_have_posted_are_not_absent(ring: int) -> None:
    """The link between ranks 2 and 3 dies; ranks 0 and 1 wait for both in an all_reduce."""
    programs = {rank: [*pipeline(rank, 4, 6), Call()] for rank in range(4)}
    made = Job(4, programs, ring=ring)
    for rank in (2, 3):
        del made.made[rank][-1]
    unfinished(made, [0, 1, 2, 3])
    found = judged.job(made)
    assert (found.only.code, found.picture.named) == ("not-determinable", ())
    assert "rank 2 in send to rank 3" in found.only.summary


def test_who_waits_in_its_first_receive_is_not_absent() -> None:
    """Rank 2 called nothing after the first all_reduce; rank 3 waits for its first send."""
    programs = {rank: [*pipeline(rank, 4, 1), Call()] for rank in range(4)}
    programs[2] = programs[2][:1]
    programs[1] = [programs[1][0], programs[1][1], programs[1][3]]
    assert judged.job(Job(4, programs)).picture.named == (2,)


def test_a_half_that_is_over_was_posted() -> None:
    """The sender's end was not yet seen, the receiver's was."""
    found = judged.job(unfinished(pipelined(), [0]))
    assert (found.only.code, found.picture.named) == ("not-determinable", ())


def test_a_send_to_a_rank_without_a_dump_makes_that_a_suspect() -> None:
    made = unfinished(pipelined(), [2])
    found = judged.job(made, [0, 1, 2])
    assert (found.only.code, found.picture.suspects) == ("not-determinable", (3,))
    assert "rank 2 in send to rank 3" in found.only.summary


def test_numbers_that_do_not_belong_together_hide_no_hang() -> None:
    """A batch of sends takes a collective's number; the ring no longer holds the group's start."""
    made = unfinished(Job(3, same(3, [Call()] * 30), ring=8), [0, 1, 2])
    dumps = {rank: made.dump(rank) for rank in range(3)}
    for rank, peer in ((0, 1), (1, 0)):
        entry = dumps[rank]["entries"][0]
        entry["profiling_name"] = f"nccl:{'send' if rank == 0 else 'recv'} {rank}"
        entry["profiling_name"] += f"{'->' if rank == 0 else '<-'}{peer}"
        entry["is_p2p"] = True
        entry["collective_seq_id"] = dumps[rank]["entries"][1]["collective_seq_id"]
        dumps[rank]["entries"][1]["profiling_name"] = "nccl:coalesced"
    found = judged.dumps(dumps)
    assert found.picture.incomparable == ("default_pg",)
    assert (found.only.code, found.picture.undecided) == ("not-determinable", True)
    assert "ranks 0-2 in a collective of default_pg" in found.only.summary


# Dumps that do not belong -----------------------------------------------------


def test_a_dump_of_an_earlier_moment_accuses_nobody() -> None:
    """Rank 1's file is of minute one; the others have finished work with it since."""
    long, short = Job(3, same(3, [Call()] * 40)), Job(3, same(3, [Call()] * 10))
    unfinished(long, [0, 1, 2])
    found = judged.dumps({0: long.dump(0), 1: short.dump(1), 2: long.dump(2)})
    assert found.picture.named == ()
    assert found.codes == ["not-determinable"]
    assert found.picture.suspects == (1,)


@pytest.mark.parametrize("ring", [5, 2000])
@pytest.mark.parametrize("again", [True, False])
def test_the_last_attempt_is_judged_though_its_culprit_left_no_dump(
    ring: int, again: bool
) -> None:
    """Attempt 0 left all dumps and looks as if rank 1 had held it up; of attempt 1 rank 2's is
    missing. The same process's dumps of two moments, whose records go on, are no two attempts."""
    first = Job(4, cut(4, [Call()] * 9, 1, 7), ring=ring)
    second = Job(4, cut(4, [Call()] * 8, 2, 5), ring=ring)
    dumps = []
    for attempt, made in enumerate((first, second)):
        for rank in (0, 1, 2, 3) if attempt == 0 else (0, 1, 3):
            told = made.dump(rank)
            for entry in told["entries"] if attempt else ():
                entry["time_created_ns"] += 60_000_000_000
                entry["record_id"] += 0 if again else 9
            source = Source.of_text(
                pickle.dumps(told, protocol=2), f"attempt_{attempt}/nccl_trace_rank_{rank}"
            )
            dumps.append(flight_dump.read(source))
    found = judged.of(dumps)
    if not again:
        assert all("attempt" not in why for _, why in found.picture.left_out)
        return
    assert (found.picture.named, found.picture.suspects) == ((), (2,))
    assert {why for _, why in found.picture.left_out} == {"of an earlier attempt"}
    assert len(found.picture.left_out) == 4


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
@pytest.mark.parametrize("hangs", [True, False])
def test_work_that_ended_later_shows_an_older_dump_whatever_came_next(
    name: str, hangs: bool
) -> None:
    """A broadcast may end without rank 3; the all_reduces after it may not."""
    step = [Call(name=name), *[Call()] * 8]
    long, short = Job(4, same(4, step * 4)), Job(4, same(4, (step * 4)[:18]))
    if hangs:
        unfinished(long, [0, 1, 2])
    else:
        unfinished(short, [3])
    found = judged.dumps({**{rank: long.dump(rank) for rank in range(3)}, 3: short.dump(3)})
    assert found.picture.named == ()
    assert "broken" not in {finding.severity for finding in found.findings}
    if hangs:
        assert found.picture.suspects == (3,)


def test_numbers_that_a_cuda_graph_took_are_no_calls() -> None:
    """#6 to #400 were captured: torch numbers them and records none."""
    made = Job(4, {**same(4, [Call()] * 6), 3: [Call()] * 5})
    for rank in range(3):
        made.made[rank][-1].seq = 401
    found = judged.job(made)
    assert (found.only.code, found.picture.named) == ("hang-midrun", (3,))
    assert "#401" in found.only.summary


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
