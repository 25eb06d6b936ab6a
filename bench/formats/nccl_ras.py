"""An answer of NCCL's RAS, JSON or text: `ncclras -v`, `ncclras -f json`, port 28028.

In: a source (NCCL 2.24 and later; JSON from 2.28.7). Out: a RasStatus with those operations whose
counts differ between ranks. Ranks become global where processes tell: the largest communicator
that holds them all is the job's. BadInput where it is no such answer.
Source: src/ras/client_support.cc; NCCL User Guide, RAS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bench.formats.source import Source
from bench.records import BadInput, RasCommunicator, RasProcess, RasSplit, RasStatus

KIND = "NCCL RAS status"
MAX_COMMUNICATORS, MAX_RANKS = 65_536, 1 << 20
# 2.28.9 forgets a comma between fields of missing_ranks.
_NO_COMMA = re.compile(r'([\d"el])([ \t]{0,64}\r?\n[ \t]{0,64})("[a-z_]{1,40}"[ \t]{0,4}:)')

_COMMUNICATOR = re.compile(r"\s{0,8}#\d{1,6}-\d{1,6} \((?:0x)?([0-9a-f]{1,32})\)")
_DIFFER = re.compile(r"\s{0,8}Communicator ranks have different (\w{1,32}) operation counts")
_SEVERAL = re.compile(r"\s{0,8}(\d{1,7}) ranks have (?:launched up to operation (\d{1,18})|not)")
_ONE = re.compile(
    r"\s{0,8}Rank (\d{1,7}) has (?:launched up to operation (\d{1,18})|not launched any)"
)
_TOTALS = re.compile(r"\s{0,16}(?:\d{1,7}(?:-\d{1,7})?\s{1,16}){4}(\d{1,7})\s{0,8}")
_NAMED = re.compile(r"\s{0,8}Rank (\d{1,7}) -- ")
_WHERE = re.compile(r"managed by process (\d{1,10}) on node (\S{1,255})")
_DEAD = re.compile(r"\s{0,8}Process (\d{1,10}) on node (\S{1,255})")
_SAYS = ("NCCL version ", "Job summary", "Communicators...")


def likeness(head: str, name: str) -> float:
    start = head.lstrip()[:1]
    if start == "{":
        return 1.0 if '"communicators_count"' in head or '"collective_counts"' in head else 0.0
    if "Communicators..." in head and "Job summary" in head:
        return 1.0
    return 0.0


def read(source: Source) -> tuple[RasStatus, ...]:
    data = source.bytes_()
    text = data.decode("utf-8", "replace").strip()
    at = text.find("{")
    if at >= 0 and '"communicators"' in text:
        return (_of_json(text[at:], source.file),)
    return (_of_text(text, source.file),)


# --- JSON -------------------------------------------------------------------------------------


def _of_json(text: str, file: str) -> RasStatus:
    try:
        told = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        try:
            told = msgspec.json.decode(_NO_COMMA.sub(r"\1,\2\3", text))
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadInput(f"is damaged JSON of NCCL's RAS: {error}", file=file) from None
    raw = told.get("communicators") if isinstance(told, dict) else None
    if not isinstance(raw, list) or len(raw) > MAX_COMMUNICATORS:
        raise BadInput("is no answer of NCCL's RAS", file=file)
    known = [each for each in raw if isinstance(each, dict)]
    world = _world(known)
    return RasStatus(
        file=file,
        version=str(told.get("nccl_version", ""))[:32],
        communicators=tuple(_communicator(each, world) for each in known),
    )


def _world(known: list[dict[str, Any]]) -> Mapping[tuple[str, int], int]:
    """The job's rank of every process: of the one communicator that has them all."""
    every = [{_key(rank) for rank in _list(each, "ranks") + _list(each, "missing_ranks")}
             for each in known]  # fmt: skip
    if not every:
        return {}
    at = max(range(len(every)), key=lambda number: len(every[number]))
    whole = every[at]
    if None in whole or any(not other <= whole for other in every):
        return {}
    ranks = _list(known[at], "ranks") + _list(known[at], "missing_ranks")
    return {key: _int(rank.get("rank"), -1) for rank in ranks if (key := _key(rank)) is not None}


