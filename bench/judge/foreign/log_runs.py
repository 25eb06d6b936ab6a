"""Which of a dossier's logs one run wrote.

In: a Dossier. Out: Jobs. Files belong together where they tell of one communicator (equal commId),
of the two ends of one channel, or have names that differ only in a number or a host's name, as a
log per rank has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from bench.judge.foreign.log_jobs import Job
from bench.records import Dossier, NcclLog

MOST_HOSTS = 64  # replaced in a file's name
MOST_HALVES = 256  # channel ends by which two excerpts are joined
_DIGITS = re.compile(r"\d+")


def jobs(dossier: Dossier) -> tuple[Job, ...]:
    """The dossier's logs, those of one run together, in the order of the files."""
    owners: dict[Key, _Run] = {}
    for log in dossier.logs:
        run = _Run(log)
        keys = list(_keys(log))
        for key in keys:
            other = owners[key].whole() if key in owners else None
            here = run.whole()
            if other is not None and other is not here and other.takes(here, key):
                other.absorb(here)
        for key in keys:
            owners[key] = run.whole()
    order = {id(log): at for at, log in enumerate(dossier.logs)}
    runs = {id(run): run for run in (owner.whole() for owner in owners.values())}
    groups = [sorted(run.logs, key=lambda log: order[id(log)]) for run in runs.values()]
    return tuple(Job(group) for group in sorted(groups, key=lambda group: order[id(group[0])]))


Key = tuple[object, ...]


class _Run:
    """Logs that were found to belong together so far."""

    def __init__(self, log: NcclLog) -> None:
        self.logs = [log]
        self.speakers = _speakers(log)
        self.versions = set(log.versions)
        self.ids = {group.id for group in log.communicators if group.named}
        self._absorbed_by: _Run | None = None

    def whole(self) -> _Run:
        run = self
        while run._absorbed_by is not None:
            run = run._absorbed_by
        return run

    def takes(self, other: _Run, key: Key) -> bool:
        """By a communicator surely; by a name only where no GPU has a process in both."""
        if key[0] == "communicator":
            return True
        strangers = self.ids and other.ids and not self.ids & other.ids
        if strangers or self.speakers & other.speakers:
            return False  # ranks of one run have its largest communicator in common
        return not self.versions or not other.versions or bool(self.versions & other.versions)

    def absorb(self, other: _Run) -> None:
        self.logs += other.logs
        self.speakers |= other.speakers
        self.versions |= other.versions
        self.ids |= other.ids
        other._absorbed_by = self


def _speakers(log: NcclLog) -> set[tuple[str, object]]:
    """GPUs that have a process in this log: another process on one of them is another run."""
    return {
        (process.host, device)
        for process in log.processes
        if process.host
        for device in (process.devices or (f"pid {process.pid}",))
    }


def _keys(log: NcclLog) -> Iterator[Key]:
    """What files of one run have in common."""
    yield ("file", log.file)
    path = PurePath(log.file)
    name = path.name
    for host in log.hosts[:MOST_HOSTS]:
        name = name.replace(host, "*")
    yield ("name", str(path.parent), _DIGITS.sub("#", name))
    for group in log.communicators:
        if group.named:
            yield ("communicator", group.id)
        elif not group.ranks:
            for edge in group.edges[:MOST_HALVES]:
                if edge.transport == "NET" and edge.direction is not None:
                    yield ("channel", edge.channel, edge.source, edge.destination, path.parent)
