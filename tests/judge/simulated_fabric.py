"""A fabric that exists only as numbers: what a pair of its hosts would measure.

It answers the very rounds that the product asks for, so that rounds and judgement are tested as
they run. A transfer takes 1 s × the slowest of sender's transmit side, receiver's receive side,
link, rail and uplinks × noise; with several paths, a connection collides by chance and is halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from bench.judge.pairs.locating import Search, locating
from bench.records import Location, PairFigure, PairRound, PairTime


@dataclass
class Fabric:
    """Slowdowns are fractions: 0.10 takes 10 % longer. Faults of hosts hold on all their rails,
    those of `ports` on one: (host, rail)."""

    hosts: int
    noise: float = 0.02  # of each repetition
    shared_noise: float = 0.0  # of a measurement: all its repetitions are wrong together
    way_noise: float = 0.0  # of each repetition and direction
    credit: float = 0.0  # every second transfer finds a full token bucket and is as much faster
    tails: Literal["normal", "heavy"] = "normal"
    seed: int = 0
    slow: dict[int, float] = field(default_factory=dict)
    transmit: dict[int, float] = field(default_factory=dict)
    receive: dict[int, float] = field(default_factory=dict)
    ports: dict[tuple[int, int], float] = field(default_factory=dict)
    links: dict[tuple[int, int], float] = field(default_factory=dict)
    one_way: dict[tuple[int, int], float] = field(default_factory=dict)
    planes: dict[int, float] = field(default_factory=dict)  # rail: slowdown of all of it
    leaves: tuple[tuple[int, ...], ...] = ()
    uplinks: dict[int, float] = field(default_factory=dict)  # leaf: to and from other leaves
    rail_uplinks: dict[int, float] = field(default_factory=dict)  # rail: to and from other rails
    oversubscribed: float = 0.0  # all that leaves a leaf
    crossing: float = 0.0  # all that leaves a rail
    collisions: float = 0.0  # probability that a connection shares its path and takes twice
    absent: frozenset[int] = frozenset()
    hung: frozenset[tuple[int, int]] = frozenset()  # pairs
    gpus: dict[int, int] = field(default_factory=dict)  # of a host that has fewer than others
    latency_s: float | None = None
    late: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._home = {host: at for at, leaf in enumerate(self.leaves) for host in leaf}

    @property
    def names(self) -> list[str]:
        return [f"h{at}" for at in range(self.hosts)]

    @property
    def leaf_names(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(f"h{at}" for at in leaf) for leaf in self.leaves)

    def _factor(self, sender: int, receiver: int, rail: int, other: int) -> float:
        link = (min(sender, receiver), max(sender, receiver))
        worst = max(
            self.slow.get(sender, 0.0),
            self.slow.get(receiver, 0.0),
            self.transmit.get(sender, 0.0),
            self.receive.get(receiver, 0.0),
            self.ports.get((sender, rail), 0.0),
            self.ports.get((receiver, other), 0.0),
            self.planes.get(rail, 0.0),
            self.planes.get(other, 0.0),
            self.links.get(link, 0.0),
            self.one_way.get((sender, receiver), 0.0),
        )
        if rail != other:
            up = (self.rail_uplinks.get(rail, 0.0), self.rail_uplinks.get(other, 0.0))
            worst = max(worst, self.crossing, *up)
        here, there = self._home.get(sender), self._home.get(receiver)
        if here != there and here is not None and there is not None:
            ups = (self.uplinks.get(here, 0.0), self.uplinks.get(there, 0.0))
            worst = max(worst, self.oversubscribed, *ups)
        return 1 + worst

    def _draws(self, width: float, *shape: int) -> np.ndarray:
        if self.tails == "normal" or not width:
            return self._random.normal(0, width, shape)
        # t with 3 degrees of freedom has a standard deviation of sqrt(3): as wide, worse tails
        return self._random.standard_t(3, shape) * width / np.sqrt(3)

    def run(self, order: PairRound) -> list[PairFigure]:
        """What the round's pairs measure, a figure per pair and rail."""
        ways = [(pair, rail) for pair in order.pairs for rail in order.rails or (None,)]
        repeats = order.repeats
        luck = self._draws(self.noise, len(ways), repeats)
        luck += self._draws(self.shared_noise, len(ways), 1)
        if self.collisions:
            luck += np.log(2) * (self._random.random(luck.shape) < self.collisions)
        both = np.exp(luck[None] + self._draws(self.way_noise, 2, len(ways), repeats))
        if self.credit:
            both *= np.where(self._random.random(both.shape) < 0.5, 1 - self.credit, 1.0)
        factors = [self._both_ways(order, pair, rail) for pair, rail in ways]
        there, back = both * np.array(factors).T[:, :, None] if ways else both
        return [
            self._figure(order, pair, rail, there[at].tolist(), back[at].tolist())
            for at, (pair, rail) in enumerate(ways)
        ]

    def _both_ways(
        self, order: PairRound, pair: tuple[str, str], rail: int | None
    ) -> tuple[float, float]:
        a, b = int(pair[0][1:]), int(pair[1][1:])
        here = there = rail or 0
        if order.shift:
            there = order.rails[(order.rails.index(here) + order.shift) % len(order.rails)]
        return self._factor(a, b, here, there), self._factor(b, a, there, here)

    def _figure(
        self,
        order: PairRound,
        pair: tuple[str, str],
        rail: int | None,
        there: list[float],
        back: list[float],
    ) -> PairFigure:
        a, b = int(pair[0][1:]), int(pair[1][1:])
        other = None
        if order.shift and rail is not None:
            other = order.rails[(order.rails.index(rail) + order.shift) % len(order.rails)]
        outcome: Literal["ok", "hung", "absent"] = "ok"
        if {a, b} & self.absent or (a, b) in self.hung or (b, a) in self.hung:
            outcome = "hung"
        elif any(
            at is not None and host in self.gpus and at >= self.gpus[host]
            for host, at in ((a, rail), (b, rail if other is None else other))
        ):
            outcome = "absent"
        late = None
        if self.latency_s is not None:
            late = self.latency_s * (1 + max(self.late.get(a, 0.0), self.late.get(b, 0.0)))
            late *= float(np.exp(self._random.normal(0, 0.05)))
        times = tuple(
            PairTime(forward_s=ahead, backward_s=behind, latency_s=late)
            for ahead, behind in zip(there, back, strict=True)
        )
        return PairFigure(
            round=order.number, stage=order.stage, hosts=pair, rail=rail, other_rail=other,
            outcome=outcome, times=times if outcome == "ok" else (),
        )  # fmt: skip

    def located(self, search: Search) -> Location:
        """The whole process, from the first round to the answer."""
        return located(self.names, search, self)


class Measured(Protocol):
    """Whoever measures a round."""

    def run(self, order: PairRound) -> list[PairFigure]: ...


def located(hosts: Sequence[str], search: Search, fabric: Measured) -> Location:
    process = locating(hosts, search)
    try:
        order = next(process)
        while True:
            order = process.send(fabric.run(order))
    except StopIteration as end:
        answer = end.value
        assert isinstance(answer, Location)
        return answer
