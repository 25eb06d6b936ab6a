"""What the variables of each launcher but torchrun say of this process.

In: the environment. Out: a `Task` per launcher that left its variables there, None for the others:
Slurm's srun (`man srun`, OUTPUT ENVIRONMENT VARIABLES), Open MPI's mpirun (`man mpirun`, Exported
Environment Variables), MPICH, Intel MPI and Cray (PMI), and variables set by hand or by a
PyTorchJob. Which of them is to be believed is decided in launcher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bench.records import BadInput

MOST_RANKS = 1 << 20
BY_HAND = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PMIX_RANK")
_LOCAL_RANKS = (
    "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
    "SLURM_LOCALID",
)  # fmt: skip


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """This process as one launcher sees it."""

    launcher: str
    named: str  # its variable for the rank
    rank: int
    ranks: int
    alone_on_node: bool = False  # one process a node: perhaps only a launcher of the real ranks
    one_node: bool = False
    job: str | None = None  # tells this job from others on the same host

    def agrees(self, other: Task) -> bool:
        return (self.rank, self.ranks) == (other.rank, other.ranks)

    def __str__(self) -> str:
        return f"{self.named}={self.rank} (of {self.ranks})"


def by_hand(environ: Mapping[str, str]) -> Task | None:
    """torchrun's variables without torchrun: a PyTorchJob's, or set in a script."""
    if not all(environ.get(name) for name in BY_HAND):
        return None
    return _task(environ, Task(launcher="by hand", named="RANK", rank=0, ranks=0), "WORLD_SIZE")


def slurm(environ: Mapping[str, str]) -> Task | None:
    """Of a task that srun started. A batch script has SLURM_PROCID too, but no step."""
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID")
    if "SLURM_PROCID" not in environ or step is None:
        return None
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
    nodes = number(environ, "SLURM_STEP_NUM_NODES") or number(environ, "SLURM_NNODES")
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")
    task = Task(
        launcher="Slurm", named="SLURM_PROCID", rank=0, ranks=0,
        alone_on_node=nodes is not None and nodes == number(environ, size),
        one_node=nodes == 1, job=f"{job}.{step}" if job else None,
    )  # fmt: skip
    return _task(environ, task, size)


def open_mpi(environ: Mapping[str, str]) -> Task | None:
    """Of a process that Open MPI's mpirun started, 4 or 5."""
    if "OMPI_COMM_WORLD_RANK" not in environ:
        return None
    local = number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE")
    task = Task(
        launcher="Open MPI", named="OMPI_COMM_WORLD_RANK", rank=0, ranks=0,
        alone_on_node=local == 1,
        one_node=local is not None and local == number(environ, "OMPI_COMM_WORLD_SIZE"),
        job=environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid"),
    )  # fmt: skip
    return _task(environ, task, "OMPI_COMM_WORLD_SIZE")


def pmi(environ: Mapping[str, str]) -> Task | None:
    """Of a process that mpiexec of MPICH, Intel MPI or Cray started. MPICH tells no job's id."""
    if "PMI_RANK" not in environ:
        return None
    names = ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")
    local = next((number(environ, name) for name in names if name in environ), None)
    task = Task(
        launcher="MPI", named="PMI_RANK", rank=0, ranks=0,
        alone_on_node=local == 1,
        one_node=local is not None and local == number(environ, "PMI_SIZE"),
        job=environ.get("PMI_JOBID") or environ.get("PALS_APID"),
    )  # fmt: skip
    return _task(environ, task, "PMI_SIZE")


def _task(environ: Mapping[str, str], task: Task, ranks_name: str) -> Task:
    """`task` with rank and number of ranks; BadInput where they are missing or impossible."""
    rank, ranks = number(environ, task.named), number(environ, ranks_name)
    if rank is None or ranks is None:
        lacking = ranks_name if ranks is None else task.named
        raise BadInput(f"{lacking} is not set beside the launcher's other variables")
    if not rank < ranks <= MOST_RANKS:
        raise BadInput(f"{task.named}={rank} and {ranks_name}={ranks} cannot both be true")
    return msgspec.structs.replace(task, rank=rank, ranks=ranks)


def started(environ: Mapping[str, str]) -> bool:
    """Whether some launcher's variable tells a rank: this may be one of many processes."""
    return any(name in environ for name in _RANKS)


def rank_of(environ: Mapping[str, str]) -> int:
    """This process's rank as far as variables tell, 0 where none does; for words, not for work."""
    return _first(environ, _RANKS)


def local_rank_of(environ: Mapping[str, str]) -> int:
    """Likewise its rank on this host."""
    return _first(environ, _LOCAL_RANKS)


def _first(environ: Mapping[str, str], names: Sequence[str]) -> int:
    told = next((environ[name] for name in names if name in environ), "0")
    return int(told) if _whole(told) else 0


def number(environ: Mapping[str, str], name: str) -> int | None:
    """A variable's whole number, None where it is not set; BadInput where it is something else."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not _whole(text):
        raise BadInput(f"{name}={text[:40]} is no whole number")
    return int(text)


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
