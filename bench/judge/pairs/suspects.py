"""From figures of pairs to suspects: hosts, NICs, rails, links, ways, leaves, or "cannot be told".

Pure. A host is accused if all its pairs with good hosts are slow, with at least two different
ones; a link if its pair is slow in each of three measurements while both its ends are good; what
met only other doubtful parts is undecided. Latency is judged apart from bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from bench.judge.pairs import grid, links, plane
from bench.judge.pairs.effects import DECIDING, effects, keys, together
from bench.judge.pairs.group_suspects import groups, members, named, rail_of, ratio
from bench.judge.pairs.plane import Plane, Slow
from bench.judge.pairs.search import Search
from bench.judge.pairs.values import DEFAULT_RAIL, SPREAD, Columns, Ints, Values
from bench.judge.pairs.view import View, view
from bench.plan.rounds import Pair, ordered
from bench.records import Location, PairFigure, PairRound, Suspect

LATENCY_INTEREST = 0.5  # small messages scatter; half as much again is worth a word
LATENCY_NOISE = 4.0  # times the scatter of good pairs
LEAST_ALIKE = 2  # good pairs of a list that nobody can repeat
MOST_SPREAD = 64  # pairs listed for connections that differ, or that nothing explains
CLEARLY_SLOW = math.log1p(0.15)  # no scatter of a good pair's median comes near it


def conclude(
    values: Values,
    figures: tuple[PairFigure, ...],
    rounds: tuple[PairRound, ...],
    *,
    hosts: tuple[str, ...],
    search: Search,
) -> Location:
    """All that the rounds decide; what they do not decide is said so."""
    columns = values.columns()
    answer = Location(
        hosts=hosts, candidate=search.candidate, size_bytes=search.size_bytes, rounds=rounds,
        figures=figures, expected_s=search.expected_s, threshold=search.threshold,
        unmeasured=_unmeasured(figures), spread=_spread(columns, hosts),
    )  # fmt: skip
    seen = view(columns, hosts, search)
    if seen is None:
        return answer
    if search.once and all(on.found.alike < LEAST_ALIKE for on in seen.planes):
        # of all pairs one is fast: it may have a switch, or a host, to itself
        slow = tuple(_clearly_slow(seen, hosts)[:MOST_SPREAD])
        return msgspec.structs.replace(answer, reference_s=math.exp(seen.norm), unexplained=slow)
    verdict = _Verdict(seen, hosts, search)
    reference, expected = math.exp(seen.norm), search.expected_s
    return msgspec.structs.replace(
        answer,
        reference_s=reference,
        noise=seen.noise,
        threshold=round(math.expm1(seen.threshold), 4),
        suspects=tuple(verdict.suspects),
        undecided=verdict.undecided,
        unexplained=verdict.unexplained(),
        every_pair_slow=expected is not None and reference > expected * (1 + search.interest),
        grid=grid.blocks(columns, len(hosts), seen.norm),
        notes=tuple(verdict.notes),
    )


class _Verdict:
    """Suspects in the order of how many hosts they concern: rails, leaves, hosts, links."""

    def __init__(self, seen: View, hosts: Sequence[str], search: Search) -> None:
        self._seen, self._names, self._search = seen, hosts, search
        larger = groups(seen, hosts, search.homes(hosts))
        self.notes, self._excused, self._open = larger.notes, larger.excused, larger.open
        slow = [h for h in seen.slow_hosts if h not in self._excused and h not in self._open]
        self._accused = set(slow)
        self.suspects = [
            *larger.suspects,
            *(suspect for host in slow for suspect in self._host(host)),
            *self._links(),
            *self._slow_to_answer(),
        ]
        self.undecided = self._undecided()
        self._remark()

    # ------------------------------------------------------------------ hosts and links

    def _host(self, host: int) -> list[Suspect]:
        rails = self._seen.slow_hosts[host]
        planes = {on.rail: on for on in self._seen.planes}
        if not self._seen.is_whole(host, len(rails)):
            return [
                Suspect(
                    host=self._names[host], rail=rail_of(rail), slowdown=ratio(slow),
                    direction=plane.way_of_host(planes[rail], host),
                    deciding=self._deciding(planes[rail], host),
                )
                for rail, slow in rails.items()
            ]  # fmt: skip
        ranked = sorted(rails, key=lambda rail: rails[rail].middle)
        middle = ranked[(len(ranked) - 1) // 2]
        ways = {plane.way_of_host(planes[rail], host) for rail in rails}
        return [
            Suspect(
                host=self._names[host],
                slowdown=ratio(rails[middle]),
                direction=ways.pop() if len(ways) == 1 else "both",
                deciding=self._deciding(planes[middle], host),
            )
        ]

    def _deciding(self, on: Plane, host: int) -> tuple[tuple[str, str], ...]:
        first, second, good = on.columns.first, on.columns.second, on.found.good
        rows = ((first == host) & good[second]) | ((second == host) & good[first])
        return named(self._names, zip(first[rows].tolist(), second[rows].tolist(), strict=True))

    def _links(self) -> list[Suspect]:
        by_link: dict[Pair, dict[int, Slow]] = {}
        planes = {on.rail: on for on in self._seen.planes}
        times = 1 if self._search.once else DECIDING
        for on in self._seen.planes:
            slow_ones = links.slow(on, mapped=self._search.map_links, times=times)
            for pair, slow in slow_ones.items():
                if not self._excused.issuperset(pair):
                    by_link.setdefault(pair, {})[on.rail] = slow
        found = []
        for pair, rails in by_link.items():
            whole = 2 * len(rails) > len(planes)
            worst = max(rails, key=lambda rail: rails[rail].middle)
            for rail in (worst,) if whole else rails:
                found.append(self._link(planes[rail], pair, rails[rail], whole))
        return found

    def _link(self, on: Plane, pair: Pair, slow: Slow, whole: bool) -> Suspect:
        """One-way, its first host is the one whose sending is slow."""
        way = links.way(on, pair)
        one, other = pair
        if way == "receive":
            one, other, way = other, one, "transmit"
        times = int(
            (keys(on.hosts, on.columns.first, on.columns.second)
            == pair[0] * on.hosts + pair[1]).sum()
        )  # fmt: skip
        link = (self._names[one], self._names[other])
        return Suspect(
            link=link,
            rail=None if whole else rail_of(on.rail),
            direction=way,
            slowdown=ratio(slow),
            deciding=(link,) * times,
        )

    def _slow_to_answer(self) -> list[Suspect]:
        """Hosts whose small messages are late although their bandwidth is not to blame."""
        columns = self._seen.columns
        columns = columns.where(~columns.crossed & ~np.isnan(columns.latency))
        if len(columns) < 2:
            return []
        threshold = math.log1p(LATENCY_INTEREST)
        ends = (len(self._names), columns.first, columns.second, columns.latency)
        threshold = max(threshold, LATENCY_NOISE * effects(*ends, threshold).noise)
        found = effects(*ends, threshold)
        late = Plane(DEFAULT_RAIL, len(self._names), columns, columns.latency, found)
        few = len(self._names) <= DECIDING
        return [
            Suspect(host=self._names[host], quantity="latency", slowdown=ratio(slow))
            for host, slow in late.slow_hosts.items()
            if host not in self._accused and (found.counts[host] >= DECIDING or few)
        ]

    # ------------------------------------------------------------------ what is left

    def _undecided(self) -> tuple[tuple[str, ...], ...]:
        """Sets of hosts that are slow together and met no good host, or one alone."""
        count = len(self._names)
        doubtful = np.zeros(count, dtype=bool)
        doubtful[list(self._open)] = True
        ends: list[tuple[Ints, Ints]] = []
        for on in self._seen.planes:
            mine = on.doubtful.copy()
            mine[[*self._accused, *self._excused]] = False
            doubtful |= mine
            joined = mine[on.columns.first] & mine[on.columns.second]
            ends.append((on.columns.first[joined], on.columns.second[joined]))
        if not doubtful.any():
            return ()
        first, second = (np.concatenate(side) for side in zip(*ends, strict=True))
        label = together(count, first, second)
        groups: dict[int, list[int]] = {}
        for host in np.flatnonzero(doubtful).tolist():
            groups.setdefault(int(label[host]), []).append(host)
        return tuple(
            members(self._names, group)
            for group in groups.values()
            if self._open.issuperset(group)
            or any(plane.is_slow(on, group) for on in self._seen.planes)
        )

    def unexplained(self) -> tuple[tuple[str, str], ...]:
        """Pairs that are far slower than good ones and that no suspect accounts for, the slowest
        first: many links at once are no single part, but all is not well either."""
        blamed = {host for group in self.undecided for host in group}
        blamed |= {self._names[host] for host in (*self._accused, *self._excused, *self._open)}
        told = {frozenset(suspect.link) for suspect in self.suspects if suspect.link}
        slow = _clearly_slow(self._seen, self._names)
        left = [p for p in slow if not blamed & set(p) and frozenset(p) not in told]
        return tuple(left[:MOST_SPREAD])

    def _remark(self) -> None:
        for on in self._seen.planes:
            if self._accused and on.found.alike == 1:
                rows = np.flatnonzero(on.both_good)
                pair = members(
                    self._names, (on.columns.first[rows[0]], on.columns.second[rows[0]])
                )
                self.notes.append(
                    f"what a good pair takes rests on one pair alone, {pair[0]} and {pair[1]}"
                )
        if self._seen.threshold > self._search.log_threshold:
            self.notes.append(
                f"good pairs scatter by {100 * self._seen.noise:.1f} %: slowdowns below "
                f"{100 * math.expm1(self._seen.threshold):.0f} % would not show"
            )


def _clearly_slow(seen: View, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs that are far slower than good ones, the slowest first."""
    slow: dict[tuple[str, str], float] = {}
    for on in seen.planes:
        one, other, above = on.by_pair
        for row in np.flatnonzero(above > max(CLEARLY_SLOW, on.found.threshold)).tolist():
            pair = names[int(one[row])], names[int(other[row])]
            slow[pair] = max(slow.get(pair, 0.0), float(above[row]))
    return sorted(slow, key=lambda pair: -slow[pair])


