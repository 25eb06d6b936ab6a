"""Who waits for whom: from stops to the ones that nothing else explains.

In: stops, mismatches and sends that nobody received. Out: Roots. A lane that never joined may
itself be waiting in another group; whoever waits for such a lane waits for what it waits for. What
is left at the end of each chain is a root: an idle lane, a mismatch, a collective that all have
joined, a dump that is missing, or a ring of groups, or of sends and receives, that wait for each
other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from bench.hang.mismatch import Mismatch
from bench.hang.peers import PeerStop
from bench.hang.stops import Stop


@dataclass(frozen=True)
class Roots:
    """`idle`: stops with the lanes that never joined and wait for nothing; `cycles`: stops that
    wait for each other; `joined`: all who left a dump are in it, nobody is missing; `no_dump`: the
    same, but a member left none; `mismatched`: where a group's calls part; `peers`: sends or
    receives whose other side is idle; `rings`: sends, receives and perhaps stops that wait for
    each other."""

    idle: list[tuple[Stop, tuple[int, ...]]] = field(default_factory=list)
    cycles: list[tuple[Stop, ...]] = field(default_factory=list)
    joined: list[Stop] = field(default_factory=list)
    no_dump: list[Stop] = field(default_factory=list)
    mismatched: list[Mismatch] = field(default_factory=list)
    peers: list[PeerStop] = field(default_factory=list)
    rings: list[tuple[Stop | PeerStop, ...]] = field(default_factory=list)


def roots(
    stops: Sequence[Stop],
    mismatches: Sequence[Mismatch],
    peers: Sequence[PeerStop],
    lanes: int,
    *,
    all_dumped: bool,
    exchanging: Collection[int] = (),
) -> Roots:
    """The roots of all waiting. `all_dumped`: no rank of the job is without a dump; `exchanging`:
    lanes with a send or receive under way for which nobody is to blame."""
    found = Roots(mismatched=list(mismatches))
    parted = {each.group.number: each for each in mismatches}
    explained = [stop for stop in stops if _explained(stop, parted)]
    stops = [stop for stop in stops if not _explained(stop, parted) and _counts(stop)]
    # Lanes that wait in a group whose calls part are explained by that.
    parted_lanes = {
        lane for each in mismatches if not each.over for side in each.sides for lane in side.lanes
    }
    parted_lanes.update(lane for stop in explained for lane in stop.waiting)
    busy: dict[int, list[int]] = {}
    for at, stop in enumerate(stops):
        for lane in stop.waiting:
            busy.setdefault(lane, []).append(at)
    peer_of = {*exchanging, *(lane for each in peers for lane in each.waiting)}
    edges: list[set[int]] = []
    for at, stop in enumerate(stops):
        awaited = _awaited(stop, busy, lanes, all_dumped)
        idle = tuple(
            lane
            for lane in stop.absent
            if not busy.get(lane) and lane not in parted_lanes and lane not in peer_of
        )
        edges.append({to for lane in awaited for to in busy.get(lane, ()) if to != at})
        if idle:
            found.idle.append((stop, idle))
            continue
        elsewhere = any(lane in parted_lanes or lane in peer_of for lane in stop.absent)
        if not (edges[-1] or elsewhere or stop.lags):
            (found.no_dump if stop.no_dump or stop.older else found.joined).append(stop)
    ends = {at for at, to in enumerate(edges) if not to} | {
        at for at, stop in enumerate(stops) if any(stop is each for each, _ in found.idle)
    }
    for ring in _rings(edges):
        if not ring & ends:
            found.cycles.append(tuple(stops[at] for at in sorted(ring)))
    found.peers.extend(
        each for each in peers if not busy.get(each.awaited) and each.awaited not in peer_of
    )
    found.rings.extend(_mixed(stops, peers, edges))
    return found


def _mixed(
    stops: Sequence[Stop], peers: Sequence[PeerStop], edges: Sequence[set[int]]
) -> Iterable[tuple[Stop | PeerStop, ...]]:
    """Rings with a send or receive in them. `edges`: from stop to stop."""
    nodes: list[Stop | PeerStop] = [*stops, *peers]
    waits: dict[int, set[int]] = {}
    for at, node in enumerate(nodes):
        for lane in node.waiting:
            waits.setdefault(lane, set()).add(at)
    sought = [
        edges[at].union(*(waits.get(lane, ()) for lane in stop.absent))
        for at, stop in enumerate(stops)
    ]
    sought += [waits.get(peer.awaited, set()) for peer in peers]
    for ring in _rings(sought):
        if max(ring) >= len(stops):
            yield tuple(nodes[at] for at in sorted(ring))


def _explained(stop: Stop, parted: dict[int, Mismatch]) -> bool:
    """Whether the group's calls part at the stop or before, so that its numbers mean nothing."""
    mismatch = parted.get(stop.group.number)
    return mismatch is not None and mismatch.seq <= stop.seq


def _counts(stop: Stop) -> bool:
    """A mark that only comes late is no wait, unless it may be for members that nobody lists."""
    return not (stop.lags and stop.group.known)


def _awaited(
    stop: Stop, busy: dict[int, list[int]], lanes: int, all_dumped: bool
) -> Iterable[int]:
    """Lanes that the stop waits for. Where nobody lists the members of its group, the others are
    all the lanes there are: if each of them waits elsewhere, then so do the members."""
    if stop.absent or stop.group.known or not all_dumped:
        return stop.absent
    others = [lane for lane in range(lanes) if lane not in stop.group.lanes]
    return others if others and all(busy.get(lane) for lane in others) else ()


def _rings(edges: Sequence[set[int]]) -> list[set[int]]:
    """Sets of two or more nodes that all reach each other (Tarjan's, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    rings = []
    for root in range(len(edges)):
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            step = next(rest, None)
            if step is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    ring = set()
                    while node not in ring:
                        ring.add(stack.pop())
                    if len(ring) > 1:
                        rings.append(ring)
            elif step not in index:
                index[step] = low[step] = len(index)
                stack.append(step)
                work.append((step, iter(sorted(edges[step]))))
            elif step in stack:
                low[node] = min(low[node], index[step])
    return rings
