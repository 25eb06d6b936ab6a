"""Peer-to-peer tests between GPUs: p2pBandwidthLatencyTest, simpleP2P, `nvidia-smi topo -p2p`,
nvbandwidth.

In: what the programs print, whole or in part. Out: one PeerMatrix per run. The CUDA sample prints
bus numbers in hexadecimal; "P2P=Disabled" copies go through host memory.
"""

from __future__ import annotations

import re

from bench.formats.peer_lines import Run
from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, PeerMatrix

KIND = "peer-to-peer test"

_SIGNS = re.compile(
    r"Device=\d{1,3} CAN(?:NOT)? Access Peer Device=\d|P2P Connectivity Matrix"
    r"|P2P=(?:En|Dis)abled (?:Bandwidth|Latency)|> Peer access from .{1,160} -> "
    r"|memcpy (?:CE|SM) (?:GPU|CPU)\(row\)|P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test"
)
_STATUS_ROW = re.compile(
    r"\s{0,4}(?:[\w.-]{1,40}: )?\s{0,4}GPU\d{1,3}\s{1,8}"
    r"(?:X\s{1,8}(?:OK|CNS|GNS|TNS|NS|DR|U)|(?:OK|CNS|GNS|TNS|NS|DR|U)\s{1,8}X)\b"
)


def likeness(head: str, name: str) -> float:
    """1 where a line is one of these programs' own."""
    if _SIGNS.search(head):
        return 1.0
    return 1.0 if any(map(_STATUS_ROW.match, head.split("\n"))) else 0.0


def read(source: Source) -> tuple[PeerMatrix, ...]:
    """Every run of the file; BadInput where there is none."""
    readers = by_process(source, lambda host: _Reader(source.file, host))
    found = [run for reader in readers for run in reader.runs()]
    if not found:
        raise BadInput("holds no result of a peer-to-peer test", file=source.file)
    return tuple(found)


class _Reader:
    """The lines of one host: a run ends where the next one's first line comes."""

    def __init__(self, file: str, host: str | None) -> None:
        self.file, self.host = file, host
        self._run = Run()
        self._done: list[PeerMatrix] = []

    def feed(self, number: int, text: str) -> None:
        if self._run.is_full(text):
            self._close()
        self._run.feed(number, text)

    def runs(self) -> list[PeerMatrix]:
        self._close()
        return self._done

    def _close(self) -> None:
        record = self._run.record(self.file, self.host)
        if record is not None:
            self._done.append(record)
        self._run = Run()
