"""What the kernel says of a rank's process: running, stopped, dead, and what it waits for.

In: a process id. Out: a RankProcess, or what a signal would do to it. Everything is read from
/proc, so a process that hangs in the kernel or is stopped tells as much as a healthy one.
Source: man 5 proc_pid_stat, proc_pid_status.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.records import RankProcess

EXIT_FIELD = 49  # exit_code, counted from the state behind the name
_ENVIRONMENT_BYTES = 1 << 20


def look(pid: int, rank: int, host: str = "") -> RankProcess:
    """The process now; state None where it is gone."""
    fields = _stat(pid)
    if not fields:
        return RankProcess(rank=rank, pid=pid, host=host)
    state = fields[0]
    signal, code = _end(fields) if state in "ZX" else (None, None)
    tracer = _status(pid, "TracerPid")
    return RankProcess(
        rank=rank,
        pid=pid,
        host=host,
        state=state,
        waits_in="" if state in "ZX" else _word(Path(f"/proc/{pid}/wchan")),
        stopped_by=int(tracer) if tracer.isdigit() and tracer != "0" else None,
        signal=signal,
        exit_code=code,
    )


def handles(pid: int, signal: int) -> bool:
    """Whether the process has a handler for the signal: without one it would die of it."""
    caught = _status(pid, "SigCgt")
    if not re.fullmatch(r"[0-9a-f]{1,32}", caught):
        return False
    return bool(int(caught, 16) >> (signal - 1) & 1)


def parent(pid: int) -> int:
    """0 where there is none to see."""
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def user(pid: int) -> int:
    """Its user's number, by which it makes files; -1 where it is gone."""
    status = _word(Path(f"/proc/{pid}/status"))
    found = re.search(r"^Uid:(?:\s+\d+){3}\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else -1


def ancestors(pid: int) -> tuple[int, ...]:
    """Its parent, the parent's parent and so on, as far as they can be seen."""
    found: list[int] = []
    while (pid := parent(pid)) > 0 and pid not in found:
        found.append(pid)
    return tuple(found)


def children(pid: int) -> list[int]:
    """Its children and theirs, parents first."""
    found, left = [], [pid]
    while left:
        each = left.pop(0)
        for thread in _threads(each):
            told = _word(Path(f"/proc/{each}/task/{thread}/children"))
            own = [int(text) for text in told.split() if text.isdigit()]
            found += own
            left += own
    return found


def variables(pid: int) -> dict[str, str]:
    """The environment that the process began with; empty where that may not be read."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as stream:
            raw = stream.read(_ENVIRONMENT_BYTES)
    except OSError:
        return {}
    pairs = (word.partition(b"=") for word in raw.split(b"\0"))
    return {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, _, value in pairs
        if name
    }


def command(pid: int) -> tuple[str, ...]:
    """Its command line; empty where that may not be read."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()[: 1 << 16]
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in raw.split(b"\0") if word)


def _threads(pid: int) -> list[str]:
    try:
        return [thread.name for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    # the name between parentheses may itself hold anything, so split after the last one
    return _word(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()


def _end(fields: list[str]) -> tuple[int | None, int | None]:
    """(signal, exit code) of a dead process; zeros are also what a stranger is shown."""
    status = int(fields[EXIT_FIELD]) if len(fields) > EXIT_FIELD else 0
    if not status:
        return None, None
    return (status & 0x7F or None), (None if status & 0x7F else status >> 8)


def _status(pid: int, name: str) -> str:
    found = re.search(rf"^{name}:\s*(\S+)", _word(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return found[1] if found else ""


def _word(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
