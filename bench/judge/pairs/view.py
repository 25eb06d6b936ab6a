"""All pairs as one picture: a plane for each rail, what leaves and crossed rails account for.

In: measurements and what is looked for. Out: a View, from which the next rounds are chosen and the
answer is drawn. Hosts are numbers here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.judge.pairs import leaf_effects
from bench.judge.pairs.leaf_effects import LeafView
from bench.judge.pairs.plane import Plane, Slow, plane
from bench.judge.pairs.search import Search
from bench.judge.pairs.values import Columns

SHARE_OF_HOST = 0.5  # of a host's rails: where more are slow, it is the host


@dataclass(frozen=True)
class View:
    """`planes` by rail (DEFAULT_RAIL where there are none), with the leaves of each; `norm` is the
    log time of a good pair on a good plane."""

    hosts: int
    columns: Columns
    planes: tuple[Plane, ...]
    leaves: dict[int, LeafView]  # by rail
    norm: float

    @property
    def noise(self) -> float:
        return float(np.median([on.found.noise for on in self.planes]))

    @property
    def threshold(self) -> float:
        return max(on.found.threshold for on in self.planes)

    @property
    def slow_planes(self) -> dict[int, Slow]:
        """Rails on which good pairs are slower than on the others, worst first."""
        found = {}
        for on in self.planes:
            above = on.found.reference - self.norm
            if above > on.found.threshold:
                spread = on.found.noise
                found[on.rail] = Slow(above, above - spread, above + spread)
        return dict(sorted(found.items(), key=lambda item: -item[1].middle))

    @property
    def slow_hosts(self) -> dict[int, dict[int, Slow]]:
        """Host -> rail -> how slow, worst first."""
        found: dict[int, dict[int, Slow]] = {}
        for on in self.planes:
            for host, slow in on.slow_hosts.items():
                found.setdefault(host, {})[on.rail] = slow
        return dict(sorted(found.items(), key=lambda i: -max(s.middle for s in i[1].values())))

    def is_whole(self, host: int, rails: int) -> bool:
        """Whether slowness on so many rails is the host's and not a NIC's."""
        if len(self.planes) == 1:
            return True
        present = sum(bool(on.met[host]) for on in self.planes)
        return present == 1 or (rails > 1 and rails > SHARE_OF_HOST * present)

    def crossing_rails(self) -> tuple[list[int], LeafView]:
        """What is slow only between rails: rails are leaves, and NICs their hosts (host times the
        number of rails plus the rail's place in the list)."""
        columns = self.columns
        if not columns.crossed.any():
            return [], LeafView()
        rails = np.unique(np.concatenate((columns.rail, columns.other_rail)))
        here = np.searchsorted(rails, columns.rail)
        there = np.searchsorted(rails, columns.other_rail)
        home = np.tile(np.arange(rails.size), self.hosts)
        first, second = columns.first * rails.size + here, columns.second * rails.size + there
        count, logs = self.hosts * rails.size, columns.slower
        around = leaf_effects.leaves(home, count, first, second, logs, self.threshold)
        return rails.tolist(), around


def view(columns: Columns, names: Sequence[str], search: Search) -> View | None:
    """The picture so far; None where nothing was measured. `names` of the hosts, in order."""
    home, hosts = np.array(search.homes(names), dtype=np.int64), len(names)
    planes: list[Plane] = []
    leaves: dict[int, LeafView] = {}
    threshold = search.log_threshold
    straight = columns.where(~columns.crossed)
    for rail in np.unique(straight.rail).tolist():
        own = straight.where(straight.rail == rail)
        logs = own.slower
        around = leaf_effects.leaves(home, hosts, own.first, own.second, logs, threshold)
        telling = around.telling(home, own.first, own.second)
        if telling is not None and around.crossing is not None:
            logs = (logs - around.offset * around.crossing)[telling]
            own = own.where(telling)
        leaves[rail] = around
        if len(own):
            planes.append(plane(rail, hosts, own, logs, threshold, search.scatter))
    if not planes:
        return None
    norms = sorted(on.found.reference for on in planes)
    return View(hosts, columns, tuple(planes), leaves, norms[(len(norms) - 1) // 2])
