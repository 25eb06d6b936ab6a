"""Files of one job's nodes that must say the same and do not.

In: a Job. Out: accelerate-inconsistent. Only machine_rank and gpu_ids may differ between nodes;
address and port are asked elsewhere. The odd side is named by a majority only.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.hang.accelerate import values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import Node
from bench.judge.docket import Docket
from bench.records import Setting, Severity

# Fields that change what the ranks do together, and how bad it is where they differ.
FIELDS: tuple[tuple[str, Severity], ...] = (
    ("num_machines", "broken"),
    ("num_processes", "broken"),
    ("distributed_type", "broken"),
    ("mixed_precision", "degraded"),
    ("rdzv_backend", "broken"),
    ("use_cpu", "degraded"),
)
SECTIONS = ("fsdp_config", "deepspeed_config", "parallelism_config", "megatron_lm_config")
SHOWN = 6
_WHY = {
    "num_machines": "they wait for different numbers of machines",
    "num_processes": "they form worlds of different sizes",
    "distributed_type": "they call different collectives",
    "mixed_precision": "they exchange tensors of different types",
    "rdzv_backend": "they meet by different protocols",
}


def judge(job: Job, docket: Docket) -> None:
    """One finding for each field; all differing values of sections in one."""
    nodes = [node for node in job.nodes if node.is_accelerate and (node.config or node.command)]
    if len(nodes) < 2:
        return
    for name, severity in FIELDS:
        sides = _sides([(node, _value(node, name)) for node in nodes])
        if len(sides) > 1:
            _differs(name, sides, severity, docket)
    differing = []
    for section in SECTIONS:
        held = {k for node in nodes if node.config for k in node.config.sections.get(section, {})}
        for key in sorted(held):
            sides = _sides([(node, node.of_section(section, key)) for node in nodes])
            if len(sides) > 1:
                differing.append((key, sides))
    if differing:
        key, sides = differing[0]
        more = f" and {values.joined([k for k, _ in differing[1:]], 3)}" if differing[1:] else ""
        _differs(key, sides, "degraded", docket, more)


def _value(node: Node, name: str) -> Setting | None:
    if name == "rdzv_backend":
        return node.option(name)
    if name != "distributed_type":
        return node.get(name)
    told = node.of_file(name)
    return Setting(value=node.kind, file=told.file, line=told.line) if told and node.kind else None


Sides = Sequence[tuple[str, list[tuple[Node, Setting]]]]


def _sides(told: Sequence[tuple[Node, Setting | None]]) -> Sides:
    """Who says what, the largest side first. Nothing and what is open say nothing."""
    sides: dict[str, list[tuple[Node, Setting]]] = {}
    for node, setting in told:
        text = values.word(setting)
        if setting is not None and text is not None and setting.file:
            sides.setdefault(text, []).append((node, setting))
    return sorted(sides.items(), key=lambda side: -len(side[1]))


def _differs(name: str, sides: Sides, severity: Severity, docket: Docket, more: str = "") -> None:
    (_, most), (_, odd) = sides[0], sides[-1]
    majority = len(most) > len(odd) and len(sides) == 2
    node, setting = odd[0]
    told = [f"{text} ({values.counted(len(who), 'node')})" for text, who in sides]
    which = f"; {node.file} is the odd one" if majority and len(odd) == 1 else ""
    why = f": {_WHY[name]}" if name in _WHY else ""
    docket.add(
        finding(
            "inconsistent",
            severity,
            f"The nodes' files differ in {name}{more}: {values.joined(told, 4)}{which}{why}.",
            node=node,
            at=setting,
            evidence=[
                values.evidence(f"{name} {who[0][1].value}", who[0][1]) for _, who in sides[:SHOWN]
            ],
            remedy=f"{name}: {most[0][1].value}   # the same on all nodes"
            if majority
            else f"{name}: one value on all nodes",
            kind=name.replace("_", "-"),
        )
    )