def doubtful_links(values: Values, hosts: Sequence[str], search: Search) -> list[Pair]:
    """Links of a map that stand out from what their hosts explain, worst first."""
    columns = values.columns()
    seen = view(columns, hosts, search)
    if seen is None:
        return []
    return list(dict.fromkeys(pair for on in seen.planes for pair in links.doubtful(on)))


def _unmeasured(figures: Iterable[PairFigure]) -> tuple[tuple[str, str], ...]:
    """Pairs that hung or failed on some rail, or were measured on none."""
    ok = {figure.hosts for figure in figures if figure.outcome == "ok"}
    return tuple(
        dict.fromkeys(
            figure.hosts
            for figure in figures
            if figure.outcome in ("hung", "failed")
            or (figure.outcome == "absent" and figure.hosts not in ok)
        )
    )


def _spread(columns: Columns, hosts: Sequence[str]) -> dict[str, float]:
    """Pairs whose connections differ among themselves, the worst first."""
    rows = np.flatnonzero(columns.spread > SPREAD)
    rows = rows[np.argsort(-columns.spread[rows])]
    found: dict[str, float] = {}
    for row in rows.tolist():
        a, b = ordered(int(columns.first[row]), int(columns.second[row]))
        found.setdefault(f"{hosts[a]}-{hosts[b]}", round(float(columns.spread[row]), 2))
        if len(found) == MOST_SPREAD:
            break
    return found
