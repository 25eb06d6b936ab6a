"""Evidence as `read` gathers it: recognised sources in one Dossier, and what is judged of it."""

from __future__ import annotations

from typing import Any

from bench.formats import recognition
from bench.formats.source import Source
from bench.judge.foreign.verdict import judge
from bench.records import Dossier, Reading


def dossier(*sources: Source) -> Dossier:
    """All that the sources hold, under the names of their files."""
    fields: dict[str, list[Any]] = {}
    files: list[Any] = []
    for source in sources:
        records, names = recognition.read(source)
        files += names
        for record in records:
            fields.setdefault(recognition.FIELDS[type(record)], []).append(record)
    return Dossier(files=tuple(files), **{name: tuple(found) for name, found in fields.items()})


def judged_from(*sources: Source) -> Reading:
    """What is judged of all of them together."""
    return judge(dossier(*sources))
