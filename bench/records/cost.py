"""What training strategies cost: memory, collectives of a step and their time, and the advice.

`bench.model.strategies` makes them, `python -m bench cost` shows them.
"""

from __future__ import annotations

from typing import Literal

from bench.records.line import Interval
from bench.records.training import TrainingJob
from bench.records.words import Record

Scope = Literal["all", "host", "between"]  # all ranks; those of a host; one rank of each host
TimeBasis = Literal["measured", "inferred"]


class StepCollective(Record, frozen=True, kw_only=True):
    """`count` calls of one collective in a step, of one size as nccl-tests counts it (the total
    buffer of all_gather and reduce_scatter). `group_ranks` take part in each. `sent_bytes` is what
    one rank sends for all of them in a ring."""

    collective: str
    size_bytes: float
    count: int
    scope: Scope
    group_ranks: int
    sent_bytes: float
    purpose: str
    time_s: Interval | None = None  # of all `count` calls
    basis: TimeBasis | None = None


class Memory(Record, frozen=True, kw_only=True):
    """Bytes on one GPU. `state` is what stays between steps (parameters, gradients, optimizer),
    `buckets` and `live` (gathered units) come with a step; activations None: not known."""

    parameters: float
    gradients: float
    optimizer: float
    buckets: float = 0.0
    live: float = 0.0
    activations: float | None = None

    @property
    def state(self) -> float:
        return self.parameters + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        """Without activations where they are not known."""
        return self.state + self.buckets + self.live + (self.activations or 0.0)


class StrategyCost(Record, frozen=True, kw_only=True):
    """One row. `also` is its other name (ZeRO-3 is FULL_SHARD). Times are None where a line that
    they need was not measured and cannot be inferred; `notes` say which."""

    strategy: str
    also: str = ""
    memory: Memory
    memory_bytes: float  # memory.total, and state, for readers of the JSON
    state_bytes: float
    fits: bool | None = None
    collectives: tuple[StepCollective, ...] = ()
    sent_bytes: float = 0.0
    communication_s: Interval | None = None
    basis: TimeBasis | None = None
    step_no_overlap_s: float | None = None
    step_full_overlap_s: float | None = None
    share: float | None = None  # of the step's time without overlap
    notes: tuple[str, ...] = ()


class FaultCost(Record, frozen=True, kw_only=True):
    """What training over another line than the best costs: a step, and hours of each day.
    `hours_a_day` is at most that where no compute time is given (`at_most`)."""

    name: str
    kind: Literal["misselected", "degraded", "supposed"]
    communication_s: float
    added_s: float
    hours_a_day: float
    at_most: bool = False
    basis: TimeBasis = "measured"


class ScalingPoint(Record, frozen=True, kw_only=True):
    """Communication time of a step on so many hosts, by strategy; None where it is not known.
    `measured` names the strategies all of whose lines were measured on just so many."""

    hosts: int
    ranks: int
    communication_s: dict[str, Interval | None]
    measured: tuple[str, ...] = ()


class CostReport(Record, frozen=True, kw_only=True):
    """The whole answer of `cost`. `lines` says in sentences which measured line stands for what,
    `inferred` what had to be taken from another."""

    job: TrainingJob
    parameters: int
    trained: int
    source: str | None = None  # what the lines are of
    lines: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    strategies: tuple[StrategyCost, ...] = ()
    chosen: str | None = None
    configured: str | None = None  # by an Accelerate or DeepSpeed configuration
    recommendation: str = ""
    faults: tuple[FaultCost, ...] = ()
    scaling: tuple[ScalingPoint, ...] = ()
    notes: tuple[str, ...] = ()
