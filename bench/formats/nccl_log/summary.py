"""The notes of a log as one NcclLog: ranks for processes and events, what the excerpt lacks.

In: Notes. Out: NcclLog. A process's rank is that of its largest communicator; failing that the
one its channel lines show, the launcher's tag, or, marked as inferred, its GPU's number on a host
where ranks and GPU numbers are known to run in step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from bench.formats.nccl_log.members import Group, Member
from bench.formats.nccl_log.notes import Notes, Stream
from bench.formats.nccl_log.processes import Process
from bench.records import (
    LogCommunicator,
    LogEvent,
    LogProcess,
    LogQuote,
    LogTuning,
    NcclLog,
)

Place = tuple[Process, int | None]

_MESSAGE = re.compile(r".{0,1000}?NCCL (?:INFO|WARN|ATTN) ")


def summary(notes: Notes, file: str, lines: int, nccl_lines: int) -> NcclLog:
    """Everything that the notes hold."""
    _last_lines(notes)
    communicators = notes.groups.records()
    places = _places(notes)
    ranks: dict[Process, tuple[int, ...]] = {}
    for (process, _), rank in sorted(places.items(), key=lambda place: place[1]):
        ranks[process] = (*ranks.get(process, ()), rank)
    for process, rank in (*_printed(notes), *_tagged(notes).items()):
        ranks.setdefault(process, (rank,))
    for (host, pid), (line, text) in notes.events.orphans().items():
        if (failing := notes.processes.get((host, pid))) is not None:
            failing.failed = LogQuote(line=line, text=text)
    communicators, loose = _with_tuning(notes, communicators)
    processes = tuple(
        process.record(ranks.get(process, ()))
        for process in notes.processes.values()
        if process.host or process.pid or process.quotes
    )
    versions = dict.fromkeys(p.nccl_version for p in processes if p.nccl_version)
    versions.update(dict.fromkeys(notes.versions))
    flavours = {p.flavour for p in processes} | set(notes.versions.values())
    return NcclLog(
        file=file,
        lines=lines,
        nccl_lines=nccl_lines,
        versions=tuple(versions),
        flavour="rccl" if "rccl" in flavours else "nccl",
        hosts=tuple(dict.fromkeys(p.host for p in processes if p.host)),
        processes=processes,
        processes_left_out=notes.processes_left_out,
        communicators=communicators,
        tuning=loose,
        world_size=notes.world_size,
        events=_events(notes, file, places, ranks),
        events_left_out=notes.events.left_out,
        missing=_missing(processes, communicators, notes.events.left_out),
    )


def _with_tuning(
    notes: Notes, communicators: tuple[LogCommunicator, ...]
) -> tuple[tuple[LogCommunicator, ...], tuple[LogTuning, ...]]:
    """Choices of a process with one communicator are that one's; the others stay loose."""
    own: dict[int, list[LogTuning]] = {}
    loose: list[LogTuning] = []
    for process, choices in notes.tunings.records().items():
        groups = {id(group) for group, _ in notes.groups.members_of(process, None)}
        (own.setdefault(groups.pop(), []) if len(groups) == 1 else loose).extend(choices)
    placed = tuple(
        msgspec.structs.replace(record, tuning=tuple(own.get(id(group), ())))
        for record, group in zip(communicators, notes.groups.told, strict=True)
    )
    return placed, tuple(loose)


def _last_lines(notes: Notes) -> None:
    """The last line of every process and of every member whose initialisation is open."""
    latest: dict[Place, Stream] = {}
    for stream in notes.streams.values():
        process = stream.process
        process.last_line = max(process.last_line, stream.last_number)
        place = process, stream.device
        if place not in latest or latest[place].last_number < stream.last_number:
            latest[place] = stream
    for group in notes.groups.everything():
        for member in group.members.values():
            found = latest.get((member.process, member.device))
            if found is not None and not member.completed:
                text = found.last.decode("utf-8", "replace")
                member.last = found.last_number, _MESSAGE.sub("", text, count=1).strip()


