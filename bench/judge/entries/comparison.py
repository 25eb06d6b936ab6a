"""Texts of the room "comparison": two sides, before and after."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="regressed",
        room="comparison",
        title="slower than before, beyond chance",
        meaning="Latency, bandwidth or a range of sizes is worse on the second side.",
        established="Sessions are the sample: Welch's test on their log ratios, corrected for the "
        "number of collectives, and at least 2 % per size named.",
        remedy="See first what differs between the sides; change one thing at a time.",
    ),
    Entry(
        code="improved",
        room="comparison",
        title="faster than before, beyond chance",
        meaning="The same test in the other direction.",
        established="As for regressed.",
        remedy="Nothing to fix; set a new baseline once the reason is known.",
    ),
    Entry(
        code="equivalent",
        room="comparison",
        title="equal within 3 %",
        meaning="The 90 % interval of the change lies inside ±3 %: shown equal, not merely not "
        "shown different.",
        established="Two one-sided tests on session ratios.",
        remedy="Nothing to fix.",
    ),
    Entry(
        code="inconclusive",
        room="comparison",
        title="the measurements do not decide",
        meaning="Neither a change nor equality is shown.",
        established="The interval is too wide; the finding gives the change that would have "
        "shown.",
        remedy="Run as many more sessions a side as the finding says.",
    ),
    Entry(
        code="not-comparable",
        room="comparison",
        title="the two sides measure different things",
        meaning="Another number of ranks or hosts, other candidates or other sizes: a difference "
        "would say nothing.",
        established="The plans and hosts of both sides were compared before any figure.",
        remedy="Repeat one side as the other was run.",
    ),
)
