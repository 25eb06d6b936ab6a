"""Which host is slow, from bandwidths of pairs.

In: figures that name two hosts each, of lists or of tables of two hosts. Out: host-slow for a host
whose pairs are all slow while their other ends do well elsewhere; not-determinable for pairs both
ends of which were only seen slow; link-degraded for a slow pair of two hosts that both do well
elsewhere. One good pair clears both of its hosts. What the pairs prove is decided by the judge of
our own rounds (pair_lists); here it is told in the list's own figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.foreign import pair_tables
from bench.judge.pairs import lists as pair_lists
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, PlainFigure, Where

# One of two ports, or 8 of 16 lanes, leave half.
HALF = (0.42, 0.62)
SHOWN = 12
MOST = 32  # findings of a kind; a longer list says that the fabric is ill, not so many hosts


@dataclass(frozen=True)
class Verdict:
    """Hosts by what their pairs prove. `level_gbs` is what good pairs reach."""

    slow: dict[str, list[PlainFigure]]
    sure: frozenset[str]  # of those, hosts that were slow with two good ones or more
    open: list[PlainFigure]  # slow pairs that could be either end's fault
    links: list[PlainFigure]  # slow pairs of two good hosts
    groups: tuple[tuple[str, ...], ...]  # hosts fast among themselves and slow to all others
    good: tuple[str, ...]
    level_gbs: float
    slow_gbs: float
    fast_pairs: list[PlainFigure]


def judge(dossier: Dossier, docket: Docket) -> None:
    """Findings per list."""
    for pairs in lists(dossier):
        verdict = weigh(pairs)
        if verdict is None:
            continue
        own = _by_host(pairs)
        for host in list(verdict.slow)[:MOST]:
            docket.add(_host(host, verdict, own))
        for figure in verdict.open[:MOST]:
            docket.add(_either(figure, verdict, own))
        for figure in verdict.links[:MOST]:
            docket.add(_link(figure, verdict))
        for group in verdict.groups:
            docket.add(_group(group, verdict, pairs))


def sentences(dossier: Dossier) -> tuple[str, ...]:
    """Who is good, or that all pairs are alike; and what a remark beside figures is worth."""
    told: list[str] = []
    for pairs in lists(dossier):
        verdict = weigh(pairs)
        values = [figure.busbw_gbs for figure in pairs]
        number = len({frozenset(figure.hosts) for figure in pairs})
        if verdict is None:
            told.append(f"{number:,} pairs of hosts, {min(values):g} to {max(values):g} GB/s")
            continue
        told.append(
            f"{number:,} pairs of hosts: good ones near {verdict.level_gbs:.4g} GB/s "
            f"({listed(verdict.good)}), slow ones near {verdict.slow_gbs:.4g}; "
            f"{'each once' if number == len(pairs) else 'few times'}, so only clear gaps count"
        )
        told += _remarks(pairs, verdict)
    return tuple(told)


def lists(dossier: Dossier) -> list[list[PlainFigure]]:
    """Figures that can be compared: of one list, size and further columns; or of tables of two
    hosts each, of one collective and as many ranks."""
    groups: dict[tuple[object, ...], list[PlainFigure]] = {}
    for figure in dossier.figures:
        if len(figure.hosts) == 2:
            key = figure.file, figure.size_bytes, tuple(sorted(figure.labels.items()))
            groups.setdefault(key, []).append(figure)
    for figure in pair_tables.figures(dossier):
        groups.setdefault((figure.quantity, figure.ranks), []).append(figure)
    return [pairs for pairs in groups.values() if len(pairs) >= pair_lists.FEWEST_PAIRS]


def weigh(pairs: Sequence[PlainFigure]) -> Verdict | None:
    """What the pairs prove; None where they are alike or wander."""
    location = pair_lists.locate(pairs)
    if not (location.suspects or location.undecided) or location.reference_s is None:
        return None
    limit = 1 / location.reference_s / 1e9 / (1 + (location.threshold or 0.0))
    accused = {s.host for s in location.suspects if s.host}
    in_doubt = {host for group in location.undecided for host in group}
    linked = {frozenset(s.link) for s in location.suspects if s.link}
    slow = [f for f in pairs if f.busbw_gbs < limit]
    fast = [f for f in pairs if f.busbw_gbs >= limit and not set(f.hosts) & (accused | in_doubt)]
    good = {host for figure in fast for host in figure.hosts}
    alone = [group[0] for group in location.undecided if len(group) == 1]
    certain = {host: [f for f in slow if host in f.hosts] for host in (*accused, *alone)}
    return Verdict(
        slow=dict(sorted(certain.items(), key=lambda item: min(f.line for f in item[1]))),
        sure=frozenset(accused),
        open=[f for f in slow if set(f.hosts) <= in_doubt],
        links=[f for f in slow if frozenset(f.hosts) in linked],
        groups=tuple(s.group for s in location.suspects if s.group),
        good=tuple(sorted(good)),
        level_gbs=statistics.median(f.busbw_gbs for f in fast),
        slow_gbs=statistics.median(f.busbw_gbs for f in slow),
        fast_pairs=fast,
    )


def _by_host(pairs: Sequence[PlainFigure]) -> dict[str, list[PlainFigure]]:
    found: dict[str, list[PlainFigure]] = {}
    for figure in pairs:
        for host in figure.hosts:
            found.setdefault(host, []).append(figure)
    return found


def _host(host: str, verdict: Verdict, by_host: Mapping[str, list[PlainFigure]]) -> Finding:
    own = by_host[host]
    partners = [next(h for h in figure.hosts if h != host) for figure in own]
    level = statistics.median(figure.busbw_gbs for figure in own)
    ratio = level / verdict.level_gbs
    both = "both of its pairs" if len(own) == 2 else f"all {len(own)} of its pairs"
    how = both if len(own) > 1 else "its only pair"
    verb = "are" if len(own) > 1 else "is"
    cleared = [partner for partner in partners if partner in verdict.good]
    elsewhere = [
        f"{partner} {max(f.busbw_gbs for f in by_host[partner]):g}" for partner in cleared
    ]
    return Finding(
        code="host-slow",
        severity="degraded" if host in verdict.sure else "warning",
        summary=f"{host} is slow: {how} {verb} near {level:.4g} GB/s, {ratio:.2f} of what good "
        f"pairs reach, while {'their other ends' if len(own) > 1 else 'its other end'} "
        f"{'reach' if len(cleared) > 1 else 'reaches'} {listed(elsewhere)} with others.",
        where=Where(host=host, file=own[0].file, line=own[0].line),
        evidence=(
            Evidence(basis="measured", text=_told(own)),
            Evidence(basis="measured", text=f"good: {_told(verdict.fast_pairs)}"),
            *_half(ratio),
        ),
        remedy=f"on {host}: ibstat; nvidia-smi topo -m; "
        "sudo lspci -vv | grep -E 'Mellanox|LnkSta'; ethtool -S INTERFACE",
        confidence="measured" if host in verdict.sure else "inferred",
    )


def _half(ratio: float) -> list[Evidence]:
    if not HALF[0] <= ratio <= HALF[1]:
        return []
    text = "about half is what one of two ports, or 8 of 16 PCIe lanes, leave"
    return [Evidence(basis="inferred", text=text)]


def _either(
    figure: PlainFigure, verdict: Verdict, by_host: Mapping[str, list[PlainFigure]]
) -> Finding:
    a, b = figure.hosts
    alone = len(by_host[a]) == len(by_host[b]) == 1
    why = "it is their only pair" if alone else "neither was seen in a good pair"
    partner = next(iter(verdict.good), "a good host")
    return Finding(
        code="not-determinable",
        severity="warning" if verdict.slow else "degraded",
        summary=f"One of {a} and {b} is slow ({figure.busbw_gbs:g} GB/s together, "
        f"{figure.busbw_gbs / verdict.level_gbs:.2f} of good pairs), and which cannot be told: "
        f"{why}.",
        where=Where(hosts=(a, b), link=(a, b), file=figure.file, line=figure.line),
        evidence=(Evidence(basis="measured", text=_told([figure])),),
        remedy=f"measure {a} with {partner}: if that pair is good, {b} is the slow one",
        confidence="inferred",
    )


def _link(figure: PlainFigure, verdict: Verdict) -> Finding:
    a, b = figure.hosts
    return Finding(
        code="link-degraded",
        severity="degraded",
        summary=f"{a} and {b} reach {figure.busbw_gbs:g} GB/s together, "
        f"{figure.busbw_gbs / verdict.level_gbs:.2f} of good pairs, though both do well with "
        "others: what lies between the two is slow, not a host.",
        where=Where(hosts=(a, b), link=(a, b), file=figure.file, line=figure.line),
        evidence=(
            Evidence(basis="measured", text=_told([figure])),
            Evidence(basis="measured", text=f"good: {_told(verdict.fast_pairs)}"),
        ),
        remedy="repeat this pair; then the switches and cables on the way between the two",
        confidence="measured",
    )


def _group(group: tuple[str, ...], verdict: Verdict, pairs: Sequence[PlainFigure]) -> Finding:
    inside = [f for f in pairs if set(f.hosts) <= set(group)]
    across = [f for f in pairs if len(set(f.hosts) & set(group)) == 1]
    ratio = statistics.median(f.busbw_gbs for f in across) / verdict.level_gbs
    return Finding(
        code="link-degraded",
        severity="degraded",
        summary=f"{listed(group)} are fast among themselves and slow to all others "
        f"({ratio:.2f} of good pairs): what joins them to the rest is slow, not a host.",
        where=Where(hosts=group, file=across[0].file, line=across[0].line),
        evidence=(
            Evidence(basis="measured", text=f"to others: {_told(across)}"),
            Evidence(basis="measured", text=f"inside: {_told(inside)}"),
        ),
        remedy="the switch that they share, and its uplinks",
        confidence="measured",
    )


def _remarks(pairs: Sequence[PlainFigure], verdict: Verdict) -> list[str]:
    """A remark that stands beside slow and good pairs alike explains nothing."""
    notes = dict.fromkeys(figure.note for figure in pairs if figure.note)
    slowest = verdict.level_gbs - (verdict.level_gbs - verdict.slow_gbs) / 2
    told = []
    for note in notes:
        own = [figure for figure in pairs if figure.note == note]
        good = [figure for figure in own if figure.busbw_gbs >= slowest]
        if good and len(good) < len(own):
            told.append(
                f'"{note}" makes no difference: {_told(good[:1])} is as fast as pairs without it'
            )
        elif own and not good and len(own) < len(pairs):
            told.append(f'all {len(own)} pairs marked "{note}" are slow')
    return told


def _told(figures: Sequence[PlainFigure]) -> str:
    shown = [f"{'-'.join(figure.hosts)} {figure.busbw_gbs:g}" for figure in figures[:SHOWN]]
    more = f" and {len(figures) - SHOWN} more" if len(figures) > SHOWN else ""
    return ", ".join(shown) + more
