"""Who started this rank, as which of how many, and where the ranks meet.

In: the environment. Out: a `Launch`. torchrun is believed first; without it srun, mpirun or
mpiexec (scheduler). Rank 0 then hosts the store itself, at MASTER_ADDR:MASTER_PORT where they are
set, else on the first host of Slurm's list at a port derived from the job's id. What is missing or
contradicts itself is one sentence (BadInput). Imports no torch: the sentence comes at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec

from bench.formats import host_list
from bench.measure import scheduler
from bench.measure.scheduler import Task, number
from bench.records import BadInput

# Below what Linux hands out by itself (from 32768) and above the schedulers' own.
FIRST_PORT, PORTS = 15000, 10000
# A process in whose environment one of these stands was started as a rank, or means to be one.
TELLTALES = ("TORCHELASTIC_RUN_ID", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Where this rank sits among all."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    node: int
    nodes: int
    mates: tuple[int, ...] = ()  # this node's ranks, where they need not follow each other

    @property
    def leads(self) -> bool:
        """One rank of each node reads its facts and counters."""
        return self.local_rank == 0

    @property
    def node_ranks(self) -> tuple[int, ...]:
        """The ranks of this node, in order."""
        first = self.rank - self.local_rank
        return self.mates or tuple(range(first, first + self.local_ranks))


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's start. `seat` is None where only the ranks together can tell it (seating)."""

    launcher: str
    rank: int
    ranks: int
    seat: Seat | None = None
    host: str
    port: int
    named_by: str = "MASTER_ADDR"  # what told the host
    own_store: bool  # the store is in rank 0's own process, not in torchrun's
    run: str
    restart: str = "0"
    node_gpus: int | None = None  # how many GPUs the scheduler gave to this node

    @property
    def prefix(self) -> str:
        """Of all keys in the store: another run that meets at the same place has others."""
        return f"bench/{self.run}/{self.restart}"

    @property
    def store_name(self) -> str:
        return "rank 0's store" if self.own_store else "torchrun's store"


def read(environ: Mapping[str, str]) -> Launch:
    """How this process was started; BadInput where that is not to be told for certain."""
    if "TORCHELASTIC_RUN_ID" in environ:
        return _torchrun(environ)
    slurm, pmi = scheduler.slurm(environ), scheduler.pmi(environ)
    if slurm is not None and pmi is not None and slurm.agrees(pmi):
        pmi = None  # srun speaks PMI too
    inner_first = (scheduler.by_hand(environ), scheduler.open_mpi(environ), pmi, slurm)
    tasks = [task for task in inner_first if task is not None]
    if not tasks:
        _refuse_halves(environ)
        return _torchrun(environ)
    chosen = tasks[0]
    for other in tasks[1:]:
        if chosen.agrees(other):
            if chosen.job is None or other.launcher == "Slurm":
                chosen = other  # it says more: the job's id, a list of hosts
        elif not (other.alone_on_node and other.ranks != chosen.ranks):
            raise BadInput(
                f"{chosen} and {other} contradict each other: start it by one launcher, without "
                "the variables of another"
            )
    _refuse_leftovers(environ, chosen)
    return _scheduled(environ, chosen, slurm)


