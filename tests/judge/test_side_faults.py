"""What the files of two sides say is wrong: only what is new, or worse, is told."""

from __future__ import annotations

import itertools

from bench.judge.sides.faults import compare
from bench.records import Finding, Severity, Side, Where


def side(*severities: Severity) -> Side:
    """With findings of one code and kind, in this order."""
    found = tuple(
        Finding(code="mtu-mismatch", severity=severity, summary="", where=Where(host=f"h{number}"))
        for number, severity in enumerate(severities)
    )
    return Side(path="side", findings=found, told=("ports",))


def test_a_side_held_against_itself_has_nothing_worse_in_any_order() -> None:
    for order in itertools.permutations(("broken", "degraded", "warning")):
        found = compare(side(*order), side(*order))
        assert found.findings == () and not found.worse


def test_what_becomes_worse_than_the_worst_of_before_is_told() -> None:
    found = compare(side("degraded", "warning"), side("broken", "warning"))
    assert found.worse and found.findings[0].severity == "broken"
