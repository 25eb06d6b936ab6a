"""What copies over a GPU's PCIe link reached, beside what the link says of itself.

In: a report's copies and its GPUs' facts. Out: one `Link` per GPU with the state that can be
believed, its share of what its like reach, and the lines of proof. Nothing is judged here.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.judge.gpu import fleet, ways
from bench.judge.gpu.fleet import Seat
from bench.judge.limits import LANE_GBS
from bench.judge.networks import Networks
from bench.records import CopyFigure, Evidence

# nvbandwidth's README shows 12.36 GB/s on a link of 15.75 (generation 3 x16), 0.785; NCCL counts
# 12, 24 and 48 of 15.75, 31.5 and 63: 0.76. Headers of 24 bytes on packets of 128 or 256 leave
# 0.84 to 0.91. So between 0.75 and 0.85 of the raw rate is a link that does what it says.
USUAL_SHARE = (0.75, 0.85)
LEAST_SIBLINGS = 2
MOST_SIBLINGS = 64  # of other hosts: more tell nothing new, and ten thousand GPUs cost a minute
ALIKE = 0.15  # siblings this near to their median agree with each other

Way = Literal["to-device", "from-device"]
WAYS: tuple[Way, ...] = ("to-device", "from-device")
WORDS = {"to-device": "host to GPU", "from-device": "GPU to host"}


@dataclass(frozen=True)
class Link:
    """One GPU's link: `loaded` where its state was read while copies ran, or on a GPU awake."""

    seat: Seat
    generation: int | None
    width: int | None
    loaded: bool
    figures: tuple[CopyFigure, ...] = ()

    @property
    def text(self) -> str:
        return f"generation {self.generation or '?'} x{self.width or '?'}"

    @property
    def state(self) -> str:
        """As much of it as can be believed."""
        return self.text if self.loaded else f"x{self.width or '?'}"

    @property
    def best(self) -> str:
        gpu = self.seat.gpu
        return f"generation {gpu.pcie_max_generation or '?'} x{gpu.pcie_max_width or '?'}"

    @property
    def rate(self) -> float | None:
        """Raw GB/s of the state that can be believed: the generation only under load."""
        best = self.seat.gpu.pcie_max_generation
        return raw_gbs(self.generation if self.loaded else best, self.width)

    @property
    def far(self) -> bool:
        """Whether the copies could not use memory beside the GPU."""
        return any(figure.near is False for figure in self.figures)

    @property
    def copied_over(self) -> bool:
        """Whether its state was read while copies ran."""
        return any(figure.pcie_width for figure in self.figures)

    @property
    def refuted(self) -> bool:
        """Copies faster than the claimed link could carry: the claim is of an idle moment."""
        raw = raw_gbs(self.generation, self.width)
        most = max((figure.bandwidth_gbs for figure in self.figures), default=0.0)
        return raw is not None and most > raw

    def copied(self, way: Way) -> float | None:
        return next((f.bandwidth_gbs for f in self.figures if f.way == way), None)


def raw_gbs(generation: int | None, width: int | None) -> float | None:
    """GB/s of a link after encoding, in one direction."""
    lane = LANE_GBS.get(generation or 0)
    return lane * width if lane and width else None


class Links:
    """All GPUs but those whose host lies behind NVLink-C2C: little crosses their PCIe link."""

    def __init__(self, net: Networks) -> None:
        figures: dict[tuple[str, int | None], list[CopyFigure]] = {}
        for check in net.report.copies:
            for figure in check.figures:
                if figure.way != "to-peer":
                    figures.setdefault((check.host, figure.gpu), []).append(figure)
        self.all = [
            _link(seat, tuple(figures.get((seat.host.host, seat.gpu.index), ())))
            for seat in fleet.seats(net.report.hosts)
            if not ways.has_c2c(seat.gpu)
        ]
        self._of_host: dict[tuple[str, str | None], list[Link]] = {}
        self.of_model: dict[str | None, list[Link]] = {}
        for link in self.all:
            host, name = link.seat.host.host, link.seat.gpu.name
            self._of_host.setdefault((host, name), []).append(link)
            self.of_model.setdefault(name, []).append(link)

    def siblings(self, link: Link, way: Way) -> list[float]:
        """What others of its model reach: on the same host where there are enough of them."""
        name = link.seat.gpu.name
        near = self._copied(self._of_host[link.seat.host.host, name], link, way)
        if len(near) >= LEAST_SIBLINGS:
            return near
        return self._copied(self.of_model[name][:MOST_SIBLINGS], link, way)

    def _copied(self, group: Sequence[Link], but: Link, way: Way) -> list[float]:
        return [
            rate for other in group if other is not but and (rate := other.copied(way)) is not None
        ]

    def share(self, link: Link, way: Way) -> float | None:
        """Of what its like reach one way; None where too few of them agree."""
        own, others = link.copied(way), self.siblings(link, way)
        if own is None or len(others) < LEAST_SIBLINGS:
            return None
        middle = statistics.median(others)
        agreeing = sum(abs(rate / middle - 1) <= ALIKE for rate in others)
        most = 2 * agreeing > len(others) + 1  # of all, itself included
        return own / middle if most and agreeing >= LEAST_SIBLINGS else None


def _link(seat: Seat, figures: tuple[CopyFigure, ...]) -> Link:
    under_load = [f for f in figures if f.pcie_generation and f.pcie_width]
    awake = max(under_load, key=lambda f: f.pcie_generation or 0, default=None)
    return Link(
        seat=seat,
        generation=awake.pcie_generation if awake else seat.gpu.pcie_generation,
        width=awake.pcie_width if awake else seat.gpu.pcie_width,
        loaded=awake is not None or seat.gpu.pcie_idle is False,
        figures=figures,
    )


def proof(link: Link, links: Links) -> list[Evidence]:
    """The copies of one GPU in words."""
    lines = []
    gpu = link.seat.gpu
    raw = raw_gbs(gpu.pcie_max_generation, gpu.pcie_max_width)
    for way in WAYS:
        own = link.copied(way)
        if own is None:
            continue
        text = f"copies {WORDS[way]} {gpu.index}: {own:.3g} GB/s"
        others = links.siblings(link, way)
        if others:
            text += f", {len(others)} of its model {statistics.median(others):.3g}"
        if raw is not None:
            usual = " to ".join(f"{part * raw:.3g}" for part in USUAL_SHARE)
            text += f"; {usual} is usual over {link.best}"
        lines.append(Evidence(basis="measured", text=text))
    return lines
