"""A run as it lies on disk: report.json and samples.jsonl, out and in.

Out: a Report without raw times, trimmed to what a person reads, as JSON that shows one thing per
line (or as few characters as it takes, where it would not fit otherwise). In: the same again, size
limited, with one sentence for what does not fit. A samples.jsonl whose last line was cut by a
crash reads as if that line had not been.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec

from bench.records import (
    SCHEMA,
    BadInput,
    Candidate,
    CopyCheck,
    Fabric,
    HostFacts,
    MeasuredRound,
    Plan,
    PreflightPair,
    Record,
    Report,
    Session,
)
from bench.report.trimming import TRIMS, sparse, trimmed

REPORT_NAME, SAMPLES_NAME = "report.json", "samples.jsonl"
REPORT_LIMIT_BYTES = 128 * 2**20  # a thousand hosts make about 10 MiB
SAMPLES_LIMIT_BYTES = 2**31
LINE_LIMIT_BYTES = 128 * 2**20
LINE_COLUMNS = 100  # JSON longer than this is laid out over several lines

BUDGET_BYTES = 280_000  # of four hosts; promised is 300 KB
BUDGET_HOSTS = 4
BUDGET_BYTES_PER_HOST = 40_000


class Header(Record, frozen=True, kw_only=True):
    """The first line of samples.jsonl: all that is needed to judge the sessions below it."""

    schema: int = SCHEMA
    run: str = ""
    started_at: float = 0.0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    fabric: Fabric | None = None
    hosts: tuple[HostFacts, ...] = ()
    plan: Plan | None = None
    candidates: tuple[Candidate, ...] = ()
    preflight: tuple[PreflightPair, ...] = ()
    copies: tuple[CopyCheck, ...] = ()


def encode(report: Report) -> bytes:
    """report.json's content, within the budget of its number of hosts where trimming can do it."""
    budget = BUDGET_BYTES + BUDGET_BYTES_PER_HOST * max(len(report.hosts) - BUDGET_HOSTS, 0)
    for trim in TRIMS:
        short = trimmed(report, trim)
        text = _layout(plain(short), 0) if trim.spread else _dense(short)
        content = text.encode() + b"\n"
        if len(content) <= budget:
            break
    return content


def _layout(value: Any, depth: int) -> str:
    """JSON with short things on one line and long ones spread, one item per line."""
    short = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    if len(short) + depth <= LINE_COLUMNS or not value or not isinstance(value, (dict, list)):
        return short
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        items = [
            f"{pad}{json.dumps(key, ensure_ascii=False)}: {_layout(item, depth + 1)}"
            for key, item in value.items()
        ]
    else:
        items = [pad + _layout(item, depth + 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(items) + f"\n{' ' * depth}{closing}"


def _dense(report: Report) -> str:
    """JSON in as few characters as it takes."""
    value = _holdable(sparse(report))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def plain(record: Record) -> Any:
    """The record as lists, dicts and scalars that UTF-8 and JSON can hold: no lone surrogates
    (host names that are no UTF-8), no infinities."""
    return _holdable(msgspec.to_builtins(record))


def _holdable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_holdable(key): _holdable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_holdable(item) for item in value]
    return value


def read_report(path: Path) -> Report:
    """The report in a file or a run's folder. BadInput names the file and what is wrong."""
    file = path / REPORT_NAME if path.is_dir() else path
    content = _read(file, REPORT_LIMIT_BYTES)
    try:
        schema = msgspec.json.decode(content, type=_Schema).schema
        if schema != SCHEMA:
            raise BadInput(
                f"this report has schema {schema}; this version reads schema {SCHEMA}",
                file=str(file),
            )
        return msgspec.json.decode(content, type=Report)
    except msgspec.ValidationError as error:
        raise BadInput(f"not a report: {error}", file=str(file)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"not JSON: {error}", file=str(file)) from None


class _Schema(msgspec.Struct):
    schema: int


def read_samples(path: Path) -> tuple[Header, tuple[Session, ...]]:
    """Header and sessions of a run, finished or not; a cut last line is left out."""
    header, records = _samples(path)
    return header, tuple(record for record in records if isinstance(record, Session))


def read_rounds(path: Path) -> tuple[MeasuredRound, ...]:
    """The rounds of pairs of a run, finished or not; a cut last line is left out."""
    _, records = _samples(path)
    return tuple(record for record in records if isinstance(record, MeasuredRound))


def _samples(path: Path) -> tuple[Header, list[Session | MeasuredRound]]:
    file = path / SAMPLES_NAME if path.is_dir() else path
    lines = _read(file, SAMPLES_LIMIT_BYTES).split(b"\n")
    whole, last = lines[:-1], lines[-1]
    if not whole:
        raise BadInput("holds no whole line: its run ended before it began", file=str(file))
    header = _line(whole[0], Header, file, 1)
    if header.plan is None:
        raise BadInput("line 1 is no header of a run: it has no plan", file=str(file), line=1)
    records = [
        _record(line, file, number) for number, line in enumerate(whole[1:], 2) if line.strip()
    ]
    if last.strip():
        try:
            records.append(_record(last, file, len(lines)))
        except BadInput:
            pass  # cut in the middle of being written
    return header, records


def _record(line: bytes, file: Path, number: int) -> Session | MeasuredRound:
    try:
        return msgspec.json.decode(line, type=MeasuredRound)
    except (msgspec.DecodeError, UnicodeDecodeError):
        session: Session = _line(line, Session, file, number)
        return session


def read_header(path: Path) -> Header:
    """The first line alone, for runs whose samples are too large to be held."""
    file = path / SAMPLES_NAME if path.is_dir() else path
    try:
        with file.open("rb") as stream:
            line = stream.readline(LINE_LIMIT_BYTES)
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
    header: Header = _line(line, Header, file, 1)
    return header


def _line(line: bytes, type_: type[Any], file: Path, number: int) -> Any:
    try:
        return msgspec.json.decode(line, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"not a line of samples: {error}", file=str(file), line=number) from None


def _read(file: Path, limit_bytes: int) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(limit_bytes + 1)
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
    if len(content) > limit_bytes:
        raise BadInput(f"larger than {limit_bytes // 2**20} MiB", file=str(file))
    return content
