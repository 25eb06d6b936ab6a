"""What became worse without a figure: cases that failed, wrong values, fewer channels, sockets.

In: two Sides and their differences. Out: Findings. A case that was measured before and hangs after
the change is its worst effect; NCCL's own words on channels and networks explain what figures only
show, and stand for them where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.judge.sides import carriers
from bench.judge.sides.differences import Contrasted
from bench.records import Difference, Evidence, Finding, Side, Where

BAD = ("hung", "failed", "unreachable")
# NCCL adds a channel or two from version to version; half of them gone is another graph
# (judge/foreign/log_versions).
FEWER = 0.5


def findings(before: Side, after: Side, contrasted: Contrasted) -> tuple[Finding, ...]:
    """In the order in which they matter."""
    by_name = {difference.name: difference for difference in contrasted.differences}
    return (
        *_wrong(before, after),
        *_failed(before, after),
        *_channels(by_name),
        *(tuple(carriers.findings(before, after)) or _network(by_name)),
    )


def _wrong(before: Side, after: Side) -> Iterator[Finding]:
    first, second = (sum(s.wrong for s in side.sessions) for side in (before, after))
    if second:
        yield Finding(
            code="wrong-result",
            severity="broken",
            summary=f"{second:,} wrong values after, {first:,} before: times of a collective that "
            "returns wrong values are worth nothing.",
        )


def _failed(before: Side, after: Side) -> Iterator[Finding]:
    first, second = ({}, {})  # type: tuple[dict[str, set[str]], dict[str, set[str]]]
    for outcomes, side in ((first, before), (second, after)):
        for session in side.sessions:
            for candidate, outcome in session.outcomes.items():
                outcomes.setdefault(candidate, set()).add(outcome)
    for candidate, ended in second.items():
        bad = [outcome for outcome in BAD if outcome in ended]
        good = first.get(candidate, set())
        if bad and "measured" not in ended and "measured" in good:
            yield Finding(
                code="regressed",
                severity="broken",
                kind="outcome",
                summary=f"{candidate} was measured before and is {bad[0]} after.",
                where=Where(candidate=candidate),
            )
    failures = [s for s in after.sessions if s.failure]
    if failures and not any(s.failure for s in before.sessions):
        yield Finding(
            code="regressed",
            severity="broken",
            kind="outcome",
            summary=f"{len(failures)} of {len(after.sessions)} sessions ended with a failure "
            f"after, none before: {failures[0].failure}",
            where=Where(file=failures[0].name),
        )


def _channels(by_name: dict[str, Difference]) -> Iterator[Finding]:
    channels = by_name.get("channels")
    if channels is None:
        return
    try:
        first = max(int(word) for word in channels.before.split(" / "))
        second = max(int(word) for word in channels.after.split(" / "))
    except ValueError:  # more than three different counts: several jobs
        return
    if first == second:
        return
    worse = second <= FEWER * first
    if not worse and first > FEWER * second:
        return
    orders = by_name.get("ring orders")
    nccl = by_name.get("NCCL")
    versions = f" with NCCL {nccl.after} instead of {nccl.before}" if nccl else ""
    rings = f"; ring orders: {orders.before} before, {orders.after} after" if orders else ""
    carried = by_name.get("carriers")
    yield Finding(
        code="regressed" if worse else "improved",
        severity="degraded" if worse else "info",
        kind="channels",
        summary=f"NCCL uses {second} channels{versions}, {first} before{rings}: "
        + (
            "fewer channels fill fewer NIC ports, so large messages are slower."
            if worse
            else "more channels can fill more NIC ports."
        ),
        evidence=tuple(
            Evidence(basis="asked", text=text)
            for text in (
                f"channel lines of NCCL's log: {channels.before} before, {channels.after} after",
                f"carriers: {carried.before} before, {carried.after} after" if carried else "",
            )
            if text
        ),
        remedy="export NCCL_PXN_DISABLE='1'   # try; and compare "
        "NCCL_DEBUG_SUBSYS=GRAPH,TUNING of both sides"
        if worse
        else None,
        confidence="inferred",
    )


def _network(by_name: dict[str, Difference]) -> Iterator[Finding]:
    network = by_name.get("network")
    if network is not None and network.after == "Socket" and network.before != "Socket":
        yield Finding(
            code="regressed",
            severity="degraded",
            kind="network",
            summary=f"NCCL carried its data over {network.before} before and over sockets after.",
            evidence=(Evidence(basis="asked", text="NCCL's own lines: Using network …"),),
            confidence="asked",
        )
