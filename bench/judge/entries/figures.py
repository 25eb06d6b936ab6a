"""Texts of the rooms "comparison" and "measurement": what figures can and cannot say."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="regressed",
        room="comparison",
        title="slower than before, beyond chance",
        meaning="Latency, bandwidth or a range of sizes is worse on the second side.",
        established="Sessions are the sample (boots, where the sides lie on different ones): "
        "Welch's test on their log ratios, small and large sizes apart, corrected for all lines; "
        "then the sizes that moved by 2 % or more, and changes that are confined to a few sizes. "
        "A size that one session has far slower than the others is kept out, and told. "
        "Of one run a side only what is large and local is named, or three times as slow. One "
        "boot a side, or a reboot that does the same, makes it a warning. Without a figure: a "
        "candidate that was measured before and hangs after, half of NCCL's channels gone, "
        "sockets instead of RDMA. Errors that only the files of AFTER hold keep their own code. "
        "Night by night: the mean log ratio of small and of large sizes to the baseline. Told are "
        "a night beyond the gate (the tolerance, or the scatter of good nights where that is "
        "more) that a second look of the same night confirms, and a level that moved by 2 % or "
        "more, sure after three nights; 'tonight' is a night 4 standard deviations out, a warning "
        "until two more are like it.",
        remedy="See first what differs between the sides, or what changed with that night; put "
        "one thing back at a time and compare again.",
    ),
    Entry(
        code="improved",
        room="comparison",
        title="faster than before, beyond chance",
        meaning="The same test in the other direction; 'recovered' is what was wrong on the night "
        "before and is not any more.",
        established="As for regressed. Night by night only after a week, for good news can wait; "
        "a return to the level of the baseline after three nights. A night that was cut short, or "
        "did not measure the thing, recovers nothing.",
        remedy="Nothing to fix; set a new baseline once the reason is known.",
    ),
    Entry(
        code="equivalent",
        room="comparison",
        title="equal within 3 %",
        meaning="The 90 % interval of the change lies inside ±3 %: shown equal, not merely not "
        "shown different.",
        established="Two one-sided tests on session ratios; never of one run a side.",
        remedy="Nothing to fix.",
    ),
    Entry(
        code="inconclusive",
        room="comparison",
        title="the measurements do not decide",
        meaning="Neither a change nor equality is shown.",
        established="The interval is too wide, or a side was measured once, or only averages are "
        "there; the finding gives the change that would have shown. A warning where one run a "
        "side differs by more than its own scatter and 5 %. Night by night: one stood out that "
        "its second look, or its own interval, does not confirm.",
        remedy="Run as many more sessions a side as the finding says; after a night wait for the "
        "next ones.",
    ),
    Entry(
        code="not-comparable",
        room="comparison",
        title="the two sides measure different things",
        meaning="Another number of ranks or hosts, other candidates or other sizes: a difference "
        "would say nothing. Of a night: none before it ran on as many hosts, ranks and GPUs.",
        established="Ranks, hosts, element type, operation, backend and sizes of both sides were "
        "compared before any figure.",
        remedy="Repeat one side as the other was run.",
    ),
    Entry(
        code="wrong-result",
        room="measurement",
        title="a collective returned wrong values",
        meaning="Elements of the result differ from what the collective must give. Training on "
        "this path silently goes wrong; nothing else in the report matters as much.",
        established="Every cell fills its buffers with known values and compares the result on "
        "every rank, outside the timed part.",
        remedy="Take the hosts out of service. Repeat per host and per path to see which one: "
        "memory (ECC), PCIe, NVLink, NIC or switch; then firmware and NCCL version.",
    ),
    Entry(
        code="unsettled",
        room="measurement",
        title="times were still moving when the budget ended",
        meaning="Warm-up was not over, or the interval had not become narrow enough, for some "
        "cells. Their figures stand with wide intervals.",
        established="Two adjacent windows of calls still differed in median or spread, or the "
        "99 % interval of the median was wider than asked when time was up.",
        remedy="A longer plan (nightly or full), fewer candidates, or a quieter machine.",
    ),
    Entry(
        code="skewed",
        room="measurement",
        title="ranks finish far apart",
        meaning="Some ranks wait for others: entry is late on one, or a machine has too few "
        "cores. The slowest rank's time is reported; the difference is waiting, not network.",
        established="The median over calls of (slowest - fastest) / slowest exceeds 5 %, and the "
        "difference exceeds 100 µs: 5 % of 20 µs is one scheduler tick of nothing.",
        remedy="Pin ranks, stop what else runs, check clocks and NUMA placement. With more ranks "
        "than half the cores it is to be expected.",
    ),
    Entry(
        code="noisy",
        room="measurement",
        title="times scatter",
        meaning="The spread of some cells is too large for the promised accuracy; they are shown "
        "with their interval and weigh less in the fitted line.",
        established="The interval over sessions, widened for autocorrelation, exceeds the plan's "
        "aim. Expected at small sizes where ranks outnumber half the cores.",
        remedy="More sessions, a quieter machine, fewer ranks per core.",
    ),
    Entry(
        code="measurement-failed",
        room="measurement",
        title="a case could not be measured",
        meaning="Every rank ended with an error instead of hanging, and no rank or network could "
        "be singled out. The other candidates were measured.",
        established="The workers' own errors; the first one is quoted.",
        remedy="Read the quoted error and the log tail in report.json; run this candidate alone "
        "with --interface NAME and NCCL_DEBUG=INFO.",
    ),
)
