"""A run as one night of a history: the few numbers of a report that the next months need.

In: a Report. Out: a Night of some kilobytes, whatever the report weighs, so that a year of nights
of a thousand hosts fits into memory. What a night is compared in is its shape: another number of
hosts or ranks, another library or other GPUs make other figures, with nothing wrong anywhere.
"""

from __future__ import annotations

import calendar
import math
import re
import time
from collections import Counter

from bench.judge import verdict
from bench.judge.measurement import oversubscribed
from bench.judge.pairs.group_suspects import groups, rail_of
from bench.judge.pairs.scope import leaves_of
from bench.judge.pairs.search import Search
from bench.judge.pairs.values import DEFAULT_RAIL, Values
from bench.judge.pairs.view import View, view
from bench.records import CostLine, Finding, Location, Night, NightLine, Point, Report

RUN_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)Z")
DIGITS = 5  # of times and widths: nights do not agree in more than three
LEAST_HALF = 1e-4
# No collective takes less or more; a file that says so is damaged, and its logs would overflow.
LEAST_TIME_S, MOST_TIME_S = 1e-9, 1e6
THRESHOLD = 0.03  # slowdown from which a host is no yardstick for the others


def night_of(report: Report) -> Night:
    """What a history keeps of `report`."""
    fleet, spread = fleet_of(report)
    return Night(
        run=report.run,
        started_at=started_at(report),
        shape=shape_of(report),
        backend=report.backend,
        plan=report.plan.settings.name if report.plan else "",
        verdict=report.verdict,
        complete=report.complete,
        hosts=tuple(facts.host for facts in report.hosts),
        lines=tuple(_line(line) for line in report.lines if line.points),
        fleet=fleet,
        fleet_spread=spread,
        troubles=tuple(
            dict.fromkeys(trouble_of(f) for f in report.findings if verdict.serious(f))
        ),
        crowded=oversubscribed(report.hosts),
    )


def shape_of(report: Report) -> str:
    """ "nccl · 4 hosts × 8 ranks · 32 × NVIDIA H100": what must be alike to be compared."""
    hosts = len(report.hosts)
    ranks = report.plan.ranks if report.plan else sum(len(f.ranks) for f in report.hosts)
    each, odd = divmod(ranks, hosts) if hosts else (0, 1)
    words = [
        report.backend,
        f"{hosts} host{'s' * (hosts != 1)}"
        + ("" if odd else f" × {each} rank{'s' * (each != 1)}"),
    ]
    if odd:
        words.append(f"{ranks} ranks")
    gpus = Counter(gpu.name or "GPU" for facts in report.hosts for gpu in facts.gpus)
    words += [f"{count} × {name}" for name, count in sorted(gpus.items())]
    if report.plan and report.plan.settings.dtype != "float32":
        words.append(report.plan.settings.dtype)
    return " · ".join(words)


def started_at(report: Report) -> float:
    """Seconds since the epoch: of the first session, else what the run's name says; 0: unknown."""
    began = [s.started_at for s in report.sessions if s.started_at > 0]
    return min(began) if began else named_at(report.run)


def named_at(run: str) -> float:
    """The time that a run's name tells; 0 where it tells none."""
    found = RUN_TIME.search(run)
    if not found:
        return 0.0
    try:
        told = time.strptime(found[0], "%Y-%m-%dT%H-%M-%SZ")
    except ValueError:
        return 0.0
    return float(calendar.timegm(told))


def troubles_of(report: Report) -> tuple[str, ...]:
    """What was degraded or broken, each thing once."""
    found = (trouble_of(finding) for finding in report.findings if verdict.serious(finding))
    return tuple(dict.fromkeys(found))


def trouble_of(finding: Finding) -> str:
    """ "link-degraded (data)": one thing that was wrong, by which the next night knows it."""
    where = finding.where
    hosts = f"{where.hosts[0]} …" if len(where.hosts) > 1 else "".join(where.hosts)
    place = where.host or "-".join(where.link) or where.candidate or where.interface or hosts
    code = f"{finding.code}: {finding.kind}" if finding.kind else finding.code
    return f"{code} ({place})" if place else code


def _line(line: CostLine) -> NightLine:
    points = sorted(filter(is_usable, line.points), key=lambda point: point.size_bytes)
    return NightLine(
        candidate=line.candidate,
        collective=line.collective,
        ranks=line.ranks,
        sizes_bytes=tuple(p.size_bytes for p in points),
        times_s=tuple(_short(p.time_s) for p in points),
        half_widths=tuple(
            _short(max(math.log(p.high_s / p.low_s) / 2, LEAST_HALF)) for p in points
        ),
    )


def is_usable(point: Point) -> bool:
    """Whether nights can be held against it, or it against them."""
    times = point.low_s, point.time_s, point.high_s
    return point.group == "fit" and all(LEAST_TIME_S <= t <= MOST_TIME_S for t in times)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def fleet_of(report: Report) -> tuple[dict[str, float], float | None]:
    """How much slower than a good one each host's pairs were, on logs; by rail where rails were
    measured. And the noise of good pairs. Empty where no pairs were measured.

    Pairs are seen as the sweep sees them: hosts that hang on a slow leaf, or on one side of a slow
    spine, say nothing of themselves and are left out.
    """
    location = report.location
    seen, search = _seen(report, location) if location is not None else (None, None)
    if location is None or seen is None or search is None:
        return {}, None
    larger = groups(seen, location.hosts, search.homes(location.hosts))
    excused = {location.hosts[host] for host in larger.excused | larger.open}
    slow = [suspect for suspect in (*location.suspects, *larger.suspects) if suspect.group]
    found: dict[str, float] = {}
    for on in seen.planes:
        out = excused.union(*(s.group for s in slow if s.rail in (None, rail_of(on.rail))))
        for host, score in zip(location.hosts, on.found.scores.tolist(), strict=True):
            if not math.isnan(score) and host not in out:
                found[fleet_key(host, on.rail)] = _short(score)
    return found, seen.noise


def _seen(report: Report, location: Location) -> tuple[View | None, Search]:
    """The picture of the pairs that are of one rail or of none."""
    values = Values({host: at for at, host in enumerate(location.hosts)})
    values.extend(
        f for f in location.figures if f.other_rail in (None, f.rail) and f.outcome == "ok"
    )
    interest = 2 * (location.threshold or THRESHOLD)  # a search accuses from half of it on
    search = Search(interest=interest, leaves=leaves_of(report))
    return (view(values.columns(), location.hosts, search) if len(values) else None), search


def fleet_key(host: str, rail: int | None) -> str:
    """ "host7", or "host7, rail 3"."""
    return host if rail in (None, DEFAULT_RAIL) else f"{host}, rail {rail}"


def host_and_rail(key: str) -> tuple[str, int | None]:
    host, comma, rail = key.rpartition(", rail ")
    return (host, int(rail)) if comma and rail.isdigit() else (key, None)
