"""Whether a rank is still in its loop, by the lines on which it stands and called.

In: stacks, innermost frame first: where a rank stood when asked, where its newest call came from.
Out: yes where it stood at an earlier line of the very function that it had called from: only a
loop leads back there. No is no answer: a later line may be in the loop or behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records import FlightFrame, FlightPicture


def calls_in_loop(picture: FlightPicture | None) -> bool:
    """Whether those who called something else did so before the others' line, in one function:
    then they are in the loop as well, and have not left it because their data ran out."""
    if picture is None or picture.phase != "end" or not picture.mismatches:
        return False
    sides = [
        (picture.stacks[odd.stack], picture.stacks[each.sides[0].stack])
        for each in picture.mismatches
        for odd in each.sides[1:]
        if odd.stack >= 0 and each.sides[0].stack >= 0
    ]
    return bool(sides) and all(in_loop(odd, most) for odd, most in sides)


def in_loop(now: Sequence[FlightFrame], call: Sequence[FlightFrame]) -> bool:
    """Whether the stack left the call's where it had come from: at an earlier line of one
    function, which only a loop leads back to. Innermost frames come first."""
    for here, there in zip(reversed(now), reversed(call), strict=False):
        if (here.file, here.name) != (there.file, there.name):
            return False
        if here.line != there.line:
            return here.line < there.line
    return False
