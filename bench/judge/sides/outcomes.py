"""What became worse without a figure: cases that failed, wrong values, fewer channels, sockets.

In: two Sides and their differences. Out: Findings. A case that was measured before and hangs after
the change is its worst effect; NCCL's own words on channels and networks explain what figures only
show, and stand for them where there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench.judge.sides import carriers
from bench.judge.sides.differences import Contrasted
from bench.records import Difference, Evidence, Finding, Severity, Side, Where

MEASURED, BAD = "measured", ("hung", "failed", "unreachable")
# So many runs that end badly where none did before, or half of them, are told as worse; unless all
# runs before would end well at the rate after more likely than LUCK: then they prove nothing.
SEVERAL, LUCK = 2, 0.5
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


def _outcomes(side: Side) -> dict[str, Counter[str]]:
    """By candidate, how many runs ended how."""
    ended: dict[str, dict[str, str]] = {}
    for session in side.sessions:
        for candidate, outcome in session.outcomes.items():
            if outcome == MEASURED or outcome in BAD:
                ended.setdefault(candidate, {})[session.run] = outcome
    return {candidate: Counter(runs.values()) for candidate, runs in ended.items()}


def _failed(before: Side, after: Side) -> Iterator[Finding]:
    first, second = _outcomes(before), _outcomes(after)
    for candidate, ended in second.items():
        good = first.get(candidate, Counter())
        bad = {outcome: ended[outcome] for outcome in BAD if ended[outcome]}
        if not bad or not good[MEASURED]:
            continue
        if not ended[MEASURED]:
            told = f"{candidate} was measured before and is {next(iter(bad))} after."
            yield _outcome("regressed", "broken", candidate, told)
        elif good.total() == good[MEASURED]:
            yield _sometimes(candidate, bad, runs=ended.total(), good=good.total())
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


def _sometimes(candidate: str, bad: dict[str, int], *, runs: int, good: int) -> Finding:
    """`bad`: in how many of the `runs` after it ended how; all `good` runs before measured it."""
    number = sum(bad.values())
    told = " and ".join(f"{outcome} in {count}" for outcome, count in bad.items())
    before = f"all {good} runs" if good > 1 else "the one run"
    summary = f"{candidate} is {told} of {runs} runs after, and was measured in {before} before"
    luck = (1 - number / runs) ** good  # that all runs before end well at the rate after
    if (number >= SEVERAL or 2 * number >= runs) and luck <= LUCK:
        return _outcome("regressed", "degraded", candidate, f"{summary}.")
    return _outcome("inconclusive", "warning", candidate, f"{summary}, which may be chance.")


def _outcome(code: str, severity: Severity, candidate: str, summary: str) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        kind="outcome",
        summary=summary,
        where=Where(candidate=candidate),
        remedy="repeat the side AFTER in some ten runs" if code == "inconclusive" else None,
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
