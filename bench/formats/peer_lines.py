"""One run of a peer-to-peer test, line by line (see peer_matrix).

In: the lines of a process. Out: what was told of each pair. Tables are recognised by their titles
(cuda-samples p2pBandwidthLatencyTest.cu, simpleP2P.cu; nvbandwidth's testcases).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bench.records import PeerMatrix

MAX_GPUS = 512  # 512 x 512 cells of a table are 2 MB of text

_DEVICE = re.compile(
    r"Device: (?P<gpu>\d{1,3}), (?P<name>.{1,120}?), pciBusID: (?P<bus>[0-9a-fA-F]{1,2}), "
    r"pciDeviceID: (?P<slot>[0-9a-fA-F]{1,2})(?:, pciDomainID: ?(?P<domain>[0-9a-fA-F]{1,8}))?"
)
_ACCESS = re.compile(
    r"Device=(?P<a>\d{1,3}) (?P<can>CAN|CANNOT) Access Peer Device=(?P<b>\d{1,3})"
)
_SIMPLE = re.compile(
    r"> Peer access from (?P<one>.{1,120}?) \(GPU(?P<a>\d{1,3})\) -> (?P<other>.{1,120}?) "
    r"\(GPU(?P<b>\d{1,3})\) : (?P<can>Yes|No)"
)
_COPY = re.compile(
    r"cudaMemcpyPeer / cudaMemcpy between GPU(?P<a>\d{1,3}) and GPU(?P<b>\d{1,3}): "
    r"(?P<gbs>\d{1,5}(?:\.\d{1,6})?) ?GB/s"
)
_WRONG = re.compile(r"Verification error @ element")
_WORDS = ("OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_GPU = re.compile(r"GPU\d{1,3}\Z")
_NVBANDWIDTH = re.compile(
    r"memcpy (?:CE|SM) (?P<row>GPU|CPU)\(row\) (?P<arrow><-|->|<->) (?P<column>GPU|CPU)\(column\)"
    r"(?P<rest>.{0,40})"
)
# A title begins a table; what it holds.
_TITLES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"P2P Connectivity Matrix"), "access"),
    (re.compile(r"Unidirectional P2P=Enabled Bandwidth(?: \(P2P Writes\))? Matrix"), "on"),
    (re.compile(r"Unidirectional P2P=Enabled Bandwidth \(P2P Reads\) Matrix"), "reads"),
    (re.compile(r"Unidirectional P2P=Disabled Bandwidth Matrix"), "off"),
    (re.compile(r"Bidirectional P2P=Enabled Bandwidth"), "both"),
    (re.compile(r"Bidirectional P2P=Disabled Bandwidth"), "both off"),
    (re.compile(r"P2P=Enabled Latency"), "latency"),
    (re.compile(r"P2P=Disabled Latency"), "latency off"),
)


class Run:
    """What one run has told so far."""

    def __init__(self) -> None:
        self.line = 0
        self.tool: str | None = None
        self.names: dict[int, str] = {}
        self.bus_ids: dict[int, str] = {}
        self.tables: dict[str, dict[str, float]] = {}
        self.status: dict[str, str] = {}
        self.wrong = 0
        self.failed = False
        self._table: str | None = None
        self._columns: list[int] = []
        self._status_columns: list[str] = []

    def is_full(self, text: str) -> bool:
        """Whether this line can only begin another run."""
        if not self.line:
            return False
        if "P2P Connectivity Matrix" in text:
            return "access" in self.tables
        match = _DEVICE.search(text) if "pciBusID" in text else None
        if match:
            return int(match["gpu"]) in self.names
        words = text.split()
        return bool(
            self._status_columns and len(words) > 1 and all(map(_GPU.match, words)) and self.status
        )

    def feed(self, number: int, text: str) -> None:
        for sign, take in _LINES:
            if sign in text:
                take(self, text)
                break
        else:
            self._row(text)
        if not self.line and (self.tool or self.status):
            self.line = number

    def _row(self, text: str) -> None:
        words = text.split()
        if not words:
            self._columns = []
            return
        if _GPU.match(words[0]):
            self._status_row(words)
            return
        if self._table is None or len(words) > MAX_GPUS + 1:
            return
        if words[0] in ("D\\D", "GPU", "CPU"):
            # The CPU's table of latencies follows the GPU's, which is the one that is kept.
            self._columns = [] if words[0] == "CPU" else _numbers(words[1:])
        elif not self._columns and "nvbandwidth" in self._table:
            self._columns = _numbers(words)
        elif self._columns and words[0].isdecimal() and len(words[0]) < 4:
            self._cells(int(words[0]), words[1:])

    def _cells(self, row: int, words: list[str]) -> None:
        assert self._table is not None, "cells belong to a table"
        cells = self.tables.setdefault(self._table, {})
        for column, word in zip(self._columns, words, strict=False):
            value = _value(word)
            if value is not None and row < MAX_GPUS:
                cells[f"{row}-{column}"] = value

    def _status_row(self, words: list[str]) -> None:
        if len(words) > 1 and all(map(_GPU.match, words)) and len(words) <= MAX_GPUS:
            self._status_columns = words
        elif words[0] in self._status_columns:
            cells = words[1:]
            if not all(cell == "X" or cell in _WORDS for cell in cells):
                return
            for column, cell in zip(self._status_columns, cells, strict=False):
                if cell != "X":
                    self.status[f"{int(words[0][3:])}-{int(column[3:])}"] = cell
                    self.tool = self.tool or "nvidia-smi topo -p2p"

    def take_title(self, text: str) -> None:
        for pattern, table in _TITLES:
            if pattern.search(text):
                self._table, self._columns = table, []
                self.tool = "p2pBandwidthLatencyTest"
                return

    def take_nvbandwidth(self, text: str) -> None:
        match = _NVBANDWIDTH.search(text)
        if not match:
            return
        self.tool, self._columns = "nvbandwidth", []
        on_host = "CPU" in (match["row"], match["column"])
        if on_host:
            # From the host's memory; the way back is told by its own testcase.
            self._table = "nvbandwidth host" if match["arrow"] == "->" else "nvbandwidth other"
        elif match["arrow"] == "<->":
            total = "Total" in match["rest"]
            self._table = "nvbandwidth both" if total else "nvbandwidth other"
        else:
            self._table = "nvbandwidth on"

    def take_device(self, text: str) -> None:
        match = _DEVICE.search(text)
        if match and len(self.names) < MAX_GPUS:
            gpu = int(match["gpu"])
            self.names[gpu] = match["name"]
            domain, bus = int(match["domain"] or "0", 16), int(match["bus"], 16)
            self.bus_ids[gpu] = f"{domain:04x}:{bus:02x}:{int(match['slot'], 16):02x}.0"
            self.tool = self.tool or "p2pBandwidthLatencyTest"

    def take_access(self, text: str) -> None:
        match = _ACCESS.search(text)
        if match:
            pair = f"{int(match['a'])}-{int(match['b'])}"
            self.status[pair] = "OK" if match["can"] == "CAN" else "NO"
            self.tool = self.tool or "p2pBandwidthLatencyTest"

    def take_simple(self, text: str) -> None:
        match = _SIMPLE.search(text)
        if match:
            a, b = int(match["a"]), int(match["b"])
            self.status[f"{a}-{b}"] = "OK" if match["can"] == "Yes" else "NO"
            self.names.setdefault(a, match["one"])
            self.names.setdefault(b, match["other"])
            self.tool = "simpleP2P"

    def take_copy(self, text: str) -> None:
        match = _COPY.search(text)
        if match:
            pair = f"{int(match['a'])}-{int(match['b'])}"
            self.tables.setdefault("on", {})[pair] = float(match["gbs"])
            self.tool = "simpleP2P"

    def take_wrong(self, text: str) -> None:
        self.wrong += 1 if _WRONG.search(text) else 0

    def take_verdict(self, text: str) -> None:
        self.failed = self.failed or self.tool == "simpleP2P"

    def record(self, file: str, host: str | None) -> PeerMatrix | None:
        access = self.tables.get("access", {})
        status = {
            **{pair: "OK" if value else "NO" for pair, value in _between(access).items()},
            **self.status,
        }
        on = self.tables.get("on") or self.tables.get("nvbandwidth on") or self.tables.get("reads")
        both = self.tables.get("both") or self.tables.get("nvbandwidth both")
        host_gbs = {
            int(pair.partition("-")[2]): value
            for pair, value in self.tables.get("nvbandwidth host", {}).items()
        }
        pairs = {*status, *(on or {}), *self.tables.get("off", {}), *(both or {})}
        gpus = {int(gpu) for pair in pairs for gpu in pair.split("-")} | {*self.names, *host_gbs}
        if not pairs and not host_gbs:
            return None
        return PeerMatrix(
            file=file,
            line=self.line,
            gpus=len(gpus),
            tool=self.tool,
            host=host,
            names=tuple(self.names[gpu] for gpu in sorted(self.names)),
            bus_ids=tuple(self.bus_ids[gpu] for gpu in sorted(self.bus_ids)),
            status=status,
            bandwidth_gbs=_between(on or {}),
            staged_gbs=_between(self.tables.get("off", {})),
            both_ways_gbs=_between(both or {}),
            staged_both_ways_gbs=_between(self.tables.get("both off", {})),
            latency_us=_between(self.tables.get("latency", {})),
            host_gbs=host_gbs,
            wrong=self.wrong,
            failed=self.failed,
        )


_LINES: tuple[tuple[str, Callable[[Run, str], None]], ...] = (
    ("Access Peer Device=", Run.take_access),
    ("pciBusID", Run.take_device),
    ("Peer access from", Run.take_simple),
    ("cudaMemcpyPeer / cudaMemcpy between", Run.take_copy),
    ("Verification error", Run.take_wrong),
    ("Test failed!", Run.take_verdict),
    ("(row)", Run.take_nvbandwidth),
    ("P2P=", Run.take_title),
    ("P2P Connectivity Matrix", Run.take_title),
)


def _between(table: dict[str, float]) -> dict[str, float]:
    """Without the diagonal, which is a GPU's own memory."""
    return {pair: value for pair, value in table.items() if len(set(pair.split("-"))) == 2}


def _numbers(words: list[str]) -> list[int]:
    fits = all(word.isdecimal() and len(word) < 4 for word in words)
    return [int(word) for word in words] if fits else []


def _value(word: str) -> float | None:
    try:
        value = float(word) if len(word) < 16 else None
    except ValueError:
        return None  # N/A
    return value if value is not None and 0 <= value < 1e7 else None
