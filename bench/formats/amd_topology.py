"""`rocm-smi --showtopo` and `amd-smi topology`: weights, hops and link types between AMD GPUs.

In: the command's output, any of its tables. Out: one TopologyMatrix. AMD's "hops" counts 1 for
every XGMI path, direct or not, and 2 or 3 for PCIe over one or two sockets (AMD's MI200 guide).
"""

from __future__ import annotations

import re

from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, MatrixLink, TopologyMatrix

KIND = "rocm-smi --showtopo"

MAX_GPUS = 160

_TITLE = re.compile(
    r"[=\s]{0,120}(?P<what>Weight|Hops|Link Type|Access) between two GPUs"
    r"|\s{0,8}(?P<table>WEIGHT|HOPS|LINK TYPE|ACCESS) TABLE",
)
# "NUMA BW TABLE:", "DMA TABLE:": what they tell is not kept.
_OTHER_TITLE = re.compile(r"\s{0,8}[A-Z][A-Z -]{1,40} TABLE:?\s{0,80}\Z")
# GPU0, or amd-smi's 0000:0c:00.0
_DEVICE = re.compile(r"(?:GPU\d{1,4}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)\Z")
_NUMA = re.compile(
    r"GPU\s?\[?(?P<gpu>\d{1,4})\]?\s{0,20}:\s{0,4}\(Topology\) Numa Node:\s{1,4}"
    r"(?P<node>-?\d{1,4})"
)
_TYPES = {"XGMI": "XGMI", "PCIE": "PCIE"}


def likeness(head: str, name: str) -> float:
    """1 where one of its tables begins."""
    return 1.0 if any(map(_TITLE.match, _candidates(head))) else 0.0


def _candidates(head: str) -> list[str]:
    return [line for line in head.split("\n") if "between two GPUs" in line or "TABLE" in line]


def read(source: Source) -> tuple[TopologyMatrix, ...]:
    """One matrix a host; BadInput where there is no table of link types, hops or weights."""
    readers = by_process(source, _Tables)
    found = [record for reader in readers if (record := reader.record(source.file)) is not None]
    if not found:
        raise BadInput("holds no table of rocm-smi --showtopo", file=source.file)
    return tuple(found)


class _Tables:
    """The tables of one host; cells are (row, column) -> word, by table."""

    def __init__(self, host: str | None) -> None:
        self.host = host
        self.line = 0
        self._cells: dict[str, dict[tuple[str, str], str]] = {}
        self._columns: list[str] = []
        self._all: dict[str, None] = {}
        self._table: str | None = None
        self._numa: dict[str, str] = {}

    def feed(self, number: int, text: str) -> None:
        match = _TITLE.match(text)
        if match:
            self._table = (match["what"] or match["table"]).lower()
            self._columns = []
            self.line = self.line or number
            return
        if _OTHER_TITLE.match(text):
            self._table = None
            return
        numa = _NUMA.match(text) if "Numa" in text else None
        if numa:
            self._numa[f"GPU{numa['gpu']}"] = numa["node"]
            return
        if self._table is None:
            return
        words = text.split()
        if not words or not _DEVICE.match(words[0]):
            return
        if all(map(_DEVICE.match, words)) and len(words) <= MAX_GPUS and not self._columns:
            self._columns = words
            self._all.update(dict.fromkeys(words))
        elif len(words) > 1 and words[0] in self._all:
            cells = self._cells.setdefault(self._table, {})
            for column, word in zip(self._columns, words[1:], strict=False):
                cells[words[0], column] = word

    def record(self, file: str) -> TopologyMatrix | None:
        types = self._cells.get("link type", {})
        weights, hops = self._cells.get("weight", {}), self._cells.get("hops", {})
        pairs = dict.fromkeys([*types, *hops, *weights])
        links = [
            MatrixLink(
                source=source,
                destination=destination,
                kind=_TYPES.get(types.get((source, destination), ""), "UNK"),
                hops=_number(hops.get((source, destination))),
                weight=_number(weights.get((source, destination))),
            )
            for source, destination in pairs
            if source != destination
        ]
        if not self._all or not pairs:
            return None
        return TopologyMatrix(
            file=file,
            line=self.line,
            host=self.host,
            vendor="amd",
            gpus=tuple(self._all),
            links=tuple(links),
            numa=self._numa,
            missing=() if types else ("no table of link types",),
        )


def _number(word: str | None) -> int | None:
    return int(word) if word and word.isascii() and word.isdigit() and len(word) < 10 else None
