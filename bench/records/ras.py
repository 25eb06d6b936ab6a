"""What NCCL's RAS says of a job: who launched how many collectives, who is missing.

Ranks are those of the communicator, unless `is_global`: RAS numbers each communicator for itself.
"""

from __future__ import annotations

from bench.records.words import Record


class RasProcess(Record, frozen=True, kw_only=True):
    """A rank as RAS names it. `host` is usually an address."""

    rank: int
    host: str = ""
    pid: int | None = None
    is_dead: bool = False  # unreachable for a minute, by RAS's own word
    is_silent: bool = False


class RasSplit(Record, frozen=True, kw_only=True):
    """`number` ranks of a communicator that have launched `count` operations of one kind
    ("AllReduce"; "collective" where an old version counts all together). `ranks`: those that are
    named; RAS text names only the fewer."""

    operation: str
    count: int
    number: int
    ranks: tuple[RasProcess, ...] = ()


class RasCommunicator(Record, frozen=True, kw_only=True):
    """`splits`: of operations whose counts differ, the most ranks first. `launched`: all
    operations of all ranks together, None where the text does not tell."""

    hash: str
    size: int = 0
    is_global: bool = False
    splits: tuple[RasSplit, ...] = ()
    missing: tuple[RasProcess, ...] = ()
    launched: int | None = None


class RasStatus(Record, frozen=True, kw_only=True):
    """One answer."""

    file: str
    version: str = ""
    communicators: tuple[RasCommunicator, ...] = ()
    dead: tuple[RasProcess, ...] = ()  # of a text, which tells no rank: rank is -1
