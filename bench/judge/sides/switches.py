"""Whether a range of sizes that moved looks like a switch between two protocols that moved.

In: both sides' mean times and the range. Out: one sentence, or None. Where a library passes too
late to its faster protocol the time falls from one size to the next larger one (padding would be
faster: Traff, Gropp, Thakur, TPDS 2010); if that fall lies at the range's lower end on one side
and at its upper end on the other, it is the same fall at another size.
"""

from __future__ import annotations

import math

from bench.judge.sides.words import size
from bench.model.contrast import Floats

FALL = math.log(1.15)  # of the time, from one size to the next larger
STEEPER = math.log(1.3)  # or: per byte it gets cheaper by so much more than on the other side
ENDS_ALIKE = math.log(1.15)  # beyond the range both sides take the same time


def told(before: Floats, after: Floats, sizes: Floats, first: int, last: int) -> str | None:
    """`first` and `last` are indices into `sizes`; times are logs of seconds, (P,)."""
    if last + 1 >= sizes.size:
        return None
    slower = after[first : last + 1].mean() > before[first : last + 1].mean()
    early, late = (before, after) if slower else (after, before)
    if abs(early[last + 1] - late[last + 1]) > ENDS_ALIKE:
        return None
    leaves = late[last] - late[last + 1]
    if leaves < FALL or leaves - (early[last] - early[last + 1]) < STEEPER:
        return None
    there = f"between {size(int(sizes[last]))} and {size(int(sizes[last + 1]))}"
    if first == 0:
        return (
            f"{'after' if slower else 'before'}, the time falls {there}: a larger message is "
            "faster, so a switch to a faster algorithm or protocol comes too late"
        )
    here = f"between {size(int(sizes[first - 1]))} and {size(int(sizes[first]))}"
    enters = early[first - 1] - early[first]
    if enters >= FALL:
        which = ("before", "after") if slower else ("after", "before")
        ends = size(int(sizes[first])), size(int(sizes[last + 1]))
        ends = ends if slower else ends[::-1]
        return (
            f"a larger message became faster {here} {which[0]}, and only {there} {which[1]}: the "
            "switch to a faster algorithm or protocol (such as LL to Simple) moved from "
            f"{ends[0]} to {ends[1]}"
        )
    return (
        f"{'after' if slower else 'before'}, the time falls {there}: a larger message is faster, "
        "so a switch to a faster algorithm or protocol came later than on the other side"
    )
