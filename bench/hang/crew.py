"""A job's ranks, each with everything that any file says of it.

In: RankLogs. Out: a Crew: one Member per rank, the world's size, whose logs are missing. A rank
that a file does not tell comes from its neighbour in torchrun's log tree, from the other ranks of
its node, or from names that count 0 … N-1. What several files quote of one rank is told once. Of a
job that was restarted the last attempt is judged, the ones before are kept apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from bench.formats.rank_log import identity
from bench.records import RankExit, RankLog, RankSign, RankStream, RankWait

SAME_WORDS = 100  # characters by which two quotes of one message are the same
MAX_WORLD = 1 << 20
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
Key = tuple[str, str]  # file and stream


@dataclass
class Member:
    """One rank, or one process whose rank nobody tells (`rank` None, named by its file)."""

    rank: int | None
    streams: list[RankStream] = field(default_factory=list)
    signs: list[RankSign] = field(default_factory=list)
    waits: list[RankWait] = field(default_factory=list)
    exits: list[RankExit] = field(default_factory=list)

    @property
    def host(self) -> str | None:
        hosts = [s.host for s in self.streams if s.host] + [e.host for e in self.exits if e.host]
        return next((host for host in hosts if host not in LOCAL_NAMES), None)

    @property
    def own(self) -> RankStream | None:
        """Its log; of several the one that goes on longest."""
        return max(self.streams, key=lambda s: (s.ended_s or 0.0, s.last_line), default=None)


LOCAL_NAMES = ("localhost", "localhost.localdomain")  # a container's host has no name


class Crew:
    """Everybody. `earlier`: signs of attempts before the last one; `attempt`: the last one."""

    def __init__(self, logs: Sequence[RankLog]) -> None:
        self.logs = tuple(logs)
        self._restarts = {log.file: _restarts(log) for log in logs}
        self.ranks = _ranks(logs)
        self.attempt = max(
            [s.attempt for log in logs for s in log.streams if s.attempt is not None]
            + [len(lines) for lines in self._restarts.values() if lines],
            default=None,
        )
        self.members: dict[int | Key, Member] = {}
        self.earlier: list[RankSign] = []
        self.launcher: list[RankSign] = []  # of no rank: agents, schedulers, kernels
        self._fill()
        self.world_size = self._world()

    @property
    def known(self) -> dict[int, Member]:
        """Ranks in order."""
        known = {m.rank: m for m in self.members.values() if m.rank is not None}
        return dict(sorted(known.items()))

    @property
    def speaking(self) -> tuple[int, ...]:
        """Ranks of which there is at least a line of their own."""
        return tuple(rank for rank, member in self.known.items() if member.streams)

    @property
    def size(self) -> int:
        """Ranks of the job: as many as it says, or as there must be."""
        return self.world_size or max(self.known, default=-1) + 1

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that the job had and of which no line is at hand."""
        there = set(self.speaking)
        return tuple(rank for rank in range(self.size) if rank not in there)

    def name(self, rank: int | None) -> str:
        """ "rank 5", "rank 5 (host2)"."""
        if rank is None:
            return "a rank"
        host = self.known[rank].host if rank in self.known else None
        return f"rank {rank} ({host})" if host else f"rank {rank}"

    def rank_of_pid(self, pid: int | None) -> int | None:
        """The rank whose process has this number, where only one has."""
        if pid is None:
            return None
        ranks = {
            rank
            for rank, member in self.known.items()
            if any(s.pid == pid for s in member.streams) or any(e.pid == pid for e in member.exits)
        }
        return ranks.pop() if len(ranks) == 1 else None

    # --- putting it together ------------------------------------------------------------------

    def _fill(self) -> None:
        for log in self.logs:
            for stream in log.streams:
                if self._is_last(stream.attempt, log.file, stream.last_line):
                    rank = self.ranks.get((stream.file, stream.name))
                    if rank is None and not _is_process(stream):
                        continue
                    self._member(rank, (stream.file, stream.name)).streams.append(stream)
        for log in self.logs:
            attempts = {stream.name: stream.attempt for stream in log.streams}
            for sign in log.signs:
                rank = sign.rank
                if rank is None:
                    rank = self.ranks.get((log.file, sign.stream))
                sign = msgspec.structs.replace(sign, rank=rank)
                if not self._is_last(attempts.get(sign.stream), log.file, sign.line):
                    self.earlier.append(sign)
                elif rank is None and (log.file, sign.stream) not in self.members:
                    self.launcher.append(sign)
                else:
                    self._member(rank, (log.file, sign.stream)).signs.append(sign)
            for wait in log.waits:
                if self._is_last(attempts.get(wait.stream), log.file, wait.line):
                    rank = (
                        wait.rank
                        if wait.rank is not None
                        else self.ranks.get((log.file, wait.stream))
                    )
                    self._member(rank, (log.file, wait.stream)).waits.append(wait)
            for left in log.exits:
                rank = left.rank if left.rank is not None else self._rank_of_exit(left)
                if rank is not None and self._is_last(None, log.file, left.line):
                    self._member(rank, (log.file, "")).exits.append(left)
        for member in self.members.values():
            member.signs = distinct(member.signs)

    def _member(self, rank: int | None, key: Key) -> Member:
        name = key if rank is None else rank
        return self.members.setdefault(name, Member(rank))

    def _is_last(self, attempt: int | None, file: str, line: int) -> bool:
        if self.attempt is None:
            return True
        if attempt is None and (lines := self._restarts.get(file)):
            attempt = sum(line > each for each in lines)
        return attempt is None or attempt >= self.attempt

    def _rank_of_exit(self, left: RankExit) -> int | None:
        """The agent's line has the local rank and the process; the page has the rank as well."""
        paired = {e.rank for log in self.logs for e in log.exits if e.pid == left.pid} - {None}
        if len(paired) == 1:
            return paired.pop()
        nodes = {s.node for log in self.logs for s in log.streams}
        same = {
            self.ranks.get((s.file, s.name))
            for log in self.logs
            for s in log.streams
            if s.local_rank == left.local_rank or s.name == f"default{left.local_rank}"
        } - {None}
        return same.pop() if len(same) == 1 and len(nodes) <= 2 else None

    def _world(self) -> int | None:
        told = [log.world_size for log in self.logs if log.world_size]
        told = [size for size in told if size <= MAX_WORLD and size > max(self.known, default=-1)]
        return max(told, default=None)


