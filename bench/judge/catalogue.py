"""The catalogue of findings: every code that any part of the project may raise.

Codes are stable. A finding is added by one Entry in entries/ before anything raises it; `explain
CODE` prints the entry, and a test holds every raised code against this table.
"""

from __future__ import annotations

import difflib

from bench.judge.entries import figures, gpu_path, interface, jobs, link
from bench.judge.entry import Entry
from bench.records import BadInput

__all__ = ["CATALOGUE", "Entry", "entry"]

CATALOGUE: dict[str, Entry] = {
    entry.code: entry
    for room in (interface, link, gpu_path, jobs, figures)
    for entry in room.ENTRIES
}
ORDER = {code: at for at, code in enumerate(CATALOGUE)}


def entry(code: str) -> Entry:
    """The entry of a code. Raises BadInput with the nearest code for one that is not there."""
    found = CATALOGUE.get(code.strip().lower())
    if found is None:
        near = difflib.get_close_matches(code.strip().lower(), CATALOGUE, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadInput(f"no finding is called {code!r}{hint}")
    return found
