""" "Is this number normal?": a table's plateau against what its system is known to show.

In: a table, its level, the run it came from, the user's fabric if any. Out: the TableAnswer's
figures, and below-expectation where the plateau is far below everything that is known of these
GPUs. Shipped numbers are other sites': they accuse only where no system with such GPUs is known
to be so slow; a fabric file of the user's own decides alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.judge import limits
from bench.judge.docket import Docket
from bench.judge.foreign import expectations, reasons
from bench.judge.foreign.amounts import gbs, size
from bench.judge.foreign.reasons import Low
from bench.judge.foreign.surroundings import Run
from bench.judge.systems import BusbwExpectation
from bench.judge.words import percent
from bench.model.table_level import Level
from bench.records import (
    Basis,
    CollectiveTable,
    Evidence,
    Fabric,
    Finding,
    Severity,
    Where,
)

# Of a shipped number: sites differ by a fifth (its tolerance) and no more than this without cause.
FAR_BELOW = 0.6
FAR_BELOW_THE_WIRE = 0.7  # of a ring at full rate: 8 healthy hosts reach 0.8 (nccl-tests#309)
# Findings that say why a plateau is low: the cause is accused, not its effect a second time.
CAUSES = frozenset(
    (
        "bandwidth-collapse",
        "fallback-to-sockets",
        "gdr-disabled",
        "gpu-path-unexpected",
        "hca-set-differs",
        "interface-misselected",
        "launcher-world-size",
        "mtu-mismatch",
        "nvlink-inactive",
        "p2p-blocked",
        "pcie-downgraded",
        "rail-isolated",
    )
)


@dataclass(frozen=True)
class Answer:
    """What goes into a TableAnswer; `notes` begin with the answer itself."""

    expectation: BusbwExpectation | None
    share: float | None
    notes: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def judge(
    table: CollectiveTable, level: Level, run: Run, docket: Docket, fabric: Fabric | None
) -> Answer:
    """Answer for a table of at least two ranks that moved something."""
    known = expectations.known(table, run, fabric)
    if isinstance(known, str):
        unknown = f"no expectation known: {known}; only the shape is judged"
        in_ports = expectations.ports(table.collective, run, level.plateau, fabric)
        in_ports = in_ports if level.reached else None
        return Answer(None, None, (unknown, in_ports) if in_ports else (unknown,))
    chosen = expectations.chosen(level.plateau, known)
    share = level.plateau / chosen.busbw_gbs
    notes = [*_above_the_wire(table, level, run, chosen)]
    told = f"{gbs(level.plateau)} is {percent(share)} of {chosen.basis_text}"
    if share > expectations.MORE and chosen.hint:
        better = f"more than known: {told}; these hosts have better links than that system"
        in_ports = expectations.ports(table.collective, run, level.plateau, fabric)
        return Answer(chosen, share, (better, *notes, *([in_ports] if in_ports else [])))
    if share >= 1 - chosen.tolerance:
        return Answer(chosen, share, (f"normal: {told}", *notes))
    why = _incomparable(level, run, chosen)
    if why is not None:
        return Answer(chosen, share, (f"not held against it: {told}; {why}", *notes))
    limit = limits.limit(chosen.fabric, table.collective or "", run.hosts, run.ranks)
    low = Low(run=run, plateau_gbs=level.plateau, expectation=chosen, limit=limit)
    likely = reasons.likely(low)
    fitting = next((one for one in known if _surely_exceeded(level, run, one)), None)
    if fitting is not None:
        between = (
            f"between two systems with these GPUs: {told}, and "
            f"{percent(level.plateau / fitting.busbw_gbs)} of {fitting.basis_text}; which ports "
            "the hosts have decides"
        )
        return Answer(chosen, share, (between, *notes), likely)
    if run.forced and chosen.hint:
        forced = ", ".join(f"{name}={value}" for name, value in run.forced.items())
        text = f"{told}, but {forced} is set: not NCCL as it comes"
        return Answer(chosen, share, (text, *notes), likely)
    cause = next((f for f in docket.findings if _explains(f, table, run)), None)
    if cause is not None:
        return Answer(chosen, share, (f"{told}: see {cause.code}", *notes), likely)
    severity = _severity(chosen, known, level.plateau)
    docket.add(_finding(table, level, low, severity, likely))
    return Answer(chosen, share, (f"below expectation: {told}", *notes), likely)


def _surely_exceeded(level: Level, run: Run, one: BusbwExpectation) -> bool:
    """Whether the run did better than a system that its hosts may well be: of clouds' shapes only
    those that its PCI buses confirm, for every GPU is rented somewhere with less network."""
    confirmed = one.fabric.provider is None or (one.fabric.gpus.bus_ids and run.bus_ids)
    return bool(confirmed) and level.plateau > expectations.MORE * one.busbw_gbs


def _incomparable(level: Level, run: Run, chosen: BusbwExpectation) -> str | None:
    """Why a low figure says nothing yet: the table ends where busbw still rises."""
    if level.reached:
        return None
    upto = f" it holds from {size(chosen.from_bytes)} on," if chosen.from_bytes else ""
    return f"{upto} the table ends at {size(level.to_bytes)} and busbw still rises there".strip()


def _above_the_wire(
    table: CollectiveTable, level: Level, run: Run, chosen: BusbwExpectation
) -> tuple[str, ...]:
    limit = limits.limit(chosen.fabric, table.collective or "", run.hosts, run.ranks)
    if limit is None or level.peak <= limit.ring_gbs:
        return ()
    if level.peak > limit.any_gbs:
        text = (
            f"{gbs(level.peak)} is more than {limit.links} can carry by any algorithm: the hosts "
            "have other links than that system, or the rank count is not the true one"
        )
        return (text,)
    how = "NVLink SHARP" if run.hosts == 1 else "a tree (Tree, NVLSTree) over two hosts"
    if run.hosts is not None and run.hosts > 2:
        how = "an algorithm that is no ring"
    text = (
        f"{gbs(level.peak)} exceeds {limit.links}, rightly: busbw is calculated for a ring, and "
        f"{how} sends less over them"
    )
    return (text,)


def _explains(finding: Finding, table: CollectiveTable, run: Run) -> bool:
    if finding.code not in CAUSES or finding.severity not in ("degraded", "broken"):
        return False
    if finding.code == "bandwidth-collapse":
        # Another table's hole is none of this one's; and a hole in the middle leaves the plateau.
        return finding.where.file == table.file and finding.kind == "collapse"
    return True


def _severity(
    chosen: BusbwExpectation, known: tuple[BusbwExpectation, ...], plateau_gbs: float
) -> Severity:
    """A number in the user's own file gates; its rates and shipped numbers accuse only where far
    below all of them, shipped ones only with a number of this very collective and size of job."""
    if not chosen.hint and chosen.exact:
        return "degraded"
    share = plateau_gbs / min(one.busbw_gbs for one in known)
    if not chosen.hint:
        return "degraded" if share < FAR_BELOW_THE_WIRE else "warning"
    exact = any(one.exact for one in known)
    return "degraded" if exact and share < FAR_BELOW else "warning"


def _finding(
    table: CollectiveTable,
    level: Level,
    low: Low,
    severity: Severity,
    likely: tuple[str, ...],
) -> Finding:
    chosen = low.expectation
    basis: Basis = "expected" if not chosen.hint else "inferred"
    source = f" ({chosen.source})" if chosen.source else ""
    return Finding(
        code="below-expectation",
        severity=severity,
        summary=f"{table.collective} with {low.run.words} levels off at {gbs(level.plateau)}, "
        f"{percent(low.share)} of what {chosen.system} shows: {gbs(chosen.busbw_gbs)}.",
        where=Where(
            file=table.file,
            line=table.line,
            collective=table.collective,
            hosts=table.hosts if len(table.hosts) <= 2 else (),
        ),
        evidence=(
            Evidence(
                basis="measured",
                text=f"busbw {level.low:.2f}-{level.high:.2f} GB/s from {size(level.from_bytes)} "
                f"to {size(level.to_bytes)}; best row {level.peak:.2f} at "
                f"{size(level.peak_bytes)}",
            ),
            Evidence(basis=basis, text=f"{chosen.basis_text}{source}"),
            *(Evidence(basis="inferred", text=text) for text in chosen.unknown[:2]),
            *(Evidence(basis="inferred", text=f"likeliest: {text}") for text in likely[:1]),
        ),
        remedy="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,TUNING "
        f"./{table.program or f'{table.collective}_perf'} -b {level.from_bytes} "
        f"-e {level.to_bytes} -f 2",
        confidence="measured" if not chosen.hint else "inferred",
    )
