"""One entry of the catalogue: a stable code and what a person wants to read about it."""

from __future__ import annotations

from typing import Literal

from bench.records import Record

Room = Literal["interface", "link", "GPU path", "hang", "launch", "comparison", "measurement"]


class Entry(Record, frozen=True, kw_only=True):
    """`title` is one line; the three texts are paragraphs without line breaks."""

    code: str
    room: Room
    title: str
    meaning: str  # what it means
    established: str  # how it was established, and when the judge abstains
    remedy: str  # how to fix it
