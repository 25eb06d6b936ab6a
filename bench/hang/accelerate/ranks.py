"""machine_rank: 0 to num_machines - 1, each once, on the machine that it belongs to.

In: a Job. Out: accelerate-machine-rank. The rank counts for static meetings only: with c10d (on
the command line; the file's rdzv_backend is not read) torch deals ranks out itself, and
DeepSpeed's own launchers start the other machines.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.hang.accelerate import spreading, values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import Node
from bench.judge.docket import Docket
from bench.records import Evidence, Starter

SHOWN = 8


def judge(job: Job, docket: Docket) -> None:
    """Out of range; one command for all; taken twice; never started."""
    for node in job.nodes:
        spreading.miscounted(node, docket)
    counted = [node for node in job.nodes if node.ranks_count]
    for node in counted:
        spreading.early(node, docket)
    _beyond(job, counted, docket)
    if len(counted) > 1 and _are_of_nodes(counted):
        _twice(job, counted, docket)
    else:
        for node in counted:
            if not (spreading.filled_early(node) or spreading.unspread(job, node, docket)):
                _same_everywhere(job, node, docket)


def _are_of_nodes(nodes: Sequence[Node]) -> bool:
    """Each of the nodes says how one machine starts; a command that srun repeats does not."""
    return not any(_repeats(node) for node in nodes)


def _repeats(node: Node) -> bool:
    starter = node.command.starter if node.command else Starter()
    if node.has_own_file and node.option("machine_rank") is None:
        return False
    return starter.name not in ("", "ssh") and starter.launchers != 1


def _beyond(job: Job, nodes: Sequence[Node], docket: Docket) -> None:
    machines = job.machines
    for node in nodes:
        rank = node.rank
        if rank is None or node.machines is None:
            continue
        if node.machines == 1 and rank > 0:
            _lonely(node, rank, docket)
        elif machines is not None and machines > 1 and not 0 <= rank < machines:
            from_one = sorted(n.rank for n in nodes if n.rank is not None)
            counted = (
                " They seem to be counted from 1."
                if from_one == list(range(1, machines + 1)) and len(from_one) > 1
                else ""
            )
            docket.add(
                finding(
                    "machine-rank",
                    "broken",
                    f"machine_rank {rank} is none of 0 … {machines - 1} (num_machines "
                    f"{machines}).{counted}",
                    node=node,
                    at=node.rank_setting,
                    evidence=(values.evidence(f"machine_rank {rank}", node.rank_setting),),
                    remedy=f"machine_rank: 0 … {machines - 1}, each on one machine",
                    kind="out-of-range",
                )
            )
            return


def _lonely(node: Node, rank: int, docket: Docket) -> None:
    """A rank of a machine that expects no other."""
    at = node.get("num_machines") or node.option("nnodes")
    docket.add(
        finding(
            "machine-rank",
            "degraded",
            f"machine_rank is {rank}, but num_machines is 1: rank and address have no effect, "
            "this machine would train alone.",
            node=node,
            at=at if at is not None and at.file else node.rank_setting,
            evidence=(
                values.evidence(f"machine_rank {rank}", node.rank_setting),
                values.evidence("num_machines 1", at),
            ),
            remedy="accelerate launch --num_machines N …   # on all machines",
            kind="alone",
        )
    )


def _twice(job: Job, nodes: Sequence[Node], docket: Docket) -> None:
    """Files of nodes of one job, of which two claim one rank."""
    machines = job.machines or 0
    ranks: dict[int, list[Node]] = {}
    for node in nodes:
        if node.rank is not None and (node.machines or 0) > 1:
            ranks.setdefault(node.rank, []).append(node)
    taken = {rank: who for rank, who in ranks.items() if len(who) > 1}
    if not taken:
        return
    missing = [rank for rank in range(min(machines, 4096)) if rank not in ranks]
    rank, who = next(iter(taken.items()))
    complete = sum(map(len, ranks.values())) >= machines
    lacks = f"; machine {values.joined(missing)} is missing" if missing and complete else ""
    every = len(taken) == 1 and len(who) == len(nodes)
    them = f"all {len(who)}" if every and len(who) > 2 else f"{len(who)}"
    evidence = [
        values.evidence(f"machine_rank {rank}", each.rank_setting)
        if each.rank_setting and each.rank_setting.file
        else Evidence(basis="asked", text=f"machine_rank {rank} by default ({each.file})")
        for each in who[:SHOWN]
    ]
    docket.add(
        finding(
            "machine-rank",
            "broken",
            f"machine_rank {rank} is claimed by {them} nodes{lacks}: the meeting of "
            f"{machines} machines never completes.",
            node=who[-1],
            at=who[-1].rank_setting,
            evidence=evidence,
            remedy="accelerate launch --machine_rank N …   # 0 on the main node, then 1, 2, …",
            kind="twice",
        )
    )


def _same_everywhere(job: Job, node: Node, docket: Docket) -> None:
    """One command for several machines whose rank is fixed."""
    machines, setting = node.machines or 0, node.rank_setting
    if node.command is None or machines < 2 or node.rank is None or setting is None:
        return
    starter = node.command.starter
    if starter.name in ("loop", "function", "branch", "unknown"):
        return
    from_file = node.option("machine_rank") is None and node.option("node_rank") is None
    if from_file and node.has_own_file:
        return
    if starter.name not in ("", "ssh") and (starter.launchers or machines) > 1:
        own = " (unless every node has a file of its own there)" if from_file else ""
        docket.add(
            finding(
                "machine-rank",
                "broken",
                f"{starter.name} starts the same command on every node, so all {machines} claim "
                f"machine_rank {node.rank}{own}.",
                node=node,
                at=setting if setting.file else None,
                evidence=_rank_evidence(node),
                remedy=spreading.SRUN,
                kind="fixed",
                sure=not from_file,
            )
        )
    elif from_file and not starter.name and setting.file and len(job.nodes) == 1:
        missing = [rank for rank in range(min(machines, 4096)) if rank != node.rank]
        docket.add(
            finding(
                "machine-rank",
                "warning",
                f"The command takes machine_rank {node.rank} from its file: started once, the "
                f"launcher waits for machine {values.joined(missing)}; started on every node as "
                f"it is, all {machines} claim rank {node.rank}.",
                node=node,
                at=setting,
                evidence=_rank_evidence(node),
                remedy=spreading.SRUN,
                kind="fixed",
                sure=False,
            )
        )


def _rank_evidence(node: Node) -> tuple[Evidence, ...]:
    setting, command = node.rank_setting, node.command
    told = [values.evidence(f"machine_rank {node.rank}", setting)] if setting else []
    if command is not None:
        place = f"{command.file}:{command.line}"
        told.append(Evidence(basis="asked", text=f"command: {command.text[:120]} ({place})"))
    told.append(Evidence(basis="predicted", text=f"num_machines {node.machines}, static meeting"))
    return tuple(told)
