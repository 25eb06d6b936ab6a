"""By what NCCL carried its data on each side, as its channel lines tell.

In: two Sides whose logs name carriers ("P2P/IPC", "SHM/direct/direct", "NET/IB/0/GDRDMA"). Out:
Findings where one kind gave way to a slower or a faster one. A log may be an excerpt, so a carrier
that is merely absent is no loss: another must have come in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.judge.words import listed
from bench.records import Evidence, Finding, Side

Carriers = frozenset[str]


@dataclass(frozen=True)
class Step:
    """A way and the slower one that takes its place; `fast` and `slow` choose carriers."""

    fast: Callable[[str], bool]
    slow: Callable[[str], bool]
    quick: str
    lame: str
    remedy: str


def _over_ib(carrier: str) -> bool:
    return carrier.startswith("NET/") and not carrier.startswith("NET/Socket")


STEPS = (
    Step(
        fast=lambda c: c.startswith(("P2P", "direct")),
        slow=lambda c: c.startswith("SHM"),
        quick="peer to peer",
        lame="through the host's shared memory",
        remedy="env | grep NCCL_P2P; nvidia-smi topo -p2p r   # and ACS, IOMMU: bench facts",
    ),
    Step(
        fast=lambda c: _over_ib(c) and c.endswith("GDRDMA"),
        slow=lambda c: _over_ib(c) and not c.endswith("GDRDMA"),
        quick="over the network by GPUDirect RDMA",
        lame="over the network by way of host memory",
        remedy="lsmod | grep -E 'nvidia_peermem|gdrdrv'; env | grep NCCL_NET_GDR",
    ),
    Step(
        fast=_over_ib,
        slow=lambda c: c.startswith("NET/Socket"),
        quick="over RDMA or a plugin",
        lame="over sockets",
        remedy="ibv_devinfo; env | grep -E 'NCCL_(NET|IB)'",
    ),
)


def findings(before: Side, after: Side) -> Iterator[Finding]:
    """At most one for each step."""
    first, second = _carriers(before), _carriers(after)
    for step in STEPS:
        if _moved(step, first, second):
            yield _finding(step, first, second, worse=True)
        elif _moved(step, second, first):
            yield _finding(step, first, second, worse=False)


def _carriers(side: Side) -> Carriers:
    """The whole list; a Difference shortens it."""
    told = [
        v for t in side.topics if t.name == "carriers" for own in t.values.values() for v in own
    ]
    return frozenset(word.strip() for value in told for word in value.split(",") if word.strip())


def _moved(step: Step, first: Carriers, second: Carriers) -> bool:
    """From the fast way to the slow one: neither side has both."""
    return (
        any(map(step.fast, first))
        and not any(map(step.slow, first))
        and any(map(step.slow, second))
        and not any(map(step.fast, second))
    )


def _finding(step: Step, first: Carriers, second: Carriers, *, worse: bool) -> Finding:
    then, now = (step.quick, step.lame) if worse else (step.lame, step.quick)

    def named(carriers: Carriers) -> str:
        return listed(sorted(c for c in carriers if step.fast(c) or step.slow(c))[:4])

    return Finding(
        code="regressed" if worse else "improved",
        severity="degraded" if worse else "info",
        kind="carriers",
        summary=f"NCCL carried data {then} before and {now} after.",
        evidence=(
            Evidence(
                basis="asked",
                text=f"channel lines of NCCL's log: via {named(first)} before, "
                f"via {named(second)} after",
            ),
        ),
        remedy=step.remedy if worse else None,
        confidence="asked",
    )