def _communicator(told: dict[str, Any], world: Mapping[tuple[str, int], int]) -> RasCommunicator:
    ranks, missing = _list(told, "ranks"), _list(told, "missing_ranks")
    counts: dict[str, dict[int, list[RasProcess]]] = {}
    launched = 0
    for rank in ranks:
        process = _process(rank, world)
        own = rank.get("collective_counts")
        for name, value in own.items() if isinstance(own, dict) else ():
            number = _int(value, 0)
            launched += number
            counts.setdefault(str(name)[:32], {}).setdefault(number, []).append(process)
    splits = [
        RasSplit(operation=name, count=count, number=len(who), ranks=tuple(who))
        for name, by_count in counts.items()
        if len(by_count) > 1
        for count, who in sorted(by_count.items(), key=lambda each: (-len(each[1]), each[0]))
    ]
    return RasCommunicator(
        hash=str(told.get("hash", ""))[:64],
        size=_int(told.get("size"), len(ranks) + len(missing)),
        is_global=bool(world),
        splits=tuple(splits),
        missing=tuple(_process(rank, world) for rank in missing),
        launched=launched,
    )


def _process(told: dict[str, Any], world: Mapping[tuple[str, int], int]) -> RasProcess:
    key = _key(told)
    status = told.get("status")
    flags = {**told, **status} if isinstance(status, dict) else told
    return RasProcess(
        rank=world[key] if key is not None and key in world else _int(told.get("rank"), -1),
        host=key[0] if key else "",
        pid=key[1] if key else None,
        is_dead=flags.get("considered_dead") is True,
        is_silent=flags.get("unresponsive") is True,
    )


def _key(told: dict[str, Any]) -> tuple[str, int] | None:
    host, pid = told.get("host"), told.get("pid")
    return (host[:255], pid) if isinstance(host, str) and type(pid) is int else None


def _list(told: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = told.get(name)
    return [e for e in found[:MAX_RANKS] if isinstance(e, dict)] if isinstance(found, list) else []


def _int(value: object, otherwise: int) -> int:
    return value if type(value) is int else otherwise


# --- text -------------------------------------------------------------------------------------


def _of_text(text: str, file: str) -> RasStatus:
    lines = text.split("\n")
    if not any(line.startswith(_SAYS) for line in lines):
        raise BadInput("is no answer of NCCL's RAS", file=file)
    version = next((line.split()[2] for line in lines if re.match(r"NCCL version \S", line)), "")
    # "(total)" is a heading's last word; the row below ends with the job's GPUs
    total = next((int(m[1]) for line in lines if (m := _TOTALS.fullmatch(line))), 0)
    dead = tuple(
        RasProcess(rank=-1, host=found[2], pid=int(found[1]), is_dead=True)
        for line in lines
        if (found := _DEAD.match(line))
    )
    return RasStatus(
        file=file, version=version, communicators=tuple(_communicators(lines, total)), dead=dead
    )


def _communicators(lines: list[str], total: int) -> Iterator[RasCommunicator]:
    """Those of the sections Errors and Warnings; the others are alike and not listed. One of all
    `total` GPUs is the job's own, whose ranks are the job's."""
    name, operation = "", ""
    splits: list[RasSplit] = []
    for line in [*lines, "#0-0 (0)"]:
        if found := _COMMUNICATOR.match(line):
            if splits:
                ordered = sorted(splits, key=lambda each: -each.number)
                size = sum(e.number for e in splits if e.operation == splits[0].operation)
                whole = size == total
                yield RasCommunicator(hash=name, size=size, is_global=whole, splits=tuple(ordered))
            name, operation, splits = found[1], "", []
        elif found := _DIFFER.match(line):
            operation = found[1]
        elif operation and (found := _SEVERAL.match(line)):
            count = int(found[2] or 0)
            splits.append(RasSplit(operation=operation, count=count, number=int(found[1])))
        elif operation and (found := _ONE.match(line)):
            process = _named(line, int(found[1]))
            count = int(found[2] or 0)
            splits.append(RasSplit(operation=operation, count=count, number=1, ranks=(process,)))
        elif splits and (found := _NAMED.match(line)):
            last = splits[-1]
            ranks = (*last.ranks, _named(line, int(found[1])))
            splits[-1] = msgspec.structs.replace(last, ranks=ranks)


def _named(line: str, rank: int) -> RasProcess:
    found = _WHERE.search(line)
    return RasProcess(
        rank=rank, host=found[2] if found else "", pid=int(found[1]) if found else None
    )
