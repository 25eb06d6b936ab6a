"""Our own files where they are named to `read`: reports, fabrics, labs, plans, raw times.

In: a source. Out: what it is and which command takes it, or None for everybody else's files. They
are told apart by their beginning; only a report is opened further, for its verdict.
"""

from __future__ import annotations

import msgspec

from bench.formats.source import Source
from bench.records import BadInput, ForeignFile, Verdict

BEGINNING = 4096  # characters; a report says what it is in its first lines
BEGINNING_OF_TIMES = 400  # and samples.jsonl in its first keys
# Keys and tables that only one kind of our TOML files has.
OF_TOML = (
    ("lab", {"rate_mbit", "[[fault]]", "ranks_per_host"}, "fabric-bench lab run {file}"),
    ("plan", {"step_factor", "half_width", "max_bytes"}, "bench/sweep.py --plan {file}"),
    (
        "fabric",
        {"rate_gbps", "[gpus]", "[[busbw]]", "role"},
        "fabric-bench read … --fabric {file}",
    ),
)


class _Report(msgspec.Struct):
    """The few keys of a report.json that are told."""

    run: str
    verdict: Verdict
    findings: list[msgspec.Raw] = []


def describe(source: Source) -> ForeignFile | None:
    """What a file of ours is, in a record without any evidence; None where it is not ours."""
    head = source.head()
    if head.startswith("{"):
        return _json(source, head[:BEGINNING])
    return _toml(source, head)


def _json(source: Source, head: str) -> ForeignFile | None:
    if '"schema"' not in head:
        return None
    if '"started_at"' in head[:BEGINNING_OF_TIMES] and '"verdict"' not in head:
        return _told(source, "raw times", "raw times of a run", "fabric-bench report FOLDER")
    if '"verdict"' not in head:
        return None
    if '"dossier"' in head:
        return _told(source, "reading", "what `read --json` has printed before")
    if '"run"' not in head:
        return None
    summary = "report of a run"
    try:
        report = msgspec.json.decode(source.bytes_(), type=_Report)
    except (msgspec.DecodeError, BadInput, RecursionError):
        summary += ", cut short or damaged"
    else:
        number = len(report.findings)
        count = f"{number or 'no'} finding{'s' * (number != 1)}"
        summary += f" of ours, {report.run}: {report.verdict}, {count}"
    return _told(source, "report", summary, "fabric-bench gate {file}")


def _toml(source: Source, head: str) -> ForeignFile | None:
    lines = [line.strip() for line in head.splitlines()]
    keys = {key.strip() for line in lines for key, _, value in [line.partition("=")] if value}
    words = keys | {line.partition("#")[0].strip() for line in lines if line.startswith("[")}
    if not words & {"name", "hosts"} or not source.file.endswith(".toml"):
        return None
    for kind, marks, command in OF_TOML:
        if words & marks:
            return _told(source, kind, f"a {kind} file of ours", command)
    return None


def _told(source: Source, kind: str, summary: str, command: str = "") -> ForeignFile:
    note = f"for this file: {command.replace('{file}', source.file)}"
    return ForeignFile(
        file=source.file,
        kind=kind,
        summary=summary,
        bytes=source.size_bytes,
        notes=(note,) if command else (),
    )
