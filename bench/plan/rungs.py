"""The ladder: groups that grow, so that the first one to fail says which step is at fault.

In: hosts with their ranks, and the backend. Out: a Candidate per rung, smallest first, each with
the environment of the case with nothing set: what users get.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bench.plan.default_case import default_case
from bench.records import Backend, Candidate, Case, HostFacts


def rungs(hosts: Sequence[HostFacts], backend: Backend) -> tuple[Candidate, ...]:
    """1 rank, 2 ranks, 1 host, 2 hosts, all; a rung with the ranks of the one before is left out.

    The host that rank 0 is on is the first, so that every rung but the last adds to the same.
    """
    base = default_case(hosts, backend)
    ordered = sorted(hosts, key=lambda host: min(host.ranks, default=0))
    first = ordered[0].ranks
    sets = {
        "1 rank": first[:1],
        "2 ranks": first[:2],
        "1 host": first,
        "2 hosts": tuple(rank for host in ordered[:2] for rank in host.ranks),
        f"{len(ordered)} hosts": tuple(rank for host in ordered for rank in host.ranks),
    }
    climbed: dict[tuple[int, ...], str] = {}
    for name, ranks in sets.items():
        climbed.setdefault(tuple(sorted(ranks)), name)
    return tuple(
        msgspec.structs.replace(base, name=name, ranks=ranks) for ranks, name in climbed.items()
    )


def cases(climbed: Sequence[Candidate]) -> tuple[Case, ...]:
    """One session of each, in order."""
    return tuple(
        Case(number=number, candidate=rung.name, session=0) for number, rung in enumerate(climbed)
    )
