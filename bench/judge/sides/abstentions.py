"""What a comparison says where it accuses nobody: equal, not to be told, one run each.

In: ComparedLines and those of their gates that did not move. Out: Findings. An abstention says
what would have shown, and how many more repetitions would decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.sides import words
from bench.model import single_runs
from bench.records import ComparedGate, ComparedLine, Evidence, Finding, Where

ADVICE = (
    "repeat each side in some ten runs, taking turns; put the old version back to confirm; start "
    "ranks bound to their NUMA nodes (mpirun --bind-to numa)"
)
WORTH_SAYING = 0.03  # a change that would have shown below it is as good as none


def name_of(line: ComparedLine) -> str:
    return ", ".join(part for part in (line.candidate, line.collective) if part)


def is_single(line: ComparedLine) -> bool:
    """Whether a side was measured too seldom for a test."""
    return all(gate.p is None for gate in line.gates)


def equal(line: ComparedLine, gates: Sequence[ComparedGate]) -> Finding:
    """Shown equal, not merely not shown different."""
    told = ", ".join(
        f"{words.span(g.whole)} {words.percent(g.whole.time_s.change.value)} time "
        f"{words.interval(g.whole.time_s.change)}"
        for g in gates
    )
    return Finding(
        code="equivalent",
        severity="info",
        summary=f"{name_of(line)}: equal within 3 %: {told}.",
        where=_where(line, gates),
    )


def undecided(line: ComparedLine, gates: Sequence[ComparedGate], unit: str) -> Finding:
    """`unit` is what is counted: session, boot, host."""
    told = []
    for gate in gates:
        change = gate.whole.time_s.change
        text = (
            f"{words.span(gate.whole)} {words.percent(change.value)} time "
            f"{words.interval(change)}, a change under {words.least(gate.detectable or 0)} "
            "would not show"
        )
        if gate.further_sessions is not None:
            noun = unit + ("s" if gate.further_sessions > 1 else "")
            text += f", {gate.further_sessions} more {noun} a side would decide"
        elif gate.detectable is not None and gate.detectable > WORTH_SAYING:
            text += ", and no reasonable number of repetitions would decide"
        told.append(text)
    return Finding(
        code="inconclusive",
        severity="info",
        summary=f"{name_of(line)}: neither a change nor equality is shown: {'; '.join(told)}.",
        where=_where(line, gates),
    )


def luck(line: ComparedLine, gates: Sequence[ComparedGate], doubts: Sequence[str]) -> Finding:
    """One run a side: a warning where it differs by more than its own scatter."""
    told = []
    out = False
    for gate in gates:
        change = gate.whole.time_s.change.value
        own = gate.detectable or single_runs.RUN_LUCK
        stands_out = abs(change) >= own
        out = out or stands_out
        told.append(
            f"{words.span(gate.whole)} {words.percent(change)} time, "
            + (
                "more than the runs' own scatter"
                if stands_out
                else f"within what scatter and the luck of a run do (up to {words.least(own)})"
            )
        )
    return Finding(
        code="inconclusive",
        severity="warning" if out else "info",
        summary=f"{name_of(line)}: {'; '.join(told)}; one run each, which cannot tell luck from "
        "cause.",
        where=_where(line, gates),
        evidence=tuple(Evidence(basis="inferred", text=doubt) for doubt in doubts),
        remedy=ADVICE,
        confidence="inferred",
    )


def untold(line: ComparedLine, why: str) -> Finding:
    """Sizes that both sides have, with times of two quantities."""
    return Finding(
        code="inconclusive",
        severity="warning",
        summary=f"{name_of(line)}: {why}.",
        where=_where(line, ()),
        remedy="repeat one side as the other was run",
    )


def _where(line: ComparedLine, gates: Sequence[ComparedGate]) -> Where:
    part = 0 < len(gates) < len(line.gates)
    return Where(
        candidate=line.candidate or None,
        collective=line.collective,
        from_bytes=gates[0].whole.from_bytes if part else None,
        to_bytes=gates[-1].whole.to_bytes if part else None,
    )
