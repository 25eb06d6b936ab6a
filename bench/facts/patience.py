"""Waiting for a call that may never return: NVML on a GPU that has fallen off its bus.

In: a function and a number of seconds. Out: its result, or `OutOfTime`. The thread that waits is
left behind then; it holds nothing of ours and does not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class OutOfTime(Exception):
    """The call did not return in time."""


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """The call's result, or what it raised, if it ends within that time."""
    ended: list[Result] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True, name="patience")
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not ended:
        raise OutOfTime(f"no answer within {seconds:g} s")
    return ended[0]
