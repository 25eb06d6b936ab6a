"""What was measured: probes, samples, outcomes, and what moved meanwhile."""

from __future__ import annotations

from typing import Literal

from bench.records.facts import InterfaceCounters
from bench.records.plan import Case
from bench.records.words import Phase, Record


class PreflightPair(Record, frozen=True, kw_only=True):
    """One directed probe between two hosts on one candidate, unbound as NCCL and gloo connect."""

    candidate: str
    source: str
    destination: str
    outcome: Literal["ok", "refused", "timeout", "no-route", "wrong-host", "mtu-blackhole"]
    address: str | None = None
    detail: str | None = None
    egress: str | None = None  # the interface whose address the kernel gave the connection
    rtt_s: float | None = None
    ahead_s: float | None = None  # the destination's clock ahead of the source's, ± rtt_s / 2


class Sample(Record, frozen=True, kw_only=True):
    """One cell of one session: per-iteration times in seconds, largest and smallest over ranks.

    `calls_per_time` > 1 where one time is the mean of that many consecutive calls (interfaces
    taking turns, or calls too short for the clock). `clock` is whose time it is: "host" where the
    call blocks the host (every one over gloo; over NCCL barrier: its figure is the host's
    latency), "device" where CUDA events timed it. `wrong` counts elements with a wrong value.
    `group` is "fit" for grid sizes and "held-out" for half-steps that are never fitted.
    """

    collective: str
    size_bytes: int
    times_s: tuple[float, ...]
    times_min_s: tuple[float, ...] = ()
    calls_per_time: int = 1
    clock: Literal["host", "device"] = "host"
    warmup_calls: int = 0
    settled: bool = True
    wrong: int = 0
    group: Literal["fit", "held-out"] = "fit"
    dtype: str = "float32"


class RankOutcome(Record, frozen=True, kw_only=True):
    """How one rank's worker ended. `state` is the process state letter seen at the deadline
    (T = stopped); `phase` is the last one it entered; `progress_s` seconds since it last moved."""

    rank: int
    host: str
    outcome: Literal["ok", "hung", "died", "failed", "lost", "aborted"]
    phase: Phase = "rendezvous"
    cell: str | None = None
    error: str | None = None
    signal: int | None = None
    state: str | None = None
    progress_s: float | None = None
    stacks: str | None = None
    log_tail: str | None = None
    start_s: float | None = None  # from the request to the worker's first words


class HostEvidence(Record, frozen=True, kw_only=True):
    """What moved on one host around one session: differences of counters, after minus before.

    `throttled_s` is how long a GPU's clocks were held down meanwhile ("gpu0.power"), which the
    reasons at both ends cannot tell. `gpu_clocks_mhz` is "gpu0.sm" -> before, after; `changed`
    likewise has what should have stood still ("gpu0.nvlinks_active", "gpu3.pcie_width").
    """

    host: str
    interfaces: dict[str, InterfaceCounters] = {}
    tcp_segments_out: int | None = None
    tcp_retransmits: int | None = None
    rdma: dict[str, dict[str, int]] = {}
    error_counters: dict[str, int] = {}
    throttle_reasons: tuple[str, ...] = ()
    throttled_s: dict[str, float] = {}
    gpu_clocks_mhz: dict[str, tuple[int, int]] = {}
    changed: dict[str, tuple[int, int]] = {}
    unreadable: dict[str, str] = {}
    nccl_log: tuple[str, ...] = ()


class Session(Record, frozen=True, kw_only=True):
    """One case as it went: the unit of repetition of all statistics."""

    case: Case
    outcome: Literal["measured", "hung", "failed", "unreachable", "skipped", "interrupted"]
    phase: Phase = "rendezvous"
    reason: str | None = None
    samples: tuple[Sample, ...] = ()
    ranks: tuple[RankOutcome, ...] = ()
    hosts: tuple[HostEvidence, ...] = ()
    started_at: float = 0.0  # seconds since the epoch on rank 0's host
    duration_s: float = 0.0
    group_s: float | None = None  # forming the process group
