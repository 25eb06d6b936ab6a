"""Copies between host and GPUs as rows of a table.

In: a report's copy checks. Out: one row per GPU: both ways to the host, the link while it worked,
and the neighbours. Figures are medians; what was not copied is an en dash.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.records import CopyCheck, CopyFigure, Report
from bench.report import units


@dataclass(frozen=True)
class CopyRow:
    """One GPU of one host; `peers` is "GPU 1: 320 GB/s, GPU 7: 318 GB/s"."""

    host: str
    gpu: str
    from_host: str
    to_host: str
    link: str
    peers: str


def rows(report: Report) -> list[CopyRow]:
    """All GPUs that were copied to or from, hosts in the report's order."""
    return [
        _row(check, device)
        for check in report.copies
        for device in dict.fromkeys(figure.device for figure in check.figures)
    ]


def _row(check: CopyCheck, device: int) -> CopyRow:
    own = [figure for figure in check.figures if figure.device == device]
    by_way = {figure.way: figure for figure in own}
    links = [f"{f.pcie_generation}x{f.pcie_width}" for f in own if f.pcie_generation]
    peers = [
        f"{_name(f.peer, f.peer_device)}: {_rate(f)}"
        + ("" if f.direct is not False else " through the host")
        for f in own
        if f.way == "to-peer"
    ]
    return CopyRow(
        host=check.host,
        gpu=_name(own[0].gpu, device),
        from_host=_rate(by_way.get("to-device")),
        to_host=_rate(by_way.get("from-device")),
        link=max(links, default=units.UNKNOWN),
        peers=", ".join(peers) or units.UNKNOWN,
    )


def _name(gpu: int | None, device: int | None) -> str:
    """NVML's number; CUDA's own where they could not be matched."""
    return f"GPU {gpu}" if gpu is not None else f"CUDA device {device}"


def _rate(figure: CopyFigure | None) -> str:
    if figure is None:
        return units.UNKNOWN
    wrong = f", {figure.wrong:,} wrong" if figure.wrong else ""
    return f"{units.busbw(figure.bandwidth_gbs)}{wrong}"
