"""The entries of a Flight Recorder dump as rows and tables: from dicts to ENTRY_LAYOUT.

In: the list of dicts that pickle or JSON gave, of any torch version. Out: Rows; BadInput where a
value is of a type that no recorder writes. Nothing is trusted: a list may be shared by all
entries or contain itself, so lengths are added up before anything walks through them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.records import BadInput, FlightCall, FlightFrame
from bench.records.flight import ENTRY_LAYOUT, FLIGHT_STATES

MAX_ENTRIES = 1 << 20  # TORCH_FR_BUFFER_SIZE is thousands
# All shapes of a dump together: an entry has a handful of tensors of a handful of dimensions,
# a coalesced one hundreds.
MAX_DIMENSIONS = 32 << 20
MAX_FRAMES = 256  # of one stack; Python's own limit is 1,000, and its inner end is what counts
MAX_STACKED = 32 << 20  # frames of all stacks, counted where they are shared too
MAX_TEXT = 512  # of a name or a path

Column: TypeAlias = Callable[..., Sequence[Any]]
Entries: TypeAlias = Sequence[dict[str, Any]]
Integers: TypeAlias = NDArray[np.int64]
DTYPE = np.dtype(list(ENTRY_LAYOUT))
_STATES = {state: at for at, state in enumerate(FLIGHT_STATES)}
_ENCODER = msgspec.msgpack.Encoder()
_Call: TypeAlias = tuple[str | None, list[list[int]], list[list[int]], list[str], list[str]]
_DECODER = msgspec.msgpack.Decoder(type=_Call)
_PEERS = re.compile(r"(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})")


@dataclass(frozen=True)
class Rows:
    """`groups`: (name, description, pg_id) by the number that rows have in `group`."""

    rows: NDArray[np.void]
    groups: tuple[tuple[str, str, int | None], ...]
    calls: tuple[FlightCall, ...]
    frames: tuple[FlightFrame, ...]
    stacks: tuple[tuple[int, ...], ...]


def of(entries: object, file: str) -> Rows:
    """All entries in their order."""
    return _Reader(file).rows(entries)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file

    def rows(self, given: object) -> Rows:
        if not isinstance(given, list) or not set(map(type, given)) <= {dict}:
            raise self._bad("entries are no list of dictionaries")
        if len(given) > MAX_ENTRIES:
            raise self._bad(f"holds more than {MAX_ENTRIES:,} entries")
        entries = cast(Entries, given)
        table = np.zeros(len(entries), dtype=DTYPE)
        column = _Columns(entries).of
        for name, values in (
            ("record_id", column("record_id", "id")),
            ("op_id", column("op_id")),
            ("seq", column("collective_seq_id", "seq_id")),
            ("p2p_seq", column("p2p_seq_id")),
            ("created_ns", column("time_created_ns")),
            ("started_ns", column("time_discovered_started_ns")),
            ("completed_ns", column("time_discovered_completed_ns")),
            ("timeout_ms", column("timeout_ms")),
        ):
            table[name] = self._integers(values, name)
        table["duration_ms"] = self._durations(column("duration_ms"))
        table["retired"] = self._flags(column("retired"))
        table["state"] = self._states(column("state"), table)
        table["group"], groups = self._groups(column("process_group", "pg_name"), column("pg_id"))
        table["call"], calls = self._calls(column)
        table["stack"], frames, stacks = self._stacks(column("frames"))
        told = self._flags(column("is_p2p"))
        by_name = np.array([call.peer is not None for call in calls] or [False], dtype=bool)
        table["p2p"] = told | by_name[table["call"]] if len(entries) else told
        return Rows(table, groups, calls, frames, stacks)

    def _integers(self, values: Sequence[Any], name: str) -> Integers:
        kinds = set(map(type, values))
        if not kinds <= {int}:
            if not kinds <= {int, type(None)}:
                raise self._bad(f"an entry's {name} is no number")
            values = [value or 0 for value in values]
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            raise self._bad(f"an entry's {name} is larger than any") from None

    def _durations(self, values: Sequence[Any]) -> NDArray[np.float32]:
        kinds = set(map(type, values))
        if not kinds <= {int, float, type(None)}:
            raise self._bad("an entry's duration_ms is no number")
        if kinds <= {type(None)}:
            return np.full(len(values), np.nan, dtype=np.float32)
        with np.errstate(over="ignore"):
            told = np.array([np.nan if v is None else float(min(v, 1e30)) for v in values])
            return told.astype(np.float32)

    def _flags(self, values: Sequence[Any]) -> NDArray[np.bool_]:
        if not set(map(type, values)) <= {bool, int, type(None)}:
            raise self._bad("an entry's flag is no yes or no")
        return np.array([bool(value) for value in values], dtype=bool)

    def _states(self, told: Sequence[Any], table: NDArray[np.void]) -> NDArray[np.int8]:
        if not set(map(type, told)) <= {str, type(None)}:
            raise self._bad("an entry's state is no word")
        states = np.array([_STATES.get(word, -1) for word in told], dtype=np.int8)
        by_times = np.where(table["completed_ns"] > 0, 2, np.where(table["started_ns"] > 0, 1, 0))
        return np.where(states >= 0, states, by_times).astype(np.int8)

    def _groups(
        self, told: Sequence[Any], ids: Sequence[Any]
    ) -> tuple[Integers, tuple[tuple[str, str, int | None], ...]]:
        if not set(map(type, told)) <= {tuple, list, str, type(None)}:
            raise self._bad("an entry's process_group is no name")
        if max(map(len, filter(None, told)), default=0) > MAX_TEXT:
            raise self._bad("an entry's process_group is no name")
        if not set(map(type, ids)) <= {int, type(None)}:
            raise self._bad("an entry's pg_id is no number")
        pairs = [tuple(value) if type(value) is list else value for value in told]
        numbers, keys = self._numbered(zip(pairs, ids, strict=True))
        groups = []
        for pair, pg_id in keys:
            names = [pair] if isinstance(pair, str) else [*(pair or ()), "", ""]
            if not all(isinstance(name, str) for name in names):
                raise self._bad("an entry's process_group is no name")
            name, desc = (_cut(text) for text in [*names, ""][:2])
            groups.append((name, "" if desc == "undefined" else desc, pg_id))
        return numbers, tuple(groups)

    def _calls(self, column: Column) -> tuple[Integers, tuple[FlightCall, ...]]:
        """Calls by what they are, as bytes: entries differ in few of them."""
        columns: list[Sequence[Any]] = [column("profiling_name")]
        for key, levels, leaf in (("sizes", 2, int), ("dtypes", 1, str)):
            for side in ("input", "output"):
                values = column(f"{side}_{key}")
                if None in values:
                    values = [value or [] for value in values]
                self._bounded(values, levels, leaf)
                columns.append(values)
        try:
            numbers, keys = self._numbered(map(_ENCODER.encode, zip(*columns, strict=True)))
            calls = tuple(_call(*_DECODER.decode(key)) for key in keys)
        except (
            msgspec.ValidationError,
            OverflowError,
            RecursionError,
            TypeError,
            UnicodeEncodeError,
        ):
            raise self._bad("an entry's name, shapes or element types are none") from None
        return numbers, calls

    def _bounded(self, values: Sequence[Any], levels: int, leaf: type) -> None:
        """Lists of `leaf`, or lists of lists of it, of at most MAX_DIMENSIONS together: lists that
        double from level to level would take for ever to encode."""
        for level in range(levels):
            if not set(map(type, values)) <= {list, tuple}:
                raise self._bad("an entry's name, shapes or element types are none")
            if sum(map(len, values)) > MAX_DIMENSIONS:
                raise self._bad(f"holds more than {MAX_DIMENSIONS:,} dimensions")
            if level + 1 < levels:
                values = list(chain.from_iterable(values))
        if not set(map(type, chain.from_iterable(values))) <= {leaf}:
            raise self._bad("an entry's name, shapes or element types are none")

    def _stacks(
        self, told: Sequence[Any]
    ) -> tuple[Integers, tuple[FlightFrame, ...], tuple[tuple[int, ...], ...]]:
        """Stacks by what they hold; where objects are shared (torch shares frames), by identity
        first, which is ten times faster and holds while `told` lives."""
        if not set(map(type, told)) <= {list, tuple, type(None)}:
            raise self._bad("an entry's frames are no list")
        frames: dict[tuple[str, str, int], int] = {}
        stacks: dict[tuple[int, ...], int] = {}
        by_list: dict[int, int] = {}
        by_frames: dict[tuple[int, ...], int] = {}
        numbers, walked = [], 0
        for stack in told:
            if not stack:
                numbers.append(-1)
                continue
            number = by_list.get(id(stack))
            if number is None:
                inner = stack[:MAX_FRAMES]
                walked += len(inner)
                if walked > MAX_STACKED:
                    raise self._bad(f"holds more than {MAX_STACKED:,} frames")
                shared = tuple(map(id, inner))
                number = by_frames.get(shared)
                if number is None:
                    key = tuple(
                        frames.setdefault(self._frame(frame), len(frames)) for frame in inner
                    )
                    number = stacks.setdefault(key, len(stacks))
                    by_frames[shared] = number
                by_list[id(stack)] = number
            numbers.append(number)
        listed = tuple(FlightFrame(name=n, file=f, line=at) for n, f, at in frames)
        return np.array(numbers, dtype=np.int64), listed, tuple(stacks)

    def _frame(self, frame: object) -> tuple[str, str, int]:
        if isinstance(frame, dict):
            name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
            if isinstance(name, str) and isinstance(file, str) and isinstance(line, int):
                return _cut(name), file[-MAX_TEXT:], max(min(line, 1 << 31), 0)
        raise self._bad("a frame is no name, file and line")

    def _numbered(self, keys: Iterable[Any]) -> tuple[Integers, list[Any]]:
        """Each key's number in order of appearance, and the keys."""
        table: dict[Any, int] = {}
        number: Callable[[Any, int], int] = table.setdefault
        try:
            numbers = [number(key, len(table)) for key in keys]
        except TypeError:
            raise self._bad("an entry's process_group is no name") from None
        return np.array(numbers, dtype=np.int64), list(table)

    def _bad(self, sentence: str) -> BadInput:
        return BadInput(f"is no Flight Recorder dump: {sentence}", file=self.file)


