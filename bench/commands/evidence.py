"""The kinds of evidence that `diagnose` takes, and what follows from them together.

In: files that the user named. Out: the records of each kind, an entry per file, the findings and
the parts of a Diagnosis. A new kind of file is one entry of KINDS; what is judged from all kinds
together is one entry of JUDGES, causes before consequences.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from bench.commands import launch_evidence, log_evidence
from bench.formats import (
    accelerate_config,
    deepspeed_config,
    flight_dump,
    flight_files,
    fr_trace_text,
    host_facts,
    host_slots,
    launch_command,
    nccl_ras,
    rank_stacks,
    watched_job,
)
from bench.formats.file_walk import STDIN, Found
from bench.formats.source import Source
from bench.hang import flight, fr_trace, rank_processes, ras_counts, stack_places
from bench.hang.selection import Selection
from bench.judge.docket import Docket
from bench.records import (
    BadInput,
    FlightDump,
    ForeignFile,
    RankStack,
    RasStatus,
    Record,
    TraceNote,
    WatchedJob,
)

HEAD_BYTES = 4096  # enough to tell the kinds apart
LIKELY, CERTAIN = 0.5, 1.0
UNKNOWN, UNREADABLE = "unknown", "unreadable"

Outcome: TypeAlias = Sequence[Record] | BadInput


@dataclass(frozen=True)
class Opened:
    """A file, opened once: stdin can be read but once."""

    found: Found
    source: Source


@dataclass(frozen=True)
class Kind:
    """`likeness` sees the beginning of a file as text, and its name; `read` gives an outcome per
    file; `describe` a phrase for the records of one."""

    name: str
    likeness: Callable[[str, str], float]
    read: Callable[[Sequence[Opened]], list[Outcome]]
    describe: Callable[[Sequence[Record]], str]


@dataclass
class Evidence:
    """`records` by the kind's name; `unread`: files of the kind that could not be read."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    unread: dict[str, list[str]] = field(default_factory=dict)
    files: list[ForeignFile] = field(default_factory=list)
    seen: flight.Seen | None = None  # what the dumps show, once they were judged

    def of(self, name: str) -> list[Any]:
        return list(self.records.get(name, ()))


def gather(found: Iterable[Found]) -> Evidence:
    """Everything that the files tell."""
    evidence = Evidence()
    by_kind: dict[str, list[Opened]] = {}
    for each in found:
        try:
            opened = Opened(each, _opened(each))
        except BadInput as bad:
            evidence.files.append(
                ForeignFile(file=each.file, kind=UNREADABLE, summary=bad.sentence)
            )
            continue
        kind = _kind(opened)
        if kind is None:
            evidence.files.append(_unknown(opened))
        else:
            by_kind.setdefault(kind.name, []).append(opened)
    for kind in KINDS:
        if own := by_kind.get(kind.name):
            _read(kind, own, evidence)
    return evidence


def _opened(found: Found) -> Source:
    if found.file == STDIN:
        return Source.of_stream(sys.stdin.buffer)
    return Source.open(Path(found.path), file=found.file)


def _kind(opened: Opened) -> Kind | None:
    """The likeliest kind that is likely at all."""
    head = opened.source.head(HEAD_BYTES)
    name = Path(opened.found.file).name
    likeliest, best = LIKELY, None
    for kind in KINDS:
        likeness = kind.likeness(head, name)
        if likeness >= CERTAIN:  # the rest need not look at a thousand dumps
            return kind
        if likeness > likeliest or (likeness == likeliest and best is None):
            likeliest, best = likeness, kind
    return best


def _read(kind: Kind, files: Sequence[Opened], evidence: Evidence) -> None:
    for opened, outcome in zip(files, kind.read(files), strict=True):
        file, size = opened.found.file, opened.source.size_bytes
        if isinstance(outcome, BadInput):
            evidence.unread.setdefault(kind.name, []).append(file)
            summary = f"{kind.name}: {outcome.sentence}"
            entry = ForeignFile(file=file, kind=UNREADABLE, summary=summary, bytes=size)
        else:
            evidence.records.setdefault(kind.name, []).extend(outcome)
            summary = kind.describe(outcome)
            entry = ForeignFile(file=file, kind=kind.name, summary=summary, bytes=size)
        evidence.files.append(entry)


def _unknown(opened: Opened) -> ForeignFile:
    from bench.formats import stranger

    looks = stranger.looks_like(opened.source.head())
    return ForeignFile(
        file=opened.found.file,
        kind=UNKNOWN,
        summary=f"looks like {looks}",
        bytes=opened.source.size_bytes,
    )


def _dumps(files: Sequence[Opened]) -> list[Outcome]:
    sources = {opened.found.file: opened.source for opened in files}
    outcomes = flight_files.read_all(
        [opened.found for opened in files], lambda found: sources[found.file]
    )
    return [each if isinstance(each, BadInput) else [each] for each in outcomes]


def _one_by_one(
    read: Callable[[Source], Sequence[Record]],
) -> Callable[[Sequence[Opened]], list[Outcome]]:
    def outcomes(files: Sequence[Opened]) -> list[Outcome]:
        found: list[Outcome] = []
        for opened in files:
            try:
                found.append(read(opened.source))
            except BadInput as bad:
                found.append(bad)
        return found

    return outcomes


