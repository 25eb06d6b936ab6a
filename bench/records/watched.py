"""What `watch` saw of a job: its command, its ranks' processes, where they stood, how it ended.

`state` is the kernel's letter (R, S, D, T = stopped, t = traced, Z = dead); seconds count from the
job's start by a clock that is never stepped.
"""

from __future__ import annotations

from bench.records.words import Record


class RankProcess(Record, frozen=True, kw_only=True):
    """A rank's process as its kernel has it. `state` None: it is gone; `signal` what it died of,
    where that could be seen; `ended_s`, `farewell`: when it ended, and whether its interpreter
    came to its own end; `silent_s`: for how long it had not answered."""

    rank: int
    pid: int
    host: str = ""
    state: str | None = None
    waits_in: str = ""  # the kernel function of its main thread
    stopped_by: int | None = None  # who traces it
    signal: int | None = None
    exit_code: int | None = None
    ended_s: float | None = None
    farewell: bool = False
    silent_s: float | None = None
    attempt: int = 0


class WatchedJob(Record, frozen=True, kw_only=True):
    """One watched run. `added`: variables that `watch` set; `notes`: what the user's own settings
    cost; `status`: of the command, None while it runs."""

    watched: int = 1  # the schema's number, and what tells this file from others
    command: tuple[str, ...]
    started: str = ""  # UTC
    host: str = ""
    labels: dict[str, str] = {}
    added: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    status: int | None = None
    stood: bool = True  # whether the dumps were taken while nothing moved
    processes: tuple[RankProcess, ...] = ()
