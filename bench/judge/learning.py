"""A fabric file from good runs: what each way carried, and how far runs lie apart.

In: Reports of runs that were good. Out: a Fabric whose [[busbw]] entries gate the next run, and
sentences about what its reader should know. Pure, so that a nightly job can learn from its own
history. The run is the sample (bench.model.gate); unlike runs are refused, not averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.judge import stated
from bench.judge.claims import Draft, network_of
from bench.judge.good_runs import (
    about,
    day,
    distinct,
    refuse_bad,
    refuse_unlike,
    source,
    with_findings,
)
from bench.judge.gpu.expectation import gpus_of
from bench.judge.networks import parts
from bench.judge.ratio import LARGE_BYTES
from bench.judge.words import listed
from bench.model.gate import FEWEST_RUNS, Gate, gate
from bench.records import (
    BadInput,
    Candidate,
    CostLine,
    Fabric,
    FabricBusbw,
    FabricGpus,
    FabricNetwork,
    HostFacts,
    Report,
    Tolerance,
)

# A network half as fast as the best one may be meant for data too; a tenth surely is not.
DATA_SHARE = 0.5
LATENCY_WORST = 1.0  # a latency that good runs double by themselves gates nothing


@dataclass(frozen=True)
class Sample:
    """One line of one run."""

    run: str
    candidate: Candidate
    line: CostLine
    hosts: int


def learn(reports: Sequence[Report], *, name: str, accept_findings: bool = False) -> Draft:
    """The fabric file that these runs give. BadInput where they are no good runs, or not alike."""
    if not reports:
        raise BadInput("there is no run to learn from")
    runs, notes = distinct(reports)
    refuse_unlike(runs)
    if not accept_findings:
        refuse_bad(runs)
    notes += with_findings(runs)
    samples = _samples(runs)
    entries = [_entry(group, runs, notes) for group in samples]
    if not entries:
        raise BadInput("no bandwidth was measured in these runs, so there is nothing to learn")
    notes += about(runs)
    hosts = _hosts(runs)
    fabric = Fabric(
        name=name,
        source=source(runs),
        date=day(runs[-1]),
        network=tuple(_networks(runs, hosts, notes)),
        gpus=_gpus(runs, hosts, notes),
        busbw=tuple(entries),
        tolerance=next((r.fabric.tolerance for r in reversed(runs) if r.fabric), Tolerance()),
    )
    return Draft(fabric, tuple(notes))


# ------------------------------------------------------------------------------------ figures


def _samples(runs: Sequence[Report]) -> list[list[Sample]]:
    """Lines with a fitted bandwidth, by way and collective, as the first run that has them."""
    groups: dict[tuple[str, str, int], list[Sample]] = {}
    for report in runs:
        by_name = {candidate.name: candidate for candidate in report.candidates}
        best: dict[tuple[str, str, int], Sample] = {}
        for line in report.lines:
            candidate = by_name.get(line.candidate)
            if candidate is None or candidate.outcome != "measured" or not _usable(line):
                continue
            hosts = len(report.hosts) if candidate.kind == "default" else len(candidate.interfaces)
            key = stated.path_of(candidate), line.collective, line.ranks
            sample = Sample(report.run, candidate, line, hosts)
            # A GPU path measured on several hosts: the slowest of them is what a run is good for.
            if key not in best or _busbw(sample) < _busbw(best[key]):
                best[key] = sample
        for key, sample in best.items():
            groups.setdefault(key, []).append(sample)
    return list(groups.values())


def _usable(line: CostLine) -> bool:
    speed = line.busbw_gbs
    return speed is not None and speed.low > 0 and _largest(line) >= LARGE_BYTES


def _largest(line: CostLine) -> int:
    return max((point.size_bytes for point in line.points), default=0)


def _busbw(sample: Sample) -> float:
    assert sample.line.busbw_gbs is not None, "usable lines have one"
    return sample.line.busbw_gbs.value


def _entry(samples: Sequence[Sample], runs: Sequence[Report], notes: list[str]) -> FabricBusbw:
    first = samples[0]
    line, way = first.line, stated.path_of(first.candidate)
    found = gate([_busbw(s) for s in samples], [_upwards(s.line) for s in samples])
    slow = _latency(samples)
    if len(samples) < len(runs):
        missing = len(runs) - len(samples)
        notes.append(f"{way}, {line.collective}: not measured in {missing} of {len(runs)} runs")
    per_host, odd = divmod(line.ranks, first.hosts)
    return FabricBusbw(
        collective=line.collective,
        hosts=first.hosts,
        ranks_per_host=None if odd else per_host,
        candidate=way,
        backend=runs[0].backend,
        busbw_gbs=_rounded(found.level),
        from_bytes=min(_largest(sample.line) for sample in samples),
        latency_us=_rounded(slow.level * 1e6) if slow else None,
        tolerance=found.tolerance,
        latency_tolerance=slow.tolerance if slow else None,
        runs=found.runs,
        note=_told(found),
    )


def _latency(samples: Sequence[Sample]) -> Gate | None:
    """None where it says nothing: a run without a latency of its own, too few runs, or runs so far
    apart that a gate would be no gate. Bandwidth has a default tolerance to fall back on; fitted
    latencies differ by what else ran, so that a default would be a false alarm."""
    starts = [s.line.latency_s.value for s in samples if s.line.latency_s and s.line.latency_s.low]
    if len(starts) < len(samples):
        return None
    found = gate(starts, side="above")
    return found if found.tolerance is not None and found.tolerance <= LATENCY_WORST else None


def _upwards(line: CostLine) -> float:
    """How far a line's own interval reaches above its value, on logs."""
    assert line.busbw_gbs is not None, "usable lines have one"
    return math.log(line.busbw_gbs.high / line.busbw_gbs.value)


