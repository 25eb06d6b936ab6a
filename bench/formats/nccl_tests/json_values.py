"""Values of JSON that somebody else wrote: each is taken only where it is of the expected kind.

In: any value. Out: a number, a whole number, a mapping, a list; None or empty where it is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.formats.nccl_tests.cells import LARGEST, seconds


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None


def whole(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def words(value: object) -> list[str]:
    return [word for word in items(value) if isinstance(word, str)]


def from_microseconds(value: object) -> float | None:
    """Seconds, as the float nearest to the digits in the file."""
    found = number(value)
    return None if found is None else seconds(repr(found), -6)
