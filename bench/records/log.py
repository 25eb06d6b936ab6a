"""What an NCCL_DEBUG log tells, per process, per communicator, per rank; and what went wrong."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Record


class LogNet(Record, frozen=True, kw_only=True):
    """One network device of a "Using [0]eth0:10.0.0.1<0> …" list, or the bootstrap's interface.

    `network` is Socket, IB or a plugin's own name; `index` the number that NET/Socket/1 means.
    `parts` are the ports that NCCL fused into this device; `speed_mbit` is NCCL's own word.
    """

    name: str
    network: str = "Socket"
    index: int | None = None
    address: str | None = None
    port: int | None = None  # of an RDMA device
    link_layer: str | None = None  # IB, RoCE
    parts: tuple[str, ...] = ()
    speed_mbit: int | None = None


class LogQuote(Record, frozen=True, kw_only=True):
    """A line that proves something, without its prefix."""

    line: int
    text: str


class LogEvent(Record, frozen=True, kw_only=True):
    """A warning or error in its place; NcclLog.events has the first fault first.

    `role`: a fault of its own; a remark that NCCL prints on healthy machines too; a retry (a
    connection that does not come about yet); a consequence of what another rank or thread did.
    `count`: how often this process said it, `trace` the returns ("init.cc:903 -> 5") that belong
    to it. `rank` is that of the largest communicator, None where the log does not tell it;
    `rank_basis` "inferred" where only the host's other ranks and GPU numbers give it.
    """

    severity: Literal["warning", "error"]
    text: str
    line: int
    file: str
    role: Literal["fault", "remark", "retry", "consequence"] = "fault"
    place: str | None = None  # source file and line in NCCL, such as misc/socket.cc:502
    function: str | None = None
    host: str | None = None
    pid: int | None = None
    device: int | None = None  # the [n] of the prefix
    rank: int | None = None
    rank_basis: Literal["told", "inferred"] | None = None
    communicator: str | None = None
    time: str | None = None  # as printed
    count: int = 1
    last_line: int | None = None
    trace: tuple[str, ...] = ()


class LogEdge(Record, frozen=True, kw_only=True):
    """One direction of one channel between two ranks, and what carries it.

    `kind` is what follows the transport ("CUMEM/read", "direct/direct", "Shared"); `network` and
    `device` those of NET/IB/0; `gdr` None where it does not apply. `source_device` and
    `destination_device` are the brackets as printed: a bus id up to 2.18.1, then NVML's index.
    """

    channel: int
    source: int
    destination: int
    transport: Literal["P2P", "SHM", "NET", "COLLNET", "NVLS", "unknown"]
    kind: str = ""
    network: str | None = None
    device: int | None = None
    gdr: bool | None = None
    direction: Literal["send", "receive"] | None = None
    proxy_rank: int | None = None
    told_by: int | None = None  # the rank that printed it
    host: str | None = None  # whose process printed it
    source_device: str | None = None
    destination_device: str | None = None
    line: int = 0


class LogTuning(Record, frozen=True, kw_only=True):
    """Which algorithm and protocol NCCL took for a size (TUNING lines); `count` calls of it."""

    collective: str
    size_bytes: int
    algorithm: str
    protocol: str
    channels: int | None = None
    count: int = 1


class LogMember(Record, frozen=True, kw_only=True):
    """One rank of one communicator."""

    rank: int
    host: str
    pid: int
    device: int | None = None
    nvml_device: int | None = None
    bus_id: str | None = None
    started: bool = False  # "Init START" was printed
    completed: bool = False  # "Init COMPLETE" was printed, or "Destroy COMPLETE" later
    completed_line: int | None = None  # of "Init COMPLETE", or of the times told behind it
    aborted: bool = False
    line: int = 0
    node: int | None = None
    local_rank: int | None = None
    last_line: str | None = None  # of this process, where the initialisation did not complete
    last_line_number: int | None = None
    init_s: float | None = None
    bootstrap_s: float | None = None
    bootstrap_receive_s: float | None = None  # of bootstrap_s, waiting for the other ranks


class LogCommunicator(Record, frozen=True, kw_only=True):
    """A communicator: equal commId, a split equally called ("PARENT/NUMBER.COLOR"), or what
    processes of one job call the same.

    `rings` is channel -> order of ranks. `nodes` is NCCL's nNodes (logical: what shares memory),
    `channels` the counts of "2 coll channels, …" by kind, `ring_channels` the 8 of "00/08".
    `carriers` counts all edges by what carries them ("NET/IB/0/GDRDMA"), also those of which
    `edges` has no room (`edges_left_out`).
    """

    id: str
    named: bool = True  # False: neither commId nor parent is told, the grouping is ours
    line: int = 0
    ranks: int | None = None
    nodes: int | None = None
    local_ranks: int | None = None
    members: tuple[LogMember, ...] = ()
    edges: tuple[LogEdge, ...] = ()
    edges_left_out: int = 0
    carriers: dict[str, int] = {}
    rings: dict[int, tuple[int, ...]] = {}
    ring_channels: int | None = None
    trees: dict[int, tuple[str, ...]] = {}  # channel -> what each rank printed of it
    channels: dict[str, int] = {}
    tuning: tuple[LogTuning, ...] = ()
    nvls: bool = False
    mnnvl: bool = False
    pxn: bool | None = None
    gdr: bool | None = None


class LogProcess(Record, frozen=True, kw_only=True):
    """One process (host and pid; `line` is its first) and what its NCCL said of itself.

    `plugin` is the net plugin it tried, `plugin_outcome` what became of it: a plugin that was
    loaded is not one that is used. `environment` are the "set by environment" lines; `fabric` what
    MNNVL lines tell. `gdr_devices` is RDMA device -> whether NCCL enabled GPUDirect for it.
    `quotes` are the lines that prove it, by topic (bootstrap, sockets, rdma, no-rdma, network,
    plugin, plugin-failed, gdr). `failed` is a return trace whose own warning is not in the file.
    """

    host: str
    pid: int
    line: int = 0
    last_line: int = 0
    ranks: tuple[int, ...] = ()
    tags: tuple[int, ...] = ()  # the launcher's numbers before its lines
    devices: tuple[int, ...] = ()
    nccl_version: str | None = None
    flavour: Literal["nccl", "rccl"] = "nccl"
    cuda_driver: str | None = None
    bootstrap: LogNet | None = None
    bootstrap_candidates: tuple[LogNet, ...] = ()  # the whole list, up to 2.7
    nets: tuple[LogNet, ...] = ()
    fused: tuple[LogNet, ...] = ()  # of several of `nets`, since 2.24
    oob: LogNet | None = None  # NET/IB's out-of-band interface
    network: str | None = None  # "Using network IB"; Socket where no other is used
    rdma: bool | None = None  # whether NET/IB found a device
    plugin: str | None = None
    plugin_wanted: bool = False  # named by the environment
    plugin_outcome: Literal["used", "not-found", "failed", "loaded"] | None = None
    environment: dict[str, str] = {}
    fabric: dict[str, str] = {}
    gdr_devices: dict[str, bool] = {}
    quotes: dict[str, LogQuote] = {}
    failed: LogQuote | None = None


class NcclLog(Record, frozen=True, kw_only=True):
    """One file. `events`: the first fault first. `missing` names what an excerpt lacks."""

    file: str
    lines: int = 0
    nccl_lines: int = 0
    versions: tuple[str, ...] = ()
    flavour: Literal["nccl", "rccl"] = "nccl"
    hosts: tuple[str, ...] = ()
    processes: tuple[LogProcess, ...] = ()
    processes_left_out: int = 0
    communicators: tuple[LogCommunicator, ...] = ()
    tuning: tuple[LogTuning, ...] = ()  # of processes with several communicators
    world_size: int | None = None  # as the program itself prints it
    events: tuple[LogEvent, ...] = ()
    events_left_out: int = 0
    missing: tuple[str, ...] = ()
