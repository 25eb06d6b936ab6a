"""A diagnosis as a terminal shows it: what was read, what is missing, phase, who waits, findings.

In: a Diagnosis. Out: one text of lines of at most `width` columns, the verdict last. Nothing here
judges; the sentences are those of diagnosis_words.
"""

from __future__ import annotations

from collections.abc import Iterable

from tabulate import tabulate

from bench.hang import calls
from bench.records import Diagnosis, FlightCollective, FlightPicture
from bench.report.diagnosis import launch_rows, words
from bench.report.findings import LABEL, blocks_of, coloured_verdict
from bench.report.text import cell, printable, wrapped

HANG = LABEL + 1


def screen(
    diagnosis: Diagnosis, *, width: int = 80, colour: bool = False, listing: bool = False
) -> str:
    """The whole view. `listing`: with the list of collectives that was asked for."""
    flight = diagnosis.flight
    findings = words.findings(diagnosis)
    blocks = [
        _labelled(words.read(diagnosis), width),
        _labelled(words.state(diagnosis), width),
        _labelled(launch_rows.pairs(diagnosis), width),
        _listed(flight, width) if flight and listing else [],
        *blocks_of(findings, width=width, colour=colour, all_in="--json", proof_in="--json"),
        coloured_verdict(diagnosis.verdict, words.verdict(diagnosis), width, colour),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _labelled(pairs: Iterable[words.Pair], width: int) -> list[str]:
    """Each label once, before its first sentence."""
    lines: list[str] = []
    before = ""
    for label, text in pairs:
        lines += wrapped(text, label="" if label == before else label, hang=HANG, width=width)
        before = label
    return lines


HEAD = ("seq", "group", "collective", "message", "joined", "state")


def _listed(flight: FlightPicture, width: int) -> list[str]:
    rows = [_row(each) for each in flight.listed]
    if not rows:
        return []
    room = max(width - 56, 8)
    table = [
        (seq, cell(group, 16), cell(name, 20), cell(shape, room), joined, state)
        for seq, group, name, shape, joined, state in rows
    ]
    text = tabulate([HEAD, *table], tablefmt="plain", disable_numparse=True)
    lines = ["  " + line.rstrip() for line in text.splitlines()]
    rest = flight.listed_of - len(rows)
    return [*lines, f"  … {rest:,} older ones: --seq A-B shows them"] if rest > 0 else lines


def _row(each: FlightCollective) -> tuple[str, str, str, str, str, str]:
    members = each.joined + len(each.missing)
    over = "over" if each.finished else "under way"
    if 0 < each.finished < each.joined:
        over = f"over on {each.finished}"
    state = "differs" if each.mismatch else over
    return (
        f"{each.seq:,}",
        printable(each.group),
        printable(each.call.name),
        printable(calls.shape(each.call)),
        f"{each.joined}/{members}",
        state,
    )
