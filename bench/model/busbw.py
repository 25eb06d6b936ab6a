"""Bus bandwidth factors: what turns bytes over time into a figure to hold against a wire.

In: a collective's name and the number of ranks. Out: busbw / algbw, as nccl-tests defines it:
the share of the buffer that has to cross each rank's own link (bench.plan.volumes).
"""

from __future__ import annotations

from bench.plan.volumes import WIRE_SHARES
from bench.records import BadInput


def factor(collective: str, ranks: int) -> float:
    """busbw / algbw of `collective` over `ranks` ranks; 0 where nothing crosses a link.

    One rank alone has factor 0 for the collectives with an (n - 1): nccl-tests prints 0 as well.
    Raises BadInput for a collective that is not in the table or fewer than one rank.
    """
    if ranks < 1:
        raise BadInput(f"a collective needs at least 1 rank, not {ranks}")
    if collective not in WIRE_SHARES:
        known = ", ".join(sorted(WIRE_SHARES))
        raise BadInput(f"no collective is called {collective!r}; known are {known}")
    return WIRE_SHARES[collective](ranks)
