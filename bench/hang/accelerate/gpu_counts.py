"""How many GPUs the machines of a job have, as far as files tell it.

In: a Job or a Node. Out: GPUs named by gpu_ids, granted by Slurm, listed with the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.hang.accelerate import values
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import Node
from bench.records import Evidence, HostLine, Setting


def setting(node: Node) -> Setting | None:
    return node.get("gpu_ids") if node.is_accelerate else None


def named(node: Node) -> list[str] | None:
    """The GPUs that are named one by one; None for all, and where they are none of a list."""
    told = setting(node)
    if told is None or isinstance(told.value, bool) or values.is_open(told):
        return None
    parts = [part.strip() for part in str(told.value).strip("[]").split(",") if part.strip()]
    return parts if parts and all(part.isdecimal() for part in parts) else None


def per_machine(job: Job, node: Node) -> int | None:
    """GPUs per machine, where all that tells it agrees."""
    told = {len(ids) for each in job.nodes if (ids := named(each)) is not None}
    if node.command and node.command.starter.gpus_per_node:
        told.add(node.command.starter.gpus_per_node)
    told |= {line.gpus for line in hosts(job, node.machines) if line.gpus}
    return told.pop() if len(told) == 1 else None


def hosts(job: Job, machines: int | None) -> Sequence[HostLine]:
    """A list with GPUs of just as many hosts as the job has machines."""
    counted = [line for line in job.hosts if line.gpus is not None]
    return counted if counted and len(counted) == machines else ()


def unequal(job: Job, machines: int) -> Iterator[Evidence]:
    counted = hosts(job, machines)
    if len({line.gpus for line in counted}) > 1:
        yield list_evidence(counted)


def list_evidence(counted: Sequence[HostLine]) -> Evidence:
    told = values.joined([f"{line.host} {line.gpus}" for line in counted])
    text = f"GPUs: {told} ({counted[0].file}); each machine gets the same number"
    return Evidence(basis="claimed", text=text)
