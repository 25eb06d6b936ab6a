"""`nvidia-smi --query-gpu=…pcie.link… --format=csv` and the PCI part of `nvidia-smi -q`.

In: the command's output. Out: one PciBridge per GPU with the link it has and the one it can have.
A generation is told as GT/s per lane; a GPU at rest lowers it, so the judge needs more than that.
"""

from __future__ import annotations

import re
from typing import Any

from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, PciBridge

KIND = "nvidia-smi PCIe link"

MAX_GPUS = 4096
GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

_COLUMNS = {
    "pcie.link.gen.current": "link_gts",
    "pcie.link.gen.gpucurrent": "link_gts",
    "pcie.link.gen.max": "max_link_gts",
    "pcie.link.gen.gpumax": "max_link_gts",
    "pcie.link.width.current": "link_width",
    "pcie.link.width.max": "max_link_width",
    "index": "index",
    "gpu_name": "name",
    "name": "name",
    "pci.bus_id": "address",
    "gpu_bus_id": "address",
}
_QUERY_GPU = re.compile(
    r"GPU (?P<address>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s{0,8}\Z"
)
_QUERY_FIELD = re.compile(
    r"\s{4,40}(?P<name>[A-Z][A-Za-z ]{2,40}?)\s{0,40}(?::\s{0,4}(?P<value>.{1,80}))?\Z"
)
_SECTIONS = {"PCIe Generation": "generation", "Link Width": "width"}


def likeness(head: str, name: str) -> float:
    """1 for a CSV with PCIe columns, or the section of nvidia-smi -q."""
    if "pcie.link." in head and any(_header(line) for line in head.split("\n")):
        return 1.0
    return 0.9 if "GPU Link Info" in head and "PCIe Generation" in head else 0.0


def read(source: Source) -> tuple[PciBridge, ...]:
    """One record a GPU; BadInput where no link is told."""
    readers = by_process(source, lambda host: _Reader(source.file, host))
    found = [gpu for reader in readers for gpu in reader.gpus()]
    if not found:
        raise BadInput("holds no PCIe link of nvidia-smi", file=source.file)
    return tuple(found)


def _header(line: str) -> list[str] | None:
    names = [name.strip().partition(" [")[0] for name in line.split(",")]
    return names if any(name in _COLUMNS and "pcie" in name for name in names) else None


class _Reader:
    """The lines of one host."""

    def __init__(self, file: str, host: str | None) -> None:
        self.file, self.host = file, host
        self._names: list[str] = []
        self._done: list[dict[str, Any]] = []
        self._section: str | None = None

    def feed(self, number: int, text: str) -> None:
        header = _header(text) if "pcie.link." in text else None
        if header:
            self._names = header if "--query" not in text else []
            return
        if self._names and text.count(",") + 1 == len(self._names):
            self._row(number, [cell.strip() for cell in text.split(",")])
            return
        gpu = _QUERY_GPU.match(text)
        if gpu and len(self._done) < MAX_GPUS:
            index = len(self._done)
            self._done.append({"line": number, "address": gpu["address"].lower(), "index": index})
            self._section = None
        elif self._done and (field := _QUERY_FIELD.match(text)):
            self._field(field["name"], field["value"])

    def _row(self, number: int, cells: list[str]) -> None:
        fields: dict[str, Any] = {"line": number, "address": ""}
        for name, cell in zip(self._names, cells, strict=True):
            key = _COLUMNS.get(name)
            if key in ("address", "name"):
                fields[key] = cell.lower()[:80] if key == "address" else cell[:80]
            elif key and cell.isdecimal() and len(cell) < 5:
                value = int(cell)
                fields[key] = GTS.get(value) if key.endswith("_gts") else value
        if any(key.endswith(("_gts", "_width")) for key in fields) and len(self._done) < MAX_GPUS:
            fields.setdefault("index", len(self._done))
            self._done.append(fields)

    def _field(self, name: str, value: str | None) -> None:
        if name in _SECTIONS:
            self._section = _SECTIONS[name]
            return
        if value is None or self._section is None or name not in ("Max", "Current"):
            if value is not None and name in ("Bridge Chip", "Product Name"):
                self._section = None
            return
        before = "max_link" if name == "Max" else "link"
        digits = value.strip().rstrip("x")
        if not digits.isdecimal() or len(digits) > 3:
            return
        last = self._done[-1]
        if self._section == "generation":
            last[f"{before}_gts"] = GTS.get(int(digits))
        else:
            last[f"{before}_width"] = int(digits)

    def gpus(self) -> list[PciBridge]:
        told = [f for f in self._done if any(k.endswith(("_gts", "_width")) for k in f)]
        return [PciBridge(file=self.file, host=self.host, kind="gpu", **f) for f in told]