def _places(notes: Notes) -> dict[Place, int]:
    """Rank of each GPU of each process, where communicators or channel lines tell it."""
    best: dict[Place, tuple[int, int, int]] = {}
    for number, group in enumerate(notes.groups.everything()):
        for member in group.members.values():
            place = member.process, member.device
            size = group.ranks if group.ranks is not None else len(group.members)
            if place not in best or best[place][:2] < (size, -number):
                best[place] = size, -number, member.rank
    return {place: rank for place, (_, _, rank) in best.items()}


def _events(
    notes: Notes, file: str, places: dict[Place, int], ranks: dict[Process, tuple[int, ...]]
) -> tuple[LogEvent, ...]:
    offsets = _offsets(places)
    records = []
    for event in notes.events.ordered():
        speaker = event.speaker
        process = notes.processes.get((speaker.host, speaker.pid)) if speaker.pid else None
        rank, inferred = None, False
        if not speaker.pid:  # an exception's: what the launcher wrote before it is all there is
            rank = speaker.rank
        if process is not None:
            own = ranks.get(process, ())
            rank = places.get((process, speaker.device), own[0] if len(own) == 1 else None)
            if rank is None and speaker.device is not None and speaker.host in offsets:
                rank, inferred = speaker.device + offsets[speaker.host], True
        group = _communicator(notes, process, speaker.device)
        records.append(event.record(file, rank, inferred, group))
    return tuple(records)


def _printed(notes: Notes) -> Iterator[tuple[Process, int]]:
    """Ranks that programs printed, where one host only has a process of that number."""
    for pid, rank in notes.program_ranks.items():
        owners = [p for p in notes.processes.values() if p.pid == pid]
        if len(owners) == 1:
            yield owners[0], rank


def _tagged(notes: Notes) -> dict[Process, int]:
    """Ranks by the launcher's word, where no two processes share one (else it counts nodes)."""
    owners: dict[int, list[Process]] = {}
    for process in notes.processes.values():
        if len(process.launcher_ranks) == 1:
            owners.setdefault(next(iter(process.launcher_ranks)), []).append(process)
    return {found[0]: rank for rank, found in owners.items() if len(found) == 1}


def _offsets(places: dict[Place, int]) -> dict[str, int]:
    """Host -> rank less GPU number, where all known ranks of the host show the same."""
    seen: dict[str, set[tuple[int, int]]] = {}
    for (process, device), rank in places.items():
        if device is not None:
            seen.setdefault(process.host, set()).add((rank, rank - device))
    found = {}
    for host, pairs in seen.items():
        differences = {difference for _, difference in pairs}
        if len(differences) == 1 and (len(pairs) > 1 or differences == {0}):
            found[host] = differences.pop()
    return found


def _communicator(notes: Notes, process: Process | None, device: int | None) -> str | None:
    """The id of the only communicator of a process, or of the only one that is being set up."""
    if process is None:
        return None
    places: list[tuple[Group, Member]] = list(notes.groups.members_of(process, device))
    opening = [group.id for group, member in places if member.started and not member.completed]
    names = opening if len(opening) == 1 else [group.id for group, _ in places]
    return names[0] if len(names) == 1 else None


def _missing(
    processes: tuple[LogProcess, ...],
    communicators: tuple[LogCommunicator, ...],
    events_left_out: int,
) -> tuple[str, ...]:
    """What a whole log of NCCL_DEBUG=INFO would have, and what there was no room for."""
    lacks = []
    if not any(process.bootstrap or process.oob for process in processes):
        lacks.append("no bootstrap line")
    if not any(process.network or process.nets for process in processes):
        lacks.append("no network lines")
    if not any(group.edges or group.carriers for group in communicators):
        lacks.append("no channel lines")
    if not any(member.completed for group in communicators for member in group.members):
        lacks.append("no Init COMPLETE")
    told = [group for group in communicators if group.ranks and group.members]
    if any(len(group.members) < (group.ranks or 0) for group in told):
        lacks.append("lines of some ranks only")
    if events_left_out:
        lacks.append(f"{events_left_out:,} warnings for which there is no room")
    return tuple(lacks)
