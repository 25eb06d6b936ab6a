"""What ranks tell each other through the control plane, and under which keys.

The keys of the control plane, all small, each written once (node = torchrun's GROUP_RANK):

    placement/<rank>  RankPlacement
    facts/<node>   Arrival   the host's facts, and the ports it listens on for the preflight
    layout/<node>  Layout    from rank 0: this host's label, its candidates' settings, its peers
    beat           a counter that moves while a case goes on
    probed/<node>  Probed    preflight results, and what NCCL answers to each candidate's setting
    case/<n>       Order     from rank 0: the next case, pairs, the copy check, or none: the end
    pair/<n>/<rank> Part     from rank 0: which pair of a round this rank is an end of
    copies/<node>  CopyCheck what a host's copies between its GPUs and its memory reached
    end/<n>/<rank>, evidence/<n>/<node>, abort/<n>, abort/<n>/<pair>, left/<rank>, bye
    leaving        a counter
"""

from __future__ import annotations

import msgspec

from bench.measure import preflight
from bench.measure.agent import Deadlines
from bench.measure.worker import Ladder
from bench.plan.amounts import Amounts
from bench.records import Case, HostFacts, NcclChoice, PlanSettings, PreflightPair


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A node's first word."""

    facts: HostFacts
    nccl: bool = False  # this node's torch is built with CUDA and NCCL
    ports: dict[str, int] = {}  # address -> the port that answers probes


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate as one host runs it."""

    environment: dict[str, str | None] = {}
    ranks: tuple[int, ...] = ()
    devices: int = 1
    ask: str | None = None  # a value of NCCL_SOCKET_IFNAME to put to NCCL itself


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What a node must know to take part."""

    host: str
    leads: bool  # this node's leading rank stands for the host (a host may have several nodes)
    ranks: tuple[int, ...]  # of the host
    shares_gpu: bool
    visible: str | None = None  # CUDA_VISIBLE_DEVICES of all its ranks together
    backend: str
    settings: dict[str, Setting]
    peers: tuple[preflight.Peer, ...] = ()


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """What a host found out before the first case."""

    pairs: tuple[PreflightPair, ...] = ()
    choices: tuple[NcclChoice, ...] = ()


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """What all pairs of a round have in common."""

    candidate: str
    amounts: Amounts
    repeats: int
    environment: dict[str, str | None] = {}  # on top of the candidate's
    deadlines: Deadlines


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's own part in a round: the number of its pair, and which end it is (0 or 1)."""

    pair: int
    end: int


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The next case with all it takes; without a case: a round of pairs, the copy check, or the
    end."""

    case: Case | None
    copies: bool = False
    pairs: Pairs | None = None
    plan: PlanSettings | None = None
    ladders: tuple[Ladder, ...] = ()
    deadlines: Deadlines | None = None
