"""What pairs of hosts say, in words: ranked suspects, which pairs decided, or "no single part".

In: a Location. Out: lines for the terminal, and the words and rows that page and summary share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from bench.records import Interval, Location, Suspect
from bench.report import units
from bench.report.findings import LABEL, labelled
from bench.report.text import cell, printable, wrapped

SUSPECTS_SHOWN = 8  # on a terminal; the page has more
PARTNERS_SHOWN = 3
NAME_COLUMNS, NARROWEST = 30, 12  # of the first column; of the last, before it is left out
INDENT, GAP = 2, 2
REST_SHOWN = 4  # sets of hosts that cannot be told apart, pairs that did not get through
WAYS = {"both": "", "transmit": "sending", "receive": "receiving"}


@dataclass(frozen=True)
class Row:
    """One suspect as tables show it."""

    part: str
    slower: str
    what: str
    decided_by: str


def rows(location: Location) -> list[Row]:
    """Suspects as ranked, then sets of hosts of which one is slow."""
    found = [
        Row(part_words(s), times_words(s.slowdown), _what(s), _deciding(s))
        for s in location.suspects
    ]
    return found + [
        Row(_either(group), "which cannot be told", "", "") for group in location.undecided
    ]


def part_words(suspect: Suspect) -> str:
    """ "host3", "host3, rail 2", "host1 – host2", "leaf of host4 … host7", "rail 2"."""
    rail = "" if suspect.rail is None else f"rail {suspect.rail}"
    if suspect.host is not None:
        part = printable(suspect.host)
    elif suspect.link is not None:
        arrow = " – " if suspect.direction == "both" else " → "
        part = arrow.join(map(printable, suspect.link))
    elif suspect.group:
        part = f"leaf of {_span(suspect.group)}"
    else:
        return rail
    return f"{part}, {rail}" if rail else part


def _either(group: Sequence[str]) -> str:
    shown = [printable(host) for host in group]
    if len(shown) == 1:
        return f"{shown[0]}, or a link"
    return " or ".join(shown) if len(shown) < 4 else f"one of {_span(group)}"


def _span(group: Sequence[str]) -> str:
    shown = [printable(host) for host in group]
    return ", ".join(shown) if len(shown) < 3 else f"{shown[0]} … {shown[-1]} ({len(shown)})"


def times_words(ratio: Interval) -> str:
    """ "2.01 × (1.98-2.04)"."""
    if round(ratio.low, 2) == round(ratio.high, 2):
        return f"{ratio.value:.2f} ×"
    return f"{ratio.value:.2f} × ({ratio.low:.2f}-{ratio.high:.2f})"


def _what(suspect: Suspect) -> str:
    if suspect.quantity == "latency":
        return "small messages"
    if suspect.across:
        return "uplinks"
    return "" if suspect.link else WAYS[suspect.direction]


def _deciding(suspect: Suspect) -> str:
    own = {suspect.host, *suspect.group}
    if suspect.link is not None:
        return units.count(len(suspect.deciding), "measurement")
    partners = [next((h for h in pair if h not in own), pair[0]) for pair in suspect.deciding]
    distinct = [printable(host) for host in dict.fromkeys(partners)]
    more = len(distinct) - PARTNERS_SHOWN
    return ", ".join(distinct[:PARTNERS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def head_words(location: Location) -> list[str]:
    """ "8 hosts", "20 pairs in 5 rounds over data", "a good pair 3.61 ms for 1 MiB"."""
    pairs = {frozenset(figure.hosts) for figure in location.figures}
    words = [units.count(len(location.hosts), "host")]
    over = f" over {printable(location.candidate)}" if location.candidate else ""
    if location.rounds:
        rounds = units.count(len(location.rounds), "round")
        # Of many hosts the report keeps a part of the figures only.
        pairs |= {frozenset(pair) for one in location.rounds for pair in one.pairs}
        words.append(f"{units.count(len(pairs), 'pair')} in {rounds}{over}")
    else:
        often = "each once" if len(location.figures) == len(pairs) else "some more than once"
        words.append(f"{units.count(len(pairs), 'pair')}, {often}{over}")
    return words + good_words(location)


def good_words(location: Location) -> list[str]:
    """What a good pair does, as a time of our own or a bandwidth of somebody else's."""
    if not location.reference_s:
        return []
    noise = f"±{100 * location.noise:.1f} %" if location.noise else ""
    if location.size_bytes:
        took = f"{units.time(location.reference_s)} for {units.size(location.size_bytes)}"
        return [f"a good pair {took} {noise}".rstrip()]
    return [f"good pairs {units.busbw(1 / location.reference_s / 1e9)} {noise}".rstrip()]