def distinct(signs: Iterable[RankSign]) -> list[RankSign]:
    """What a rank says once, though its log, the console, the launcher's page and error.json all
    have it: the place is its own log's, the time as close as all of them together tell."""
    groups: dict[tuple[str, str, str], list[RankSign]] = {}
    for sign in signs:
        words = _NUMBERS.sub("#", sign.text[-SAME_WORDS:] if sign.place is None else sign.text)
        groups.setdefault((sign.kind, sign.role, words[:SAME_WORDS]), []).append(sign)
    found = []
    for same in groups.values():
        best = min(same, key=_quality)
        own = [sign for sign in same if sign.file == best.file and sign.pid == best.pid]
        clocked = [s for s in same if s.clock == best.clock and s.time_s is not None]
        latest = max((s.time_s for s in clocked if s.time_s is not None), default=None)
        until = min((s.until_s for s in clocked if s.until_s is not None), default=None)
        if latest is not None and until is not None and until < latest:
            latest, until = best.time_s, best.until_s  # said more than once
        found.append(
            msgspec.structs.replace(
                best,
                time_s=latest,
                until_s=until,
                count=len(own),
                host=best.host or next((s.host for s in same if s.host), None),
                place=best.place or next((s.place for s in same if s.place), None),
                chain=best.chain or next((s.chain for s in same if s.chain), ()),
                uncaught=any(s.uncaught for s in same),
                survived=all(s.survived for s in same),
            )
        )
    return sorted(found, key=lambda sign: (sign.file, sign.line))


def _quality(sign: RankSign) -> tuple[int, int]:
    """Which quote to show: a log's own line before the launcher's page and error.json."""
    if sign.file.endswith(".json"):
        return 3, sign.line
    page = sign.uncaught and sign.pid is not None and not sign.is_exact and sign.stream == ""
    return (2 if page else 0 if sign.stream == "" else 1), sign.line


def _restarts(log: RankLog) -> list[int]:
    """Lines behind which the launcher started its workers again: it says that one failed, and
    ranks speak once more."""
    failed = [e.line for e in log.exits if e.rank is None and e.code is not None]
    last = max((s.last_line for s in log.streams if _is_process(s) and s.steps), default=0)
    lines = sorted({line for line in failed if line < last} | {*log.restarts})
    return lines if any(s.rank is not None or s.name for s in log.streams) else []


def _is_process(stream: RankStream) -> bool:
    """A rank's own lines rather than a launcher's or a kernel's."""
    return stream.rank is not None or bool(stream.name) or bool(stream.steps)


def _ranks(logs: Sequence[RankLog]) -> dict[Key, int]:
    """Stream -> rank, told or found out."""
    streams = [stream for log in logs for stream in log.streams]
    ranks = {(s.file, s.name): s.rank for s in streams if s.rank is not None}
    places: dict[tuple[str | None, int], int] = {}
    offsets: dict[str | None, set[int]] = {}
    for stream in streams:
        local = _local(stream)
        if stream.rank is not None and local is not None:
            places[stream.node, local] = stream.rank
            offsets.setdefault(stream.node, set()).add(stream.rank - local)
    nodes = {s.node for s in streams if s.node is not None}
    for stream in streams:
        local = _local(stream)
        key = stream.file, stream.name
        if key in ranks or local is None:
            continue
        offset = offsets.get(stream.node, set())
        if (stream.node, local) in places:
            ranks[key] = places[stream.node, local]
        elif len(offset) == 1:
            ranks[key] = next(iter(offset)) + local
        elif not offset and len(nodes) <= 1 and not offsets:
            ranks[key] = local  # one node: the numbers are the same
    if not ranks:
        ranks = _counted(streams)
    return ranks


def _local(stream: RankStream) -> int | None:
    if stream.local_rank is not None:
        return stream.local_rank
    found = re.fullmatch(r"(?:default|trainer|worker)(\d{1,6})", stream.name)
    return int(found[1]) if found else None


def _counted(streams: Sequence[RankStream]) -> dict[Key, int]:
    """0.log … 7.log: names that differ in one number which counts from 0, each once."""
    numbers: dict[int, Key] = {}
    for stream in streams:
        number = identity.of(stream.file).number
        if stream.name or number is None or number in numbers:
            return {}
        numbers[number] = stream.file, stream.name
    if len(numbers) < 2 or sorted(numbers) != list(range(len(numbers))):
        return {}
    return {key: number for number, key in numbers.items()}
