"""What the pair rounds of a sweep look at: which network, which size, how hard.

In: a report whose lines are fitted. Out: a Scope, or None where pairs would tell nothing. The
network is the one that jobs use or should use: the fastest that joins all hosts, where they
depend on it; what they get with nothing set, where that is surely faster or the only way; and a
network that hung although all probes passed, because somebody has to say between whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bench.judge import expected
from bench.judge.networks import Networks
from bench.judge.pairs import suspects
from bench.judge.pairs.locating import Search
from bench.judge.pairs.values import Values
from bench.judge.shortfall import short_of
from bench.plan import cost
from bench.plan.amounts import LEAST_COMPARED, Amounts, affordable, amounts
from bench.plan.rounds import SCREEN_ROUNDS
from bench.records import Candidate, Location, MeasuredRound, Report

LEAST_RAILS = 2


@dataclass(frozen=True)
class Scope:
    """Where, between whom, how much, and what to look for."""

    candidate: Candidate
    hosts: tuple[str, ...]
    amounts: Amounts
    search: Search


def of_report(report: Report, *, limit_s: float, map_links: bool = False) -> Scope | None:
    """The scope of a sweep's own rounds; `limit_s` is its time budget. Every pair is measured
    where that takes little, or `map_links` asks for it."""
    net = Networks(report)
    candidate = network_of(net)
    hosts = tuple(net.hosts)
    if candidate is None or len(hosts) < LEAST_COMPARED:
        return None
    rails = rails_of(report, candidate)
    ways = len(rails) or expected.ports_used(candidate, report.hosts)[0]
    pace, hoped = _pace(net, candidate), _hoped(report, candidate)
    hoped = hoped / ways if hoped else None
    moved = amounts(pace / ways if pace else None, hoped=hoped)
    repeats, cheap = affordable(moved, backend=report.backend, hosts=len(hosts), limit_s=limit_s)
    short = short_of(net, candidate, candidate) is not None
    search = Search(
        interest=expected.tolerance(report).bandwidth,
        repeats=repeats,
        seed=report.plan.seed if report.plan else 0,
        size_bytes=moved.size_bytes,
        candidate=candidate.name,
        expected_s=moved.size_bytes / hoped if hoped else None,
        confirm=short,
        map_links=map_links or cheap,
        rails=rails,
        cross_rails=map_links and bool(rails),
        leaves=leaves_of(report),
    )
    return Scope(candidate, hosts, moved, search)


def network_of(net: Networks) -> Candidate | None:
    """The candidate to measure pairs on; None where no network is worth it."""
    default, best = net.default, net.best
    measured = default is not None and default.outcome == "measured"
    if best is not None and net.matters(best):
        if measured and default is not None and _faster(net, default, best):
            return default
        return best
    if best is None and measured:
        return default
    silent = (
        c
        for c in net.networks
        if net.needed(c) and c.outcome in ("hung", "failed") and _reached(net, c)
    )
    return next(silent, None)


def _faster(net: Networks, default: Candidate, best: Candidate) -> bool:
    margin = 1 + expected.tolerance(net.report).bandwidth
    ratios = (net.ratio(default, best, collective) for collective in net.collectives)
    return any(ratio is not None and ratio.low > margin for ratio in ratios)


def _reached(net: Networks, candidate: Candidate) -> bool:
    """All probes passed: what the probes found broken is known already."""
    pairs = net.pairs(candidate)
    whole = net.joins_all(candidate)
    return whole and bool(pairs) and all(pair.outcome == "ok" for pair in pairs)


def _pace(net: Networks, candidate: Candidate) -> float | None:
    """Bytes per second in and out of one host, as the ring had it, else as a port claims."""
    for collective in net.collectives:
        speed = net.speed(candidate, collective)
        if collective in expected.RING_COLLECTIVES and speed is not None and speed.value > 0:
            return speed.value * 1e9
    one = cost.rate_of(candidate, net.report.hosts, net.report.fabric)
    return one * expected.ports_used(candidate, net.report.hosts)[0] if one else None


def _hoped(report: Report, candidate: Candidate) -> float | None:
    """Bytes per second in and out of one host, where that is sure enough to judge by."""
    wanted = expected.of_report(report, candidate)
    return wanted.busbw_gbs * 1e9 if wanted is not None and wanted.judged else None


def rails_of(report: Report, candidate: Candidate) -> tuple[int, ...]:
    """GPUs that every host has a rank on, where each host has RDMA ports for several: the ports
    beside them are rails, and a round measures them all at once. Empty: one port a host."""
    if report.backend != "nccl" or candidate.transport == "socket" or candidate.ranks:
        return ()
    if any(len({port.device for port in host.rdma_ports}) < LEAST_RAILS for host in report.hosts):
        return ()
    placed = [
        {place.gpu for place in host.placements if place.gpu is not None} for host in report.hosts
    ]
    rails = sorted(set.intersection(*placed)) if placed else []
    return tuple(rails) if len(rails) >= LEAST_RAILS else ()


def leaves_of(report: Report) -> tuple[tuple[str, ...], ...]:
    """This run's hosts by the fabric file's leaves; empty where they hang on fewer than two."""
    found: list[tuple[str, ...]] = []
    free = {host.host: host.hostname for host in report.hosts}
    for globs in report.fabric.leaves if report.fabric is not None else ():
        own = tuple(
            label
            for label, name in free.items()
            if any(fnmatchcase(label, glob) or fnmatchcase(name, glob) for glob in globs)
        )
        free = {label: name for label, name in free.items() if label not in own}
        if own:
            found.append(own)
    return tuple(found) if len(found) > 1 else ()


def concluded(hosts: Sequence[str], done: Sequence[MeasuredRound]) -> Location | None:
    """What rounds that ended early decide; None where there are none.

    Pairs that scattered were measured again, with more repetitions: from the screen's two rounds
    on those count alone, as they do for a search that came to its end.
    """
    if not done:
        return None
    last = done[-1]
    again = [one for one in done if one.pair_round.repeats == last.pair_round.repeats]
    done = again if len(again) >= SCREEN_ROUNDS else done
    search = Search(
        interest=last.interest,
        repeats=last.pair_round.repeats,
        size_bytes=last.size_bytes,
        candidate=last.candidate,
        expected_s=last.expected_s,
    )
    figures = tuple(figure for one in done for figure in one.figures)
    values = Values({host: at for at, host in enumerate(hosts)})
    for figure in figures:
        values.add(figure)
    rounds = tuple(one.pair_round for one in done)
    return suspects.conclude(values, figures, rounds, hosts=tuple(hosts), search=search)