def rest(location: Location) -> list[str]:
    """What else is to be said, a sentence each."""
    told = []
    if location.unexplained:
        shown = [f"{printable(a)} – {printable(b)}" for a, b in location.unexplained]
        number = units.count(len(shown), "slow pair")
        told.append(f"{number} that no single part explains: {_some(shown)}")
    elif not location.suspects and not location.undecided:
        told.append(_nobody(location))
    if location.spread:
        worst, ratio = next(iter(location.spread.items()))
        told.append(
            f"connections of {units.count(len(location.spread), 'pair')} differ among themselves "
            f"(up to {ratio:.1f} ×, {printable(worst)}): paths that collide by chance, no broken "
            "link"
        )
    if location.unmeasured:
        shown = [f"{printable(a)} – {printable(b)}" for a, b in location.unmeasured]
        number = units.count(len(shown), "pair")
        told.append(f"{number} did not get through: {_some(shown)}")
    return told + [printable(note) for note in location.notes]


def _nobody(location: Location) -> str:
    if location.reference_s is None:
        return "nothing was measured" if not location.figures else "all pairs are alike, or wander"
    if location.every_pair_slow and location.expected_s:
        ratio = location.reference_s / location.expected_s
        return (
            f"no single part stands out: every pair takes {ratio:.2f} times as long as expected; "
            "look at the switch or at a setting, not at a host"
        )
    shown = f" by {100 * location.threshold:.0f} % or more" if location.threshold else ""
    return f"no single part stands out{shown}"


def _some(words: Sequence[str]) -> str:
    more = len(words) - REST_SHOWN
    return ", ".join(words[:REST_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _table(shown: Sequence[Row], width: int) -> list[str]:
    """Columns that somebody has something in; the last takes what room there is."""
    cells = [[cell(row.part, NAME_COLUMNS), row.slower, row.what, row.decided_by] for row in shown]
    columns = [
        [head, *values]
        for head, *values in zip(("suspect", "slower", "", "decided by"), *cells, strict=True)
        if any(values)
    ]
    if len(columns) > 1 and columns[-1][0] == "decided by":
        room = width - sum(max(map(len, column)) + GAP for column in columns[:-1])
        last = [cell(text, room) for text in columns.pop()] if room >= NARROWEST else None
        columns += [last] if last else []
    rows = list(zip(*columns, strict=True))
    text = tabulate(rows, tablefmt="plain", disable_numparse=True)
    return [line.rstrip() for line in text.splitlines()] if shown else []


def block(location: Location, width: int) -> list[str]:
    """The terminal's block: one line about the rounds, a line per suspect, remarks."""
    lines = labelled("pairs", head_words(location), width)
    shown = rows(location)
    table = _table(shown[:SUSPECTS_SHOWN], width - INDENT)
    lines += ["", *(" " * INDENT + line for line in table)] if table else []
    if len(shown) > SUSPECTS_SHOWN:
        lines.append(f"  … {len(shown) - SUSPECTS_SHOWN:,} more in report.json")
    sentences = rest(location)
    if sentences and table:
        lines.append("")
    for sentence in sentences:
        lines += wrapped(sentence, label="" if table else " " * LABEL, hang=LABEL, width=width)
    return lines
