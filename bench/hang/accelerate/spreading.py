"""How a command gets to the machines: srun, pdsh, ssh, or nothing.

In: a Node with its command. Out: accelerate-machine-rank where a variable is filled in before the
nodes see it, where there are more or fewer launchers than machines, or where none is sent out.
"""

from __future__ import annotations

from bench.formats.launch_starter import SPREADING
from bench.hang.accelerate import values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import Node
from bench.judge.docket import Docket
from bench.records import Evidence

SRUN = (
    "srun --ntasks-per-node=1 bash -c 'accelerate launch --machine_rank $SLURM_NODEID …'"
    "   # in single quotes, so that each node fills it in"
)


def filled_early(node: Node) -> str | None:
    if node.command is None:
        return None
    return node.command.early.get("machine_rank") or node.command.early.get("node_rank")


def early(node: Node, docket: Docket) -> None:
    """A node's number that the batch script's shell fills in before srun starts."""
    variable = filled_early(node)
    if variable is None or node.command is None or node.machines == 1:
        return
    count = node.command.starter.launchers
    if count == 1:
        return
    docket.add(
        finding(
            "machine-rank",
            "broken",
            f"${variable} is filled in by the batch script's own shell, where it is 0: "
            f"{node.command.starter.name} starts the same --machine_rank 0 on every node.",
            node=node,
            at=node.rank_setting,
            evidence=(
                Evidence(basis="asked", text=f"command: {node.command.text[:160]}"),
                Evidence(basis="inferred", text="outside single quotes and without a backslash"),
            ),
            remedy=SRUN,
            kind="filled-in-early",
            sure=False,
        )
    )


def miscounted(node: Node, docket: Docket) -> None:
    """More or fewer launchers than machines: eight tasks a node, each with a launcher."""
    command, machines = node.command, node.machines or 0
    if command is None or machines < 2 or node.starts_others:
        return
    starter = command.starter
    launchers = starter.launchers
    if starter.name not in SPREADING or launchers in (None, 1, machines) or launchers is None:
        return
    each = f", {starter.tasks_per_node} on each node" if (starter.tasks_per_node or 1) > 1 else ""
    setting = node.machines_setting
    told = values.counted(launchers, "launcher")
    docket.add(
        finding(
            "machine-rank",
            "broken",
            f"{starter.name} starts {told}{each}, and they expect {machines}: one launcher a "
            "machine starts that machine's processes.",
            node=node,
            at=setting if setting is not None and setting.file else None,
            evidence=(
                values.evidence(f"{machines} machines", setting),
                Evidence(basis="asked", text=f"command: {starter.name} … {command.text[:120]}"),
            ),
            remedy=SRUN,
            kind="launchers",
            sure=False,
        )
    )


def unspread(job: Job, node: Node, docket: Docket) -> bool:
    """A batch job of several nodes whose launcher nothing spreads over them."""
    command = node.command
    if command is None or node.machines == 1 or command.file in job.spread:
        return False
    starter = command.starter
    if starter.name or (starter.batch_nodes or 0) < 2:
        return False
    if node.machines is None or _may_log_in(node):
        return False
    docket.add(
        finding(
            "machine-rank",
            "broken",
            f"The batch script asks for {starter.batch_nodes} nodes and starts the launcher on "
            "its first one only: no srun, ssh or the like stands before it, the other machines "
            "never come.",
            node=node,
            evidence=(
                Evidence(
                    basis="asked",
                    text=f"nodes {starter.batch_nodes} ({command.file}:{starter.batch_line})",
                ),
                Evidence(basis="asked", text=f"command: {command.text[:120]}"),
            ),
            remedy=SRUN,
            kind="not-spread",
            sure=False,
        )
    )
    return True


def _may_log_in(node: Node) -> bool:
    """Whether a configuration that is not at hand may have DeepSpeed start the other machines."""
    if not node.is_accelerate or node.complete:
        return False
    return node.kind is None or (node.kind == "DEEPSPEED" and node.deepspeed_launcher is None)
