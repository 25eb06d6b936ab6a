"""How many ranks a table's list of devices shows, and what the list lacks.

In: devices. Out: ranks of one communicator and its members. NCCL_TESTS_SPLIT makes several
communicators ("Group"), all timed together: the one of rank 0 is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bench.records import TableDevice

RanksBasis = Literal["listed", "inferred"] | None

_MOST_RANKS = 1 << 20


def listed(
    devices: Sequence[TableDevice], runs: int = 1
) -> tuple[int | None, Sequence[TableDevice], str | None]:
    """Ranks of one communicator by the list of devices, its devices, and what the list lacks."""
    if not devices:
        return None, (), None
    if runs > 1:
        whole = len(devices) % runs == 0
        return (len(devices) // runs if whole else None), devices, None
    given = {device.rank for device in devices}
    most = max(given)
    if most >= _MOST_RANKS or min(given) < 0:
        return None, devices, "a believable list of devices"
    if most >= len(given):
        holes = [rank for rank in range(most + 1) if rank not in given]
        return None, devices, f"device lines of {_span(holes)}"
    group = next(device.group for device in devices if device.rank == 0)
    members = [device for device in devices if device.group == group]
    return len({device.rank for device in members}), members, None


def settled(
    devices: Sequence[TableDevice], runs: int, counted: int | None, fitting: int | None
) -> tuple[int | None, RanksBasis, list[str]]:
    """Ranks, their basis and what is to be told, from the list's count and what the rows fit.

    A list is cut more easily than arithmetic errs: more ranks in the rows than lines in it means
    that lines are missing. Fewer, and both stand against each other.
    """
    if counted is not None:
        if fitting is None or fitting == counted:
            return counted, "listed", []
        if fitting > counted and runs == 1:
            holes = range(counted, fitting)
            return fitting, "inferred", [f"device lines of {_span(holes)}: the rows say so"]
        told = f"agreement on ranks: {counted} are listed, count and bandwidths say {fitting}"
        return counted, "listed", [told]
    if runs > 1 or not devices:
        return fitting, "inferred" if fitting else None, []
    last = max(device.rank for device in devices) + 1
    if last <= _MOST_RANKS and fitting in (None, last):
        return last, "inferred", []
    told = f"agreement on ranks: the last one listed is {last - 1}, the rows say {fitting}"
    return None, None, [told]


def _span(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"{len(ranks)} ranks"
