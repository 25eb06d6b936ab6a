"""The vocabulary every room speaks: frozen records that turn into JSON and back.

One record type stands between two rooms. Names carry units; warnings travel as data. Words kept
apart everywhere: asked (NCCL said so), predicted (our reading of its rules), measured, expected
(fabric file), claimed (the hardware's own report), inferred.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = 1

Basis = Literal["asked", "predicted", "measured", "expected", "claimed", "inferred"]
Severity = Literal["info", "warning", "degraded", "broken"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "degraded", "broken")
Verdict = Literal["healthy", "misconfigured", "degraded", "broken", "inconclusive"]
Backend = Literal["gloo", "nccl"]
Phase = Literal["rendezvous", "init", "first", "midrun", "end"]
PHASES: tuple[Phase, ...] = ("rendezvous", "init", "first", "midrun", "end")
InterfaceKind = Literal[
    "physical", "bridge", "bond", "veth", "docker", "vpn", "wifi", "loopback", "virtual"
]


class BadInput(Exception):
    """What a user can mend: one sentence of file, line and what was expected (exit status 2)."""

    def __init__(self, sentence: str, *, file: str | None = None, line: int | None = None) -> None:
        self.sentence, self.file, self.line = sentence, file, line
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + sentence)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that crosses rooms: immutable, keyword-only, JSON in and out."""


class Fact(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A record about a host; fields at their default (nothing read) are left out of the JSON."""


# ------------------------------------------------------------------------------------- facts


class Address(Fact, frozen=True, kw_only=True):
    """One address of an interface.

    `label` is the name getifaddrs lists it under where that is not the interface's own (an alias
    such as "eth0:1"): NCCL takes such an alias for one more interface.
    """

    family: Literal["inet", "inet6"]
    address: str
    prefix_length: int
    scope: Literal["global", "link", "host"] = "global"
    label: str | None = None


class InterfaceCounters(Fact, frozen=True, kw_only=True):
    """Kernel byte and error counters of an interface since it came up."""

    rx_bytes: int = 0
    tx_bytes: int = 0
    rx_errors: int = 0
    tx_errors: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0


class Interface(Fact, frozen=True, kw_only=True):
    """One network interface as the kernel (and getifaddrs order) shows it.

    `speed_mbit` is what the sysfs file claims, None where it claims nothing or is unreadable.
    A virtual interface claims nothing about a wire whatever that file says: `kind` tells.
    `index` orders interfaces the way getifaddrs lists them, which is the order NCCL sees.
    """

    name: str
    kind: InterfaceKind
    index: int
    addresses: tuple[Address, ...] = ()
    mtu: int = 0
    up: bool = False
    running: bool = False
    speed_mbit: int | None = None
    max_speed_mbit: int | None = None
    driver: str | None = None
    mac: str | None = None
    master: str | None = None
    pci_address: str | None = None
    numa_node: int | None = None
    counters: InterfaceCounters | None = None


class Route(Fact, frozen=True, kw_only=True):
    """By which interface the kernel leaves towards `destination`, with which source address."""

    destination: str
    interface: str | None = None
    source: str | None = None
    gateway: str | None = None
    why: str | None = None  # the kernel's reason where there is no route


class RdmaPort(Fact, frozen=True, kw_only=True):
    """One port of an RDMA device, from /sys/class/infiniband."""

    device: str
    port: int
    state: str | None = None
    rate_gbit: float | None = None
    link_layer: str | None = None
    interface: str | None = None
    firmware: str | None = None
    numa_node: int | None = None
    pci_address: str | None = None
    gid_types: tuple[str, ...] = ()
    counters: dict[str, int] = {}


class Gpu(Fact, frozen=True, kw_only=True):
    """One GPU, from NVML. Speeds of PCIe are generation numbers; clocks in MHz."""

    index: int
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    memory_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_max_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    nvlinks_active: int | None = None
    nvlinks_inactive: int | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    mig_mode: bool | None = None
    error_counters: dict[str, int] = {}
    unreadable: dict[str, str] = {}


class Software(Fact, frozen=True, kw_only=True):
    """Versions that explain a change of behaviour; None where not installed."""

    python: str | None = None
    torch: str | None = None
    nccl: str | None = None
    nccl_library: str | None = None
    cuda: str | None = None
    driver: str | None = None
    kernel: str | None = None
    packages: dict[str, str] = {}


class NcclConf(Fact, frozen=True, kw_only=True):
    """An nccl.conf file in force: its settings apply where the environment does not."""

    path: str
    settings: dict[str, str] = {}


class NcclChoice(Fact, frozen=True, kw_only=True):
    """What NCCL takes for one setting of NCCL_SOCKET_IFNAME.

    `setting` None means: the environment as it is. `interfaces` are all matches in NCCL's order
    (the NET/Socket devices); `bootstrap` is the first one. basis "asked": ncclGetUniqueId said so
    (`line` is its own log line); "predicted": our implementation of the rules.
    `code` is ncclResult_t of the call when asked (0 = success, 5 = ncclInvalidUsage: no match).
    """

    setting: str | None = None
    basis: Literal["asked", "predicted"] = "predicted"
    bootstrap: str | None = None
    address: str | None = None
    interfaces: tuple[str, ...] = ()
    code: int | None = None
    line: str | None = None
    nccl_version: str | None = None


class DataPath(Fact, frozen=True, kw_only=True):
    """Predicted carrier of NCCL's data with the environment as it is (always basis predicted)."""

    transport: Literal["socket", "rdma", "plugin", "unknown"] = "unknown"
    interfaces: tuple[str, ...] = ()  # socket devices that share the channels, or RDMA device:port
    why: str = ""


