"""The collectives, one entry each: how a buffer is laid out, the call, and what must come out.

Sizes are counted as nccl-tests counts them: the total buffer for all_gather, reduce_scatter and
all_to_all (rounded down to 16 bytes a rank), the buffer itself for the others. Buffers hold small
integers, so few that every partial sum is exact in every dtype: values are compared exactly. Input
is written again before each batch of timed calls: an in-place all_reduce multiplies its values by
the number of ranks at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from bench.plan import volumes

_ALIGN_BYTES = 16  # nccl-tests rounds each rank's share down to this
_ROOT = 0
_CYCLE = (
    7  # ranks hold 1 to 7 in turn: neighbours differ, sums over a million stay exact in float32
)
_CHECKED_AT_ONCE = 2**22  # elements: a check needs some 40 MB beside its buffer, whatever the size


@dataclass(frozen=True)
class Call:
    """A collective made ready for one size: `refill` then `run` any number of times.

    `wrong()` counts elements that differ from what one `run` after one `refill` must give.
    `blocks_host`: `run` returns only when it is done on a stream backend too.
    """

    run: Callable[[], object]
    refill: Callable[[], None]
    wrong: Callable[[], int]
    size_bytes: int
    blocks_host: bool = False


@dataclass(frozen=True)
class Place:
    """Where and among whom a call runs: in the default process group."""

    rank: int
    ranks: int
    device: torch.device
    dtype: torch.dtype


@dataclass(frozen=True)
class Collective:
    """One entry of the table: a name and how to make it ready for a size in bytes."""

    name: str
    prepare: Callable[[int, Place], Call]
    only_slowest: bool = False  # the smallest time over ranks says nothing (a root leaves early)


def _share(size_bytes: int, place: Place) -> int:
    """Elements per rank when `size_bytes` is the total over ranks."""
    per_rank = max(_ALIGN_BYTES, size_bytes // place.ranks // _ALIGN_BYTES * _ALIGN_BYTES)
    return max(1, per_rank // place.dtype.itemsize)


def _value(rank: int) -> int:
    return rank % _CYCLE + 1


def _sum_of_values(ranks: int) -> int:
    cycles, rest = divmod(ranks, _CYCLE)
    return cycles * _CYCLE * (_CYCLE + 1) // 2 + rest * (rest + 1) // 2


def _exact_below(dtype: torch.dtype) -> int:
    """The largest integer to which every one is exact: 256 in bfloat16, 255 in uint8."""
    if dtype.is_floating_point:
        return int(2 / torch.finfo(dtype).eps)
    return int(torch.iinfo(dtype).max)


def summand(rank: int, dtype: torch.dtype) -> int:
    """What a rank adds to a sum: 1 to 7, but 0 from where the total would no longer be exact.

    All ranks show in the sum up to 63 in bfloat16 and uint8, 511 in float16, 4 million in float32;
    whether a rank beyond has taken part at all does not.
    """
    return _value(rank) if _sum_of_values(rank + 1) <= _exact_below(dtype) else 0


def total(ranks: int, dtype: torch.dtype) -> int:
    """The sum of all ranks' `summand`: exact in `dtype`, in whatever order it is made."""
    return sum(summand(rank, dtype) for rank in range(ranks))


def _full(count: int, value: float, place: Place) -> torch.Tensor:
    return torch.full((count,), value, dtype=place.dtype, device=place.device)


def _fill(*pairs: tuple[torch.Tensor, float]) -> None:
    for tensor, value in pairs:
        tensor.fill_(value)


