"""Which collective a table shows and over how many ranks, where nobody says so.

In: the evidence of its rows, and ranks where they are listed. Out: what fits: count × element size
against size (equal, or one rank's part), busbw / algbw (2(n-1)/n, (n-1)/n or 1), algbw against
size / time, the columns, root, operation, and whether in-place results are checked. Source: GetBw
and GetCollByteCount of each test; doc/PERFORMANCE.md. Where two collectives fit, none is named;
where two numbers of ranks fit, neither.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.formats.nccl_tests.evidence import Evidence

_MOST_RANKS = 1 << 20


class Shape(NamedTuple):
    """How a collective's rows look. `factor`: of busbw: "ring2" 2(n-1)/n, "ring" (n-1)/n, "one".

    `part`: count is one rank's part of size. `old`: lead columns beyond size, count, type before
    2.13. `rooted`, `reduces`: a root, an operation is printed since 2.13. `unchecked`: in-place
    results are never validated. `shrunk`: algbw is (n-1)/n of size over time.
    """

    collective: str
    factor: str
    part: bool
    old: frozenset[str]
    rooted: bool
    reduces: bool | None
    unchecked: bool = False
    shrunk: bool = False


_NONE, _OP, _ROOT = frozenset[str](), frozenset({"redop"}), frozenset({"root"})
_HYPERCUBE = Shape("hypercube", "one", True, _NONE, False, False, shrunk=True)
SHAPES = (
    Shape("all_reduce", "ring2", False, _OP, False, True),
    Shape("send_recv", "one", False, _NONE, False, None, unchecked=True),
    Shape("broadcast", "one", False, _ROOT, True, False),
    Shape("reduce", "one", False, _OP | _ROOT, True, True),
    Shape("all_gather", "ring", True, _NONE, False, False),
    Shape("reduce_scatter", "ring", True, _OP, False, True),
    # Its operation column was there and empty.
    Shape("all_to_all", "ring", True, _OP, False, False, unchecked=True),
    Shape("gather", "ring", True, _ROOT, True, False),
    Shape("scatter", "ring", True, _ROOT, True, False),
    # At first, and in hypercube: busbw = algbw = (n-1)/n of size over time.
    Shape("all_gather", "one", True, _NONE, False, False, shrunk=True),
    Shape("reduce_scatter", "one", True, _OP, False, True, shrunk=True),
    _HYPERCUBE,
)


class Fit(NamedTuple):
    """What the numbers of a table leave: collectives, and ranks where only one number fits."""

    collectives: tuple[str, ...]
    ranks: int | None


def fit(evidence: Evidence, *, ranks: int | None = None, collective: str | None = None) -> Fit:
    """Collectives and ranks that agree with every row; `ranks` and `collective` where known."""
    fits: dict[str, set[int | None]] = {}
    for shape in SHAPES:
        if collective not in (None, shape.collective):
            continue
        if collective is None and not _looks(shape, evidence):
            continue
        numbers = _ranks(shape, evidence)
        if numbers is None or (ranks is not None and not _agrees(numbers, ranks)):
            continue
        fits.setdefault(shape.collective, set()).add(_only(numbers))
    single = {number for numbers in fits.values() for number in numbers}
    return Fit(tuple(fits), single.pop() if len(single) == 1 else None)


def _looks(shape: Shape, seen: Evidence) -> bool:
    """Whether columns, root, operation and checks are those of the shape."""
    if seen.old or not {"redop", "root"} <= seen.columns:
        # Headerless rows cannot show a column that was empty, as alltoall's operation.
        columns = shape.old if seen.told or shape.reduces else shape.old - {"redop"}
        # Hypercube came when types were eight wide already and all_gather no longer shrunk.
        if columns != seen.columns or (shape.shrunk and seen.wide is not (shape is _HYPERCUBE)):
            return False
        return not ("redop" in shape.old and shape.reduces is not seen.operation)
    if shape.rooted is not seen.rooted or (shape.shrunk and shape is not _HYPERCUBE):
        return False
    if shape.reduces is not None and shape.reduces is not seen.operation:
        return False
    return seen.checked_in_place in (None, not shape.unchecked)


def _ranks(shape: Shape, seen: Evidence) -> tuple[int, int] | None:
    """The smallest and largest number of ranks with which the shape gives these numbers."""
    low, high = 1, _MOST_RANKS
    if seen.busy and (shape.factor != "one" or shape.shrunk):
        low = 2
    if shape.part:
        if seen.part is not None:
            low, high = max(low, seen.part), seen.part
    elif seen.part not in (None, 1):
        return None
    if shape.factor == "one":
        if not seen.low <= 1.0 <= seen.high:
            return None
        if shape.shrunk:
            if seen.shrink[0] > 0.999 and high > 1:
                return None  # algbw is size over time
            by_shrink = _of_share(*seen.shrink)
            low, high = max(low, by_shrink[0]), min(high, by_shrink[1])
    else:
        scale = 2.0 if shape.factor == "ring2" else 1.0
        by_factor = _of_share(seen.low / scale, seen.high / scale)
        low, high = max(low, by_factor[0]), min(high, by_factor[1])
    return (low, high) if low <= high else None


def _of_share(low: float, high: float) -> tuple[int, int]:
    """The numbers n for which (n-1)/n lies within the range."""
    least = 1 if low <= 0 else _MOST_RANKS if low >= 1 else -int(-(1 / (1 - low)) // 1)
    most = _MOST_RANKS if high >= 1 else int(1 / (1 - high) + 1e-9)
    return max(1, least), most


def _agrees(numbers: tuple[int, int], ranks: int) -> bool:
    return numbers[0] <= ranks <= numbers[1]


def _only(numbers: tuple[int, int]) -> int | None:
    return numbers[0] if numbers[0] == numbers[1] else None