class RankPlacement(Fact, frozen=True, kw_only=True):
    """Where a rank may run: CPU list (kernel list format) and NUMA nodes that it touches."""

    rank: int
    local_rank: int
    cpus: str | None = None
    numa_nodes: tuple[int, ...] = ()
    gpu: int | None = None


class HostFacts(Fact, frozen=True, kw_only=True):
    """All that is known of one host before anything is measured.

    `host` is the label used everywhere (the host name, made unique by the merger); `identity`
    (boot id + network namespace) tells hosts apart whose names are alike.
    `unreadable` maps what could not be read to why; nothing unreadable is ever told as zero.
    """

    host: str
    hostname: str
    identity: str
    node_rank: int = 0
    ranks: tuple[int, ...] = ()
    boot_id: str | None = None
    cores: int = 0
    interfaces: tuple[Interface, ...] = ()
    routes: tuple[Route, ...] = ()
    rdma_ports: tuple[RdmaPort, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    software: Software = Software()
    environment: dict[str, str] = {}
    nccl_conf: tuple[NcclConf, ...] = ()
    nccl_choices: tuple[NcclChoice, ...] = ()
    data_path: DataPath | None = None
    congestion_control: str | None = None
    placements: tuple[RankPlacement, ...] = ()
    mapped_libraries: tuple[str, ...] = ()
    error_counters: dict[str, int] = {}
    unreadable: dict[str, str] = {}


# -------------------------------------------------------------------------------------- plan


class FabricNetwork(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A network the operator expects. `interfaces` are globs; or `subnet` in CIDR form."""

    name: str
    role: Literal["data", "management", "storage"] = "data"
    interfaces: tuple[str, ...] = ()
    subnet: str | None = None
    rate_gbps: float | None = None
    mtu: int | None = None


class FabricGpus(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The GPU side of the expectation."""

    per_host: int | None = None
    path: Literal["nvlink", "pcie", "none"] | None = None
    nvlinks: int | None = None
    pcie: str | None = None


class Tolerance(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fractions below (bandwidth) or above (latency) the expectation that are a finding."""

    bandwidth: float = 0.10
    latency: float = 0.50


class Fabric(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fabric file: what the operator paid for."""

    name: str
    hosts: tuple[str, ...] = ()
    network: tuple[FabricNetwork, ...] = ()
    gpus: FabricGpus = FabricGpus()
    tolerance: Tolerance = Tolerance()


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
    """What a sweep will do, in order; printed before the start."""

    settings: PlanSettings
    backend: Backend = "gloo"
    ranks: int = 0
    hosts: int = 0
    seed: int = 0
    sizes_bytes: tuple[int, ...] = ()
    cases: tuple[Case, ...] = ()
    estimate_s: float = 0.0
    gpu_hours: float | None = None


# ----------------------------------------------------------------------------------- measure


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
    """What moved on one host around one session: differences of counters, after minus before."""

    host: str
    interfaces: dict[str, InterfaceCounters] = {}
    tcp_segments_out: int | None = None
    tcp_retransmits: int | None = None
    rdma: dict[str, dict[str, int]] = {}
    error_counters: dict[str, int] = {}
    throttle_reasons: tuple[str, ...] = ()
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


# ------------------------------------------------------------------------------------- model


class Interval(Record, frozen=True, kw_only=True):
    """A value with its 95 % interval over sessions."""

    value: float
    low: float
    high: float


class Point(Record, frozen=True, kw_only=True):
    """One size of one line: the median over session medians, with an interval.

    `left_out` sessions do not count: their times stand for another number of calls than
    `calls_per_time`, and calls in a pipeline are not comparable with single ones.
    """

    size_bytes: int
    time_s: float
    low_s: float
    high_s: float
    iterations: int
    sessions: int
    left_out: int = 0
    algbw_gbs: float
    busbw_gbs: float
    skew: float = 0.0  # median of (max - min) / max over ranks
    skew_s: float = 0.0
    autocorrelation: float = 0.0  # lag 1; the interval is widened by sqrt((1 + r) / (1 - r))
    noisy: bool = False
    settled: bool = True
    wrong: int = 0
    calls_per_time: int = 1
    group: Literal["fit", "held-out"] = "fit"


class Piece(Record, frozen=True, kw_only=True):
    """t = latency_s + size / bandwidth for from_bytes <= size <= to_bytes."""

    from_bytes: int
    to_bytes: int
    latency_s: float
    bandwidth_bytes_per_s: float


class CostLine(Record, frozen=True, kw_only=True):
    """The fitted line of one candidate and collective. `bandwidth_bytes_per_s` is the algorithm
    bandwidth of the last piece, `busbw_gbs` the same times nccl-tests' factor, in 1e9 bytes/s.
    Latency, bandwidth and busbw are None where the points do not carry a line (`notes` say why).
    `expected_busbw_gbs` is what the judge holds it against, from the fabric file ("expected") or
    from what the hardware says of itself ("claimed"); None where neither says anything."""

    candidate: str
    collective: str
    ranks: int
    latency_s: Interval | None = None
    bandwidth_bytes_per_s: Interval | None = None
    busbw_gbs: Interval | None = None
    pieces: tuple[Piece, ...] = ()
    points: tuple[Point, ...] = ()
    held_out_error: float | None = None  # median |predicted / measured - 1| above 64 KiB
    expected_busbw_gbs: float | None = None
    expected_basis: Literal["expected", "claimed"] | None = None
    notes: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------- judge


class Where(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a finding is about; only what applies is set. `link` is a pair of hosts."""

    host: str | None = None
    hosts: tuple[str, ...] = ()
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    interface: str | None = None
    candidate: str | None = None
    collective: str | None = None
    size_bytes: int | None = None
    from_bytes: int | None = None
    to_bytes: int | None = None
    link: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None


class Evidence(Record, frozen=True, kw_only=True):
    """One line of proof and the word that says what kind of proof it is."""

    basis: Basis
    text: str


class Finding(Record, frozen=True, kw_only=True):
    """One thing that is so, and its proof. `remedy` is a line to paste, quoted for every shell."""

    code: str
    severity: Severity
    summary: str
    kind: str | None = None
    where: Where = Where()
    evidence: tuple[Evidence, ...] = ()
    remedy: str | None = None
    confidence: Literal["asked", "measured", "predicted", "inferred"] = "measured"


class Recommendation(Record, frozen=True, kw_only=True):
    """Settings to export: the same everywhere, or per host where interface names differ."""

    environment: dict[str, str] = {}
    per_host: dict[str, dict[str, str]] = {}


class Report(Record, frozen=True, kw_only=True):
    """A whole run. Self-contained; `report.json` is this record and nothing else."""

    schema: int = SCHEMA
    run: str
    verdict: Verdict
    backend: Backend = "gloo"
    duration_s: float = 0.0
    complete: bool = True
    missing: tuple[str, ...] = ()  # sentences: what could not be measured, and why
    labels: dict[str, str] = {}
    fabric: Fabric | None = None
    hosts: tuple[HostFacts, ...] = ()
    plan: Plan | None = None
    candidates: tuple[Candidate, ...] = ()
    preflight: tuple[PreflightPair, ...] = ()
    sessions: tuple[Session, ...] = ()  # without samples; those are in samples.jsonl
    lines: tuple[CostLine, ...] = ()
    findings: tuple[Finding, ...] = ()
    recommendation: Recommendation = Recommendation()