def _torchrun(environ: Mapping[str, str]) -> Launch:
    """Through torchrun's own variables; BadInput where they are not all there."""

    def optional(name: str, otherwise: int) -> int:
        return int(environ.get(name, otherwise))

    try:
        rank, ranks = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
        local = optional("LOCAL_WORLD_SIZE", 1)
        seat = Seat(
            rank=rank, ranks=ranks, local_rank=optional("LOCAL_RANK", 0), local_ranks=local,
            node=optional("GROUP_RANK", 0),
            nodes=optional("GROUP_WORLD_SIZE", max(1, ranks // max(1, local))),
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise BadInput(
            "start it through torchrun, srun or mpirun, as in: torchrun --nproc-per-node 2 "
            f"bench/sweep.py (the environment lacks a usable {error})"
        ) from None
    return Launch(
        launcher="torchrun", rank=rank, ranks=ranks, seat=seat, host=host, port=port,
        own_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        run=environ.get("TORCHELASTIC_RUN_ID", "0"),
        restart=environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )  # fmt: skip


def _scheduled(environ: Mapping[str, str], task: Task, slurm: Task | None) -> Launch:
    """Through a scheduler's variables, or those that stand for torchrun's: no nodes in them."""
    host, named_by = _meeting_host(environ, task)
    job = task.job or (slurm.job if slurm is not None else None)
    return Launch(
        launcher=task.launcher, rank=task.rank, ranks=task.ranks,
        host=host, port=_meeting_port(environ, task, job), named_by=named_by, own_store=True,
        run=f"{task.launcher}-{job or 'job'}".replace(" ", "-"),
        restart=environ.get("SLURM_RESTART_COUNT", "0"),
        node_gpus=number(environ, "SLURM_GPUS_ON_NODE") if task.launcher == "Slurm" else None,
    )  # fmt: skip


def _meeting_host(environ: Mapping[str, str], task: Task) -> tuple[str, str]:
    """Rank 0's host, and what named it. Slurm starts rank 0 on the first host of the step, and
    Open MPI within Slurm on the first of the job."""
    if environ.get("MASTER_ADDR"):
        return environ["MASTER_ADDR"], "MASTER_ADDR"
    if task.one_node:
        return "127.0.0.1", "a job on one host"
    names = ("SLURM_STEP_NODELIST",) if task.launcher == "Slurm" else ()
    for name in (*names, "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if environ.get(name):
            try:
                return host_list.expand(environ[name])[0], name
            except BadInput as bad:
                raise BadInput(f"{name}: {bad.sentence}; set MASTER_ADDR") from None
    raise BadInput(
        f"{task.launcher} does not tell where rank 0 runs: set MASTER_ADDR to that host on all "
        "ranks (mpirun -x MASTER_ADDR=HOST, mpiexec -genv MASTER_ADDR HOST)"
    )


def _meeting_port(environ: Mapping[str, str], task: Task, job: str | None) -> int:
    port = number(environ, "MASTER_PORT")
    if port is not None:
        if not 0 < port < 1 << 16:
            raise BadInput(f"MASTER_PORT={port} is no port (1 to 65535)")
        return port
    if job is None:
        raise BadInput(
            f"{task.launcher} tells no job's id to derive a port from: set MASTER_PORT on all "
            "ranks (mpiexec -genv MASTER_PORT 29500)"
        )
    # of the whole id: two jobs of one host, and two steps of one job, must not meet at one port
    return FIRST_PORT + zlib.crc32(job.encode()) % PORTS


def _refuse_halves(environ: Mapping[str, str]) -> None:
    """Sentences for what looks like a scheduler's start and is none."""
    if "PMIX_RANK" in environ:
        raise BadInput(
            "PMIX_RANK is set but nothing tells how many ranks there are: start it through "
            "mpirun, srun or torchrun"
        )
    if "SLURM_PROCID" in environ and "RANK" not in environ:
        raise BadInput(
            "this is the batch script itself, not a step of the job: start the sweep by srun, as "
            "in: srun python bench/sweep.py"
        )


def _refuse_leftovers(environ: Mapping[str, str], chosen: Task) -> None:
    """RANK and WORLD_SIZE that a script exported must be the launcher's; PMIX_RANK too, but where
    one that knows no PMIx was started by one that does."""
    expected = {"RANK": chosen.rank, "WORLD_SIZE": chosen.ranks}
    if chosen.launcher in ("Open MPI", "Slurm"):
        expected["PMIX_RANK"] = chosen.rank
    for name, value in expected.items():
        if environ.get(name) and number(environ, name) != value:
            raise BadInput(
                f"{name}={environ[name]} and {chosen} contradict each other: unset {name} before "
                f"{chosen.launcher} starts the ranks"
            )