def _dump_words(records: Sequence[Record]) -> str:
    dump = cast(FlightDump, records[0])
    who = f"rank {dump.rank}, " if dump.rank is not None else ""
    return f"{who}{dump.entries:,} entries, schema {dump.version or 'unknown'}"


def _stack_words(records: Sequence[Record]) -> str:
    return f"{len(records)} rank{'s' if len(records) > 1 else ''}"


def _note_words(records: Sequence[Record]) -> str:
    return f"{len(records)} complaint{'s' if len(records) > 1 else ''}"


def _ras_words(records: Sequence[Record]) -> str:
    number = len(cast(RasStatus, records[0]).communicators)
    return f"{number} communicator{'s' if number != 1 else ''}"


def _job_words(records: Sequence[Record]) -> str:
    number = len(cast(WatchedJob, records[0]).processes)
    return f"{number} rank{'s' if number != 1 else ''}"


KINDS = (
    Kind(flight_dump.KIND, flight_dump.likeness, _dumps, _dump_words),
    Kind(rank_stacks.KIND, rank_stacks.likeness, _one_by_one(rank_stacks.read), _stack_words),
    Kind(fr_trace_text.KIND, fr_trace_text.likeness, _one_by_one(fr_trace_text.read), _note_words),
    Kind(
        launch_evidence.CONFIG,
        accelerate_config.likeness,
        _one_by_one(launch_evidence.read_config),
        launch_evidence.describe,
    ),
    Kind(
        launch_evidence.DEEPSPEED,
        deepspeed_config.likeness,
        _one_by_one(deepspeed_config.read),
        launch_evidence.describe,
    ),
    Kind(
        launch_evidence.SCRIPT,
        launch_command.likeness,
        _one_by_one(launch_evidence.read_script),
        launch_evidence.describe,
    ),
    Kind(
        launch_evidence.HOSTS,
        host_slots.likeness,
        _one_by_one(host_slots.read),
        launch_evidence.describe,
    ),
    Kind(
        launch_evidence.FACTS,
        host_facts.likeness,
        _one_by_one(host_facts.read),
        launch_evidence.describe,
    ),
    Kind(
        log_evidence.LOG,
        log_evidence.log_likeness,
        log_evidence.read_logs,
        log_evidence.describe_log,
    ),
    Kind(
        log_evidence.OTHER,
        log_evidence.other_likeness,
        log_evidence.read_others,
        log_evidence.describe_other,
    ),
    Kind(nccl_ras.KIND, nccl_ras.likeness, _one_by_one(nccl_ras.read), _ras_words),
    Kind(watched_job.KIND, watched_job.likeness, _one_by_one(watched_job.read), _job_words),
)


def _ranks(evidence: Evidence, docket: Docket, selection: Selection) -> dict[str, Any]:
    """What the dumps of all ranks show together, and the states of their processes."""
    parts = _flight(evidence, docket, selection)
    stacks = {stack.rank: stack.frames for stack in evidence.of(rank_stacks.KIND)}
    jobs: list[WatchedJob] = evidence.of(watched_job.KIND)
    return parts | rank_processes.judge(jobs, docket, parts, stacks)


def _flight(evidence: Evidence, docket: Docket, selection: Selection) -> dict[str, Any]:
    dumps: list[FlightDump] = evidence.of(flight_dump.KIND)
    if not dumps:
        return {}
    stacks: list[RankStack] = evidence.of(rank_stacks.KIND)
    evidence.seen = flight.look(
        dumps,
        docket,
        unread=evidence.unread.get(flight_dump.KIND, ()),
        stacks={stack.rank: stack.frames for stack in stacks},
        selection=selection,
    )
    picture = evidence.seen.picture
    return {
        "flight": picture,
        "ranks": picture.named or picture.suspects,
        "suspects": picture.suspects,
        "phase": picture.phase,
    }


def _fr_trace(evidence: Evidence, docket: Docket, selection: Selection) -> dict[str, Any]:
    """What torchfrtrace printed; the dumps say it better where they are there."""
    notes: list[TraceNote] = evidence.of(fr_trace_text.KIND)
    if not notes or evidence.of(flight_dump.KIND):
        return {}
    named = fr_trace.judge(notes, docket)
    if not (named.ranks or named.suspects):
        return {}
    return {"ranks": named.ranks or named.suspects, "suspects": named.suspects}


def _ras(evidence: Evidence, docket: Docket, _selection: Selection) -> dict[str, Any]:
    """What NCCL's RAS counted, where dumps and logs named nobody."""
    return ras_counts.judge(evidence.of(nccl_ras.KIND), docket)


def _places(evidence: Evidence, docket: Docket, _selection: Selection) -> dict[str, Any]:
    """What stacks and processes alone tell, where there is nothing better."""
    jobs: list[WatchedJob] = evidence.of(watched_job.KIND)
    if evidence.of(flight_dump.KIND) or any(job.status == 0 for job in jobs):
        return {}
    processes = [process for job in jobs for process in job.processes]
    return stack_places.judge(evidence.of(rank_stacks.KIND), processes, docket)


# Each adds findings to the docket and returns fields of the Diagnosis.
Judge: TypeAlias = Callable[[Evidence, Docket, Selection], dict[str, Any]]
JUDGES: tuple[Judge, ...] = (
    log_evidence.faults,
    _ranks,
    _ras,
    _fr_trace,
    launch_evidence.judge,
    log_evidence.hangs,
    _places,
    launch_evidence.phase,
)
