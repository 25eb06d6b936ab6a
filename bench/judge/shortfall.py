"""How far a network is below what it should carry.

In: a report's networks. Out: a Shortfall, or None where a line is as fast as expected, or where
nothing is expected of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.judge import expected
from bench.judge.expected import Expectation
from bench.judge.networks import Networks
from bench.judge.words import percent
from bench.records import Candidate, Evidence


@dataclass(frozen=True)
class Shortfall:
    """A network surely below its expectation: how far, in which collectives."""

    share: float  # of the expectation, in the worst collective
    collectives: tuple[str, ...]
    expectation: Expectation  # of that collective
    evidence: tuple[Evidence, ...]


def short_of(net: Networks, candidate: Candidate, measured: Candidate) -> Shortfall | None:
    """How far collectives are below a candidate's expectation, beyond tolerance and their own
    95 % interval; None where they are not, or where nothing is expected."""
    usual = expected.tolerance(net.report).bandwidth
    short: dict[str, tuple[float, Expectation]] = {}
    evidence = []
    for collective in net.collectives:
        line = net.line(measured, collective)
        speed = line.busbw_gbs if line else None  # fitted: one size alone holds latency too
        wanted = expected.of_line(net.report, candidate, line) if line else None
        if speed is None or wanted is None or not wanted.judged:
            continue
        floor = 1 - (usual if wanted.tolerance is None else wanted.tolerance)
        if speed.high >= floor * wanted.busbw_gbs:
            continue
        share = speed.value / wanted.busbw_gbs
        short[collective] = share, wanted
        text = (
            f"{collective} busbw {speed.value:.4g} GB/s (95 % interval {speed.low:.4g}-"
            f"{speed.high:.4g}), {percent(share)} of {wanted.busbw_gbs:.4g} GB/s"
        )
        evidence.append(Evidence(basis="measured", text=text))
    if not short:
        return None
    sources = dict.fromkeys((wanted.basis, wanted.source) for _, wanted in short.values())
    evidence += [Evidence(basis=basis, text=source) for basis, source in sources]
    share, worst = min(short.values(), key=lambda pair: pair[0])
    return Shortfall(share, tuple(short), worst, tuple(evidence))
