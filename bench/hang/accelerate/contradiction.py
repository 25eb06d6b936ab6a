"""One finding about a section: what contradicts what, at a value's line.

In: the value and the words. Out: the finding on the docket, with the value as its proof where no
better one is given.
"""

from __future__ import annotations

from bench.hang.accelerate import values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.nodes import Node
from bench.judge.docket import Docket
from bench.records import Evidence, Setting, Severity


def add(
    docket: Docket,
    node: Node,
    at: Setting | None,
    severity: Severity,
    summary: str,
    remedy: str,
    *,
    evidence: tuple[Evidence, ...] = (),
    rule: str = "inconsistent",
    kind: str = "sections",
) -> None:
    if not evidence and at is not None:
        evidence = (values.evidence(f"the value is {at.value}", at),)
    docket.add(
        finding(
            rule, severity, summary, node=node, at=at, evidence=evidence, remedy=remedy, kind=kind
        )
    )
