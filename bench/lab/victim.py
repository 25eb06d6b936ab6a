"""Kills or stops one rank in one phase: the faults `kill` and `stop`.

A worker says where it stands by its process name, "b2:midrun" for rank 2 (measure/process.py). In:
the fault and the process under which the rank's host runs. Only descendants of that process are
ever looked at, and only until the fault has struck once.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from bench.lab.description import Fault

QUICK_S, QUICK_LOOKS = 0.0005, 100

# Forming a gloo group takes 4-36 ms (facts/lab.md), a look 0.3 ms of CPU time: often enough to see
# nearly every group, at 7 % of a core until the fault has struck.
POLL_S = 0.004
MAX_DEPTH = 12  # enter, torchrun, agent, forkserver, worker are five


class Victim:
    """Waits in a thread for the phase of one fault, strikes once, and remembers whom it struck."""

    def __init__(self, fault: Fault, root: int) -> None:
        self.name = f"b{fault.rank}:{fault.phase}"
        self._nursery = f"b{fault.rank}:nursery"
        self.number = signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP
        self.struck: int | None = None
        self._root = root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin to look for the phase."""
        self._thread.start()

    def end(self) -> None:
        """Stop looking; the thread is gone when this returns."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(POLL_S):
            everyone = descendants(self._root)
            if self._found(everyone):
                return
            # A phase may last 5 ms, a look at everyone takes as long: workers are the nursery's.
            nurseries = [pid for pid in everyone if process_name(pid) == self._nursery]
            for _ in range(QUICK_LOOKS if nurseries else 0):
                if self._ended.wait(QUICK_S):
                    return
                if self._found([child for pid in nurseries for child in _children(pid)]):
                    return

    def _found(self, pids: list[int]) -> bool:
        """Strike the first of these processes that is in the phase; whether there was one."""
        for pid in pids:
            if process_name(pid) == self.name and self._strike(pid):
                self.struck = pid
                return True
        return False

    def _strike(self, pid: int) -> bool:
        """Stop the process, make sure that it still is in the phase, then kill it or leave it."""
        try:
            os.kill(pid, signal.SIGSTOP)
            if process_name(pid) != self.name:
                os.kill(pid, signal.SIGCONT)
                return False
            if self.number == signal.SIGKILL:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def process_name(pid: int) -> str | None:
    """The name of a process (at most 15 bytes), None when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return None


def descendants(root: int) -> list[int]:
    """All living processes below `root`, from /proc/PID/task/*/children."""
    found: list[int] = []
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for pid in level for child in _children(pid)]
        found.extend(level)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            children.extend(map(int, (task / "children").read_text().split()))
    except OSError:
        pass  # it ended while we looked
    return children
