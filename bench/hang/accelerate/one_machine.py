"""Several machines of a job that are, or may be, one: it meets itself at a loopback address.

In: a Job. Out: whether its nodes share a machine, by the GPUs that they name or by the one script
that starts them all where it runs.
"""

from __future__ import annotations

from bench.hang.accelerate.jobs import Job


def is_shared(job: Job) -> bool:
    return len(job.nodes) > 1 and (_have_gpus_apart(job) or _started_by_one_script(job))


def _have_gpus_apart(job: Job) -> bool:
    """Each names its GPUs, and all are different."""
    lists = [str(setting.value) for node in job.nodes if (setting := node.get("gpu_ids"))]
    named = [gpu.strip() for ids in lists for gpu in ids.split(",")]
    apart = len(named) == len(set(named)) and all(gpu.isdecimal() for gpu in named)
    return len(lists) == len(job.nodes) and apart


def _started_by_one_script(job: Job) -> bool:
    """Commands of one file with ranks of their own, and no srun, ssh or the like before one."""
    commands = [node.command for node in job.nodes if node.command is not None]
    ranks = {node.rank for node in job.nodes}
    if len(commands) < len(job.nodes) or len(ranks) < len(job.nodes) or None in ranks:
        return False
    one = len({each.file for each in commands}) == 1
    return one and not any(each.starter.name for each in commands)
