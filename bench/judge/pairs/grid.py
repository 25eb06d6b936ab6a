"""A map of hosts × hosts that fits a screen: the slowest pair of each block of hosts.

In: measurements. Out: for many hosts, square blocks in the order of the hosts, each holding how
many times longer than a good pair its slowest one took; nothing for few hosts, whose pairs are
drawn one by one.
"""

from __future__ import annotations

import math

import numpy as np

from bench.judge.pairs.values import Columns

CELLS = 64  # along an edge; a page of 400 px still shows them apart
Grid = tuple[tuple[float | None, ...], ...]


def blocks(columns: Columns, hosts: int, norm: float) -> Grid:
    """Empty up to CELLS hosts. `norm`: log time of a good pair."""
    if hosts <= CELLS or not len(columns):
        return ()
    size = math.ceil(hosts / CELLS)
    edge = math.ceil(hosts / size)
    worst = np.full((edge, edge), -np.inf)
    row, column = columns.first // size, columns.second // size
    np.maximum.at(worst, (row, column), columns.slower)
    np.maximum.at(worst, (column, row), columns.slower)
    return tuple(
        tuple(round(math.exp(value - norm), 3) if math.isfinite(value) else None for value in line)
        for line in worst.tolist()
    )


def block_hosts(hosts: int) -> int:
    """How many hosts a block of such a grid holds."""
    return math.ceil(hosts / CELLS)
