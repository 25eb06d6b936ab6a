"""Parts that are larger than a host: rails, leaves, groups of hosts that hang on something slow.

In: a View. Out: suspects, remarks, and the hosts that these excuse: whoever hangs on a slow switch
is slow to others without being at fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.judge.pairs import leaf_effects
from bench.judge.pairs.effects import together
from bench.judge.pairs.leaf_effects import LeafView, SlowLeaf
from bench.judge.pairs.plane import SURE, Plane, Slow
from bench.judge.pairs.values import DEFAULT_RAIL, Ints
from bench.judge.pairs.view import View
from bench.plan.rounds import Pair, ordered
from bench.records import Interval, Suspect

MOST_DECIDING = 64  # pairs named per suspect
GROUPS_SHOWN = 6
FEWEST_FAST, FAST_SHARE = 4, 0.9  # pairs faster than the norm, and what part of a group's they are
WHOLE_LEAF = leaf_effects.WHOLE_LEAF


@dataclass
class Groups:
    """`excused` are numbers of hosts that a suspect accounts for; `open` of those that may hang on
    the same switch as a suspect group, or be slow themselves."""

    suspects: list[Suspect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    excused: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)


def groups(seen: View, names: Sequence[str], homes: Sequence[int]) -> Groups:
    """`homes`: each host's leaf, -1 where none is known."""
    found = Groups()
    _rails(seen, found)
    _leaves(seen, names, found)
    _tell_offset(list(seen.leaves.values()), homes, found)
    for on in seen.planes:
        _islands(on, names, found)
    _whole_leaves(seen, names, homes, found)
    return found


