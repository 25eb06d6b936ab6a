"""Bus bandwidth factors: what turns bytes over time into a figure to hold against a wire.

In: a collective's name and the number of ranks. Out: busbw / algbw, as nccl-tests defines it
(its doc/PERFORMANCE.md): the share of the buffer that has to cross each rank's own link. Size is
the total buffer for all_gather, reduce_scatter, all_to_all, gather and scatter.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.records import BadInput


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * _others(ranks),
    "all_gather": _others,
    "reduce_scatter": _others,
    "all_to_all": _others,
    "gather": _others,
    "scatter": _others,
    "broadcast": lambda ranks: 1.0,
    "reduce": lambda ranks: 1.0,
    "send_recv": lambda ranks: 1.0,
    "barrier": lambda ranks: 0.0,  # moves no payload
}


def factor(collective: str, ranks: int) -> float:
    """busbw / algbw of `collective` over `ranks` ranks; 0 where nothing crosses a link.

    One rank alone has factor 0 for the collectives with an (n - 1): nccl-tests prints 0 as well.
    Raises BadInput for a collective that is not in the table or fewer than one rank.
    """
    if ranks < 1:
        raise BadInput(f"a collective needs at least 1 rank, not {ranks}")
    if collective not in FACTORS:
        known = ", ".join(sorted(FACTORS))
        raise BadInput(f"no collective is called {collective!r}; known are {known}")
    return FACTORS[collective](ranks)
