"""The columns of a printed table, from its header line or, where that is lost, from its rows.

In: the words above the rows. Out: a Layout that names every token of a row. The header changed
with nccl-tests 2.13 (`error` → `#wrong`, every collective prints redop and root), 2.19 (`-I`
columns, `#bitdiff`) and in rccl-tests (hipevt, algo/proto/nchannels, one half only); NCCL 1 and
the first nccl-tests said bytes, N, op, res and gave milliseconds. Source: print_header() of each
test up to 2.12, src/util.cu writeResultHeader() since 2.17, of nccl-tests and rccl-tests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_OLD_NAMES = {"bytes": "size", "N": "count", "op": "redop", "res": "error", "cputime": "time"}
_LEAD = ("size", "count", "type", "redop", "root")
HALF = ("time", "algbw", "busbw")
# What may follow the bandwidths of a half, in the order of printing; both checks have one place.
_CHECKS = ("wrong", "error")
ITERATIONS = ("i_min", "i_max", "i_p99", "i_cv%")
_ERROR = re.compile(r"\de[+-]\d{2,3}\*?|inf|nan|-nan")
# Columns after both halves, one per row.
_TAIL = ("algo", "proto", "nchannels", "timestamp")

# Numbers after the type (and redop) of a headerless row → columns of a half, root. No two layouts
# print the same number of them.
_BY_COUNT: dict[int, tuple[tuple[str, ...], bool]] = {}
for _half in (
    (*HALF, "check"),
    (*HALF, "check", "#bitdiff"),
    (*HALF, "check", *ITERATIONS),
    (*HALF, "check", "#bitdiff", *ITERATIONS),
):
    _BY_COUNT[2 * len(_half)] = (_half, False)
    _BY_COUNT[2 * len(_half) + 1] = (_half, True)


class Layout(NamedTuple):
    """`lead`: the words before the halves; `half`: those of one half, `halves` times, the first
    being `first`; `tail`: those after them. `power`: of ten, from the printed time to seconds."""

    lead: tuple[str, ...]
    half: tuple[str, ...] = (*HALF, "wrong")
    halves: int = 2
    first: str = "out_of_place"
    tail: tuple[str, ...] = ()
    power: int = -6
    cputime: bool = False
    told: bool = True  # by a header; False: told from the rows

    @property
    def check(self) -> str | None:
        return next((name for name in _CHECKS if name in self.half), None)

    @property
    def numbers(self) -> int:
        return len(self.half) * self.halves


def is_header(text: str) -> bool:
    """Whether the line names the columns ("#" and blanks at its beginning do no harm)."""
    return "busbw" in text and "algbw" in text and "time" in text


def of_header(text: str, places: Sequence[str] = ()) -> Layout | None:
    """The layout that a header line tells; `places` are the halves' names of the line above it.

    None where the line was cut before its first half was whole.
    """
    # "size(B)", "time(us)": some tools and people print units on the same line.
    words = [word.partition("(")[0] for word in text.replace("#wrong", " wrong").split()]
    words = [_OLD_NAMES.get(word, word) for word in words]
    words = [word.lstrip("#") if word != "#bitdiff" else word for word in words]
    words = [word for word in words if word]
    starts = [at for at, word in enumerate(words) if word == "time"]
    if not starts or "busbw" not in words:
        return None
    length = starts[1] - starts[0] if len(starts) > 1 else len(words) - starts[0]
    half = tuple(words[starts[0] : starts[0] + length])
    if len(starts) == 1:
        tail = next((at for at, word in enumerate(half) if word in _TAIL), length)
        half, rest = half[:tail], half[tail:]
    else:
        rest = tuple(words[starts[1] + length :])
    if half[:1] != ("time",) or not {"algbw", "busbw"} <= set(half):
        return None
    places = [place for place in places if place in ("out-of-place", "in-place")]
    return Layout(
        lead=tuple(word for word in words[: starts[0]] if word in _LEAD),
        half=half,
        halves=min(len(starts), 2),
        first="in_place" if places[:1] == ["in-place"] else "out_of_place",
        tail=tuple(word for word in rest if word in _TAIL),
        power=-3 if "bytes" in text.split() else -6,
        cputime="cputime" in text,
    )


def of_rows(rows: Sequence[str]) -> Layout | None:
    """The layout of rows without a header: the one whose number of numbers most rows have.

    The column after the bandwidths is `error` where every entry has the form 1e-06 (nccl-tests
    before 2.13 prints nothing else), else it counts wrong elements.
    """
    counts: dict[tuple[int, bool], int] = {}
    split = []
    for text in rows:
        tokens = text.split()
        has_redop = len(tokens) > 3 and tokens[3][:1].isalpha() and tokens[3] != "N/A"
        numbers = tokens[4 if has_redop else 3 :]
        if _is_time_of_day(numbers[-1:]):
            numbers = numbers[:-2]
        if len(numbers) in _BY_COUNT:
            counts[len(numbers), has_redop] = counts.get((len(numbers), has_redop), 0) + 1
            split.append(numbers)
    if not counts:
        return None
    (length, has_redop), _ = max(counts.items(), key=lambda item: (item[1], item[0]))
    half, has_root = _BY_COUNT[length]
    at = half.index("check") + has_root
    marks = {numbers[at] for numbers in split if len(numbers) == length} - {"N/A"}
    check = "error" if marks and all(map(_ERROR.fullmatch, marks)) else "wrong"
    lead = ["size", "count", "type", *(["redop"] if has_redop else []), *["root"] * has_root]
    half = tuple(check if word == "check" else word for word in half)
    # Microseconds have two decimals at most; milliseconds, of the first tests, have three.
    times = [numbers[has_root] for numbers in split if len(numbers) == length]
    power = -3 if all(len(time.partition(".")[2]) == 3 for time in times) else -6
    return Layout(lead=tuple(lead), half=half, power=power, told=False)


def _is_time_of_day(tokens: Sequence[str]) -> bool:
    return bool(tokens) and len(tokens[0]) == 8 and tokens[0][2] == ":" == tokens[0][5]
