"""What a search for slow parts looks for: the settings that rounds and judgement share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Search:
    """`interest` is the smallest slowdown worth a finding (0.10 = 10 %); `expected_s` what a pair
    should take at this size (None: nothing is expected); `confirm` asks for the confirming rounds
    even without a suspect; `map_links` for every pair of hosts.

    `rails`: each round measures these GPUs (and so NICs) of a host at the same time, each with its
    equal; `cross_rails` adds two rounds in which each meets its neighbour. `leaves`: hosts by the
    switch that they hang on; they are screened inside, then two rounds go across.

    `once`: somebody else measured the pairs, once each: nothing can be repeated, so a link is told
    on one measurement, and nobody on a norm of one pair. `scatter`: the standard deviation of good
    pairs' log times, where the caller knows it better than so few pairs do."""

    interest: float = 0.10
    repeats: int = 3
    seed: int = 0
    size_bytes: int = 0
    candidate: str | None = None
    expected_s: float | None = None
    confirm: bool = False
    map_links: bool = False
    rails: tuple[int, ...] = ()
    cross_rails: bool = False
    leaves: tuple[tuple[str, ...], ...] = ()
    once: bool = False
    scatter: float | None = None

    @property
    def threshold(self) -> float:
        """A slowdown above it is accused: half of what is of interest, 3 % at least."""
        return max(self.interest / 2, 0.03)

    @property
    def log_threshold(self) -> float:
        return math.log1p(self.threshold)

    def homes(self, hosts: Sequence[str]) -> list[int]:
        """The number of each host's leaf, -1 where none is known."""
        home = {host: at for at, leaf in enumerate(self.leaves) for host in leaf}
        return [home.get(host, -1) for host in hosts]
