"""Nights made by hand: reports whose times are a model's, with noise, steps and hosts as asked.

Every number is invented; every shape is real. Used by the tests of judge, report and commands and
by the benchmark of a year of nights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.records import (
    Candidate,
    Case,
    CostLine,
    Finding,
    HostFacts,
    Interval,
    Piece,
    Plan,
    PlanSettings,
    Point,
    Report,
    Session,
    Software,
    Where,
)
from bench.report import stored

SIZES = tuple(1024 * 2**step for step in range(15))  # 1 KiB to 16 MiB
COLLECTIVES = ("all_reduce", "all_gather")
LATENCY_S, BANDWIDTH = 30e-6, 12e9
FIRST_NIGHT = 1_790_820_000.0  # 2026-10-01 02:00 UTC, in seconds since the epoch
DAY_S = 86_400.0


def name_of(night: int) -> str:
    import time

    return time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime(FIRST_NIGHT + night * DAY_S))


def line(
    candidate: str, collective: str, ranks: int, small: float, large: float, width: float = 0.01
) -> CostLine:
    """`small` and `large` are logs by which the sizes below and from 64 KiB on are slower."""
    points = []
    for size in SIZES:
        shift = small if size < 65536 else large
        time_s = (LATENCY_S + size / BANDWIDTH) * math.exp(shift)
        points.append(
            Point(
                size_bytes=size, time_s=time_s, low_s=time_s * (1 - width),
                high_s=time_s * (1 + width), iterations=90, sessions=3,
                algbw_gbs=size / time_s / 1e9, busbw_gbs=1.5 * size / time_s / 1e9,
            )
        )  # fmt: skip
    speed = BANDWIDTH * math.exp(-large)
    return CostLine(
        candidate=candidate,
        collective=collective,
        ranks=ranks,
        latency_s=Interval(value=LATENCY_S, low=LATENCY_S * 0.99, high=LATENCY_S * 1.01),
        bandwidth_bytes_per_s=Interval(value=speed, low=speed * 0.99, high=speed * 1.01),
        busbw_gbs=Interval(
            value=1.5 * speed / 1e9, low=1.5 * speed / 1e9 * 0.99, high=1.5 * speed / 1e9 * 1.01
        ),
        pieces=(
            Piece(
                from_bytes=SIZES[0], to_bytes=SIZES[-1], latency_s=LATENCY_S,
                bandwidth_bytes_per_s=speed,
            ),
        ),
        points=tuple(points),
    )  # fmt: skip


def report(
    night: int,
    shifts: Mapping[tuple[str, str, str], float] | None = None,
    *,
    hosts: Sequence[str] = ("host1", "host2", "host3", "host4"),
    driver: str = "550.54.15",
    findings: Sequence[Finding] = (),
    cores: int = 64,
    candidates: Sequence[str] = ("data", "(default)"),
    run: str | None = None,
    complete: bool = True,
) -> Report:
    """One night. `shifts` by (candidate, collective, "small" or "large") are logs, 0 elsewhere."""
    shifts = shifts or {}
    facts = tuple(
        HostFacts(
            host=host, hostname=host, identity=host, boot_id=host, node_rank=at, ranks=(at,),
            cores=cores, software=Software(torch="2.13.0", nccl="2.32.3", driver=driver),
        )
        for at, host in enumerate(hosts)
    )  # fmt: skip
    lines = tuple(
        line(
            candidate, collective, len(hosts),
            shifts.get((candidate, collective, "small"), 0.0),
            shifts.get((candidate, collective, "large"), 0.0),
        )
        for candidate in candidates
        for collective in COLLECTIVES
    )  # fmt: skip
    cases = [Case(number=at, candidate=name, session=0) for at, name in enumerate(candidates)]
    return Report(
        run=run or name_of(night),
        verdict="degraded" if findings else "healthy",
        backend="nccl",
        duration_s=600.0,
        complete=complete,
        hosts=facts,
        plan=Plan(
            settings=PlanSettings(name="nightly", collectives=COLLECTIVES), backend="nccl",
            ranks=len(hosts), hosts=len(hosts), sizes_bytes=SIZES, cases=tuple(cases),
        ),
        candidates=tuple(
            Candidate(
                name=name,
                kind="default" if name == "(default)" else "network",
                interfaces=dict.fromkeys(hosts, "data0"),
                outcome="measured",
                default_choice=name == "data",
                carried={host: {"data0": 10**9} for host in hosts},
            )
            for name in candidates
        ),
        sessions=tuple(
            Session(
                case=case, outcome="measured", phase="end",
                started_at=FIRST_NIGHT + night * DAY_S + case.number, duration_s=60.0,
            )
            for case in cases
        ),
        lines=lines,
        findings=tuple(findings),
    )  # fmt: skip


def degraded(candidate: str = "data") -> Finding:
    return Finding(
        code="link-degraded",
        severity="degraded",
        summary=f"{candidate} reaches 25 % of the expected 1 GB/s.",
        where=Where(candidate=candidate),
    )


def noisy(
    rng: np.random.Generator,
    steps: Mapping[tuple[str, str, str], float] | None = None,
    cv: float = 0.01,
) -> dict[tuple[str, str, str], float]:
    """Shifts of one night: normal noise on every series, and `steps` on top."""
    return {
        (candidate, collective, part): cv * rng.standard_normal()
        + (steps or {}).get((candidate, collective, part), 0.0)
        for candidate in ("data", "(default)")
        for collective in COLLECTIVES
        for part in ("small", "large")
    }


def keep(folder: Path, made: Report) -> Path:
    """Write a report where a sweep would have."""
    place = folder / made.run
    place.mkdir(parents=True)
    (place / stored.REPORT_NAME).write_bytes(stored.encode(made))
    return place
