"""Which processes of this host are ranks of a job, found from outside.

In: process ids (a rank's or its launcher's), or none for all that may be looked at. Out: a Found
per rank, with the variables it began with. A rank is the first process of its line that has a
launcher's variable for the rank: its data loaders have inherited it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.hang.watch import proc
from bench.hang.watch.sentry import RANKS
from bench.records import BadInput

MOST = 1024  # ranks of one host
JOB = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT")
JOBS_SHOWN = 4


@dataclass(frozen=True)
class Found:
    """A rank's process."""

    rank: int
    pid: int
    variables: dict[str, str]


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
    return sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _ranks(pids: Sequence[int], top: int | None = None) -> list[Found]:
    told: dict[int, tuple[str, int, dict[str, str]]] = {}
    for pid in pids:
        variables = proc.variables(pid)
        name = next((each for each in RANKS if variables.get(each, "").isdigit()), None)
        launched = name is not None and (name != "RANK" or "WORLD_SIZE" in variables)
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
        found.append(Found(rank, pid, variables))
    launchers = {proc.parent(each.pid) for each in found}
    ranks = [each for each in found if each.pid not in launchers]  # srun's variables, torchrun's
    return sorted(ranks, key=lambda each: (each.rank, each.pid))[:MOST]


def _of(pid: int) -> tuple[str, int, dict[str, str]] | None:
    variables = proc.variables(pid)
    name = next((each for each in RANKS if variables.get(each, "").isdigit()), None)
    return None if name is None else (name, int(variables[name]), variables)