def differing(tensor: torch.Tensor, values: Sequence[float]) -> int:
    """Elements that are not what they must be: one block of equal length per value, in order.

    Piece by piece in the tensor's own dtype: a large buffer has no room for copies beside it.
    """
    blocks = tensor.view(len(values), -1)
    column = torch.tensor(values, dtype=tensor.dtype, device=tensor.device).unsqueeze(1)
    wrong = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for piece in torch.split(blocks, max(1, _CHECKED_AT_ONCE // len(values)), dim=1):
        wrong += torch.count_nonzero(piece != column)
    return int(wrong.item())


def _all_reduce(size_bytes: int, place: Place) -> Call:
    buffer = _full(max(1, size_bytes // place.dtype.itemsize), 0, place)
    return Call(
        run=lambda: dist.all_reduce(buffer),
        refill=lambda: _fill((buffer, summand(place.rank, place.dtype))),
        wrong=lambda: differing(buffer, [total(place.ranks, place.dtype)]),
        size_bytes=buffer.nbytes,
    )


# torch 2.13 renamed the single-tensor forms and warns about the old names
_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def _all_gather(size_bytes: int, place: Place) -> Call:
    count = _share(size_bytes, place)
    mine, everyone = _full(count, 0, place), _full(count * place.ranks, 0, place)
    values = [_value(rank) for rank in range(place.ranks)]
    return Call(
        run=lambda: _gather_single(everyone, mine),
        refill=lambda: _fill((mine, _value(place.rank)), (everyone, 0)),
        wrong=lambda: differing(everyone, values),
        size_bytes=everyone.nbytes,
    )


def _reduce_scatter(size_bytes: int, place: Place) -> Call:
    count = _share(size_bytes, place)
    everyone, mine = _full(count * place.ranks, 0, place), _full(count, 0, place)
    return Call(
        run=lambda: _scatter_single(mine, everyone),
        refill=lambda: _fill((everyone, summand(place.rank, place.dtype)), (mine, 0)),
        wrong=lambda: differing(mine, [total(place.ranks, place.dtype)]),
        size_bytes=everyone.nbytes,
    )


def _broadcast(size_bytes: int, place: Place) -> Call:
    buffer = _full(max(1, size_bytes // place.dtype.itemsize), 0, place)
    mine = _value(_ROOT) if place.rank == _ROOT else 0
    return Call(
        run=lambda: dist.broadcast(buffer, _ROOT),
        refill=lambda: _fill((buffer, mine)),
        wrong=lambda: differing(buffer, [_value(_ROOT)]),
        size_bytes=buffer.nbytes,
    )


def _all_to_all(size_bytes: int, place: Place) -> Call:
    count = _share(size_bytes, place)
    out, into = _full(count * place.ranks, 0, place), _full(count * place.ranks, 0, place)
    values = [_value(rank) for rank in range(place.ranks)]
    return Call(
        run=lambda: dist.all_to_all_single(into, out),
        refill=lambda: _fill((out, _value(place.rank)), (into, 0)),
        wrong=lambda: differing(into, values),
        size_bytes=into.nbytes,
    )


def _send_recv(size_bytes: int, place: Place) -> Call:
    """Every rank sends to the next and receives from the one before, as nccl-tests' sendrecv."""
    count = max(1, size_bytes // place.dtype.itemsize)
    out, into = _full(count, 0, place), _full(count, 0, place)
    after, before = (place.rank + 1) % place.ranks, (place.rank - 1) % place.ranks

    def run() -> None:
        operations = [dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, into, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    return Call(
        run=run,
        refill=lambda: _fill((out, _value(place.rank)), (into, 0)),
        wrong=lambda: differing(into, [_value(before)]),
        size_bytes=out.nbytes,
    )


def _barrier(_size_bytes: int, place: Place) -> Call:
    """Blocks the host over NCCL too: its time is the host's latency, not the stream's."""
    del place
    return Call(
        run=dist.barrier, refill=lambda: None, wrong=lambda: 0, size_bytes=0, blocks_host=True
    )


COLLECTIVES: dict[str, Collective] = {
    entry.name: entry
    for entry in (
        Collective("all_reduce", _all_reduce),
        Collective("all_gather", _all_gather),
        Collective("reduce_scatter", _reduce_scatter),
        Collective("broadcast", _broadcast, only_slowest=True),
        Collective("all_to_all", _all_to_all),
        Collective("send_recv", _send_recv),
        Collective("barrier", _barrier),
    )
}

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in volumes.DTYPES}
