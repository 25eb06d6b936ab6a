"""What pairs of hosts measured, told as proof: which decided, how long they took, what good is.

In: a Location. Out: lines of evidence and phrases of its findings. Times are those that the search
itself compares: of each pair's connections the lower quartile, of its directions the slower one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.pairs.values import typical
from bench.judge.ratio import times
from bench.plan.sizes import format_bytes
from bench.records import Direction, Evidence, Interval, Location, PairFigure, PairTime, Suspect

SHOWN = 4  # deciding pairs; the page has all of them
WAYS: dict[Direction, str] = {
    "both": "in both directions",
    "transmit": "in what it sends; what it receives is as fast as others'",
    "receive": "in what it receives; what it sends is as fast as others'",
}


@dataclass(frozen=True)
class Context:
    """What the location's findings rest on besides itself: `name` is what the network is called,
    `matters` whether jobs depend on it, `tolerance` the slowdown from which that is degraded."""

    name: str = ""
    interface: str | None = None
    transport: str = "socket"
    matters: bool = True
    tolerance: float = 0.10

    @property
    def over(self) -> str:
        return f" over {self.name}" if self.name else ""


def deciding(location: Location, suspect: Suspect) -> list[Evidence]:
    """The pairs that decided, and what they were held against."""
    one = suspect.host or (suspect.link[0] if suspect.link else None)
    lines = []
    for pair in list(dict.fromkeys(suspect.deciding))[:SHOWN]:
        figures = [f for f in location.figures if f.outcome == "ok" and set(f.hosts) == set(pair)]
        figures = [f for f in figures if suspect.rail in (None, f.rail, f.other_rail)]
        taken = [_seconds(figure, suspect, one) for figure in figures]
        known = [seconds for seconds in taken if seconds is not None]
        if known:
            middle = statistics.median(known)
            text = _pair(location, suspect, pair, middle, figures)
            lines.append(Evidence(basis="measured", text=text))
    return [*lines, *reference(location)]


def reference(location: Location) -> list[Evidence]:
    """What a good pair takes."""
    if location.reference_s is None:
        return []
    hosts = {s.host for s in location.suspects} | {h for g in location.undecided for h in g}
    links = {frozenset(s.link) for s in location.suspects if s.link}
    good = {
        frozenset(f.hosts)
        for f in location.figures
        if f.outcome == "ok" and not hosts & set(f.hosts) and frozenset(f.hosts) not in links
    }
    noise = f"{100 * (location.noise or 0.0):.1f} %"
    took = f"{_ms(location.reference_s)} for {format_bytes(location.size_bytes)}"
    if len(good) == 1:
        text = f"the only other pair takes {took}" if location.size_bytes else "one other pair"
    elif location.size_bytes:
        text = f"the other {len(good)} pairs take {took}, alike within {noise}"
    else:
        text = f"the other {len(good)} pairs are alike within {noise}"
    return [Evidence(basis="measured", text=text)]


def expectation(location: Location) -> list[Evidence]:
    """What a pair should take, where something says so."""
    if location.expected_s is None:
        return []
    text = f"{_ms(location.expected_s)} for {format_bytes(location.size_bytes)} at the link's rate"
    return [Evidence(basis="expected", text=text)]


def slower(ratio: Interval) -> str:
    """ "2.01 times as long (1.98-2.04)"."""
    decimals = _decimals(ratio.value)
    low, high = times(ratio.low, decimals=decimals), times(ratio.high, decimals=decimals)
    return f"{times(ratio.value, decimals=decimals)} times as long ({low}-{high})"


def _seconds(figure: PairFigure, suspect: Suspect, one: str | None) -> float | None:
    """What the figure says of the suspect, in its own direction and quantity."""
    if suspect.quantity == "latency":
        small = [t.latency_s for t in figure.times if t.latency_s is not None]
        return typical(small) if small else None
    if not figure.times:
        return None
    out = typical(_forward(t, figure.hosts[0] == one) for t in figure.times)
    back = typical(_forward(t, figure.hosts[0] != one) for t in figure.times)
    return {"both": max(out, back), "transmit": out, "receive": back}[suspect.direction]


def _forward(time: PairTime, ahead: bool) -> float:
    return time.forward_s if ahead else time.backward_s


def _pair(
    location: Location,
    suspect: Suspect,
    pair: tuple[str, str],
    seconds: float,
    figures: Sequence[PairFigure],
) -> str:
    told = [_ms(seconds)] if location.size_bytes or suspect.quantity == "latency" else []
    if location.reference_s and suspect.quantity == "bandwidth":
        ratio = seconds / location.reference_s
        told.append(f"{times(ratio, decimals=_decimals(ratio))} times a good pair's")
    if figures[0].basis == "measured":
        connections = sum(len(figure.times) for figure in figures)
        told.append(f"{connections} connection{'s' if connections > 1 else ''}")
    return f"{pair[0]} with {pair[1]}: {', '.join(told)}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _decimals(ratio: float) -> int:
    return 2 if ratio < 10 else 0
