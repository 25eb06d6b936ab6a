"""The terminal view of `locate`: what was read, who is suspected, which pairs decided.

In: a PairReading. Out: text of at most `width` columns, the verdict last. Findings look as on the
sweep's screen.
"""

from __future__ import annotations

from bench.records import PairReading
from bench.report import digest, units
from bench.report.findings import LABEL, blocks_of, coloured_verdict
from bench.report.pairs import located
from bench.report.text import printable, wrapped

SHOWN = 6  # lists or runs in one screen
FACTS_SHOWN = 12


def screen(reading: PairReading, *, width: int = 80, colour: bool = False) -> str:
    """A block per list or run, then the findings of all."""
    blocks = []
    for file, location in list(zip(reading.files, reading.locations, strict=True))[:SHOWN]:
        read = wrapped(printable(file), label="read", hang=LABEL, width=width)
        blocks.append([*read, *located.block(location, width)])
    if len(reading.files) > SHOWN:
        blocks.append([f"… {len(reading.files) - SHOWN:,} more lists or runs in --json"])
    facts: list[str] = []
    for sentence in reading.facts[:FACTS_SHOWN]:
        facts += wrapped(sentence, label="" if facts else "shows", hang=LABEL, width=width)
    blocks.append(facts)
    blocks += blocks_of(
        reading.findings, width=width, colour=colour, all_in="--json", proof_in="--json",
        paged=False,
    )  # fmt: skip
    blocks.append(coloured_verdict(reading.verdict, _verdict_words(reading), width, colour))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _verdict_words(reading: PairReading) -> list[str]:
    number = sum(not digest.is_note(finding) for finding in reading.findings)
    if number:
        return [reading.verdict, units.count(number, "finding")]
    if any(location.unexplained for location in reading.locations):
        return [reading.verdict, "no single part explains the slow pairs"]
    return [reading.verdict, "no single part stands out"]
