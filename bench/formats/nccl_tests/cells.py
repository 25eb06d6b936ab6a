"""Cells of a printed table: numbers as they stand there, and the half of a row they make.

In: tokens. Out: floats that give the printed digits back, and a TableTime. "4660.81" microseconds
become the float nearest to 4660.81e-6, in one step. A half whose time or bandwidth is no finite
number, or one of which no sum can be made, is none.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from bench.formats.nccl_tests.columns import HALF, ITERATIONS, Layout
from bench.records import IterationTimes, TableTime

_MAX_DIGITS = 20  # of a size: 2^64 has 20
LARGEST = 1e300  # beyond lies what became infinite on the way
# %.0le and %g of a whole number: what looks otherwise was cut.
ERROR = re.compile(r"\d(?:\.\d{1,3})?e[+-]\d{2,3}\*?|-?nan|inf")
_WRONG = re.compile(r"\d{1,15}|\d(?:\.\d{1,5})?e\+(?:0\d|1[0-7])")
_STANDARD = ((*HALF, "wrong"), (*HALF, "error"))


def seconds(text: str, power: int) -> float:
    """The float nearest to the printed number times ten to the power."""
    if "e" in text:
        return float(Decimal(text).scaleb(power))
    return float(f"{text}e{power}")


def half_width(text: str) -> float:
    """How far the true value may lie from a printed one: half a unit of its last digit."""
    mantissa, _, power = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    exponent = int(power) if power.lstrip("+-").isdecimal() and len(power) < 5 else 0
    return float(0.5 * 10.0 ** max(min(exponent - decimals, 300), -300))


def number(text: str) -> float | None:
    """The finite number that a printed cell is, None where it is something else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def half_of(values: list[str], layout: Layout) -> TableTime | None:
    """One half from its tokens; None where a time or bandwidth is no finite number."""
    names = layout.half
    if names in _STANDARD:
        time, algbw, busbw, check = values
        named = None
    else:
        named = dict(zip(names, values, strict=True))
        time, algbw, busbw = named["time"], named["algbw"], named["busbw"]
        check = named.get("wrong", named.get("error", "N/A"))
    try:
        time_s, alg, bus = seconds(time, layout.power), float(algbw), float(busbw)
    except (ValueError, ArithmeticError):  # N/A; Decimal has exceptions of its own
        return None
    if not all(
        abs(value) < LARGEST for value in (time_s, alg, bus)
    ):  # no comparison holds for nan
        return None
    wrong = error = None
    beyond = check.endswith("*")
    if "error" in names:
        error = float(check.rstrip("*")) if ERROR.fullmatch(check) else None
    else:
        wrong = _count(check)
    if named is None:
        return TableTime(
            time_s=time_s,
            algbw_gbs=alg,
            busbw_gbs=bus,
            wrong=wrong,
            error=error,
            beyond=beyond,
        )
    return TableTime(
        time_s=time_s,
        algbw_gbs=alg,
        busbw_gbs=bus,
        wrong=wrong,
        error=error,
        beyond=beyond,
        different_bits=_count(named.get("#bitdiff", "")),
        iterations=_iterations(named, layout.power),
        more=_more(named),
    )


def _count(text: str) -> int | None:
    return int(float(text)) if _WRONG.fullmatch(text) else None


def _iterations(named: dict[str, str], power: int) -> IterationTimes | None:
    if not all(_finite(named, name) for name in ITERATIONS):
        return None
    low, high, p99, cv = (named[name] for name in ITERATIONS)
    return IterationTimes(
        min_s=seconds(low, power),
        max_s=seconds(high, power),
        p99_s=seconds(p99, power),
        cv=seconds(cv, -2),
    )


_READ = {*HALF, "wrong", "error", "#bitdiff", *ITERATIONS}


def _more(named: dict[str, str]) -> dict[str, float]:
    return {
        name: float(token)
        for name, token in named.items()
        if name not in _READ and is_number(token)
    }


def _finite(named: dict[str, str], name: str) -> bool:
    return name in named and is_number(named[name])


def is_count(token: str) -> bool:
    return token.isdigit() and len(token) <= _MAX_DIGITS and token.isascii()


def is_integer(token: str) -> bool:
    return is_count(token.removeprefix("-"))


def is_number(token: str) -> bool:
    token = token.rstrip("*")
    if not token or len(token) > 2 * _MAX_DIGITS or token[0] not in "-0123456789.":
        return False
    try:
        return math.isfinite(float(token))
    except ValueError:
        return False
