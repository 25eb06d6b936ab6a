"""Who is measured with whom: rounds of disjoint pairs of hosts.

Screen (two rounds, the second pairs the slowest with the fastest, as DLRover does), confirm (each
suspect against hosts that are good), map (every link once: the circle method), inside and across
leaves. Pure; hosts are numbers here. Every host is in at most one pair of a round.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

SCREEN_ROUNDS, CONFIRMING_ROUNDS = 2, 3
MOST_ROUNDS = SCREEN_ROUNDS + CONFIRMING_ROUNDS  # but for what a suspected link takes
FEW_HOSTS = 10  # up to which the screen takes all of them: of few pairs, half may be slow

Pair = tuple[int, int]
Met = Collection[Pair]  # smaller number first
Homes = Sequence[int]  # each host's leaf, -1 where none is known


def ordered(a: int, b: int) -> Pair:
    """A pair as a key, whoever is named first."""
    return (a, b) if a < b else (b, a)


def factorisation(count: int) -> Iterator[tuple[Pair, ...]]:
    """Every pair of `count` hosts once: count - 1 rounds, count where it is odd (one sits out).

    The circle method: number 0 stays, the others rotate.
    """
    if count < 2:
        return
    circle = [*range(count), *([-1] if count % 2 else [])]
    size = len(circle)
    for _ in range(size - 1):
        pairs = ((circle[i], circle[size - 1 - i]) for i in range(size // 2))
        yield tuple(ordered(a, b) for a, b in pairs if a >= 0 and b >= 0)
        circle = [circle[0], circle[-1], *circle[1:-1]]


def shuffled(count: int, seed: int, home: Homes | None = None) -> tuple[Pair, ...]:
    """The screen's first round: everybody with somebody by chance, so that neighbours in the host
    list (who share a switch) are not always compared with each other. With `home`, each with one
    of its own leaf: what lies between leaves is no host's fault."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return _at_home(order, home, lambda hosts: zip(hosts[::2], hosts[1::2], strict=False))


def repaired(scores: Mapping[int, float], met: Met, home: Homes | None = None) -> tuple[Pair, ...]:
    """The screen's second round: slowest with fastest (of its leaf), nobody with a host already
    met if another is left. `scores`: log slowdown; a host without one (it sat out) counts as the
    slowest."""
    order = sorted(scores, key=lambda host: (-scores[host], host))

    def pairs(hosts: Sequence[int]) -> Iterable[Pair]:
        half = len(hosts) // 2
        return _matched(hosts[:half], hosts[half:][::-1], met)

    return _at_home(order, home, pairs)


def _at_home(
    order: Sequence[int],
    home: Homes | None,
    pairing: Callable[[Sequence[int]], Iterable[Pair]],
) -> tuple[Pair, ...]:
    """Pairs inside each leaf, then whoever is left over among themselves."""
    if home is None:
        return tuple(ordered(a, b) for a, b in pairing(order))
    leaves: dict[int, list[int]] = {}
    for host in order:
        leaves.setdefault(home[host], []).append(host)
    pairs = [ordered(a, b) for leaf in leaves.values() for a, b in pairing(leaf)]
    taken = {host for pair in pairs for host in pair}
    rest = pairing([host for host in order if host not in taken])
    return (*pairs, *(ordered(a, b) for a, b in rest))


def confirming(
    suspects: Sequence[int],
    good: Sequence[int],
    again: Sequence[Pair],
    met: Met,
    among: Sequence[int] = (),
    home: Homes | None = None,
) -> tuple[Pair, ...]:
    """One confirming round: `again` pairs that were measured before, suspects that meet each other
    (`among`: fast together, they are not slow), each other suspect with a good host that it has
    not met (of its leaf, if there is one), and who is left among themselves (they tell what good
    is)."""
    busy = {host for pair in again for host in pair}
    each_other = [host for host in among if host not in busy]
    half = len(each_other) // 2
    told = _matched(each_other[:half], each_other[half : 2 * half], met)
    pairs = [*again, *(pair for pair in told if pair not in met)]
    busy |= {host for pair in pairs for host in pair}
    slow = [host for host in suspects if host not in busy]
    free = [host for host in good if host not in busy]
    pairs += _matched(slow, free, met, home)
    taken = {host for pair in pairs for host in pair}
    rest = [host for host in (*slow, *free) if host not in taken]
    half = len(rest) // 2
    return (*pairs, *_matched(rest[:half], rest[half:], met))


def inside_leaves(leaves: Sequence[Sequence[int]], met: Met) -> tuple[Pair, ...]:
    """Pairs inside those leaves of which no two hosts have met."""
    new = (
        leaf
        for leaf in leaves
        if not any(ordered(a, b) in met for a, b in itertools.combinations(leaf, 2))
    )
    return tuple(
        ordered(a, b) for leaf in new for a, b in zip(leaf[::2], leaf[1::2], strict=False)
    )


def across_leaves(leaves: Sequence[Sequence[int]], seed: int) -> tuple[Pair, ...]:
    """A round in which everybody meets somebody of another leaf, by chance which: a slow uplink
    shows only there. Whom a leaf of more than half of all hosts cannot pair is left out."""
    draw = random.Random(seed)
    waiting = [draw.sample(leaf, len(leaf)) for leaf in leaves]
    pairs = []
    while sum(map(bool, waiting)) > 1:
        most = max(range(len(waiting)), key=lambda at: len(waiting[at]))
        others = [at for at in range(len(waiting)) if at != most and waiting[at]]
        other = draw.choices(others, [len(waiting[at]) for at in others])[0]
        pairs.append(ordered(waiting[most].pop(), waiting[other].pop()))
    return tuple(pairs)


def _matched(
    left: Sequence[int], right: Sequence[int], met: Met, home: Homes | None = None
) -> tuple[Pair, ...]:
    """Each of `left` with one of `right` in order, passing over pairs that have met if it can.

    Looking a few places ahead is enough: a host has met at most as many as there were rounds. With
    `home`, all of its own leaf are looked at first.
    """
    waiting = list(right)
    pairs: list[tuple[int, int]] = []  # left, right
    for host in left:
        if not waiting:
            break
        near = (
            i
            for i, w in enumerate(waiting)
            if home is not None and home[w] == home[host] >= 0 and ordered(host, w) not in met
        )
        any_new = (i for i, w in enumerate(waiting[:16]) if ordered(host, w) not in met)
        at = next(near, None) if home is not None else None
        pairs.append((host, waiting.pop(next(any_new, 0) if at is None else at)))
    _exchange(pairs, met)
    return tuple(ordered(a, b) for a, b in pairs)


def _exchange(pairs: list[tuple[int, int]], met: Met) -> None:
    """Whoever was left with a host already met takes another pair's, where both are new then."""
    for at, (a, b) in enumerate(pairs):
        if ordered(a, b) not in met:
            continue
        for other, (c, d) in enumerate(pairs):
            if other != at and ordered(a, d) not in met and ordered(c, b) not in met:
                pairs[at], pairs[other] = (a, d), (c, b)
                break
