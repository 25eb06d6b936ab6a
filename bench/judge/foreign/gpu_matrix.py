"""A matrix of nvidia-smi as questions are put to it: pairs, NVLinks per GPU, near NICs, sockets.

In: a TopologyMatrix. Out: answers; nothing is judged here. A link is read from either direction,
as hand-reduced matrices often have one.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import combinations

from bench.records import MatrixLink, TopologyMatrix

# Nearest first; a NIC is near a GPU below the CPU's host bridge.
PCI_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
NEAR = ("PIX", "PXB")
# Of GPUs that count as "the others": below, a difference is as likely the design of the box.
LEAST_VOTES = 2
# V100s without switches join some pairs by one link and others by two; later meshes are even.
LEAST_EVEN = 4
MOST_BRIDGED = 4  # cards that one bridge joins (H200 NVL)
WHOLE_CUBE = 8  # GPUs of a cube mesh; a container that sees fewer does not see all links


class Matrix:
    """One matrix."""

    def __init__(self, record: TopologyMatrix) -> None:
        self.record = record
        self._links = {(link.source, link.destination): link for link in record.links}

    def link(self, a: str, b: str) -> MatrixLink | None:
        return self._links.get((a, b)) or self._links.get((b, a))

    def kind(self, a: str, b: str) -> str | None:
        link = self.link(a, b)
        return link.kind if link else None

    def row(self, gpu: str) -> str:
        cells = []
        for other in (*self.record.gpus, *self.record.nics):
            link = self.link(gpu, other)
            cells.append("X" if other == gpu else _word(link) if link else "?")
        return " ".join(cells)

    @cached_property
    def pairs(self) -> dict[tuple[str, str], MatrixLink]:
        """Every pair of GPUs that the matrix shows, in order."""
        found = {}
        for a, b in combinations(self.record.gpus, 2):
            link = self.link(a, b)
            if link:
                found[a, b] = link
        return found

    @cached_property
    def complete(self) -> bool:
        """Whether every GPU's cell towards every other is there."""
        number = len(self.record.gpus)
        return len(self.pairs) == number * (number - 1) // 2

    @cached_property
    def meshed(self) -> bool:
        """Every GPU reaches every other by NVLink, as through switches."""
        return (
            self.complete
            and len(self.record.gpus) > 2
            and all(link.kind == "NV" for link in self.pairs.values())
        )

    def lacking(self) -> dict[str, tuple[int, int, int]]:
        """GPU -> (its NVLinks, what most others have, how many those are): in a mesh the links
        to each peer, else the sum over peers (a cube mesh gives every GPU as many). A GPU without
        any may be a card without a bridge, unless the others are more than bridges join."""
        if not self.complete or len(self.record.gpus) < 3:
            return {}
        counts = self._counts()
        usual, votes = Counter(counts.values()).most_common(1)[0]
        if votes < LEAST_VOTES or votes * 2 <= len(counts) or not usual:
            return {}
        even = usual >= LEAST_EVEN if self.meshed else len(counts) >= WHOLE_CUBE
        return {
            gpu: (has, usual, votes)
            for gpu, has in counts.items()
            if has < usual and (even if has else self._meshed_but(gpu))
        }

    def _meshed_but(self, gpu: str) -> bool:
        """Whether all others reach each other by NVLink, and are too many for a bridge."""
        pairs = [link for pair, link in self.pairs.items() if gpu not in pair]
        number = len(self.record.gpus) - 1
        return number > MOST_BRIDGED and all(link.kind == "NV" for link in pairs)

    def _counts(self) -> dict[str, int]:
        links: dict[str, list[int]] = {gpu: [] for gpu in self.record.gpus}
        for pair, link in self.pairs.items():
            for gpu in pair:
                links[gpu].append(link.nvlinks or 0)
        # In a mesh one weak peer lowers one cell; a GPU that lost links has all cells lower.
        total = max if self.meshed else sum
        return {gpu: total(each) for gpu, each in links.items()}

    def lacking_pairs(self, but: set[str]) -> dict[tuple[str, str], tuple[int, int, int]]:
        """Pairs of a mesh with fewer links than most, neither GPU of which is lacking itself."""
        if not self.meshed:
            return {}
        counts = {pair: link.nvlinks or 0 for pair, link in self.pairs.items()}
        usual, votes = Counter(counts.values()).most_common(1)[0]
        if votes * 2 <= len(counts) or usual < LEAST_EVEN:
            return {}
        return {
            pair: (has, usual, votes)
            for pair, has in counts.items()
            if has < usual and not but & set(pair)
        }

    @cached_property
    def near_nics(self) -> dict[str, tuple[str, ...]]:
        """GPU -> its NICs below the host bridge, the nearest class only."""
        found = {}
        for gpu in self.record.gpus:
            kinds = {nic: self.kind(gpu, nic) for nic in self.record.nics}
            best = next((k for k in NEAR if k in kinds.values()), None)
            if best:
                found[gpu] = tuple(nic for nic, kind in kinds.items() if kind == best)
        return found

    @cached_property
    def sockets(self) -> tuple[tuple[str, ...], ...]:
        """Devices that reach each other without SYS; NVLink says nothing of sockets."""
        devices = [*self.record.gpus, *self.record.nics]
        groups: list[list[str]] = []
        for device in devices:
            joined = [g for g in groups if any(self._together(device, other) for other in g)]
            for group in joined:
                groups.remove(group)
            groups.append([*(member for group in joined for member in group), device])
        order = {device: at for at, device in enumerate(devices)}
        groups = [sorted(group, key=order.__getitem__) for group in groups]
        return tuple(tuple(group) for group in sorted(groups, key=lambda g: order[g[0]]))

    def _together(self, a: str, b: str) -> bool:
        kind = self.kind(a, b)
        if kind in ("PIX", "PXB", "PHB", "NODE"):
            return True
        numa = self.record.numa
        return a in numa and numa.get(a) == numa.get(b) and kind != "SYS"


def _word(link: MatrixLink) -> str:
    return f"NV{link.nvlinks}" if link.nvlinks is not None else link.kind
