"""A finding about a launch file, in the form that all rules here share.

In: the rule's name, what is wrong, the value that shows it. Out: a Finding. Rules of Accelerate
have codes of their own; the same fault of a torchrun command is a launcher-world-size of its kind.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.hang.accelerate.nodes import Node
from bench.records import Evidence, Finding, Setting, Severity, Where


def finding(
    rule: str,
    severity: Severity,
    summary: str,
    *,
    node: Node,
    at: Setting | None = None,
    evidence: Sequence[Evidence] = (),
    remedy: str | None = None,
    kind: str | None = None,
    hosts: Sequence[str] = (),
    sure: bool = True,
) -> Finding:
    """`rule` is the part of the code behind "accelerate-"; `at` the value to point to; `sure`: by
    the launcher's own rules, else inferred from what the files suggest."""
    placed = at if at is not None and at.file else None
    foreign = not node.is_accelerate
    return Finding(
        code="launcher-world-size" if foreign else f"accelerate-{rule}",
        kind=rule if foreign else kind,
        severity=severity,
        summary=summary,
        where=Where(
            file=placed.file if placed else node.file,
            line=placed.line if placed else node.line,
            hosts=tuple(hosts),
        ),
        evidence=tuple(evidence),
        remedy=remedy,
        confidence="predicted" if sure else "inferred",
    )
