"""GPUs that tell alike share a line: "gpu0-7.throttled_s" instead of eight lines.

In: values by GPU index. Out: values by a list of indexes in the kernel's list format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from bench.facts.placement import cpu_list
from bench.records import Gpu

Value = TypeVar("Value")


def alike(told: Mapping[int, Value]) -> dict[str, Value]:
    """{0: "x", 1: "x", 2: "y"} -> {"0-1": "x", "2": "y"}."""
    groups: dict[Value, list[int]] = {}
    for index, value in told.items():
        groups.setdefault(value, []).append(index)
    return {cpu_list(indexes): value for value, indexes in groups.items()}


def refusals(gpus: Iterable[Gpu]) -> dict[str, str]:
    """What GPUs do not tell, and why: "gpu0-7.throttled_s" -> "Not Supported"."""
    items: dict[str, dict[int, str]] = {}
    for gpu in gpus:
        for item, why in gpu.unreadable.items():
            items.setdefault(item, {})[gpu.index] = why
    return {
        f"gpu{indexes}.{item}": why
        for item, told in items.items()
        for indexes, why in alike(told).items()
    }
