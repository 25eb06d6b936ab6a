"""The collectives a sweep knows, and how much of each crosses a rank's own link.

In: a collective's name and the number of ranks. Out: bytes on the wire per byte of size in a ring,
which nccl-tests calls the busbw factor (its doc/PERFORMANCE.md). Size is the total buffer for
all_gather, reduce_scatter and all_to_all. A collective is added here, and its call in
bench.measure.collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


WIRE_SHARES: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * _others(ranks),
    "all_gather": _others,
    "reduce_scatter": _others,
    "all_to_all": _others,
    "broadcast": lambda ranks: 1.0,
    "send_recv": lambda ranks: 1.0,
    "barrier": lambda ranks: 0.0,  # moves no payload
}
COLLECTIVES = tuple(WIRE_SHARES)
WITHOUT_PAYLOAD = frozenset({"barrier"})  # of one size only: nothing grows with it

DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8")