def members(names: Sequence[str], numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(names[int(number)] for number in numbers)


def named(names: Sequence[str], pairs: Iterable[Pair]) -> tuple[tuple[str, str], ...]:
    """Each pair once, the first many."""
    distinct = list(dict.fromkeys(ordered(*pair) for pair in pairs))[:MOST_DECIDING]
    return tuple((names[a], names[b]) for a, b in distinct)


def rail_of(rail: int) -> int | None:
    return None if rail == DEFAULT_RAIL else rail


def ratio(slow: Slow) -> Interval:
    """Log slowdowns as ratios of times."""
    middle, low, high = (round(math.exp(log), 4) for log in (slow.middle, slow.low, slow.high))
    return Interval(value=middle, low=low, high=high)


def _leaf_ratio(leaf: SlowLeaf) -> Interval:
    return ratio(Slow(leaf.middle, leaf.low, leaf.high))


def _rails(seen: View, found: Groups) -> None:
    found.suspects += [
        Suspect(rail=rail, slowdown=ratio(slow)) for rail, slow in seen.slow_planes.items()
    ]
    rails, crossing = seen.crossing_rails()
    for leaf in crossing.slow:
        rail = rails[leaf.hosts[0] % len(rails)]
        if leaf.across and rail not in seen.slow_planes:
            found.suspects.append(Suspect(rail=rail, across=True, slowdown=_leaf_ratio(leaf)))
    if crossing.offset > 0:
        found.notes.append(
            f"pairs across rails take {math.exp(crossing.offset):.2f} times as long as those on "
            "one rail, whichever rail: the spine is narrower or slow, or PCIe is on the way"
        )


def _leaves(seen: View, names: Sequence[str], found: Groups) -> None:
    by_leaf: dict[tuple[tuple[int, ...], bool], dict[int, SlowLeaf]] = {}
    for rail, around in seen.leaves.items():
        for leaf in around.slow:
            by_leaf.setdefault((leaf.hosts, leaf.across), {})[rail] = leaf
    for (hosts, across), leaves in by_leaf.items():
        whole = 2 * len(leaves) > len(seen.leaves)
        if whole:
            found.excused.update(hosts)
        worst = max(leaves, key=lambda rail: leaves[rail].middle)
        for rail in (worst,) if whole else leaves:
            found.suspects.append(
                Suspect(
                    group=members(names, hosts), across=across,
                    rail=None if whole else rail_of(rail), slowdown=_leaf_ratio(leaves[rail]),
                    deciding=named(names, leaves[rail].pairs),
                )
            )  # fmt: skip


def _tell_offset(leaves: Sequence[LeafView], homes: Sequence[int], found: Groups) -> None:
    offset = float(np.median([around.offset for around in leaves] or [0.0]))
    if offset > 0:
        which = "of two, nobody can tell which" if max(homes) == 1 else "whichever leaf"
        found.notes.append(
            f"pairs across leaves take {math.exp(offset):.2f} times as long as those inside, "
            f"{which}: what joins the leaves is narrower or slow"
        )


def _whole_leaves(seen: View, names: Sequence[str], homes: Sequence[int], found: Groups) -> None:
    """A leaf all of whose hosts are slow is one slow switch, rather than so many slow hosts."""
    slow = {
        host: max(rails.values(), key=lambda s: s.middle)
        for host, rails in seen.slow_hosts.items()
        if seen.is_whole(host, len(rails)) and host not in found.excused
    }
    measured = np.any([on.met for on in seen.planes], axis=0)
    for home in sorted({homes[host] for host in slow if homes[host] >= 0}):
        hosts = [host for host, leaf in enumerate(homes) if leaf == home and measured[host]]
        if len(hosts) < WHOLE_LEAF or not all(host in slow for host in hosts):
            continue
        values = sorted(slow[host].middle for host in hosts)
        found.excused.update(hosts)
        found.suspects.append(
            Suspect(
                group=members(names, hosts),
                slowdown=ratio(Slow(values[len(values) // 2], values[0], values[-1])),
            )
        )


def _islands(on: Plane, names: Sequence[str], found: Groups) -> None:
    """Hosts fast among themselves and slow to all others, though no file tells of leaves."""
    first, second = on.columns.first, on.columns.second
    islands = leaf_effects.islands(on.hosts, first, second, on.above, on.found.threshold)
    islands = [island for island in islands if not found.excused.issuperset(island.tolist())]
    if len(islands) < 2:
        _tell_fast_groups(on, found)
        return
    label = np.full(on.hosts, -1)
    for at, island in enumerate(islands):
        label[island] = at
    here, there = label[first], label[second]
    rows = (here >= 0) & (there >= 0) & (here != there)
    between = on.above[rows]
    if float(np.median(between)) < SURE * on.repetition_error:
        return  # the luck of single measurements draws such islands, too
    sizes = ", ".join(str(island.size) for island in islands[:GROUPS_SHOWN])
    found.notes.append(
        f"hosts fall into {len(islands)} groups ({sizes} hosts) that are fast inside and "
        f"{math.exp(float(np.median(between))):.2f} times slower to each other: look at what "
        "joins them"
    )
    everybody = np.concatenate(islands)
    if islands[0].size * 2 <= int(on.met.sum()):
        # no group is the norm, so whoever stands alone may be a group of one
        found.excused.update(np.flatnonzero(on.met).tolist())
        return
    found.excused.update(everybody.tolist())
    joined = {
        frozenset(pair) for pair in zip(here[rows].tolist(), there[rows].tolist(), strict=True)
    }
    for hosts in _merged(islands[1:], joined):
        ends = np.isin(first, hosts) != np.isin(second, hosts)
        deciding = rows & ends
        values = on.above[deciding]
        slow = Slow(float(np.median(values)), float(values.min()), float(values.max()))
        pairs = zip(first[deciding].tolist(), second[deciding].tolist(), strict=True)
        found.suspects.append(
            Suspect(
                group=members(names, sorted(hosts.tolist())), across=True, rail=rail_of(on.rail),
                slowdown=ratio(slow), deciding=named(names, pairs),
            )
        )  # fmt: skip
        found.open.update(_alike(on, hosts, slow.middle, found.excused))


def _tell_fast_groups(on: Plane, found: Groups) -> None:
    """Hosts faster among themselves than is the norm: they share a switch, which is no fault."""
    one, other, above = on.by_pair
    fast = above < -on.found.threshold
    label = together(on.hosts, one[fast], other[fast])
    inside = label[one] == label[other]
    sizes = np.unique(label, return_counts=True)[1]
    groups = int((sizes > 1).sum())
    if groups > 1 and int(fast.sum()) >= FEWEST_FAST and fast[inside].mean() > FAST_SHARE:
        found.notes.append(
            f"hosts fall into {groups} groups that are "
            f"{math.exp(-float(np.median(above[fast]))):.2f} times faster inside than to others: "
            "they share a switch"
        )


def _merged(islands: Sequence[Ints], joined: set[frozenset[int]]) -> list[Ints]:
    """Small groups that never met may well be one: they are told as one."""
    groups: list[list[int]] = []
    for at in range(1, len(islands) + 1):
        home = next(
            (g for g in groups if not any(frozenset((at, other)) in joined for other in g)), None
        )
        if home is None:
            groups.append([at])
        else:
            home.append(at)
    return [np.concatenate([islands[at - 1] for at in group]) for group in groups]


def _alike(on: Plane, hosts: Ints, middle: float, excused: set[int]) -> list[int]:
    """Slow hosts that are as slow as a group and never met it: they may belong to it."""
    first, second = on.columns.first, on.columns.second
    inside = np.isin(np.arange(on.hosts), hosts)
    met = {*first[inside[second]].tolist(), *second[inside[first]].tolist()}
    return [
        host
        for host, slow in on.slow_hosts.items()
        if host not in excused
        and host not in met
        and abs(slow.middle - middle) <= max(on.found.threshold, 3 * on.scatter)
    ]
