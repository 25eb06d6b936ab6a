"""A CSV (or TSV) of hosts against hosts: a row and a column each, a bandwidth in every cell.

In: numbered lines. Out: one PlainFigure a cell, in the order of the file; empty where the lines
are no such table: its columns and rows must be called alike, and three of them at least. Both
halves of it count where they differ (one that mirrors the other is no measurement), and what
stands at a host's own place does not. GPUs of one host against each other are another format's
(peer_matrix).
"""

from __future__ import annotations

import csv
import re

from bench.formats.bandwidth_unit import factor_to_gbs, unit_in
from bench.records import PlainFigure

FEWEST, MOST = 3, 1500  # hosts
NOTHING = {"", "-", "x", "na", "n/a", "nan", "none", "null"}
_NAME = re.compile(r"(?!GPU\d{1,3}\Z)(?:[A-Za-z][A-Za-z0-9._-]{0,62}|\d{1,3}(?:\.\d{1,3}){3})\Z")
_CELL = re.compile(r"\d{1,7}(?:\.\d{1,9})?\Z")

Numbered = list[tuple[int, str]]


def columns_of(lines: list[str]) -> tuple[int, str, list[str]] | None:
    """Place, separator and hosts of the heading: the first line that is none but comments, if the
    next begins with the name of one of them."""
    told = [(at, line) for at, line in enumerate(lines[:40]) if _tells(line)][:2]
    if len(told) < 2:
        return None
    (at, heading), (_, first) = told
    for separator in (",", "\t", ";"):
        names = _cells(heading, separator)[1:]
        alike = FEWEST <= len(names) <= MOST and len(set(names)) == len(names)
        if alike and all(map(_NAME.match, names)) and _cells(first, separator)[0] in names:
            return at, separator, names
    return None


def read(file: str, numbered: Numbered) -> tuple[PlainFigure, ...]:
    """The cells that are filled; empty where a row is called otherwise or a cell is no number."""
    heading = columns_of([line for _, line in numbered])
    if heading is None:
        return ()
    start, separator, names = heading
    unit = next((found for _, line in numbered[: start + 1] if (found := unit_in(line))), None)
    factor = factor_to_gbs(unit)
    figures = []
    rows: set[str] = set()
    seen: dict[tuple[str, str], str] = {}
    for number, line in numbered[start + 1 :]:
        if not _tells(line):
            continue
        host, *cells = _cells(line, separator)
        if host not in names or host in rows or len(cells) > len(names):
            return ()
        rows.add(host)
        for other, cell in zip(names, cells, strict=False):
            if cell.lower() in NOTHING or other == host:
                continue
            if not _CELL.match(cell):
                return ()
            seen[host, other] = cell
            if seen.get((other, host)) == cell:
                continue
            busbw_gbs = float(cell) * factor
            figures.append(
                PlainFigure(file=file, line=number, busbw_gbs=busbw_gbs, hosts=(host, other))
            )
    return tuple(figures)


def _tells(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _cells(line: str, separator: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=separator))
    except csv.Error:
        return [""]
    return [cell.strip() for cell in rows[0]] if rows and rows[0] else [""]
