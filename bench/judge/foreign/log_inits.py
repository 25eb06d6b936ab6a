"""Initialisations that began and did not complete: which communicator, rank and GPU, last words.

In: a Job (one run's logs). Out: hang-init, not-determinable. Every "Init START" needs an "Init
COMPLETE" of equal commId and rank. Where others of the communicator completed, the missing one
hangs; where none did, or the log ends among these lines, it may as well be cut, so that is a
remark. A table of results proves that no rank hung. A rank that says what failed is another
judge's. Waiting for late ranks is no fault of the network and only told.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.judge.docket import Docket
from bench.judge.foreign import log_ends
from bench.judge.foreign.log_jobs import Job
from bench.judge.words import listed
from bench.records import (
    Dossier,
    Evidence,
    Finding,
    LogCommunicator,
    LogMember,
    NcclLog,
    Where,
)

SHOWN = 4
# Waits below are a slow file system or an import; a minute is a rank that started late.
LEAST_WAIT_S = 10.0
WAIT_SHARE = 0.8  # of the initialisation
# Last words of ranks that exchange memory handles over Unix sockets (NCCL_CUMEM_ENABLE).
HANDLES = ("UDS", "shareable buffer", "shareable handle", "Imported", "cuMem")

Member = tuple[NcclLog, LogMember]


def judge(job: Job, dossier: Dossier, docket: Docket) -> None:
    """One finding for the first communicator that lacks ranks; further ones as evidence."""
    open_ = [
        (group, missing, done)
        for group, missing, done in _groups(job)
        if missing and not _explained(job, missing) and not log_ends.worked(job, dossier, group)
    ]
    certain = [entry for entry in open_ if entry[2] and not _cut(job, *entry[:2])]
    stale = next((found for entry in open_ if (found := _stale(job, *entry[:2]))), None)
    if certain:
        _add(job, docket, certain)
    elif stale is not None:
        docket.add(stale)
    elif open_ and not job.faults:
        _add_unsure(job, docket, open_[0])
    elif not job.faults:
        _aborted(job, docket)


def sentences(job: Job) -> Iterator[str]:
    """Ranks that waited long for others to come."""
    late = [
        member
        for _, member in job.members.values()
        if (member.bootstrap_receive_s or 0) >= LEAST_WAIT_S
        and (member.bootstrap_receive_s or 0) >= WAIT_SHARE * (member.bootstrap_s or 0)
    ]
    if late:
        worst = max(late, key=lambda m: m.bootstrap_receive_s or 0)
        of = f" of {worst.init_s:g} s" if worst.init_s else ""
        more = f" (and {len(late) - 1} more ranks)" if len(late) > 1 else ""
        yield (
            f"rank {worst.rank} on {worst.host} waited {worst.bootstrap_receive_s:.1f} s{of} of "
            f"initialisation for late ranks{more}: no fault of the network"
        )


def _groups(job: Job) -> Iterator[tuple[LogCommunicator, list[Member], int]]:
    """Communicator, members that are open, how many completed; over all files of the job."""
    seen: set[str] = set()
    for _, group in job.communicators:
        if group.id in seen or group.ranks == 1:  # one rank waits for nobody
            continue
        seen.add(group.id)
        members = [m for (name, _), m in job.members.items() if name == group.id]
        missing = [m for m in members if m[1].started and not m[1].completed]
        yield group, missing, sum(m.completed for _, m in members)


def _cut(job: Job, group: LogCommunicator, missing: list[Member]) -> bool:
    """Whether a longer log might hold the missing lines. Last words on handles say otherwise."""
    known = any(word in (m.last_line or "") for _, m in missing for word in HANDLES)
    return not known and log_ends.may_be_cut(job, group, missing)


def _explained(job: Job, missing: list[Member]) -> bool:
    """Whether the open ranks say themselves what failed."""
    speakers = {(event.host, event.pid) for event in job.events if event.role != "remark"}
    return any((member.host, member.pid) in speakers for _, member in missing)


def _who(member: LogMember) -> str:
    gpu = f", GPU {member.device}" if member.device is not None else ""
    return f"rank {member.rank} (pid {member.pid}{gpu} on {member.host})"


def _last(log: NcclLog, member: LogMember) -> Evidence:
    return Evidence(
        basis="asked",
        text=f"{log.file}:{member.last_line_number}: last line of rank {member.rank}: "
        f"{member.last_line}",
    )


def _add(
    job: Job, docket: Docket, certain: list[tuple[LogCommunicator, list[Member], int]]
) -> None:
    group, missing, done = certain[0]
    log, member = missing[0]
    last = member.last_line or ""
    handles = any(word in last for word in HANDLES)
    cause = ", while importing memory handles over a Unix socket" if handles else ""
    started = sum(m.started for (_, _), (_, m) in job.members.items())
    completed = sum(m.completed for (_, _), (_, m) in job.members.items())
    docket.add(
        Finding(
            code="hang-init",
            severity="broken",
            summary=f"Communicator {group.id}: {done} of {group.ranks or done + len(missing)} "
            f"ranks completed, {listed(_who(m) for _, m in missing)} started and did not{cause}.",
            where=Where(
                host=member.host,
                rank=member.rank if len(missing) == 1 else None,
                ranks=tuple(m.rank for _, m in missing) if len(missing) > 1 else (),
                gpu=member.device,
                file=log.file,
                line=member.last_line_number or member.line or None,
            ),
            evidence=(
                Evidence(basis="asked", text=f"{started} Init START, {completed} Init COMPLETE"),
                *(_last(one, m) for one, m in missing[:SHOWN]),
                *(
                    Evidence(
                        basis="asked",
                        text=f"communicator {other.id} lacks {listed(_who(m) for _, m in lost)}",
                    )
                    for other, lost, _ in certain[1:SHOWN]
                ),
            ),
            remedy="export NCCL_CUMEM_ENABLE='0'   # exchanges no handles over sockets"
            if handles
            else f"py-spy dump --pid {member.pid}   # on {member.host}",
            confidence="asked",
        )
    )


def _stale(job: Job, group: LogCommunicator, missing: list[Member]) -> Finding | None:
    """One that goes back to a finished communicator and is refused, while this one lacks it."""
    waiting = {member.rank for _, member in missing}
    for event in job.events:
        if event.role not in ("fault", "retry") or "refused" not in event.text:
            continue
        old = job.members.get((event.communicator or "", -1 if event.rank is None else event.rank))
        if old is None or event.communicator == group.id or event.rank in waiting:
            continue
        _, member = old
        sizes = {other.ranks for _, other in job.communicators if other.id == event.communicator}
        if (
            not member.completed
            or sizes != {group.ranks}
            or (event.last_line or event.line) <= group.line
        ):
            continue
        return Finding(
            code="hang-init",
            severity="broken",
            summary=f"Communicator {group.id} waits for {_who(member)}, which asks for "
            f"{event.communicator} again, a communicator that is finished, and is refused: its "
            "ncclUniqueId is an old one.",
            where=Where(
                host=member.host,
                rank=member.rank,
                gpu=member.device,
                file=event.file,
                line=event.line,
            ),
            evidence=(
                Evidence(
                    basis="asked",
                    text=f"{event.file}:{event.line}: {event.text} (× {event.count})",
                ),
                *(_last(one, m) for one, m in missing[:SHOWN]),
            ),
            remedy="let rank 0 make a new ncclUniqueId for each communicator, and the others "
            "take that one   # a store or file still holds the last one",
            confidence="inferred",
        )
    return None


def _aborted(job: Job, docket: Docket) -> None:
    """An abort in an excerpt that shows neither how the communicator came about nor what ended it.
    Frameworks abort at a normal exit too, so it proves nothing, but health neither."""
    for log, member in job.members.values():
        if member.aborted and not (member.started or member.completed):
            docket.add(
                Finding(
                    code="not-determinable",
                    kind="abort",
                    severity="info",
                    summary=f"Rank {member.rank} on {member.host} aborted its communicator; what "
                    "made it is not in NCCL's lines.",
                    where=Where(
                        host=member.host, rank=member.rank, file=log.file, line=member.line or None
                    ),
                    evidence=(_last(log, member),),
                    remedy="read the logs of all ranks from the first error on",
                    confidence="inferred",
                )
            )
            return


def _add_unsure(
    job: Job, docket: Docket, entry: tuple[LogCommunicator, list[Member], int]
) -> None:
    group, missing, done = entry
    log, member = missing[0]
    ranks = group.ranks or done + len(missing)
    silent = ranks - len(missing) - done
    lacking = f"; of {silent} rank{'s' * (silent > 1)} the log has no START" if silent else ""
    so_far = (
        f"{done} of {ranks} ranks completed, {listed(_who(m) for _, m in missing)} started and "
        "did not"
        if done
        else f"{len(missing)} of {ranks} ranks started and none completed"
    )
    several = len({m.host for _, m in missing}) > 1 or len(missing) > 1
    docket.add(
        Finding(
            code="hang-init",
            severity="warning" if several and job.failed_connections else "info",
            summary=f"Communicator {group.id}: {so_far}{lacking}. Either they wait for each "
            "other, or the log was cut here.",
            where=Where(
                host=member.host if len(missing) == 1 else None,
                rank=member.rank if len(missing) == 1 else None,
                ranks=tuple(m.rank for _, m in missing[:64]) if len(missing) > 1 else (),
                file=log.file,
                line=member.line or None,
            ),
            evidence=tuple(_last(one, m) for one, m in missing[:SHOWN]),
            remedy="py-spy dump --pid PID   # on each rank that waits, if the job still runs",
            confidence="inferred",
        )
    )
