"""The judge of foreign evidence: a dossier in, a reading with findings and a verdict out.

Causes are heard before consequences, as for a sweep. Pure: opens no file and has no clock. A
verdict of "healthy" needs evidence that could have shown a fault; files that hold none are
"inconclusive".
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.catalogue import ORDER
from bench.judge.docket import Docket
from bench.judge.foreign import logs, shown_logs, shown_topology, starts, tables, topology
from bench.judge.verdict import CERTAINTY, MENDED_BY_SETTING, serious
from bench.records import (
    SEVERITIES,
    CollectiveTable,
    Dossier,
    Fabric,
    Finding,
    NcclLog,
    PlainFigure,
    Reading,
    Verdict,
)

# What a line in a job's script mends, besides the choice of interface: see judge/verdict.py.
MENDED_BY_SCRIPT = (
    *MENDED_BY_SETTING,
    "setting-not-exported",
    "setting-overridden",
    "hca-set-differs",
    "launcher-world-size",
)
ABSTENTIONS = ("not-determinable", "inconclusive", "not-comparable")


def judge(dossier: Dossier, fabric: Fabric | None = None) -> Reading:
    """Everything that the files say: figures, facts, findings (worst and surest first)."""
    docket = Docket()
    topology.judge(dossier, docket)
    logs.judge(dossier, docket)
    lines = tables.lines(dossier)
    answers = tables.judge(dossier, docket, fabric, lines)
    starts.judge(dossier, docket)
    findings = in_order(docket.findings)
    return Reading(
        verdict=verdict_of(dossier, findings),
        dossier=dossier,
        answers=answers,
        lines=lines,
        facts=(
            *shown_logs.sentences(dossier),
            *logs.facts(dossier),
            *shown_topology.sentences(dossier),
            *topology.facts(dossier),
        ),
        findings=findings,
    )


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Worst first, then surest, then as the catalogue has them."""
    return tuple(
        sorted(
            findings,
            key=lambda f: (-SEVERITIES.index(f.severity), CERTAINTY[f.confidence], ORDER[f.code]),
        )
    )


def verdict_of(dossier: Dossier, findings: Sequence[Finding]) -> Verdict:
    """Broken, misconfigured, degraded; else healthy where the evidence could have shown it."""
    found = [finding for finding in findings if serious(finding)]
    mended = [finding for finding in found if finding.code in MENDED_BY_SCRIPT and finding.remedy]
    if any(finding.severity == "broken" for finding in found if finding not in mended):
        return "broken"
    if mended:
        return "misconfigured"
    if found:
        return "degraded"
    if any(finding.code in ABSTENTIONS for finding in findings):
        return "inconclusive"
    return "healthy" if _could_have_shown(dossier) else "inconclusive"


def _could_have_shown(dossier: Dossier) -> bool:
    """Whether any file holds that in which a fault would show. Versions, variables and
    kernel lines alone show none."""
    return any(
        (
            any(map(_has_moved, dossier.tables)),
            any(map(_has_formed, dossier.logs)),
            any(matrix.links for matrix in dossier.matrices),
            any(tree.gpus for tree in dossier.trees),
            any(gpu.links for gpu in dossier.nvlinks),
            any(p.status or p.bandwidth_gbs or p.both_ways_gbs for p in dossier.peers),
            any(device.control or device.link_width for device in dossier.bridges),
            any(port.state for ports in dossier.ports for port in ports.ports),
            sum(map(_is_placed, dossier.figures)) > 1,
        )
    )


def _is_placed(figure: PlainFigure) -> bool:
    """Whether it is known what a figure belongs to; numbers behind names alone may be anything."""
    known = figure.hosts or figure.size_bytes or figure.quantity or figure.ranks
    return bool(known) or not set(figure.labels) <= {"name"}


def _has_moved(table: CollectiveTable) -> bool:
    """Whether bytes went from one rank to another. One rank alone shows no link, but that the
    program runs to its end and what it says of its data."""
    halves = [half for row in table.rows for half in (row.out_of_place, row.in_place)]
    moved = any(half.busbw_gbs > 0 for half in halves if half is not None)
    alone = table.ranks == 1 and table.runs == 1
    return table.complete and not moved if alone else table.ranks != 1 and moved


def _has_formed(log: NcclLog) -> bool:
    """Whether NCCL chose its networks and every communicator that the log shows came about. One
    that only started may hang."""
    for communicator in log.communicators:
        begun = [member for member in communicator.members if member.started]
        if communicator.ranks != 1 and not all(member.completed for member in begun):
            return False
    if any(group.members or group.edges or group.rings for group in log.communicators):
        return True
    return any(each.bootstrap or each.network or each.nets for each in log.processes)
