"""What a night's series, hosts and shape amount to, as findings with their proof.

In: a Nightly without findings and tonight's report. Out: Findings: one for each way that carries
data and is slower, since one night; what the network below a way explains is told with it. A night
that cannot be held against anything says so.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from bench.judge import stated
from bench.judge.docket import Docket
from bench.judge.history.words import SIZES, ends, percent, signed, slower
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import (
    Candidate,
    Evidence,
    Finding,
    Nightly,
    NightlySeries,
    Severity,
    SlowHost,
    Where,
)

WHAT_USERS_GET = ("p2p",)  # of the GPU paths; the others are measured to compare with
LARGE_BYTES = 64 * 1024
HOST_DEGRADED = 0.05  # slowdown from which a sweep accuses a host too; below it is a warning
SHOWN = 6  # series of a finding; nightly.json has all


def of(told: Nightly, net: Networks, before: Nightly | None) -> tuple[Finding, ...]:
    """All findings of a night's past, worst first."""
    docket = Docket()
    _regressed(told, net, docket)
    for slow in told.slow_hosts:
        docket.add(_slow_host(slow))
    for finding in (*_tonight(told), *_improved(told), *_not_comparable(told, before)):
        docket.add(finding)
    if told.recovered:
        docket.add(_recovered(told))
    order = ("broken", "degraded", "warning", "info")
    return tuple(sorted(docket.findings, key=lambda finding: order.index(finding.severity)))


# --------------------------------------------------------------------------------- regressed


def _regressed(told: Nightly, net: Networks, docket: Docket) -> None:
    """Networks first: what they explain of the case with nothing set is told with them."""
    by_way: dict[str, list[NightlySeries]] = {}
    for one in told.series:
        if one.state == "regressed":
            by_way.setdefault(one.candidate, []).append(one)
    candidates = {candidate.name: candidate for candidate in net.report.candidates}
    for name in sorted(by_way, key=lambda name: _is_default(candidates.get(name))):
        ones, candidate = by_way[name], candidates.get(name)
        proof = tuple(_proof(one) for one in sorted(ones, key=_slowest)[:SHOWN])
        cause = _carrier(net, candidate, docket)
        if cause is not None:
            for line in proof:
                docket.attach(cause, line)
            continue
        docket.add(_regression(told, ones, candidate, net, proof), explains=[name])


def _regression(
    told: Nightly,
    ones: Sequence[NightlySeries],
    candidate: Candidate | None,
    net: Networks,
    proof: tuple[Evidence, ...],
) -> Finding:
    worst = min(ones, key=_slowest)
    name, since = worst.candidate, _usual_since(ones, told.run)
    back = all(one.note is not None for one in ones)
    parts = {one.part for one in ones}
    collectives = dict.fromkeys(one.collective for one in ones)
    sizes = f" ({SIZES[worst.part]})" if len(parts) == 1 else ""
    when = "tonight" if since == told.run else f"since {since} ({_nights_since(ones, since)})"
    of = f"the baseline {told.baseline}" if told.baseline else "its past"
    summary = (
        f"{_called(candidate, name)} {slower(_moved(worst))} {of} in {listed(collectives)}"
        f"{sizes}, {when}."
    )
    if back:
        summary += " Tonight it was as before; three such nights confirm that."
    return Finding(
        code="regressed",
        severity="warning" if back else severity_of(net, candidate),
        summary=summary,
        where=Where(
            candidate=name,
            collective=next(iter(collectives)) if len(collectives) == 1 else None,
            from_bytes=LARGE_BYTES if parts == {"large"} else None,
            to_bytes=LARGE_BYTES - 1 if parts == {"small"} else None,
        ),
        evidence=(*proof, *_second_look(ones), *_changed(told, since)),
        remedy=_compare(told),
    )


def _proof(one: NightlySeries) -> Evidence:
    assert one.last is not None, "a series without a value has no state to prove"
    interval = ""
    if one.low is not None and one.high is not None:
        interval = f" (95 % interval {ends(one.low, one.high)})"
    level = ""
    if one.level is not None and one.since is not None and one.since != one.runs[-1]:
        level = f"; level since {one.since} {signed(one.level)}"
    text = (
        f"{one.candidate}, {one.collective}, {SIZES[one.part]}: {signed(one.last)} tonight"
        f"{interval}{level}"
    )
    return Evidence(basis="measured", text=text)


def _second_look(ones: Sequence[NightlySeries]) -> Iterator[Evidence]:
    looks = [one for one in ones if one.again is not None]
    if looks:
        told = ", ".join(
            f"{signed(one.again or 0.0)} in {one.collective}" for one in looks[:SHOWN]
        )
        yield Evidence(basis="measured", text=f"a second look the same night: {told}")


def _changed(told: Nightly, since: str) -> Iterator[Evidence]:
    """What differs from the night before, where the change came with this night."""
    found = told.differences if since == told.run else told.changed.get(since, ())
    for one in [d for d in found if d.kind == "factor"][:SHOWN]:
        where = f" on {listed(one.hosts)}" if one.hosts else ""
        text = f"with {since} changed: {one.name} {one.before} → {one.after}{where}"
        yield Evidence(basis="claimed", text=text)


def _compare(told: Nightly) -> str | None:
    """The line that shows it by size."""
    if told.baseline is None or told.baseline == told.run or not told.history:
        return None
    runs = (shlex.quote(f"{told.history}/{run}") for run in (told.baseline, told.run))
    return f"python -m bench compare {' '.join(runs)}"


