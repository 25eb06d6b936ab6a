"""What a log shows behind an initialisation: results that prove it, or an end that may be a cut.

In: a Job, a communicator of it that lacks ranks, and the dossier. Out: two answers. A rank whose
"Init COMPLETE" is missing need not hang: a table of results needs all ranks, and a log that ends
among those very lines may have been copied too early.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.foreign.log_jobs import Job
from bench.records import Dossier, LogCommunicator, LogMember, LogProcess, NcclLog

# Lines behind the last one of NCCL that say nothing: empty ones, the end of a quotation.
IDLE_LINES = 2

Member = tuple[NcclLog, LogMember]


def worked(job: Job, dossier: Dossier, group: LogCommunicator) -> bool:
    """Whether a table of as many ranks has rows behind the beginning of this communicator, and no
    other of its size began in between."""
    for table in dossier.tables:
        if not table.rows or table.ranks != group.ranks or table.ranks is None:
            continue
        before = [
            (other.line, other.id)
            for log, other in job.communicators
            if log.file == table.file and other.ranks == group.ranks
            if other.line <= table.last_line
        ]
        if before and max(before)[1] == group.id:
            return True
    return False


def may_be_cut(job: Job, group: LogCommunicator, missing: Sequence[Member]) -> bool:
    """Whether the one log of this communicator ends among its ranks' last lines: no rank that
    completed it says anything more, others are not seen at work, and no program speaks."""
    files = {id(log): log for (name, _), (log, _) in job.members.items() if name == group.id}
    if len(files) != 1:
        return False  # a log per rank: each has an end of its own
    (log,) = files.values()
    members = [m for (name, _), (_, m) in job.members.items() if name == group.id]
    done = [m for m in members if m.completed and m.completed_line]
    if not done or log.lines - max(p.last_line for p in log.processes) > IDLE_LINES:
        return False
    first = min(m.completed_line or 0 for m in done)
    own = {(m.host, m.pid) for m in members}
    open_ = {(m.host, m.pid) for _, m in missing}
    everywhere: dict[tuple[str, int], list[LogMember]] = {}
    for other in log.communicators:
        for member in other.members:
            everywhere.setdefault((member.host, member.pid), []).append(member)
    for process in log.processes:
        key = (process.host, process.pid)
        if process.last_line <= first or key in open_:
            continue
        places = [m for m in done if (m.host, m.pid) == key] if key in own else everywhere.get(key)
        if not _ends_with(process, places or []):
            begun = [m for m in places or [] if m.started and not m.completed]
            if key in own or not begun:
                return False
    return True


def _ends_with(process: LogProcess, members: Sequence[LogMember]) -> bool:
    """Whether "Init COMPLETE", or the times right behind it, is a process's last word."""
    latest = max((m.completed_line or 0 for m in members), default=0)
    return process.last_line == latest
