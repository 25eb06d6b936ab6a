"""Sides of which only printed averages are there.

In: sessions with an average bus bandwidth and no rows. Out: one Finding. An average mixes all
sizes of a run: what it says depends on which sizes those were, so it is no plateau and never
accuses by itself. With several sessions a side it can at least be told from luck.
"""

from __future__ import annotations

import math

import numpy as np

from bench.judge.sides import words
from bench.judge.sides.abstentions import ADVICE
from bench.model.comparison import shift_of
from bench.model.contrast import contrast
from bench.records import Evidence, Finding, Severity, Side

ALPHA = 0.05
FEWEST = 3


def finding(
    before: Side, after: Side, doubts: tuple[str, ...], changed: tuple[str, ...]
) -> Finding | None:
    """None unless both sides have such sessions."""
    sides = [
        [s.average_busbw_gbs for s in side.sessions if s.average_busbw_gbs]
        for side in (before, after)
    ]
    if not sides[0] or not sides[1]:
        return None
    logs = [np.log(np.array(own)) for own in sides]
    first, second = (math.exp(float(own.mean())) for own in logs)
    change = words.percent(second / first - 1)
    told = f"average busbw {first:g} GB/s before, {second:g} GB/s after ({change})"
    evidence = [
        Evidence(
            basis="inferred",
            text="the files hold an average over all sizes and no rows: which sizes changed, and "
            "whether the same were measured, cannot be told",
        ),
        *(Evidence(basis="inferred", text=text) for text in (*changed, *doubts)),
    ]
    severity: Severity = "warning" if abs(second / first - 1) >= 0.05 else "info"
    if min(map(len, sides)) < FEWEST:
        count = "one run each" if max(map(len, sides)) == 1 else "too few runs"
        summary = f"{told}: {count}, without rows, which does not prove a cause."
    else:
        shift = shift_of(contrast(logs[0], logs[1]))
        interval = words.interval(words.change_of(shift.value, shift.low, shift.high))
        beyond = "more than chance" if shift.p < ALPHA else "not more than chance"
        summary = (
            f"{told[:-1]} {interval}): {beyond} between {len(sides[0])} and {len(sides[1])} "
            "sessions, but of averages without rows, which mix all sizes."
        )
        severity = "warning" if shift.p < ALPHA else "info"
    return Finding(
        code="inconclusive",
        severity=severity,
        summary=summary,
        evidence=tuple(evidence),
        remedy=ADVICE,
        confidence="inferred",
    )