def _carrier(net: Networks, candidate: Candidate | None, docket: Docket) -> str | None:
    """The network whose regression explains what users get with nothing set."""
    if candidate is None or candidate.kind != "default":
        return None
    return next((c.name for c in net.networks if net.carries(c) and docket.explains(c.name)), None)


def severity_of(net: Networks, candidate: Candidate | None) -> Severity:
    """Degraded where jobs depend on it; a way that is measured to compare with only warns."""
    if candidate is None:
        return "warning"
    if candidate.kind == "network":
        return "degraded" if net.matters(candidate) else "warning"
    users = candidate.kind == "default" or stated.path_of(candidate) in WHAT_USERS_GET
    return "degraded" if users else "warning"


# ------------------------------------------------------------------------------------- others


def _slow_host(slow: SlowHost) -> Finding:
    place = slow.host if slow.rail is None else f"rail {slow.rail} of {slow.host}"
    return Finding(
        code="host-slow" if slow.rail is None else "rail-slow",
        severity="degraded" if slow.slowdown >= HOST_DEGRADED else "warning",
        summary=f"{place} has been {percent(slow.slowdown)} slower than the fleet on each of its "
        f"last {len(slow.nights)} nights, from {slow.nights[0]} on.",
        where=Where(host=slow.host),
        evidence=(
            Evidence(
                basis="measured",
                text="pairs with other hosts against the good pairs of the same nights: "
                + ", ".join(slow.nights),
            ),
        ),
    )


def _tonight(told: Nightly) -> Iterator[Finding]:
    """Nights that stand out: confirmed by a second look, or not."""
    out = [one for one in told.series if one.state == "tonight"]
    for name in dict.fromkeys(one.candidate for one in out):
        ones = [one for one in out if one.candidate == name]
        worst = min(ones, key=_slowest)
        yield Finding(
            code="regressed",
            kind="tonight",
            severity="warning",
            summary=f"{name} {slower(worst.last or 0.0)} usual tonight in "
            f"{listed(one.collective for one in ones)}, {worst.sigmas:.1f} standard deviations "
            "out, and again at a second look; two more such nights confirm a change.",
            where=Where(candidate=name),
            evidence=(*(_proof(one) for one in ones[:SHOWN]), *_second_look(ones)),
        )
    quiet = [one for one in told.series if one.state == "steady" and one.note]
    if quiet:
        worst = min(quiet, key=_slowest)
        yield Finding(
            code="inconclusive",
            severity="info",
            summary=f"{worst.candidate}, {worst.collective} ({SIZES[worst.part]}) stands out: "
            f"{worst.note}. One night like that is no alarm.",
            where=Where(candidate=worst.candidate, collective=worst.collective),
            evidence=tuple(_proof(one) for one in quiet[:SHOWN]),
        )


def _improved(told: Nightly) -> Iterator[Finding]:
    better = [one for one in told.series if one.state == "improved"]
    for name in dict.fromkeys(one.candidate for one in better):
        ones = [one for one in better if one.candidate == name]
        best = max(ones, key=_slowest)
        since = _usual_since(ones, told.run)
        yield Finding(
            code="improved",
            severity="info",
            summary=f"{name} is {percent(-_moved(best))} faster than the baseline in "
            f"{listed(one.collective for one in ones)} since {since}; set a new baseline once "
            "the reason is known, or a later loss of it will not be an alarm.",
            where=Where(candidate=name),
            evidence=tuple(_proof(one) for one in ones[:SHOWN]),
        )


def _not_comparable(told: Nightly, before: Nightly | None) -> Iterator[Finding]:
    first = told.baseline is None or (told.baseline == told.run and told.baseline_reason is None)
    if first and told.nights == 1 and told.other_shapes:
        other = f" (last night: {before.shape})" if before and before.shape != told.shape else ""
        yield Finding(
            code="not-comparable",
            severity="info",
            summary=f"Tonight ran on {told.shape}, and none of the {told.other_shapes} nights "
            f"before did{other}: figures of other shapes are not held against each other.",
        )


def _recovered(told: Nightly) -> Finding:
    return Finding(
        code="improved",
        kind="recovered",
        severity="info",
        summary=f"Recovered since {told.previous}: {'; '.join(told.recovered)}.",
    )


# -------------------------------------------------------------------------------------- words


def _slowest(one: NightlySeries) -> float:
    return -_moved(one)


def _moved(one: NightlySeries) -> float:
    """How far the series has moved: its level where that has changed, else tonight's value."""
    lasting = one.since is not None and one.runs and one.since != one.runs[-1]
    value = one.level if lasting else one.last
    return value or 0.0


def _nights_since(ones: Sequence[NightlySeries], since: str) -> str:
    runs = ones[0].runs
    count = len(runs) - runs.index(since) if since in runs else 1
    return f"{count} nights" if count > 1 else "1 night"


def _usual_since(ones: Sequence[NightlySeries], tonight: str) -> str:
    """The night from which on most of the series are another; of several the latest: one that
    happened to be slow on the night before draws its own beginning there."""
    counts = Counter(one.since or tonight for one in ones)
    return max(counts, key=lambda run: (counts[run], run))


def _is_default(candidate: Candidate | None) -> bool:
    return candidate is not None and candidate.kind == "default"


def _called(candidate: Candidate | None, name: str) -> str:
    return "NCCL as it is" if _is_default(candidate) else name
