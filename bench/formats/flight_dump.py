"""A dump of torch's Flight Recorder, pickle or JSON, of one rank.

In: a source, packed with gzip or not, of torch 2.4 to 2.15 (schemas 2.1 to 2.10; NCCL, gloo,
torchcomms and the libraries of other vendors). Out: a FlightDump. Pickles go through
bare_pickle, which resolves no globals; sizes have limits; BadInput in one sentence for the rest.
Source: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, and the samples that gloo made.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.formats import bare_pickle, flight_name, flight_rows
from bench.formats.source import Source
from bench.records import BadInput, FlightDump, FlightGroup

KIND = "Flight Recorder dump"

MAX_GROUPS = 65_536
MAX_RANKS = 1 << 20
# Containers of a JSON text; an empty list costs 56 bytes for its two characters.
MAX_CONTAINERS = 4 << 20
_TOLD = ("entries", "pg_config", "pg_status", "nccl_comm_state", "comm_lib_version")
_KEYS = ('"pg_config"', '"pg_status"', '"nccl_comm_state"', '"collective_seq_id"')
_SAYS = re.compile(r"version|pg_config|entries|record_id")


# Protocols 0 and 1, which no recorder writes: somebody else's file, to be refused as one.
_OLD_PICKLE = re.compile(r"[(][dl]p\d{1,9}\n|[}\]]q\0?[(]")


def likeness(head: str, name: str) -> float:
    """1 for a pickle or JSON with the recorder's keys in its beginning."""
    if head.startswith("\ufffd") and head[1:2] in ("\x02", "\x03", "\x04", "\x05"):
        return 1.0 if _SAYS.search(head, 0, 4096) else 0.3
    if head.lstrip()[:1] == "{":
        return 1.0 if any(key in head for key in _KEYS) else 0.0
    return 1.0 if _OLD_PICKLE.match(head) else 0.0


def is_likely(first: bytes) -> bool:
    """The same from the first bytes as they are: for folders of thousands of files."""
    return likeness(first.decode("utf-8", "replace").replace("\0", ""), "") >= 0.5


def read(source: Source, *, check: bool = True) -> FlightDump:
    """The dump; BadInput where it is none, cut short, or asks for anything but plain data.

    `check`: see bare_pickle.load.
    """
    data = source.bytes_()
    if source.damaged:
        raise BadInput(f"ends early or is damaged: {source.damaged}", file=source.file)
    if not data.strip(b"\0 \n"):
        raise BadInput("is empty: the dump was not written", file=source.file)
    with _collector_off():
        is_json = data.lstrip()[:1] in (b"{", b"[")
        told = (
            _json(data, source.file)
            if is_json
            else bare_pickle.load(data, source.file, check=check)
        )
        if not isinstance(told, dict) or not any(key in told for key in _TOLD):
            raise BadInput("is no Flight Recorder dump", file=source.file)
        return _dump(told, source, is_json)


