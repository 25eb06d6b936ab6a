"""The result files of rccl-tests (`-x FILE -Z json|csv`): one record per size and half.

In: a JSON list, JSON records one a line (before July 2025), or CSV with a header line. Out: a
table per collective and stress cycle. Count is not in the file: it follows from size, type, ranks.
Source: ROCm/rccl-tests pull requests 93, 110 and 140.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bench.formats.nccl_tests.columns import Layout
from bench.formats.nccl_tests.commands import collective_of
from bench.formats.nccl_tests.json_values import from_microseconds, number, whole
from bench.formats.nccl_tests.naming import Naming
from bench.formats.nccl_tests.rows import DTYPE_BYTES
from bench.formats.nccl_tests.tables import mean_busbw
from bench.formats.source import Source
from bench.records import BadInput, CollectiveTable, TableRow, TableTime

_LAYOUT = Layout(lead=("size", "count", "type", "redop", "root"))
_PARTS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_MOST_RANKS = 1 << 20
_MOST_RECORDS = 1_000_000
Record = tuple[int, Mapping[str, object]]  # with the number of its line


def likely(head: str) -> bool:
    return all(name in head for name in ('"algBw"', '"busBw"', '"inPlace"', '"size"'))


def likely_csv(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    names = {name.strip(" \"'") for name in first.split(",")}
    return {"algBw", "busBw", "inPlace", "size"} <= names


def read_json(source: Source) -> tuple[CollectiveTable, ...]:
    """Records of a list or of lines. BadInput where there is none."""
    found: list[Record] = []
    unread = 0
    for line, text in source.lines():
        bare = text.strip().strip(",").lstrip("[").rstrip("]").strip().strip(",")
        if not bare:
            continue
        try:
            value = msgspec.json.decode(bare)
        except (msgspec.DecodeError, RecursionError):
            unread += 1
            continue
        if isinstance(value, dict):
            found.append((line, value))
        if len(found) >= _MOST_RECORDS:
            break
    if not found:  # a list without line ends, or with a record on several lines
        try:
            value = msgspec.json.decode(source.bytes_())
        except (msgspec.DecodeError, RecursionError):
            raise BadInput("holds no whole record of rccl-tests", file=source.file) from None
        unread = 0
        found = [(1, each) for each in value if isinstance(each, dict)] if value else []
    return _tables(found, unread, source, "json")


def read_csv(source: Source) -> tuple[CollectiveTable, ...]:
    source.bytes_()  # refuses what is too large to be held
    lines = list(source.lines())
    reader = csv.reader((text for _, text in lines), skipinitialspace=True)
    found: list[Record] = []
    unread = 0
    names: list[str] = []
    try:
        for words in reader:
            words = [word.strip() for word in words]
            if not names:
                names = words if "busBw" in words else []
            elif len(words) == len(names):
                found.append((lines[reader.line_num - 1][0], _typed(names, words)))
            elif any(words):
                unread += 1
    except csv.Error as error:
        raise BadInput(
            f"is no CSV of rccl-tests: {error}", file=source.file, line=reader.line_num
        ) from None
    return _tables(found, unread, source, "csv")


def _typed(names: list[str], words: list[str]) -> dict[str, object]:
    """Numbers as numbers, as they stand in JSON."""
    record: dict[str, object] = {}
    for name, word in zip(names, words, strict=True):
        try:
            record[name] = int(word) if word.isdecimal() and len(word) < 20 else float(word)
        except ValueError:
            record[name] = word
    return record


def _tables(
    found: list[Record], unread: int, source: Source, layout: Any
) -> tuple[CollectiveTable, ...]:
    tables = []
    for records in _groups(found):
        name = str(records[0][1].get("name", ""))
        collective = collective_of(name.lower())
        ranks = _ranks(records[0][1])
        rows = list(_rows(records, collective, ranks))
        if not rows:
            continue
        named = Naming(None, source.file, rows, (), _LAYOUT)
        inferred = named.collective(ranks) if collective is None else (collective, "program")
        missing = ["the list of devices", "settings, versions and the average: not in such a file"]
        if unread:
            missing.append(f"{unread} lines that are no whole record")
        tables.append(
            CollectiveTable(
                file=source.file,
                line=records[0][0],
                last_line=records[-1][0],
                layout=layout,
                flavour="rccl",
                check="wrong",
                program=name or None,
                collective=inferred[0],
                collective_basis=inferred[1],
                ranks=ranks,
                ranks_basis="listed" if ranks else None,
                settings=_settings(records[0][1]),
                rows=tuple(rows),
                mean_busbw_gbs=mean_busbw(rows),
                complete=not unread,
                missing=tuple(missing),
            )
        )
    if not tables:
        raise BadInput("holds no record of rccl-tests with a size and times", file=source.file)
    return tuple(tables)


def _groups(found: Iterable[Record]) -> Iterator[list[Record]]:
    """Records of one collective and one stress cycle, which follow each other."""
    group: list[Record] = []
    for line, record in found:
        key = (record.get("name"), record.get("numCycle"))
        if group and key != (group[0][1].get("name"), group[0][1].get("numCycle")):
            yield group
            group = []
        group.append((line, record))
    if group:
        yield group


def _rows(
    records: Iterable[Record], collective: str | None, ranks: int | None
) -> Iterator[TableRow]:
    """A row from the out-of-place record of a size and the in-place one that follows it."""
    waiting: TableRow | None = None
    for line, record in records:
        size, dtype = whole(record.get("size")), str(record.get("type", ""))
        half = _half(record)
        if size is None or half is None:
            continue
        redop = record.get("redop")
        key = (size, dtype, str(redop) if redop else None)
        in_place = str(record.get("inPlace")) in ("1", "True", "true")
        if in_place and waiting and (waiting.size_bytes, waiting.dtype, waiting.redop) == key:
            yield _row(key, waiting.line, collective, ranks, waiting.out_of_place, half)
            waiting = None
            continue
        if waiting:
            yield waiting
            waiting = None
        row = _row(key, line, collective, ranks, *((None, half) if in_place else (half, None)))
        if in_place:
            yield row
        else:
            waiting = row
    if waiting:
        yield waiting


def _row(
    key: tuple[int, str, str | None],
    line: int,
    collective: str | None,
    ranks: int | None,
    out_of_place: TableTime | None,
    in_place: TableTime | None,
) -> TableRow:
    size, dtype, redop = key
    parts = (ranks or 1) if collective in _PARTS else 1
    return TableRow(
        size_bytes=size,
        count=size // (DTYPE_BYTES.get(dtype, size or 1) * parts),
        dtype=dtype,
        redop=redop,
        out_of_place=out_of_place,
        in_place=in_place,
        line=line,
    )


def _half(record: Mapping[str, object]) -> TableTime | None:
    time_s = from_microseconds(record.get("time"))
    algbw, busbw = number(record.get("algBw")), number(record.get("busBw"))
    if time_s is None or algbw is None or busbw is None:
        return None
    wrong = record.get("#wrong", record.get("wrong"))
    if isinstance(wrong, str):
        wrong = int(wrong) if wrong.isdecimal() and len(wrong) < 20 else None
    return TableTime(time_s=time_s, algbw_gbs=algbw, busbw_gbs=busbw, wrong=whole(wrong))


def _ranks(record: Mapping[str, object]) -> int | None:
    """Ranks of the communicator: with MPI processes × GPUs of each, else all GPUs."""
    processes = whole(record.get("ranks"))
    each = whole(record.get("gpusPerRank")) if processes else whole(record.get("gpus"))
    ranks = (processes or 1) * (each or 1) if processes or each else 0
    return ranks if 0 < ranks <= _MOST_RANKS else None


def _settings(record: Mapping[str, object]) -> dict[str, str]:
    names = ("numCycle", "nodes", "ranksPerNode", "gpusPerRank", "gpus")
    return {name: str(record[name]) for name in names if name in record}
