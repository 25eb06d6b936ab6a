"""Ranks that were miscounted: world sizes that differ, rank numbers twice, jobs of one rank each.

In: a Job (one run's logs). Out: launcher-world-size. Processes that each form a communicator of
one rank may be meant; only a launcher's own count of them makes it worth a warning.
"""

from __future__ import annotations

import re

from bench.judge.docket import Docket
from bench.judge.foreign.log_jobs import Job
from bench.judge.foreign.log_words import event_line
from bench.judge.words import listed
from bench.records import Evidence, Finding, Where

_COUNTS = re.compile(
    r"mismatch in rank count from procs (\d{1,7}) : (\d{1,7})|nranks (\d{1,7}) vs (\d{1,7})"
)
_TWICE = re.compile(r"rank (\d{1,7}) of (\d{1,7}) ranks has already checked in")


def judge(job: Job, docket: Docket) -> None:
    """What the root of the meeting says, else what the communicators show."""
    for event in job.events:
        counts, twice = _COUNTS.search(event.text), _TWICE.search(event.text)
        if counts:
            a, b = [number for number in counts.groups() if number]
            summary = f"Processes disagree on the number of ranks: {a} and {b}."
            rank = None
        elif twice:
            summary = f"Two processes came as rank {twice[1]} of {twice[2]}."
            rank = int(twice[1])
        else:
            continue
        docket.add(
            Finding(
                code="launcher-world-size",
                severity="broken",
                summary=summary,
                where=Where(host=event.host, rank=rank, file=event.file, line=event.line),
                evidence=(event_line(event),),
                remedy="env | grep -E 'WORLD_SIZE|RANK|MASTER'   # of every process; nnodes, node "
                "rank and processes per node must multiply to the world size",
                confidence="asked",
            )
        )
        return
    _alone(job, docket)


def _alone(job: Job, docket: Docket) -> None:
    """Several processes, tagged 0, 1, 2 … by a launcher, that are all rank 0 of 1."""
    sizes = {group.ranks for _, group in job.communicators}
    tagged = {rank for t in job.told for rank in t.process.tags}
    if sizes != {1} or len(job.told) < 2 or len(tagged) < 2:
        return
    log, group = job.communicators[0]
    hosts = listed(dict.fromkeys(told.process.host for told in job.told))
    docket.add(
        Finding(
            code="launcher-world-size",
            severity="warning",
            summary=f"{len(job.told)} processes on {hosts} each formed a job of one rank: "
            "they do not know of each other.",
            where=Where(file=log.file, line=group.line or None),
            evidence=(
                Evidence(
                    basis="asked", text=f"{log.file}:{group.line}: rank 0 nranks 1, everywhere"
                ),
            ),
            remedy="make MPI=1 MPI_HOME=/path/to/mpi   # nccl-tests; torchrun passes WORLD_SIZE",
            confidence="asked",
        )
    )
