"""What srun writes of its tasks' ends: lists of tasks, Slurm's own kills, agents of nodes."""

from __future__ import annotations

import pytest

from bench.formats import rank_log
from bench.formats.rank_log import srun_tasks
from bench.formats.source import Source
from bench.hang import logs
from bench.judge.docket import Docket
from bench.records import RankLog


def of(*lines: str) -> RankLog:
    return rank_log.of(Source.of_text("\n".join(lines) + "\n", "slurm-1.out"))


def killed(log: RankLog) -> set[int | None]:
    """Ranks of which a finding says that they were killed; None for one without a rank."""
    docket = Docket()
    logs.judge([log], docket)
    told = [each for each in docket.findings if each.kind == "killed"]
    return {rank for each in told for rank in each.where.ranks or (each.where.rank,)}


@pytest.mark.parametrize(
    ("tasks", "how", "ranks", "code"),
    [
        ("task 12", "Killed", (12,), -9),
        ("tasks 1-3", "Out Of Memory", (1, 2, 3), -9),
        ("tasks 0,3-5", "Segmentation fault (core dumped)", (0, 3, 4, 5), -11),
        ("tasks 8-9", "Exited with exit code 1", (8, 9), 1),
        ("tasks 8-9", "Exited with exit code 139", (8, 9), -11),
        ("task 7", "Bus error", (7,), -7),
        ("tasks 0-0,x", "Killed", (), None),
    ],
)
def test_every_task_of_a_line_has_its_exit(
    tasks: str, how: str, ranks: tuple[int, ...], code: int | None
) -> None:
    exits = of(f"srun: error: nid001277: {tasks}: {how}").exits
    assert [(e.rank, e.host, e.code, e.message) for e in exits] == [
        (rank, "nid001277", code, how) for rank in ranks
    ]


def test_lists_of_hosts_name_none_and_lists_of_tasks_end() -> None:
    (first, *others) = of("srun: error: n[1-2],x: tasks 0-9999999: Terminated").exits
    assert (first.host, len(others) + 1) == (None, srun_tasks.MOST_TASKS)


def test_tasks_without_memory_are_told_together() -> None:
    log = of("srun: error: nid001277: tasks 1-3: Out Of Memory")
    assert [(sign.kind, sign.role) for sign in log.signs] == [("killed", "fault")]
    assert killed(log) == {1, 2, 3}


@pytest.mark.parametrize(
    "before",
    [
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "srun: First task exited 60s ago",
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-30T10:00:00 ***",
        "srun: Terminating StepId=1.0",
        "srun: error: n1: task 0: Exited with exit code 1",
    ],
)
def test_whom_slurm_kills_is_no_cause(before: str) -> None:
    log = of(before, "srun: error: n1: tasks 1-7: Killed")
    assert [e.code for e in log.exits if e.rank] == [None] * 7
    assert not killed(log)
    assert killed(of("srun: error: n1: tasks 1-2: Killed", before)) == {1, 2}


def test_a_killed_task_is_one_until_the_step_is_told_to_end() -> None:
    log = of(
        "srun: error: n1: task 3: Killed",
        "srun: Terminating StepId=1.0",
        "srun: error: n1: tasks 0-2: Exited with exit code 137",
    )
    assert killed(log) == {3}


def test_a_file_of_nothing_but_slurms_words_has_no_host_of_that_name() -> None:
    log = of(*(f"srun: error: n{at}: task {at}: Killed" for at in range(4)))
    assert [(left.rank, left.host) for left in log.exits] == [(at, f"n{at}") for at in range(4)]


@pytest.mark.parametrize(
    "line",
    [
        "E1130 10:00:00 7 api.py:984] failed (exitcode: -9) local_rank: 3 (pid: 77) of binary: x",
        "+ srun torchrun --nnodes 4 train.py",
        "[2026-11-30 10:00:00,000] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 7",
    ],
)
def test_a_task_that_is_a_nodes_agent_is_no_rank(line: str) -> None:
    log = of(line, "srun: error: node3: task 3: Out Of Memory")
    assert not any(left.rank is not None for left in log.exits)
    assert killed(log) <= {None}