def _told(found: Gate) -> str:
    if found.runs == 1:
        return "one run: how far runs lie apart is unknown, the tolerance is only the default"
    assert found.spread is not None, "two runs have a spread"
    apart = f"runs lie {_percent(found.spread)} apart"
    if found.tolerance is None or found.detectable is None:
        return f"{apart}; fewer than {FEWEST_RUNS}, so the tolerance is only the default"
    return f"{apart}; a drop of {_percent(found.detectable)} shows in nine of ten runs"


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.0995 else f"{share * 100:.0f} %"


def _rounded(value: float) -> float:
    """Four digits: more than runs agree in."""
    return float(f"{value:.4g}")


# ---------------------------------------------------------------------------- what was measured


def _hosts(runs: Sequence[Report]) -> tuple[HostFacts, ...]:
    """Every host that took part, as its latest run saw it."""
    latest = {facts.host: facts for report in runs for facts in report.hosts}
    return tuple(latest.values())


def _networks(
    runs: Sequence[Report], hosts: Sequence[HostFacts], notes: list[str]
) -> Iterable[FabricNetwork]:
    """Networks that worked, as the operator's file has them or as their speed suggests."""
    speeds: dict[str, float] = {}
    last: dict[str, Candidate] = {}
    for group in _samples(runs):
        for sample in group:
            whole = sample.candidate.kind == "network" and not sample.candidate.ranks
            if whole and sample.hosts > 1:  # a host's way to itself is no network
                name = sample.candidate.name
                last[name] = sample.candidate
                speeds[name] = max(speeds.get(name, 0.0), _busbw(sample))
    known = {n.name: n for report in runs if report.fabric for n in report.fabric.network}
    best = max(speeds.values(), default=0.0)
    guessed = []
    for name, candidate in last.items():
        if name in known:
            yield known.pop(name)
            continue
        role: Literal["data", "management"] = "data"
        if speeds[name] < DATA_SHARE * best:
            role = "management"
            guessed.append(name)
        lane = {host: parts(names) for host, names in candidate.interfaces.items()}
        yield network_of(name, lane, hosts, role=role, subnet=candidate.subnet, notes=notes)
    yield from known.values()  # what the operator knows is kept, measured or not
    if guessed:
        notes.append(
            f"{listed(guessed)}: less than half as fast as the best, so taken for management"
        )


def _gpus(runs: Sequence[Report], hosts: Sequence[HostFacts], notes: list[str]) -> FabricGpus:
    """As the operator's file has them, else as they say of themselves."""
    known = next((r.fabric.gpus for r in reversed(runs) if r.fabric), FabricGpus())
    return gpus_of(hosts, notes) if known == FabricGpus() else known
