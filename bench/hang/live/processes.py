"""Which processes of this host are ranks of a job, found from outside.

In: process ids (a rank's or its launcher's), or none for all that may be looked at. Out: a Found
per rank, with the variables it began with. A rank is the first process of its line that has a
launcher's variable for the rank: its data loaders have inherited it. A launcher and the shells
above it have inherited another one, of a node or a task.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hang.watch import proc
from bench.hang.watch.sentry import RANKS
from bench.records import BadInput

MOST = 1024  # ranks of one host
# A rank's variable alone may be somebody's own, or a batch script's, which has no step.
NEEDED = {"RANK": "WORLD_SIZE", "SLURM_PROCID": "SLURM_STEP_ID"}
JOB = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT")
JOBS_SHOWN = 4


@dataclass(frozen=True)
class Found:
    """A rank's process. `by`: the variable that tells the rank."""

    rank: int
    pid: int
    variables: dict[str, str]
    by: str = "RANK"


def find(pids: Sequence[int]) -> list[Found]:
    """Ranks in their order. BadInput for a process that is not there, or is no rank and has none
    below it."""
    if not pids:
        return _one_job(_ranks(_every()))
    found: dict[int, Found] = {}
    for pid in pids:
        if proc.look(pid, -1).state is None:
            raise BadInput(f"there is no process {pid} on this host")
        below = _ranks([pid, *proc.children(pid)], top=pid)
        if not below:
            raise BadInput(
                f"process {pid} is no rank of a job and has none below it, or its variables may "
                "not be read (another user's: as root)"
            )
        found |= {each.pid: each for each in below}
    return sorted(found.values(), key=lambda each: (each.rank, each.pid))


def _one_job(found: list[Found]) -> list[Found]:
    """BadInput where several jobs run here: their ranks have the same numbers."""
    jobs: dict[tuple[str, ...], list[Found]] = {}
    for each in found:
        own = (each.variables.get(name, "") for name in JOB)
        jobs.setdefault(tuple(own), []).append(each)
    if len(jobs) > 1:
        told = "; ".join(
            f"{ranks[0].pid} ({len(ranks)} ranks: {_program(ranks[0].pid)})"
            for ranks in list(jobs.values())[:JOBS_SHOWN]
        )
        raise BadInput(
            f"{len(jobs)} jobs run on this host; name one by its launcher's process, or all its "
            f"ranks'. A rank of each: {told}"
        )
    return found


def _program(pid: int) -> str:
    words = proc.command(pid)
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    return script.rpartition("/")[2] or "?"


def _every() -> list[int]:
    """But for this process and those above it, which a scheduler may have numbered like a rank."""
    pids = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
    return sorted(pids - {os.getpid(), *proc.ancestors(os.getpid())})


def _ranks(pids: Sequence[int], top: int | None = None) -> list[Found]:
    told: dict[int, tuple[str, int, dict[str, str]]] = {}
    for pid in pids:
        variables = proc.variables(pid)
        name = next((each for each in RANKS if variables.get(each, "").isdigit()), None)
        launched = name is not None and NEEDED.get(name, name) in variables
        if name is not None and launched:
            told[pid] = (name, int(variables[name]), variables)
    found = []
    for pid, (name, rank, variables) in told.items():
        parent = proc.parent(pid)
        above = told.get(parent)
        if above is None and pid != top and parent:
            above = _of(parent)
        if above is not None and (above[0], above[1]) == (name, rank) and pid != top:
            continue  # a rank's own child
        found.append(Found(rank, pid, variables, name))
    ranks = _without_launchers(found)
    return sorted(ranks, key=lambda each: (each.rank, each.pid))[:MOST]


def _without_launchers(found: Sequence[Found]) -> list[Found]:
    """Without shells and launchers: those above a rank, with a number that they inherited."""
    by_pid = {each.pid: each for each in found}
    out = set()
    for each in found:
        above = [by_pid[pid] for pid in proc.ancestors(each.pid) if pid in by_pid]
        if any(_is_child(each, one) for one in above):
            out.add(each.pid)
        else:
            out |= {one.pid for one in above}
    return [each for each in found if each.pid not in out]


def _is_child(each: Found, above: Found) -> bool:
    """Whether it has the number of the rank above it, or has lost that one's variable."""
    lost = RANKS.index(above.by) < RANKS.index(each.by)
    return lost or (above.by, above.rank) == (each.by, each.rank)


def _of(pid: int) -> tuple[str, int, dict[str, str]] | None:
    variables = proc.variables(pid)
    name = next((each for each in RANKS if variables.get(each, "").isdigit()), None)
    return None if name is None else (name, int(variables[name]), variables)
