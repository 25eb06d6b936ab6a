"""`nvidia-smi topo -m`: how GPUs and NICs of a host reach each other.

In: the command's output of any driver, whole or hand-reduced, with tabs or spaces, wrapped lines,
NIC rows or not, several hosts' or several runs' in one file. Out: one TopologyMatrix each. Words
of the cells: `nvidia-smi topo -h`; what NCCL makes of them is the judge's business.
"""

from __future__ import annotations

import re

from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, MatrixLink, TopologyMatrix

KIND = "nvidia-smi topo -m"

# 72 GPUs of a rack and as many NICs; the largest seen have 54 columns. Cells grow with the square.
MAX_COLUMNS = 160
MAX_NOTES = 64
MAX_HEADER = 16 << 10  # characters

# Drivers before 384 write SOC for what is SYS now, and PSB for a dual-GPU board's own switch.
_OLD_WORDS = {"SOC": "SYS", "PSB": "PIX"}
_WORDS = {"X", "SYS", "NODE", "PHB", "PXB", "PIX", "SOC", "PSB", "N/A", "UNK"}
_NVLINKS = re.compile(r"NV(\d{1,3})\Z")
_GPU = re.compile(r"GPU\d{1,4}\Z")
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}\Z")
_CPUS = re.compile(r"[0-9][0-9,-]*\Z")
_COLUMN = re.compile(r"(?:GPU|NIC)\d{1,4}\Z|[a-z][A-Za-z_.-]*[0-9][A-Za-z0-9_.-]*\Z")
# "NIC0: mlx5_0" of the legend, "NIC0: rocep80s0 -> ens2005np0 10.32.16.0/24 (rail 0)", "OOB : …"
_NOTE = re.compile(r"\s{0,8}(?P<device>[A-Z]{2,8}\d{0,4})\s{0,4}:\s+(?P<text>\S.{0,400})")
_AFFINITY = re.compile(r"\b(?:CPU Affinity|GPU NUMA ID|NUMA Affinity)")


def likeness(head: str, name: str) -> float:
    """1 where a header of GPUs is followed by a row of link words."""
    columns: list[str] | None = None
    for line in head.split("\n"):
        if "GPU" not in line:
            continue
        words = line.split()
        if columns and any(
            at + 1 < len(words) and word in columns and _are_links(words[at + 1 :], columns)
            for at, word in enumerate(words[:3])  # a launcher's prefix may stand in front
        ):
            return 1.0
        columns = _header(line) or columns
    return 0.0


def read(source: Source) -> tuple[TopologyMatrix, ...]:
    """Every matrix of the file, in order; BadInput where there is none."""
    readers = by_process(source, lambda host: _Reader(source.file, host))
    found = [matrix for reader in readers for matrix in reader.matrices()]
    if not found:
        raise BadInput("holds no matrix of nvidia-smi topo -m", file=source.file)
    return tuple(sorted(found, key=lambda matrix: matrix.line))


def _is_link(word: str) -> bool:
    return word in _WORDS or bool(_NVLINKS.match(word))


def _are_links(words: list[str], columns: list[str]) -> bool:
    """Not the OK and NS of `topo -p2p`, whose diagonal is an X too."""
    cells = words[: len(columns)]
    return all(map(_is_link, cells[:2])) and (len(columns) == 1 or cells[:2] != ["X"])


def _header(line: str) -> list[str] | None:
    """The columns of "GPU0 GPU1 NIC0 CPU Affinity …", whatever stands in front of them."""
    words = line.split()
    first = next((at for at, word in enumerate(words) if _GPU.match(word)), None)
    if first is None:
        return None
    columns = _columns(words[first:])
    alone = len(columns) == 1 and "CPU" not in words[first + 1 :]
    if not columns or len(columns) > MAX_COLUMNS or alone:
        return None
    if len(words) > first + 1 and _is_link(words[first + 1]):
        return None  # a row
    return columns


def _columns(words: list[str]) -> list[str]:
    """Device names up to the words of the affinity columns; empty where it is something else."""
    columns: list[str] = []
    for word in words:
        if word in ("CPU", "NUMA", "GPU", "...", "…"):  # the last two of who shortened it
            break
        if not _DEVICE.match(word) or word in columns or not _COLUMN.match(word):
            return []
        columns.append(word)
    return columns


class _Reader:
    """The lines of one host."""

    def __init__(self, file: str, host: str | None) -> None:
        self.file, self.host = file, host
        self._open: _Matrix | None = None
        self._done: list[TopologyMatrix] = []

    def feed(self, number: int, text: str) -> None:
        if self._open is not None and self._open.feed(text):
            return
        if "GPU" not in text:
            return
        columns = _header(text)
        if columns:
            self._close()
            self._open = _Matrix(number, columns, text)

    def matrices(self) -> list[TopologyMatrix]:
        self._close()
        return self._done

    def _close(self) -> None:
        if self._open is not None and self._open.rows:
            record = self._open.record(self.file, self.host)
            if record.links or len(record.gpus) == 1:  # else it was a matrix of another kind
                self._done.append(record)
        self._open = None


