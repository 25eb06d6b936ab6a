"""What torchrun, deepspeed or python gets on one node, as numbers and as a line for people.

In: a Node. Out: its NodeLaunch. What no file decides stands in the line as it is written, or as a
question mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from bench.hang.accelerate import values
from bench.hang.accelerate.nodes import AGENTS, Node
from bench.records import NodeLaunch, Setting

DEFAULT_PORT = 29500  # torchrun's and Accelerate's


def launch(node: Node) -> NodeLaunch:
    """What torchrun (or deepspeed, or python) gets on this node."""
    address, port = node.endpoint
    machines = node.machines
    several = machines is None or machines > 1
    how = _how(node)
    told_port = values.number(port)
    if told_port is None and port is None and several and node.complete:
        told_port = DEFAULT_PORT
    made = NodeLaunch(
        file=node.file,
        line=node.line,
        how=how,
        nodes=machines,
        node_rank=node.rank if several and node.ranks_count else None,
        processes_per_node=1 if how == "process" and not node.uses_mpirun else node.per_machine,
        address=values.text(address) if several else None,
        port=told_port if several else values.number(port),
        rendezvous=node.backend,
    )
    return _with_command(node, made, several)


def _how(node: Node) -> Literal["torchrun", "deepspeed", "process"]:
    if node.command is not None and node.command.launcher == "deepspeed":
        return "deepspeed"
    if not node.is_accelerate:
        return "torchrun"
    if node.kind == "DEEPSPEED" and node.starts_others:
        return "deepspeed"
    if node.kind is not None and node.kind not in AGENTS:
        return "process"
    return "torchrun"


def _with_command(node: Node, made: NodeLaunch, several: bool) -> NodeLaunch:
    return msgspec.structs.replace(made, command=" ".join(_words(node, made, several)))


def _words(node: Node, made: NodeLaunch, several: bool) -> Sequence[str]:
    address = made.address or _shown(node.endpoint[0])
    port = str(made.port) if made.port is not None else _shown(node.endpoint[1])
    total = node.option("nproc_per_node") if node.is_torchrun else node.get("num_processes")
    each = _known(made.processes_per_node, total, "nproc")
    if made.how == "process" and node.uses_mpirun:
        ranks = _known(node.number("num_processes"), node.get("num_processes"), "np")
        return ["mpirun", "-n", ranks, "-ppn", each, "python"]
    if made.how == "process":
        return ["python", f"# one process; {node.kind or 'this type'} starts no more"]
    if made.how == "deepspeed":
        hostfile = node.of_section("deepspeed_config", "deepspeed_hostfile")
        words = ["deepspeed", "--hostfile", values.text(hostfile) or "None", "--num_gpus", each]
        return [*words, "--master_addr", address, "--master_port", port]
    if not several:
        return ["torchrun", "--nproc-per-node", each]
    words = ["torchrun", "--nnodes", _known(made.nodes, node.machines_setting, "nnodes")]
    if node.ranks_count:
        words += ["--node-rank", _known(made.node_rank, node.rank_setting, "rank")]
    else:
        words += ["--rdzv-backend", made.rendezvous]
    return [*words, "--nproc-per-node", each, "--rdzv-endpoint", f"{address}:{port}"]


def _known(number: int | None, setting: Setting | None, word: str) -> str:
    if number is not None:
        return str(number)
    return f"?{word}" if setting is None else _shown(setting)


def _shown(setting: Setting | None) -> str:
    return "?" if setting is None or setting.value is None else str(setting.value)[:60]
