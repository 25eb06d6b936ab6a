"""The times of a run's sessions, without all else that samples.jsonl holds.

In: a run's folder. Out: Sessions with samples only. Ranks, hosts and stacks of a thousand hosts
are passed over without being made: a comparison reads runs of many hosts in a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from bench.records import BadInput, Case, Sample, Session
from bench.report.stored import LINE_LIMIT_BYTES, SAMPLES_NAME

Outcome = Literal["measured", "hung", "failed", "unreachable", "skipped", "interrupted"]


class _Case(msgspec.Struct):
    candidate: str
    session: int
    number: int = 0


class _Line(msgspec.Struct):
    """What of a session's line is wanted; other keys are skipped."""

    case: _Case
    outcome: Outcome
    samples: tuple[Sample, ...] = ()
    started_at: float = 0.0


class _Run(msgspec.Struct):
    run: str = ""


def session_times(folder: Path) -> tuple[str, tuple[Session, ...]]:
    """The run's name and its sessions; a last line that was cut is left out. BadInput where the
    file cannot be read or a line in its midst is no session's."""
    file = folder / SAMPLES_NAME
    found: list[Session] = []
    name = ""
    try:
        with file.open("rb") as stream:
            number = 0
            while line := stream.readline(LINE_LIMIT_BYTES):
                number += 1
                if number == 1:
                    name = _decoded(line, _Run, file, number).run
                elif line.strip() and b'"case"' in line:
                    if not line.endswith(b"\n"):
                        break
                    found.append(_session(_decoded(line, _Line, file, number)))
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(file)) from None
    return name, tuple(found)


def _session(line: _Line) -> Session:
    return Session(
        case=Case(
            number=line.case.number, candidate=line.case.candidate, session=line.case.session
        ),
        outcome=line.outcome,
        samples=line.samples,
        started_at=line.started_at,
    )


def _decoded(line: bytes, type_: type, file: Path, number: int):  # type: ignore[no-untyped-def]
    try:
        return msgspec.json.decode(line, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"not a line of samples: {error}", file=str(file), line=number) from None