class _Columns:
    """The entries by key: a value per entry, None where an entry has none."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._columns: dict[str, Sequence[Any]] = {}
        keys = tuple(entries[0]) if entries else ()
        if len(keys) > 1 and set(map(len, entries)) == {len(keys)}:
            # All alike, as a recorder writes them: a third of the time of asking one by one.
            with suppress(KeyError):
                values = zip(*map(itemgetter(*keys), entries), strict=True)
                self._columns = dict(zip(keys, values, strict=True))

    def of(self, key: str, older: str = "") -> Sequence[Any]:
        if self._columns:
            told = self._columns.get(key) or self._columns.get(older)
            return told if told else [None] * len(self._entries)
        return [entry.get(key, entry.get(older)) for entry in self._entries]


def _call(
    name: str | None,
    input_sizes: list[list[int]],
    output_sizes: list[list[int]],
    input_dtypes: list[str],
    output_dtypes: list[str],
) -> FlightCall:
    library, colon, rest = _cut(name or "").partition(":")
    if not colon:
        library, rest = "", library
    peers = _PEERS.fullmatch(rest)
    return FlightCall(
        library=library,
        name=peers[1] if peers else rest,
        input_sizes=tuple(map(tuple, input_sizes)),
        output_sizes=tuple(map(tuple, output_sizes)),
        input_dtypes=tuple(map(_cut, input_dtypes)),
        output_dtypes=tuple(map(_cut, output_dtypes)),
        me=int(peers[2]) if peers else None,
        peer=int(peers[3]) if peers else None,
    )


def _cut(text: str) -> str:
    return text[:MAX_TEXT]
