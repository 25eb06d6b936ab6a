"""What torch's watchdog and gloo say of a collective that did not end.

In: the text of a line, or an exception. Out: a RankWait with what the version prints: operation
and sequence number since 1.10, sizes since 2.1, how far the group has come since 2.3, in the words
of each. A rank that reports is one that waited; the one that is named as reporter fired first,
which makes neither the culprit. The rank that torch prints in brackets counts within a group and
is the job's in the default group only. Wording: ProcessGroupNCCL.cpp of torch 1.10 to 2.15.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.formats.rank_log import stamps
from bench.records import RankWait

_CAUGHT = re.compile(r"Watchdog caught collective operation timeout: (?P<work>.{1,600})")
_SEQUENCE = re.compile(r"SeqNum=(\d{1,12})")
_OPERATION = re.compile(r"OpType=(\w{1,60})")
_IN, _OUT = re.compile(r"NumelIn=(\d{1,18})"), re.compile(r"NumelOut=(\d{1,18})")
_TIMEOUT = re.compile(r"Timeout\(ms\)=(\d{1,12})")
_RAN = re.compile(r"ran for (\d{1,12}) milliseconds")
_RANK = re.compile(r"\[Rank (\d{1,7})\]")
# What else stands in a line that torch wrote, beside "[Rank 3]", which programs print as well.
_TORCHS = re.compile(r"ProcessGroup|NCCL|atchdog|what\(\)")
# "[PG ID 0 PG GUID 0(default_pg) Rank 1]", "[PG 1 Rank 3]", "[PG 0 (default_pg) Rank 12]"
_GROUP = re.compile(
    r"\[PG (?:ID )?(?P<id>\d{1,6})(?: PG GUID (?P<guid>[\w.:-]{1,60}))?"
    r" ?(?:\((?P<name>[^)]{0,60})\))? Rank (?P<rank>\d{1,7})\]"
)
_AT = re.compile(r"(?:at work(?: sequence id)?:|Timeout at NCCL work:) (-?\d{1,12})")
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (-?\d{1,12})", re.IGNORECASE)
_COMPLETED = re.compile(r"last completed (?:NCCL )?work: (-?\d{1,12})", re.IGNORECASE)
_REPORTER = re.compile(r"timeout from +rank (\d{1,7})")
_GLOO = re.compile(r"Timed out waiting (\d{1,9}) ?ms for (?:send|recv) operation")
# TORCH_DISTRIBUTED_DEBUG=DETAIL: "Rank 1 is running collective: CollectiveFingerPrint(…)".
_FINGERPRINT = re.compile(
    r"Rank (?P<rank>\d{1,7}) is running collective: CollectiveFingerPrint\(SequenceNumber="
    r"(?P<seq>\d{1,12}), OpType=(?P<op>\w{1,60})(?:, TensorShape=\[(?P<shape>[\d, ]{0,200})\])?"
)
DEFAULT_GROUP = "0"
MOST_ELEMENTS = 1 << 62


class Speaker(NamedTuple):
    """Whose thread torch says it is: the rank within the group; `group` None: not printed."""

    rank: int
    group: str | None


def speaker(text: str) -> Speaker | None:
    """Who speaks in a line of torch's; None for any other line."""
    if found := _GROUP.search(text):
        return Speaker(int(found["rank"]), _group(found))
    if (found := _RANK.search(text)) and _TORCHS.search(text):
        return Speaker(int(found[1]), None)
    return None


def of(text: str, number: int, file: str, stamp: stamps.Stamp | None) -> RankWait | None:
    """The wait that a line tells of, its rank as printed; None where it tells none."""
    group, rank = _GROUP.search(text), _RANK.search(text)
    ranked = int(group["rank"]) if group else int(rank[1]) if rank else None
    told: dict[str, object] = {}
    if caught := _CAUGHT.search(text):
        work = caught["work"]
        told = {
            "sequence": _int(_SEQUENCE, work),
            "operation": op[1] if (op := _OPERATION.search(work)) else None,
            "elements_in": _int(_IN, work),
            "elements_out": _int(_OUT, work),
            "timeout_s": _seconds(_TIMEOUT, work),
            "ran_s": _seconds(_RAN, work),
        }
    elif (at := _int(_AT, text)) is not None:
        told = {"sequence": at}
    enqueued, completed = _int(_ENQUEUED, text), _int(_COMPLETED, text)
    reporter = _int(_REPORTER, text)
    if not told and enqueued is None and reporter is None:
        return None
    return RankWait(
        file=file,
        line=number,
        rank=ranked,
        group=_group(group),
        group_name=group["name"] or None if group else None,
        group_counted=group is not None and not group["guid"] and group["id"] != DEFAULT_GROUP,
        enqueued=enqueued,
        completed=completed,
        reporter=reporter,
        text=text.strip()[:400],
        time_s=stamp.seconds if stamp else None,
        clock=stamp.clock if stamp else None,
        **told,  # type: ignore[arg-type]
    )


def of_gloo(text: str, operation: str | None, number: int, file: str) -> RankWait | None:
    """gloo's "Timed out waiting 5000ms for recv operation to complete", with the operation that
    the traceback names."""
    found = _GLOO.search(text)
    if found is None:
        return None
    waited_s = int(found[1]) / 1000
    return RankWait(
        file=file,
        line=number,
        operation=operation,
        timeout_s=waited_s,
        ran_s=waited_s,
        text=text.strip()[:400],
    )


def of_fingerprints(text: str, number: int, file: str) -> list[RankWait]:
    """What each rank was in, by the word of TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    return [
        RankWait(
            file=file,
            line=number,
            rank=int(found["rank"]),
            group="fingerprint",
            group_name=None,
            sequence=int(found["seq"]),
            operation=found["op"],
            elements_in=_elements(found["shape"]),
            text=found.group()[:400],
        )
        for found in _FINGERPRINT.finditer(text[:8000])
    ]


def _elements(shape: str | None) -> int | None:
    if shape is None:
        return None
    count = 1
    for size in shape.split(","):
        count *= int(size) if size.strip().isdigit() else 1
    return min(count, MOST_ELEMENTS)


def _group(found: re.Match[str] | None) -> str | None:
    """The GUID, which is the same on all ranks; before 2.5 the process's own number."""
    if found is None:
        return None
    return found["guid"] or found["id"]


def _int(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None


def _seconds(pattern: re.Pattern[str], text: str) -> float | None:
    value = _int(pattern, text)
    return None if value is None else value / 1000
