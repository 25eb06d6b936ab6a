"""What of a recorded call must be equal on all ranks, and how to say it.

In: a FlightCall. Out: a key that is equal where calls fit together, the way in which two keys do
not, and words. A shape is compared by its elements: [2, 4] and [8] are the same message. Only a
root has both sides of a gather or scatter, and an all_to_all's parts differ by right.
Source: ProcessGroupNCCL.cpp, torch/distributed/flight_recorder/components/types.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from bench.records import FlightCall

Difference = Literal["type", "size", "dtype"]

# Names of one operation in different versions of torch, and through different functions.
FAMILIES = {
    "_all_gather_base": "all_gather_base",
    "all_gather_into_tensor": "all_gather_base",
    "all_gather_single": "all_gather_base",
    "_allgather_base": "all_gather_base",
    "allgather": "all_gather",
    "_reduce_scatter_base": "reduce_scatter_base",
    "reduce_scatter_tensor": "reduce_scatter_base",
    "reduce_scatter_single": "reduce_scatter_base",
    "allreduce": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "all_to_all_v_single": "all_to_all",
    "all_to_allv": "all_to_all",
}
# Which side is the same everywhere; the other belongs to a root, or is a rank's own part.
INPUT_ONLY = ("gather", "reduce", "reduce_scatter", "reduce_scatter_v")
OUTPUT_ONLY = ("scatter", "all_gather", "all_gather_v")
NEITHER = ("all_to_all", "coalesced", "split", "new_window")
# Calls that cannot end on any rank before all have made them. Of the others the root of a
# broadcast or the senders of a reduce may be long gone.
SYNCHRONOUS = (
    "all_reduce",
    "all_reduce_barrier",
    "allreduce_coalesced",
    "barrier",
    "all_gather",
    "all_gather_base",
    "all_gather_into_tensor_coalesced",
    "reduce_scatter_base",
    "reduce_scatter",
    "reduce_scatter_tensor_coalesced",
    "all_to_all",
)
# Names of element types as people write them, and bytes; c10::toString of the scalar types.
DTYPES = {
    "Float": ("float32", 4),
    "Double": ("float64", 8),
    "Half": ("float16", 2),
    "BFloat16": ("bfloat16", 2),
    "Long": ("int64", 8),
    "Int": ("int32", 4),
    "Short": ("int16", 2),
    "Char": ("int8", 1),
    "Byte": ("uint8", 1),
    "Bool": ("bool", 1),
    "Float8_e4m3fn": ("float8_e4m3fn", 1),
    "Float8_e5m2": ("float8_e5m2", 1),
}
SHAPES_SHOWN = 2


class Key(NamedTuple):
    """Equal where calls fit together. None: of no meaning for this operation."""

    family: str
    input_elements: int | None
    output_elements: int | None
    dtypes: tuple[str, ...]


def family(call: FlightCall) -> str:
    return FAMILIES.get(call.name, call.name)


def key(call: FlightCall) -> Key:
    """What must be equal on all ranks of the group."""
    name = family(call)
    sent, received = elements(call.input_sizes), elements(call.output_sizes)
    dtypes = set(call.input_dtypes) | set(call.output_dtypes)
    if name in NEITHER:
        return Key(name, None, None, tuple(sorted(dtypes)) if name == "all_to_all" else ())
    if name in INPUT_ONLY:
        return Key(name, sent, None, tuple(sorted(set(call.input_dtypes))))
    if name in OUTPUT_ONLY:
        return Key(name, None, received, tuple(sorted(set(call.output_dtypes))))
    if name == "broadcast":  # some record the root's side only, some both
        return Key(name, max(sent, received), None, tuple(sorted(dtypes)))
    return Key(name, sent, received, tuple(sorted(dtypes)))


def difference(one: Key, other: Key) -> Difference:
    """The first thing in which two different keys differ."""
    if one.family != other.family:
        return "type"
    if one[1:3] != other[1:3]:
        return "size"
    return "dtype"


def elements(shapes: Sequence[Sequence[int]]) -> int:
    return sum(math.prod(shape) for shape in shapes)


def dtype(call: FlightCall) -> str:
    """ "float32", "float32 and int64", "" where nothing is sent."""
    told = dict.fromkeys([*call.input_dtypes, *call.output_dtypes])
    return " and ".join(DTYPES.get(name, (name, 0))[0] for name in list(told)[:SHAPES_SHOWN])


def size_bytes(call: FlightCall) -> int | None:
    """Bytes of the larger side, as nccl-tests counts a message; None where a type is unknown."""
    sides = (
        (call.input_sizes, call.input_dtypes),
        (call.output_sizes, call.output_dtypes),
    )
    sizes = []
    for shapes, dtypes in sides:
        widths = [DTYPES.get(name, (name, 0))[1] for name in dtypes]
        if len(widths) != len(shapes) or 0 in widths:
            return None
        sizes.append(sum(math.prod(s) * width for s, width in zip(shapes, widths, strict=True)))
    return max(sizes)


def shape(call: FlightCall) -> str:
    """ "[1024] float32", "[512] → [4096] bfloat16", "12 tensors of 4,096 elements", "no data"."""
    sent, received = _shapes(call.input_sizes), _shapes(call.output_sizes)
    if not sent and not received:
        return "no data"
    both = sent if sent == received or not received else f"{sent} → {received}"
    return f"{both or received} {dtype(call)}".strip()


def _shapes(shapes: Sequence[Sequence[int]]) -> str:
    if len(shapes) > SHAPES_SHOWN:
        return f"{len(shapes):,} tensors of {elements(shapes):,} elements"
    return ", ".join(str(list(one)).replace(" ", "") for one in shapes)


def normal(name: str) -> str:
    """A collective's name as filters compare it: "ALLREDUCE" and "all_reduce" are one."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
