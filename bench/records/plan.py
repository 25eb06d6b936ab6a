"""What a sweep will do: settings, candidates, cases in order."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Backend, Record


class PlanSettings(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan file: what to sweep, how long, how precisely. Sizes in bytes, as nccl-tests counts
    them (the total buffer for all_gather, reduce_scatter and all_to_all)."""

    name: str
    collectives: tuple[str, ...] = ("all_reduce", "all_gather")
    min_bytes: int | str = "4K"
    max_bytes: int | str = "4M"
    step_factor: float = 2.0
    dtype: str = "float32"
    sessions: int = 3
    cell_s: float = 0.15
    min_iterations: int = 3
    max_iterations: int = 30
    half_width: float = 0.01  # of the median's 99 % interval, from 64 KiB up; twice that below
    early_stop: bool = True  # end the ladder once the plateau is known
    held_out: bool = False  # also measure half-steps; they are never fitted
    networks_only: bool = False  # no GPU paths, no rail by itself
    copies: bool = True  # with GPUs: copies between host and each GPU, and between neighbours
    budget_s: float = 60.0
    gpu_hours: float | None = None


class Candidate(Record, frozen=True, kw_only=True):
    """A network (or GPU path, or the default) that the sweep tries, and later what became of it.

    `interfaces` maps host to interface name ("mgmt0+data0" where several share); `environment`
    holds for every host, `per_host` on top of it; None as a value unsets the variable.
    `devices` is how many interfaces take turns (gloo alternates calls between them).
    `carried` maps host -> interface -> bytes received during this candidate's sessions.
    """

    name: str
    kind: Literal["network", "gpu-path", "default"]
    transport: Literal["socket", "rdma", "gpu", "mixed"] = "socket"
    interfaces: dict[str, str] = {}
    addresses: dict[str, str] = {}
    subnet: str | None = None
    environment: dict[str, str | None] = {}
    per_host: dict[str, dict[str, str | None]] = {}
    ranks: tuple[int, ...] = ()  # empty: all
    devices: int = 1
    outcome: Literal["planned", "measured", "unreachable", "hung", "failed", "skipped"] = "planned"
    reason: str | None = None
    default_choice: bool = False
    choice_basis: Literal["asked", "predicted"] | None = None
    carried: dict[str, dict[str, int]] = {}


class Case(Record, frozen=True, kw_only=True):
    """One session of one candidate: a fresh worker per rank runs its cells."""

    number: int
    candidate: str
    session: int


class Plan(Record, frozen=True, kw_only=True):
    """What a sweep will do, in order; printed before the start. `copies_s` is what the copy check
    is expected to take, `locate_s` what the rounds of pairs are, 0 where there are none."""

    settings: PlanSettings
    backend: Backend = "gloo"
    ranks: int = 0
    hosts: int = 0
    seed: int = 0
    sizes_bytes: tuple[int, ...] = ()
    cases: tuple[Case, ...] = ()
    copies_s: float = 0.0
    locate_s: float = 0.0
    estimate_s: float = 0.0
    gpu_hours: float | None = None
