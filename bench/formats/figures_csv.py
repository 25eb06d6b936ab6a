"""A CSV (or TSV) whose header names a bandwidth: state,test,ranks,size_bytes,busbw_GBps.

In: numbered lines. Out: one PlainFigure a row: bandwidth, ranks, size and hosts by their usual
names, every other column a label. Empty where the lines are no such table.
"""

from __future__ import annotations

import csv
import re

from bench.formats.bandwidth_unit import factor_to_gbs, unit_in
from bench.formats.figure_label import halves, size_of
from bench.records import PlainFigure

MAX_COLUMNS = 64

_BANDWIDTH = re.compile(
    r"(?:bus_?bw|bus_?bandwidth|alg_?bw|alg_?bandwidth|bandwidth|throughput|(?<![a-z])bw(?![a-z]))"
)
_BEST_FIRST = ("busbw", "bus_bw", "bus", "bandwidth", "bw", "alg", "throughput")
_RANKS = {"ranks", "nranks", "num_ranks", "n_ranks", "world_size", "worldsize", "gpus", "ngpus"}
_SIZE = {"size_bytes", "size", "bytes", "message_size", "msg_size", "size(b)", "size_b"}
_HOSTS = {
    "host", "hosts", "node", "nodes", "hostname", "pair", "src", "dst", "source", "destination",
    "host_a", "host_b", "hosta", "hostb", "host1", "host2", "node1", "node2", "node_a", "node_b",
    "from", "to", "client", "server",
}  # fmt: skip
_PAIR = {"pair", "pairs", "hosts", "nodes", "link"}
_NOTES = {"note", "notes", "remark", "comment"}


def header_of(lines: list[str]) -> tuple[int, str, list[str]] | None:
    """Place, separator and columns of the header: the first line that is none but comments."""
    for at, line in enumerate(lines[:20]):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        for separator in (",", "\t", ";"):
            names = [name.strip().strip("\"'") for name in line.split(separator)]
            if 2 <= len(names) <= MAX_COLUMNS and _bandwidth(names) is not None:
                return at, separator, names
        return None
    return None


def _bandwidth(names: list[str]) -> int | None:
    """The column of the bandwidth that counts most: busbw before algbw."""
    if any(re.fullmatch(r"[\d.+-]+", name) for name in names):
        return None  # a row, not a header
    found = [at for at, name in enumerate(names) if _BANDWIDTH.search(name.lower())]

    def rank(at: int) -> int:
        name = names[at].lower()
        return next((r for r, word in enumerate(_BEST_FIRST) if word in name), len(_BEST_FIRST))

    return min(found, key=rank, default=None)


def read(file: str, numbered: list[tuple[int, str]]) -> tuple[PlainFigure, ...]:
    """The rows, in order; rows without a number are left out."""
    header = header_of([line for _, line in numbered])
    if header is None:
        return ()
    start, separator, names = header
    at = _bandwidth(names)
    assert at is not None, "header_of found it"
    factor = factor_to_gbs(unit_in(names[at]), column=names[at])
    figures = []
    for number, line in numbered[start + 1 :]:
        if line.lstrip().startswith("#"):
            continue
        cells = _cells(line, separator)
        figure = _figure(file, number, names, cells, at, factor)
        if figure is not None:
            figures.append(figure)
    return tuple(figures)


def _cells(line: str, separator: str) -> list[str]:
    try:
        rows = list(csv.reader([line], delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return []
    return [cell.strip()[:400] for cell in rows[0][:MAX_COLUMNS]] if rows else []


def _figure(
    file: str, number: int, names: list[str], cells: list[str], at: int, factor: float
) -> PlainFigure | None:
    if at >= len(cells):
        return None
    value = _number(cells[at])
    if value is None:
        return None
    labels: dict[str, str] = {}
    hosts: list[str] = []
    ranks = size = note = None
    for name, cell in zip(names, cells, strict=False):
        lowered = name.lower().replace(" ", "_")
        if name == names[at] or not cell:
            continue
        if lowered in _RANKS and cell.isdecimal() and len(cell) < 8:
            ranks = int(cell)
        elif lowered in _SIZE and size_of(cell) is not None:
            size = size_of(cell)
        elif lowered in _PAIR and (both := halves(cell)) is not None:
            hosts += both
        elif lowered in _HOSTS and not cell.replace(".", "").isdigit():
            hosts += [host for host in re.split(r"[,;+&/ ]+|<->|->", cell) if host]
        elif lowered in _NOTES:
            note = cell
        else:
            labels[name] = cell
    return PlainFigure(
        file=file,
        line=number,
        busbw_gbs=value * factor,
        hosts=tuple(dict.fromkeys(hosts)),
        labels=labels,
        ranks=ranks,
        size_bytes=size,
        quantity=names[at],
        note=note,
    )


def _number(text: str) -> float | None:
    try:
        value = float(text) if len(text) < 24 else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e9 else None
