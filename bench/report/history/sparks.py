"""A series as one line of a terminal, and nights as people call them.

In: changes of the time (0.05: 5 % slower), seconds, names of runs. Out: short strings.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.report import units

SPARKS = "▁▂▃▄▅▆▇█"
PLAIN_SPARKS = "_.-~=+*#"
HOLE = "·"
# Half of the height of a spark line stands for at least so much: else noise looks like a mountain.
LEAST_REACH = 0.05
DAY_S = 86_400.0


def age(seconds: float) -> str:
    """`today`, `1 day old`, `29 days old`, `14 months old`."""
    days = int(seconds // DAY_S)
    if days < 1:
        return "of today"
    if days < 61:
        return f"{units.count(days, 'day')} old"
    return f"{round(days / 30.44)} months old"


def together(nights: int, width: int) -> int:
    """How many nights one mark stands for where all of them are to fit into `width`."""
    return max(-(-nights // width), 1)


def whole(values: Sequence[float | None], width: int, *, plain: bool = False) -> str:
    """All nights in at most `width` characters: of several together the median, the newest being
    a whole group; a hole only where none of them was measured."""
    count = together(len(values), width)
    groups: list[float | None] = []
    for end in range(len(values), 0, -count):
        there = sorted(v for v in values[max(end - count, 0) : end] if v is not None)
        groups.append(there[len(there) // 2] if there else None)
    return sparks(groups[::-1], width, plain=plain)


def sparks(values: Sequence[float | None], width: int, *, plain: bool = False) -> str:
    """The last `width` nights as one character each, higher is slower; the middle is the median.

    The scale is the series' own, but never so fine that one per cent looks like an alarm.
    """
    shown = list(values)[-width:]
    there = sorted(value for value in shown if value is not None)
    if not there:
        return HOLE * len(shown)
    middle = (there[(len(there) - 1) // 2] + there[len(there) // 2]) / 2
    reach = max(LEAST_REACH, max(abs(value - middle) for value in there))
    marks = PLAIN_SPARKS if plain else SPARKS
    letters = []
    for value in shown:
        if value is None:
            letters.append("." if plain else HOLE)
            continue
        share = (value - middle + reach) / (2 * reach)
        letters.append(marks[min(int(share * len(marks)), len(marks) - 1)])
    return "".join(letters)


def day(run: str) -> str:
    """`2026-11-28` of `2026-11-28T02-00-04Z`: nights are told by their day."""
    return run[:10] if len(run) > 10 and run[4:5] == "-" and run[10:11] == "T" else run
