"""Which processes of a host are ranks: trees of processes with the variables they began with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import pytest

from bench.hang.live import processes
from bench.hang.watch import proc
from bench.records import BadInput

Tree = Mapping[int, tuple[int, Mapping[str, str]]]  # by process id: its parent, its variables

BATCH = {"SLURM_JOB_ID": "9", "SLURM_PROCID": "0"}
TASK = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}


def agent(variables: Mapping[str, str], rank: int) -> dict[str, str]:
    """What torchrun adds for a rank."""
    own = {"RANK": str(rank), "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none"}
    return {**variables, **own}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tree], None]:
    def set_up(tree: Tree) -> None:
        monkeypatch.setattr(proc, "parent", lambda pid: tree[pid][0] if pid in tree else 0)
        monkeypatch.setattr(
            proc, "variables", lambda pid: dict(tree[pid][1] if pid in tree else {})
        )
        monkeypatch.setattr(processes, "_every", lambda: sorted(tree))

    return set_up


def ranks(found: Sequence[processes.Found]) -> list[tuple[int, int]]:
    return [(each.rank, each.pid) for each in found]


TREES: dict[str, tuple[Tree, list[tuple[int, int]]]] = {
    "a batch script and torchrun": (
        {
            10: (1, BATCH),
            11: (10, BATCH),
            12: (11, agent(BATCH, 0)),
            13: (11, agent(BATCH, 1)),
            14: (13, agent(BATCH, 1)),
        },
        [(0, 12), (1, 13)],
    ),
    "the batch script beside the step that it started": (
        {
            10: (1, BATCH),
            11: (10, BATCH),
            19: (1, {}),
            20: (19, TASK),
            21: (20, TASK),
            22: (21, agent(TASK, 4)),
            23: (21, agent(TASK, 5)),
        },
        [(4, 22), (5, 23)],
    ),
    "tasks of srun without another launcher": (
        {
            10: (1, BATCH),
            20: (19, {**TASK, "SLURM_PROCID": "0"}),
            21: (19, TASK),
            22: (21, TASK),
        },
        [(0, 20), (1, 21)],
    ),
    "a rank whose grandchild has lost its variable": (
        {
            20: (19, TASK),
            22: (20, agent(TASK, 4)),
            23: (22, {"PATH": "/bin"}),
            24: (23, TASK),
            25: (23, agent(TASK, 4)),
        },
        [(4, 22)],
    ),
    "a launcher that an operator has numbered": (
        {
            20: (1, {"RANK": "1", "WORLD_SIZE": "2"}),
            21: (20, {"RANK": "1", "WORLD_SIZE": "2"}),
            22: (21, agent({}, 4)),
            23: (21, agent({}, 5)),
        },
        [(4, 22), (5, 23)],
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_shells_and_launchers_are_no_ranks(host: Callable[[Tree], None], name: str) -> None:
    tree, expected = TREES[name]
    host(tree)
    assert ranks(processes.find([])) == expected


def test_two_jobs_are_still_two(host: Callable[[Tree], None]) -> None:
    other = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "other"}
    host({12: (1, agent({}, 0)), 13: (1, other)})
    with pytest.raises(BadInput, match="2 jobs run on this host"):
        processes.find([])


def test_whoever_asks_is_no_rank() -> None:
    assert not {os.getpid(), *proc.ancestors(os.getpid())} & set(processes._every())
    assert os.getppid() in proc.ancestors(os.getpid())
