"""How srun's tasks ended: a line names one task, or several as "tasks 0,3-7".

In: lines of srun and what else the file says. Out: a RankExit for each rank. A task's number is a
rank only where a task is one process of the job: under torchrun it is a node's agent and names
nobody. Who is killed after the step was told to end was killed by Slurm, which is no fault of its
own: such an exit has no code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bench.formats.rank_log.passages import Line
from bench.records import RankExit

MOST_TASKS = 4096  # of one line

# "srun: error: node3: task 12: Killed", "srun: error: n[1-2]: tasks 0,3-7: Segmentation fault"
_LINE = re.compile(
    r"srun: error: (?P<host>[\w.,[\]-]{1,200}): "
    r"(?P<tasks>tasks? \d{1,7}[\d,-]{0,400}): (?P<how>.{1,80})"
)
_TOLD = re.compile(r"tasks? (?P<list>\d{1,7}[\d,-]{0,400}): (?P<how>.{1,80})")
_PART = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?\Z")
_KILLED, _MEMORY = -9, "Out Of Memory"
_HOW = {
    "Killed": _KILLED,
    _MEMORY: _KILLED,
    "Segmentation fault": -11,
    "Terminated": -15,
    "Aborted": -6,
    "Bus error": -7,
}
_EXIT_CODE = re.compile(r"exit code (\d{1,3})")
_SIGNAL_BASE = 128  # a shell's exit code for a child that a signal ended
# The step is told to end.
_ENDING = re.compile(
    r"Job step aborted|[Ff]irst task exited|Terminating (?:job step|StepId)|[Ff]orce Terminated"
    r"|\*\*\* (?:STEP|JOB) |CANCELLED AT|DUE TO TIME LIMIT|_step_signal: Terminating"
)
# Launchers of a node's processes, where a task is one of them.
_AGENT = re.compile(
    r"torch\.distributed\.(?:elastic|run|launch)\b|torch/distributed/(?:run|launch|launcher/api)\b"
    r"|elastic/(?:agent|multiprocessing/api)|\btorchrun\b|\(local_rank: \d|\) local_rank: \d"
    r"|deepspeed[./]launcher|\[launch\.py:\d"
)


def of(text: str, number: int, file: str) -> RankExit | None:
    """What a line of srun tells, of all its tasks together: which they are stands in the message
    until `settled` has the whole file."""
    found = _LINE.search(text)
    if found is None:
        return None
    several = any(mark in found["host"] for mark in ",[")
    return RankExit(
        file=file,
        line=number,
        host=None if several else found["host"],
        code=_code(found["how"]),
        message=f"{found['tasks']}: {found['how'].strip()}",
    )


def settled(
    exits: Sequence[RankExit], lines: Iterable[Line]
) -> tuple[tuple[RankExit, ...], frozenset[int]]:
    """All exits with their ranks, and the lines of tasks that Slurm itself has killed."""
    told = [left for left in exits if _told(left)]
    if not told:
        return tuple(exits), frozenset()
    ending, agents = None, False
    for line in lines:
        if ending is None and _ENDING.search(line.text):
            ending = line.number
        agents = agents or _AGENT.search(line.text) is not None
    failed = [left.line for left in told if left.code and not _is_killed(left)]
    sent = frozenset(
        left.line
        for left in told
        if _is_killed(left)
        and (
            (ending is not None and ending < left.line)
            or (len(_ranks(left)) > 1 and failed and min(failed) < left.line)
        )
    )
    found: list[RankExit] = []
    for left in exits:
        if not _told(left):
            found.append(left)
        elif not agents:
            found += _each(left, sent)
    return tuple(found), sent


def _each(left: RankExit, sent: frozenset[int]) -> Iterator[RankExit]:
    told = _told(left)
    how = told["how"] if told else left.message
    code = None if left.line in sent else left.code
    for rank in _ranks(left):
        yield msgspec.structs.replace(left, rank=rank, code=code, message=how)


def _told(left: RankExit) -> re.Match[str] | None:
    if left.rank is not None or left.pid is not None:
        return None
    return _TOLD.match(left.message or "")


def _is_killed(left: RankExit) -> bool:
    """By somebody's SIGKILL, be it a shell's exit code for it; not for want of memory."""
    told = _told(left)
    return left.code == _KILLED and told is not None and not told["how"].startswith(_MEMORY)


def _ranks(left: RankExit) -> list[int]:
    """The numbers of "0,3-7"; of a list that is longer than a job's, its beginning."""
    told = _told(left)
    found: list[int] = []
    for part in told["list"].split(",") if told else ():
        if match := _PART.match(part):
            first, last = int(match[1]), int(match[2] or match[1])
            found += range(first, min(last + 1, first + MOST_TASKS - len(found)))
    return found


def _code(how: str) -> int | None:
    for words, code in _HOW.items():
        if how.startswith(words):
            return code
    found = _EXIT_CODE.search(how)
    if found is None:
        return None
    code = int(found[1])
    return _SIGNAL_BASE - code if code > _SIGNAL_BASE else code
