"""What torchrun, srun and mpirun write of how their processes ended; and torchrun's error.json.

In: lines of one stream. Out: RankExits. torchrun's page is
torch/distributed/elastic/multiprocessing/errors/__init__.py; its "Root Cause" is the smallest of
times in whole seconds, so it is a hint and no proof. error.json exists only for an exception that
@record saw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from bench.formats.rank_log import srun_tasks, stamps
from bench.formats.rank_log.passages import Line
from bench.records import RankExit

MAX_PAGE = 4000  # lines of one entry, whose traceback may be long

_FIELD = re.compile(r"^\s{0,4}(time|host|rank|exitcode|error_file|traceback)\s{0,8}: ?(.*)$")
_RANK = re.compile(r"(\d{1,7}) \(local_rank: (\d{1,6})\)")
_CODE = re.compile(r"(-?\d{1,5}) {1,4}\(pid: (\d{1,10})\)")
_END = re.compile(r"^\s{0,4}(?:\[\d{1,6}\]:|-{10,}|={10,})\s*$")
_ROOT = re.compile(r"first observed failure")
_FAILED = re.compile(
    r"failed \(exitcode: (?P<code>-?\d{1,5})\) local_rank: (?P<local>\d{1,6}) "
    r"\(pid: (?P<pid>\d{1,10})\)"
)
_MPIRUN = re.compile(
    r"process rank (?P<rank>\d{1,7}) with PID (?P<pid>\d{1,10}) on node (?P<host>[\w.-]{1,64}) "
    r"exited on signal (?P<signal>\d{1,2})"
)


def is_entry(text: str) -> bool:
    """Whether a line begins an entry of torchrun's page: "  time      : 2026-11-30_17:27:48"."""
    return text.lstrip().startswith("time      : ")


def is_root(text: str) -> bool:
    return _ROOT.search(text) is not None


def entry(
    lines: Sequence[Line], at: int, file: str, first: bool
) -> tuple[RankExit, list[Line], int]:
    """One entry of the page, its traceback (dedented), and the index behind it."""
    fields: dict[str, str] = {}
    body: list[Line] = []
    number = lines[at].number
    end = min(len(lines), at + MAX_PAGE)
    while at < end and not _END.match(lines[at].text):
        found = _FIELD.match(lines[at].text)
        if found and found[1] not in fields:
            fields[found[1]] = found[2].strip()
            if found[1] == "exitcode":
                number = lines[at].number
            if found[1] == "traceback":
                body.append(Line(lines[at].number, found[2]))
        elif "traceback" in fields:
            body.append(Line(lines[at].number, lines[at].text.removeprefix("  ")))
        at += 1
    rank, code = _RANK.search(fields.get("rank", "")), _CODE.search(fields.get("exitcode", ""))
    stamp = stamps.of(fields.get("time", ""))
    return (
        RankExit(
            file=file,
            line=number,
            rank=int(rank[1]) if rank else None,
            local_rank=int(rank[2]) if rank else None,
            host=fields.get("host") or None,
            pid=int(code[2]) if code else None,
            code=int(code[1]) if code else None,
            time_s=stamp.seconds if stamp else None,
            clock=stamp.clock if stamp else None,
            first=first,
            message=fields.get("traceback") or None,
        ),
        body,
        at,
    )


def short(text: str, number: int, file: str, stamp: stamps.Stamp | None) -> RankExit | None:
    """The one-line forms: the agent's "failed (exitcode: -9) …", srun's and mpirun's."""
    when = (stamp.seconds, stamp.clock) if stamp else (None, None)
    if found := _FAILED.search(text):
        return RankExit(
            file=file,
            line=number,
            local_rank=int(found["local"]),
            pid=int(found["pid"]),
            code=int(found["code"]),
            time_s=when[0],
            clock=when[1],
        )
    if left := srun_tasks.of(text, number, file):
        return msgspec.structs.replace(left, time_s=when[0], clock=when[1])
    if found := _MPIRUN.search(text):
        return RankExit(
            file=file,
            line=number,
            rank=int(found["rank"]),
            host=found["host"],
            pid=int(found["pid"]),
            code=-int(found["signal"]),
            time_s=when[0],
            clock=when[1],
        )
    return None


def error_json(content: bytes) -> tuple[str, list[str], float | None] | None:
    """Message, traceback and time (epoch) of torchrun's error.json; None for other JSON."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return None
    message = told.get("message") if isinstance(told, dict) else None
    if isinstance(message, str) and "timestamp" in told:
        return message, [], _number(told["timestamp"])
    if not isinstance(message, dict) or not isinstance(message.get("message"), str):
        return None
    extra = message.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    stack = extra.get("py_callstack")
    lines = stack.split("\n") if isinstance(stack, str) else []
    return message["message"], lines, _number(extra.get("timestamp"))


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 < number < 1e11 else None
