"""Under which conditions a line was measured, and which of both sides agree.

In: a session and its curve, or what both sides have by condition. Out: Conditions: ranks, hosts,
element type, operation, backend. One that is not known (None) agrees with any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from bench.judge.words import listed
from bench.records import SessionCurve, SideSession

# nccl-tests' words for element types, and ours.
DTYPES = {"float": "float32", "half": "float16", "double": "float64"}
NAMES = ("ranks", "hosts", "element type", "operation", "backend")
BACKEND = NAMES.index("backend")
Conditions = tuple[object, ...]

T = TypeVar("T")


def of(session: SideSession, curve: SessionCurve) -> Conditions:
    """As many as there are NAMES."""
    dtype = DTYPES.get(curve.dtype or "", curve.dtype)
    return curve.ranks, session.host_count, dtype, curve.redop, session.backend


def common(
    first: dict[Conditions, list[T]], second: dict[Conditions, list[T]]
) -> dict[Conditions, tuple[list[T], list[T]]]:
    """What was held under conditions that agree."""
    found: dict[Conditions, tuple[list[T], list[T]]] = {}
    for one, held in first.items():
        for other, also in second.items():
            if not _agree(one, other):
                continue
            merged = tuple(a if a is not None else b for a, b in zip(one, other, strict=True))
            had = found.setdefault(merged, ([], []))
            had[0].extend(each for each in held if each not in had[0])
            had[1].extend(each for each in also if each not in had[1])
    return found


def _agree(one: Conditions, other: Conditions) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def unlike(first: Iterable[Conditions], second: Iterable[Conditions]) -> str:
    """Why none of both sides agree."""
    told = []
    before, after = list(first), list(second)
    for at, name in enumerate(NAMES):
        one, other = ({c[at] for c in side if c[at] is not None} for side in (before, after))
        if one and other and not one & other:
            told.append(f"{name} {_values(one)} before, {_values(other)} after")
    return "; ".join(told) or "the conditions of no session before are those of one after"


def _values(values: Iterable[object]) -> str:
    return listed(str(value) for value in sorted(values, key=str))
