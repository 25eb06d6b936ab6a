"""Hosts and rails against their fleet, night after night, wherever they ran.

In: nights in order, tonight last, of any shape: what a host does beside the others of its night
does not depend on who the others are, so a night on half of the nodes counts. Out: the hosts that
were slower than their fleet on each of their last three nights, and those that are missing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from bench.judge.history.nights import host_and_rail
from bench.records import Night, SlowHost

NIGHTS = 3  # of a host, not of the calendar
LOOKED_BACK = 30  # nights: what a host did a month ago says little of it now
LEAST_SLOW = 0.03  # log slowdown, median of its nights; the sweep itself accuses from 5 % on
EACH_SHARE = 0.5  # of that, on every one of them: one bad night does not make a bad host
# Times the noise of good pairs: a host's figure is the median of at least two pairs, so that three
# nights in a row beyond it happen to no host of 4,096 by chance.
NOISES = 3.0
USUAL_NIGHTS, USUAL_SHARE = 14, 0.9  # a host that comes and goes is not missing when it has gone
# Five nights tell a fleet that stays from one drawn anew each night, of which most come and go.
FEWEST_NIGHTS, STAYING_SHARE = 5, 0.7


def slow_hosts(nights: Sequence[Night]) -> tuple[SlowHost, ...]:
    """Hosts (or rails) of tonight that were slow on their last three nights, slowest first."""
    return tuple(sorted(_slow(nights), key=lambda found: -found.slowdown))


def _slow(nights: Sequence[Night]) -> Iterator[SlowHost]:
    if not nights:
        return
    recent = nights[-LOOKED_BACK:]
    for key, tonight in nights[-1].fleet.items():
        if tonight < EACH_SHARE * LEAST_SLOW:
            continue
        seen = [night for night in recent if key in night.fleet][-NIGHTS:]
        if len(seen) < NIGHTS:
            continue
        values = [night.fleet[key] for night in seen]
        noise = float(np.median([night.fleet_spread or 0.0 for night in seen]))
        bar = max(LEAST_SLOW, NOISES * noise)
        middle = float(np.median(values))
        if middle > bar and min(values) > EACH_SHARE * bar:
            host, rail = host_and_rail(key)
            yield SlowHost(
                host=host,
                rail=rail,
                slowdown=float(f"{math.expm1(middle):.4g}"),
                nights=tuple(night.run for night in seen),
            )


def missing_hosts(nights: Sequence[Night]) -> dict[str, int]:
    """Hosts that were there night after night and are not tonight, with how many nights in a row.

    Where jobs run on other nodes each night nobody is missing: only who was there on nearly all
    of the last nights, and on each of the last three, can be, and only where most were so.
    """
    if len(nights) <= FEWEST_NIGHTS:
        return {}
    here, before = set(nights[-1].hosts), [set(night.hosts) for night in nights[:-1]]
    lately = before[-USUAL_NIGHTS:]
    times = Counter(host for hosts in lately for host in hosts)
    usual = {host for host, count in times.items() if count >= USUAL_SHARE * len(lately)}
    if len(usual) < STAYING_SHARE * len(times):
        return {}
    found = {}
    for host in sorted(usual.intersection(*before[-NIGHTS:]) - here):
        gap = next((at for at, hosts in enumerate(reversed(before)) if host not in hosts), None)
        found[host] = len(before) if gap is None else gap
    return found
