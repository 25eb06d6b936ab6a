"""num_processes against num_machines and GPUs: what each machine starts, and what it lacks.

In: a Job. Out: accelerate-processes. Accelerate's num_processes is the total; each machine starts
num_processes // num_machines (utils/launch.py, prepare_multi_gpu_env), the same on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.hang.accelerate import gpu_counts, values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import AGENTS, Node
from bench.judge.docket import Docket
from bench.records import Evidence, Setting, Severity


def judge(job: Job, docket: Docket) -> None:
    """One finding for the division, one for each machine whose GPUs are too few."""
    divided: set[tuple[int, int]] = set()
    for node in job.nodes:
        if not node.is_accelerate:
            _crowded(job, node, docket)
            continue
        total, machines = node.number("num_processes"), node.machines
        if node.kind == "NO":
            _single(node, docket)
        elif total is not None and total < 0:
            _absent(node, docket)
        elif total is None or machines is None or (node.kind or "MULTI_GPU") not in AGENTS:
            if node.is_absent("num_processes") and node.config and node.kind in AGENTS:
                _absent(node, docket)
        elif (total, machines) not in divided:
            divided.add((total, machines))
            if not _undivided(job, node, total, machines, docket):
                _per_machine(job, node, total, machines, docket)
        _crowded(job, node, docket)


def _undivided(job: Job, node: Node, total: int, machines: int, docket: Docket) -> bool:
    """Fewer processes than machines, or a remainder that nobody starts."""
    if machines < 2 or total < 1 or total % machines == 0:
        return False
    each = total // machines
    severity: Severity
    asked = (
        values.evidence(f"num_processes {total:,}: the total", node.get("num_processes")),
        values.evidence(f"num_machines {machines:,}", node.get("num_machines")),
        *gpu_counts.unequal(job, machines),
    )
    gpus = gpu_counts.per_machine(job, node)
    wanted = f"{gpus * machines:,}" if gpus else f"$(({machines} * GPUS_PER_MACHINE))"
    remedy = f"accelerate launch --num_machines {machines} --num_processes {wanted} …"
    if each == 0:
        severity, kind = "broken", "below-machines"
        summary = (
            f"num_processes {total} is smaller than num_machines {machines}: each machine would "
            f"start {total} // {machines} = 0 processes. num_processes is the total over all "
            "machines."
        )
    else:
        severity, kind = "degraded", "not-divisible"
        summary = (
            f"num_processes {total:,} is not divisible by num_machines {machines:,}: each machine "
            f"starts {total:,} // {machines:,} = {each:,}, so the world has {each * machines:,} "
            f"ranks instead of {total:,}. Every machine gets the same number."
        )
    docket.add(
        finding(
            "processes",
            severity,
            summary,
            node=node,
            at=node.get("num_processes"),
            evidence=asked,
            remedy=remedy,
            kind=kind,
        )
    )
    return True


def _per_machine(job: Job, node: Node, total: int, machines: int, docket: Docket) -> None:
    """The GPUs of one machine given as the total of all."""
    gpus, told = gpu_counts.per_machine(job, node), gpu_counts.setting(node)
    if machines < 2 or gpus != total or total // machines == gpus:
        return
    summary = (
        f"num_processes {total} is what one machine has GPUs for, but it is the total: each of "
        f"the {machines} machines starts {total // machines} processes and leaves "
        f"{gpus - total // machines} of its {gpus} GPUs idle."
    )
    docket.add(
        finding(
            "processes",
            "warning",
            summary,
            node=node,
            at=node.get("num_processes"),
            evidence=(
                values.evidence(f"num_processes {total}", node.get("num_processes")),
                values.evidence(f"gpu_ids {told.value}", told)
                if gpu_counts.named(node) is not None and told is not None
                else Evidence(basis="claimed", text=f"{gpus} GPUs a node (Slurm, list of hosts)"),
            ),
            remedy=f"accelerate launch --num_machines {machines} --num_processes "
            f"{gpus * machines} …",
            kind="per-machine",
            sure=False,
        )
    )


def _crowded(job: Job, node: Node, docket: Docket) -> None:
    """More processes on a machine than it has GPUs for."""
    each = node.per_machine
    if each is None or (node.is_accelerate and node.kind not in AGENTS):
        return
    told = gpu_counts.setting(node)
    listed = gpu_counts.named(node)
    starter = node.command.starter if node.command else None
    granted = starter.gpus_per_node if starter else None
    if listed is not None and not (granted and granted < len(listed)):
        have, where = len(listed), f"gpu_ids {told.value if told else ''}"
    elif starter and starter.gpus_per_node:
        have, where = starter.gpus_per_node, f"Slurm grants {starter.gpus_per_node} GPUs per node"
        told = Setting(value=have, file=node.command.file if node.command else "")
        listed = None
    else:
        _crowded_hosts(job, node, each, docket)
        return
    if each <= have:
        return
    whose = f"Rank {node.rank}'s" if (node.machines or 1) > 1 and node.rank is not None else "This"
    summary = (
        f"{whose} machine would start {values.counted(each, 'process')} on "
        f"{values.counted(have, 'GPU')}: two of a group on one GPU are refused by NCCL."
    )
    docket.add(
        finding(
            "processes",
            _severity(node),
            summary,
            node=node,
            at=told if listed is not None else node.get("num_processes"),
            evidence=(
                values.evidence(where, told),
                *_division(node),
            ),
            remedy="accelerate launch --num_processes "
            f"{have * (node.machines or 1)} …   # the same number on every machine",
            kind="too-few-gpus",
        )
    )


def _severity(node: Node) -> Severity:
    """torchrun does not know what its processes are for; on CPUs they may be as many as wanted."""
    return "broken" if node.is_accelerate else "warning"


def _crowded_hosts(job: Job, node: Node, each: int, docket: Docket) -> None:
    """The same against a list of hosts; once for the job."""
    counted = gpu_counts.hosts(job, node.machines)
    short = [line for line in counted if (line.gpus or 0) < each]
    if not short or node is not job.nodes[0]:
        return
    summary = (
        f"Each machine would start {values.counted(each, 'process')}; "
        + values.joined([f"{line.host} has {line.gpus}" for line in short])
        + " GPUs."
    )
    docket.add(
        finding(
            "processes",
            _severity(node),
            summary,
            node=node,
            at=node.get("num_processes") or node.option("nproc_per_node"),
            evidence=(gpu_counts.list_evidence(counted), *_division(node)),
            kind="too-few-gpus",
            hosts=[line.host for line in short],
        )
    )


def _single(node: Node, docket: Docket) -> None:
    """Type NO starts one process, whatever the numbers say."""
    total, machines = node.number("num_processes"), node.machines
    told = node.of_file("distributed_type")
    if told is None or node.option("cpu") is not None or node.option("num_processes") is not None:
        return
    if node.uses_mpirun:
        return
    if (total or 1) < 2 and (machines or 1) < 2:
        return
    what = f"num_processes {total}" if (total or 1) > 1 else f"num_machines {machines}"
    docket.add(
        finding(
            "processes",
            "warning" if node.command else "info",
            f"distributed_type NO starts one process, alone: {what} has no effect"
            + ("." if node.command else " unless --multi_gpu or its like is on the command line."),
            node=node,
            at=told,
            evidence=(
                values.evidence("distributed_type NO", told),
                values.evidence(what, node.get(what.split()[0])),
            ),
            remedy="accelerate launch --multi_gpu …   # or distributed_type: MULTI_GPU",
            kind="single",
        )
    )


def _absent(node: Node, docket: Docket) -> None:
    """Nobody says how many: Accelerate wants it on the command line then."""
    if node.command is None or not node.complete:
        return
    docket.add(
        finding(
            "processes",
            "broken",
            "num_processes stands neither in the configuration nor on the command line: "
            "Accelerate asks for it and ends.",
            node=node,
            at=node.get("num_processes"),
            evidence=(Evidence(basis="asked", text=f"command: {node.command.text[:160]}"),),
            remedy="accelerate launch --num_processes $((NODES * GPUS_PER_MACHINE)) …",
            kind="absent",
        )
    )


def _division(node: Node) -> Iterator[Evidence]:
    total, machines = node.number("num_processes"), node.machines
    if total is not None and machines:
        text = f"num_processes {total:,} // num_machines {machines:,} = {total // machines:,} each"
        yield values.evidence(text, node.get("num_processes"))
