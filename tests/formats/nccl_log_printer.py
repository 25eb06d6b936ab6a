"""Prints jobs as each version of NCCL prints them: the log that a reader must give back.

After the version table of NCCL's sources: ring words, brackets, connection index, SHM and NET
suffixes, commId, START lines, connecting at the first collective. Loaded by tests of two rooms.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import strategies as st

from bench.formats.nccl_log.collectives import ALGORITHMS, PROTOCOLS

VERSIONS = (
    (2, 3), (2, 4), (2, 6), (2, 7), (2, 10), (2, 12), (2, 14), (2, 16), (2, 18), (2, 19), (2, 21),
    (2, 22), (2, 23), (2, 25), (2, 27), (2, 29), (2, 30), (2, 32),
)  # fmt: skip
PREFIXES = (
    lambda rank, host: "",
    lambda rank, host: f"[1,{rank}]<stdout>:",
    lambda rank, host: f"{rank}: ",
    lambda rank, host: f"{host}: ",
    lambda rank, host: f"[default{rank % 8}]:",
    lambda rank, host: f"2025-11-30T10:00:{rank % 60:02d}.000000001Z ",
    lambda rank, host: f"(RayWorkerWrapper pid={rank + 7}, ip=10.1.2.3) ",
)
SOCKETS = ("eth0", "bond0.526", "ib0", "enp1s0f0np0", "eth0:1", "hsn1")
ADDRESSES = ("10.64.4.21", "2001:db8:fc1d:3606:0:4457:edef:600a", "fe80::a466:19ff:fe1e:1001%ib0")
DEVICES = ("mlx5_0", "mlx5_bond_0", "erdma_1", "rocep80s0", "ibP111p0s0")
PLUGINS = ("AWS Libfabric", "IBext_v8", "FasTrak")


@dataclass
class Rank:
    index: int
    host: str
    pid: int
    device: int
    bus: str


@dataclass
class Job:
    version: tuple[int, int]
    ranks: list[Rank]
    network: str
    sockets: list[tuple[str, str]]
    devices: list[tuple[str, int, str]]
    edges: list[tuple[int, int, int, str, dict]]
    settings: dict[str, str]
    comm_id: str
    rccl: bool
    prefix: int
    seed: int
    tuning: list[tuple[str, int, int, int, int]] = field(default_factory=list)


@st.composite
def jobs(draw) -> Job:
    version = draw(st.sampled_from(VERSIONS))
    hosts, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    ranks = [
        Rank(h * gpus + g, f"node-{h}.rack", 1000 + 17 * h + g, g, f"{(g + 1) * 0x1B000 + h:x}")
        for h in range(hosts)
        for g in range(gpus)
    ]
    network = draw(st.sampled_from(("Socket", "IB", *PLUGINS)))
    names = draw(st.lists(st.sampled_from(SOCKETS), min_size=1, max_size=4, unique=True))
    sockets = [
        (name, "10.0.0.7" if ":" in name else draw(st.sampled_from(ADDRESSES))) for name in names
    ]
    devices = [
        (name, draw(st.integers(1, 2)), draw(st.sampled_from(("IB", "RoCE"))))
        for name in draw(st.lists(st.sampled_from(DEVICES), min_size=1, max_size=4, unique=True))
    ]
    edges = []
    for channel in range(draw(st.integers(1, 3))):
        for rank in ranks if len(ranks) > 1 else []:
            other = ranks[(rank.index + 1) % len(ranks)]
            local = rank.host == other.host
            kind = draw(st.sampled_from(("P2P", "SHM", "NET") if local else ("NET",)))
            detail = {
                "p2p": draw(st.sampled_from(("IPC", "CUMEM", "direct pointer", "CUMEM/read"))),
                "device": draw(st.integers(0, 7)),
                "gdr": draw(st.booleans()),
                "shared": draw(st.booleans()),
                "proxy": draw(st.sampled_from((None, rank.index))),
            }
            edges.append((channel, rank.index, other.index, kind, detail))
    return Job(
        version=version,
        ranks=ranks,
        network=network,
        sockets=sockets,
        devices=devices,
        edges=edges,
        settings=draw(
            st.dictionaries(
                st.sampled_from(("NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_NET_GDR_LEVEL")),
                st.sampled_from(("=eth0", "^docker0,lo", "1", "0", "PIX", "bond0.526")),
            )
        ),
        comm_id=f"0x{draw(st.integers(1, 2**64 - 1)):x}",
        rccl=draw(st.booleans()) and version >= (2, 16),
        prefix=draw(st.integers(0, len(PREFIXES) - 1)),
        seed=draw(st.integers(0, 1 << 30)),
        tuning=draw(
            st.lists(
                st.tuples(
                    st.sampled_from(("AllReduce", "AllGather", "Broadcast", "ReduceScatter")),
                    st.integers(1, 1 << 40),
                    st.integers(0, 6),
                    st.integers(0, 2),
                    st.integers(0, 31),
                ),
                max_size=4,
                unique=True,
            )
        ),
    )


def address(name: str, where: str) -> str:
    return f"{name}:{where}<0>"


def edge_text(job: Job, edge, direction: str | None) -> str:
    channel, source, target, kind, detail = edge
    v = job.version
    word = "Ring" if v < (2, 7) else "Channel"
    if v >= (2, 19):
        marks = [str(job.ranks[i].device) for i in (source, target)]
    else:
        marks = [job.ranks[i].bus for i in (source, target)]
    a, b = f"{source}[{marks[0]}]", f"{target}[{marks[1]}]"
    if kind == "NET" and v == (2, 3):
        a, b = str(source), str(target)
    number = f"{channel:02d}"
    if (kind == "NET" and v >= (2, 12)) or (kind == "P2P" and v >= (2, 14)):
        number += "/0"
    if kind == "P2P":
        via = f"P2P/{detail['p2p']}"
    elif kind == "SHM":
        via = "direct shared memory" if v <= (2, 12) else "SHM/direct/direct"
        via = "SHM/direct" if v >= (2, 32) else via
    else:
        proxy = f"({detail['proxy']})" if detail["proxy"] is not None and v >= (2, 12) else ""
        gdr = "/GDRDMA" if detail["gdr"] and job.network != "Socket" else ""
        shared = "/Shared" if detail["shared"] and v >= (2, 12) else ""
        via = f"NET/{job.network}/{detail['device']}{proxy}{gdr}{shared}"
    way = f" [{direction}]" if direction else ""
    return f"{word} {number} : {a} -> {b}{way} via {via}"


def printed(job: Job) -> str:
    """The job's log, ranks mixed; each rank's own lines stay in order."""
    v, queues = job.version, []
    for rank in job.ranks:
        lines = [f"{key} set by environment to {value}{'.' if value in '01' else ''}"
                 for key, value in job.settings.items()]  # fmt: skip
        if v == (2, 3):
            lines += [f"NET : Using interface {address(*net)}" for net in job.sockets]
        elif v < (2, 8):
            listed = " ".join(f"[{i}]{address(*net)}" for i, net in enumerate(job.sockets))
            lines.append(f"Bootstrap : Using {listed}")
        else:
            colon = "Bootstrap :" if v < (2, 24) else "Bootstrap:"
            lines.append(f"{colon} Using {address(*job.sockets[0])}")
        if job.network == "Socket":
            listed = " ".join(f"[{i}]{address(*net)}" for i, net in enumerate(job.sockets))
            lines += ["NET/IB : No device found.", f"NET/Socket : Using {listed}"]
        else:
            listed = " ".join(f"[{i}]{n}:{p}/{k}" for i, (n, p, k) in enumerate(job.devices))
            lines.append(f"NET/IB : Using {listed} [RO]; OOB {address(*job.sockets[0])}")
        if v >= (2, 6):
            lines.append(f"Using network {job.network}")
        pointer = f"0x7f{rank.index:04x}00"
        tail = f" comm {pointer} nRanks {len(job.ranks):02d}" if job.rccl else ""
        own = f"comm {pointer} rank {rank.index} nranks {len(job.ranks)}"
        if v >= (2, 7):
            own += f" cudaDev {rank.device}"
        if v >= (2, 18):
            own += f" nvmlDev {rank.device}"
        if v >= (2, 4):
            own += f" busId {rank.bus}"
        if v >= (2, 16):
            own += f" commId {job.comm_id}"
        if v >= (2, 22):
            own = f"ncclCommInitRankConfig {own}"
        if v >= (2, 29):
            own = f"[Rank {rank.index}] {own}"
        if v >= (2, 18):
            lines.append(f"{own} - Init START")
        if v == (2, 3):
            lines.append(own)
        connected = []
        for edge in job.edges:
            if edge[1] == rank.index:
                connected.append(edge_text(job, edge, "send" if edge[3] == "NET" else None) + tail)
            if edge[2] == rank.index and edge[3] == "NET":
                connected.append(edge_text(job, edge, "receive") + tail)
        finish = f"{own} - Init COMPLETE"
        lazy = v >= (2, 22)  # NCCL_RUNTIME_CONNECT: another thread, at the first collective
        main = f"{rank.host}:{rank.pid}:{rank.pid + 500} [{rank.device}] NCCL INFO "
        other = f"{rank.host}:{rank.pid}:{rank.pid + 900} [{rank.device}] NCCL INFO "
        queue = [main + line for line in lines]
        queue += (
            [main + finish, *(other + line for line in connected)]
            if lazy
            else [*(main + line for line in connected), main + finish]
        )
        if rank.index == 0:
            queue += [other + tuning_text(v, *choice) for choice in job.tuning]
        queue.append(other + "AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x80 count 4 datatype 7")
        prefix = PREFIXES[job.prefix](rank.index, rank.host)
        queues.append([prefix + line for line in queue])
    return mixed(queues, job.seed)


def tuning_text(version, name, size, algorithm, protocol, last) -> str:
    if version < (2, 21):
        return f"{size} Bytes -> Algo {algorithm} proto {protocol} time 12.500000"
    if version < (2, 24):
        return f"{name}: {size} Bytes -> Algo {algorithm} proto {protocol} time 12.500000"
    named = f"Algo {ALGORITHMS[algorithm]} proto {PROTOCOLS[protocol]}"
    return f"{name}: {size} Bytes -> {named} channel{{Lo..Hi}}={{0..{last}}}"


def mixed(queues: list[list[str]], seed: int) -> str:
    rng, out = random.Random(seed), []
    waiting = [iter(queue) for queue in queues]
    while waiting:
        queue = rng.choice(waiting)
        line = next(queue, None)
        if line is None:
            waiting.remove(queue)
        else:
            out.append(line)
    return "\n".join(out) + "\n"
