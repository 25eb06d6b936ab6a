"""Dumps through the real reader and the real judge, from bytes to findings."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.formats import flight_dump
from bench.formats.source import Source
from bench.hang import flight
from bench.hang.selection import Selection
from bench.judge.docket import Docket
from bench.records import Finding, FlightDump, FlightPicture
from tests.hang.job import Job, as_json


@dataclass(frozen=True)
class Judged:
    picture: FlightPicture
    findings: tuple[Finding, ...]

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    @property
    def only(self) -> Finding:
        (finding,) = self.findings
        return finding


def job(
    made: Job,
    ranks: Sequence[int] | None = None,
    *,
    name: str = "rank_{rank}",
    form: str = "pickle",
    selection: Selection | None = None,
) -> Judged:
    """The dumps of these ranks, in this order."""
    dumps = []
    for rank in range(made.world) if ranks is None else ranks:
        told = made.dump(rank)
        data = pickle.dumps(told, protocol=2) if form == "pickle" else as_json(told)
        dumps.append(flight_dump.read(Source.of_text(data, name.format(rank=rank))))
    return of(dumps, selection)


def dumps(told: Mapping[int, dict[str, Any]]) -> Judged:
    """Dumps as torch writes them, by rank."""
    return of(
        [
            flight_dump.read(Source.of_text(pickle.dumps(dump, protocol=2), f"rank_{rank}"))
            for rank, dump in told.items()
        ]
    )


def of(dumps: Sequence[FlightDump], selection: Selection | None = None) -> Judged:
    docket = Docket()
    picture = flight.judge(dumps, docket, selection=selection)
    return Judged(picture, docket.findings)


def files(folder: Path, pattern: str = "*") -> Judged:
    paths = sorted(path for path in folder.glob(pattern) if path.suffix not in (".txt", ".md"))
    return of([flight_dump.read(Source.open(path)) for path in paths])
