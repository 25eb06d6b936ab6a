"""From the rounds of pairs to findings: which host, link or rail is slow.

In: a Location (who measured it does not matter), and what its network is called and worth. Out:
host-slow, link-degraded, rail-slow, latency-degraded, not-determinable, below-expectation where
all pairs are slow alike, a hang for pairs that never got through. What other rules know of the
same fault is put together in `located`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.judge.pairs import hangs
from bench.judge.pairs.evidence import WAYS, Context, deciding, expectation, reference, slower
from bench.judge.pairs.values import typical
from bench.judge.ratio import times
from bench.judge.remedy import look
from bench.judge.words import listed
from bench.records import Evidence, Finding, Location, PairFigure, Suspect, Where


def findings(location: Location, context: Context) -> list[Finding]:
    """One per suspect, per set of hosts that cannot be told apart, per host or pair that hung."""
    return [
        *(of_suspect(location, suspect, context) for suspect in location.suspects),
        *(of_group(location, group, context) for group in location.undecided),
        *hangs.findings(location, context),
    ]


def of_suspect(location: Location, suspect: Suspect, context: Context) -> Finding:
    """The finding of one suspect."""
    late = suspect.quantity == "latency"
    degraded = context.matters and not late and suspect.slowdown.value >= 1 + context.tolerance
    return Finding(
        code=_code(suspect),
        severity="degraded" if degraded else "warning",
        summary=_sentence(suspect, context),
        where=Where(
            host=suspect.host,
            hosts=suspect.group,
            gpu=suspect.rail,
            link=suspect.link or (),
            candidate=location.candidate,
            interface=context.interface,
        ),
        evidence=tuple(deciding(location, suspect)),
        remedy=look(context.interface, context.transport) if suspect.host and not late else None,
    )


def _code(suspect: Suspect) -> str:
    if suspect.quantity == "latency":
        return "latency-degraded"
    if suspect.link or suspect.group:
        return "link-degraded"
    return "host-slow" if suspect.host else "rail-slow"


def _sentence(suspect: Suspect, context: Context) -> str:
    ratio, over = slower(suspect.slowdown), context.over
    rail = "" if suspect.rail is None else f" on rail {suspect.rail}"
    if suspect.quantity == "latency":
        return (
            f"Small messages to and from {suspect.host}{over} take {ratio} as between others, "
            "though its bandwidth is as good."
        )
    if suspect.link is not None:
        a, b = suspect.link
        ends = f"From {a} to {b}" if suspect.direction != "both" else f"Between {a} and {b}"
        return (
            f"{ends} transfers{over}{rail} take {ratio} as between other hosts, while both do "
            "well with others: what lies between the two is slow, not a host."
        )
    if suspect.host is not None:
        return (
            f"{suspect.host} is slow{rail} with every partner{over}: transfers take {ratio} as "
            f"between other hosts, {WAYS[suspect.direction]}."
        )
    who = f"The leaf of {listed(suspect.group)}" if suspect.group else f"Rail {suspect.rail}"
    where = " to and from the others" if suspect.across else " on every host"
    inside = ", and is fast inside: its uplinks are slow" if suspect.across else ""
    return f"{who} is slow{where}{over}: transfers take {ratio} as elsewhere{inside}."


def of_group(location: Location, group: tuple[str, ...], context: Context) -> Finding:
    """A set of hosts of which one is slow, at least."""
    own = [f for f in location.figures if f.times and set(f.hosts) <= set(group)]
    met = own or [f for f in location.figures if f.times and set(f.hosts) & set(group)]
    ratio = _ratio(location, met)
    told = f" ({times(ratio)} times as long as good pairs)" if ratio else ""
    why = (
        "they were measured with each other only, or with hosts that are slow themselves"
        if len(group) > 1
        else "it was measured with one good host only, so it may be the link between the two"
    )
    sure = context.matters and ratio is not None and ratio >= 1 + context.tolerance
    what = f"One of {listed(group)} is slow" if len(group) > 1 else f"{group[0]} may be slow"
    pairs = [f"{a} with {b}" for a, b in dict.fromkeys(f.hosts for f in met)]
    return Finding(
        code="not-determinable",
        severity="warning" if sure else "info",
        summary=f"{what}{context.over}{told}; which cannot be told: {why}.",
        where=Where(
            hosts=group,
            candidate=location.candidate,
            interface=context.interface,
        ),
        evidence=(
            Evidence(basis="measured", text=f"slow: {listed(pairs)}"),
            *reference(location),
        ),
        confidence="inferred",
    )


def _ratio(location: Location, figures: Iterable[PairFigure]) -> float | None:
    """How many times longer than a good pair the fastest of these took."""
    if not location.reference_s:
        return None
    taken = [
        max(typical(t.forward_s for t in f.times), typical(t.backward_s for t in f.times))
        for f in figures
    ]
    return min(taken) / location.reference_s if taken else None


def of_everybody(location: Location, context: Context, proof: tuple[Evidence, ...]) -> Finding:
    """Slow alike, and slower than expected: nobody stands out."""
    assert location.reference_s is not None, "slow against what, else"
    wanted = location.expected_s or location.reference_s
    return Finding(
        code="below-expectation",
        severity="degraded" if context.matters else "warning",
        summary=f"Every pair of hosts{context.over} is slow alike: transfers take "
        f"{times(location.reference_s / wanted)} times as long as expected. Look at the switch or "
        "at a setting that all hosts share, not at a host.",
        where=Where(candidate=location.candidate, interface=context.interface),
        evidence=(*reference(location), *expectation(location), *proof),
    )