class _Matrix:
    """One matrix as it is read: the header, then rows, then legend and notes."""

    def __init__(self, line: int, columns: list[str], header: str) -> None:
        self.line, self.columns = line, columns
        self.rows: dict[str, list[str]] = {}
        self.tails: dict[str, list[str]] = {}
        self._header = header[:MAX_HEADER]
        self.nic_names: dict[str, str] = {}
        self.notes: list[str] = []
        self._row: str | None = None

    def feed(self, text: str) -> bool:
        """Take a line; False where it is none of this matrix."""
        words = text.split()
        if not words:
            return True
        # In a row of one's own the name comes first, then links; "CPU0" or a word says: not mine.
        if words[0] in self.columns and len(words) > 1 and _is_link(words[1]):
            if words[0] in self.rows:
                return False  # the next run's
            self._row = words[0]
            self.rows[self._row], self.tails[self._row] = [], []
            self._cells(words[1:])
            return True
        if self._row is not None and self._goes_on(words):
            self._cells(words)
            return True
        if self.rows:
            return self._note(text)
        names = _columns(words)
        heading = bool(names) or words[0] in ("CPU", "NUMA", "Affinity", "GPU", "ID")
        if heading and not set(names) & set(self.columns):  # a wrapped header goes on
            self.columns += names[: MAX_COLUMNS - len(self.columns)]
            self._header = f"{self._header} {text}"[:MAX_HEADER]
            return True
        return False

    def _goes_on(self, words: list[str]) -> bool:
        """Whether a line is the rest of the row above: more cells, or only its affinities."""
        assert self._row is not None, "asked for a row"
        if len(self.rows[self._row]) < len(self.columns):
            return _is_link(words[0])
        wanted = len(self.affinities) - len(self.tails[self._row])
        return len(words) <= wanted and all(_CPUS.match(w) or w == "N/A" for w in words)

    @property
    def affinities(self) -> list[str]:
        return _AFFINITY.findall(" ".join(self._header.split()))

    def _cells(self, words: list[str]) -> None:
        assert self._row is not None, "cells belong to a row"
        cells, tail = self.rows[self._row], self.tails[self._row]
        for word in words:
            if len(cells) < len(self.columns) and not tail and _is_link(word):
                cells.append(word)
            elif len(tail) < 4:
                tail.append(word)

    def _note(self, text: str) -> bool:
        match = _NOTE.match(text)
        if not match or not self.rows:
            return False
        device, words = match["device"], match["text"].split()
        if device in self.columns and _DEVICE.match(words[0]):
            self.nic_names.setdefault(device, words[0])
        elif "->" not in words:
            return False
        if len(words) > 1 and len(self.notes) < MAX_NOTES:
            self.notes.append(" ".join(text.split()))
        return True

    def record(self, file: str, host: str | None) -> TopologyMatrix:
        gpus = tuple(name for name in self.columns if _GPU.match(name))
        nics = tuple(name for name in self.columns if name not in gpus)
        links = []
        for source, cells in self.rows.items():
            for destination, word in zip(self.columns, cells, strict=False):
                if source != destination and word not in ("X", "N/A"):
                    links.append(_link(source, destination, word))
        cpus, numa = {}, {}
        for name, tail in self.tails.items():
            if "CPU Affinity" in self.affinities and tail and _CPUS.match(tail[0]):
                cpus[name] = tail[0]
                if "NUMA Affinity" in self.affinities and len(tail) > 1 and _CPUS.match(tail[1]):
                    numa[name] = tail[1]
        return TopologyMatrix(
            file=file,
            line=self.line,
            host=host,
            gpus=gpus,
            nics=nics,
            links=tuple(links),
            nic_names=self.nic_names,
            numa=numa,
            cpus=cpus,
            notes=tuple(self.notes),
            missing=tuple(self._missing(gpus, nics)),
        )

    def _missing(self, gpus: tuple[str, ...], nics: tuple[str, ...]) -> list[str]:
        missing = []
        absent = [name for name in gpus if name not in self.rows]
        if absent:
            missing.append(f"no row of {', '.join(absent[:8])}")
        short = [n for n, cells in self.rows.items() if len(cells) < len(self.columns)]
        if short:
            missing.append(f"fewer cells than columns in the row of {', '.join(short[:8])}")
        if nics and not set(nics) & set(self.rows):
            missing.append("no rows of NICs; their paths are read from the GPUs' rows")
        return missing


def _link(source: str, destination: str, word: str) -> MatrixLink:
    match = _NVLINKS.match(word)
    if match:
        return MatrixLink(source=source, destination=destination, kind="NV", nvlinks=int(match[1]))
    return MatrixLink(source=source, destination=destination, kind=_OLD_WORDS.get(word, word))