@contextmanager
def _collector_off() -> Iterator[None]:
    """Python's collector would walk through hundreds of thousands of new containers again and
    again; nothing here is cyclic unless a hostile file makes it so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _json(data: bytes, file: str) -> object:
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise BadInput(f"holds more than {MAX_CONTAINERS:,} containers", file=file)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"is damaged JSON: {error}", file=file) from None
    except RecursionError:
        raise BadInput("is JSON nested deeper than any dump", file=file) from None


def _dump(told: dict[Any, Any], source: Source, is_json: bool) -> FlightDump:
    file = source.file
    rows = flight_rows.of(told.get("entries") or [], file)
    groups = _groups(rows, told, file)
    possible, notes = _possible(groups, rows)
    numbers = flight_name.numbers(file)
    rank = next((n for _, n in numbers if not possible or n in possible), None)
    own = told.get("rank")
    if len(possible) == 1:
        rank = possible[0]
    elif isinstance(own, int) and (not possible or own in possible):
        rank = own
    return FlightDump(
        file=file,
        version=_text(told.get("version")),
        library_version=_text(told.get("comm_lib_version") or told.get("nccl_version")),
        form="json" if is_json else "pickle",
        file_bytes=source.size_bytes,
        rank=rank,
        name_numbers=numbers,
        possible_ranks=possible,
        groups=groups,
        calls=rows.calls,
        frames=rows.frames,
        stacks=rows.stacks,
        rows=rows.rows.tobytes(),
        entries=len(rows.rows),
        notes=notes,
    )


def _text(value: object) -> str:
    return value[: flight_rows.MAX_TEXT] if isinstance(value, str) else ""


def _groups(rows: flight_rows.Rows, told: dict[Any, Any], file: str) -> tuple[FlightGroup, ...]:
    """Groups that entries name, in the rows' numbering, then those that only pg_config has."""
    config = _config(told.get("pg_config"), file)
    status = _table(told.get("pg_status"), file)
    groups = []
    for name, desc, pg_id in rows.groups:
        ranks = config[name][1] if name in config else ()
        groups.append(
            FlightGroup(
                name=name,
                desc=desc or (config[name][0] if name in config else ""),
                ranks=ranks,
                pg_id=pg_id,
                configured=name in config,
                **_status(status.get(str(pg_id), {})),
            )
        )
    named = {name for name, _, _ in rows.groups}
    taken = {pg_id for _, _, pg_id in rows.groups}
    for name, (desc, ranks) in config.items():
        if name not in named:
            first = name == "0" and 0 not in taken  # the default group: made first, named "0"
            groups.append(
                FlightGroup(
                    name=name,
                    desc=desc,
                    ranks=ranks,
                    pg_id=0 if first else None,
                    **_status(status.get("0", {}) if first else {}),
                )
            )
    return tuple(groups)


def _config(told: object, file: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Description and ranks by name."""
    config: dict[str, tuple[str, tuple[int, ...]]] = {}
    for key, value in _table(told, file).items():
        name = value.get("name")
        name = name if isinstance(name, str) and name else key
        config[_text(name)] = (_text(value.get("desc")), _ranks(value.get("ranks"), file))
    return config


def _table(told: object, file: str) -> dict[str, dict[str, Any]]:
    if told is None:
        return {}
    if not isinstance(told, dict) or len(told) > MAX_GROUPS:
        raise BadInput("is no Flight Recorder dump: its groups are no table", file=file)
    return {
        str(key): value
        for key, value in told.items()
        if isinstance(key, str | int) and isinstance(value, dict)
    }


def _ranks(told: object, file: str) -> tuple[int, ...]:
    """The recorder writes a list as text: "[0, 1, 2]"."""
    if isinstance(told, str):
        if told.count(",") > MAX_RANKS:
            raise BadInput(f"names more than {MAX_RANKS:,} ranks", file=file)
        return tuple(int(text) for text in re.findall(r"\d{1,7}", told))
    if isinstance(told, list | tuple) and len(told) <= MAX_RANKS:
        return tuple(rank for rank in told if type(rank) is int)
    return ()


def _status(told: dict[str, Any]) -> dict[str, Any]:
    """The fields of pg_status; JSON has its numbers as text."""
    return {
        f"last_{word}": _number(told.get(f"last_{word}_collective"))
        for word in ("enqueued", "started", "completed")
    }


def _number(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if type(value) is int else None


def _possible(
    groups: tuple[FlightGroup, ...], rows: flight_rows.Rows
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The ranks that this process can be: it is in every group that it has. A send or recv tells
    its own place in the group."""
    sets = [set(group.ranks) for group in groups if group.configured and group.ranks]
    if len(rows.rows):
        pairs = (
            {
                (int(group), rows.calls[call].me)
                for group, call in zip(rows.rows["group"], rows.rows["call"], strict=True)
                if rows.calls[call].me is not None
            }
            if any(call.me is not None for call in rows.calls)
            else set()
        )
        for at, me in pairs:
            members = sorted(groups[at].ranks)
            if me is not None and me < len(members):
                sets.append({members[me]})
    if not sets:
        return (), ()
    common = sorted(set.intersection(*sets))
    if not common:
        return (), ("its groups have no rank in common",)
    return tuple(common), ()
