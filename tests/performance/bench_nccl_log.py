"""Prints how long a 100 MB log of 64 interleaved ranks takes to read, and the memory it takes.

    python tests/performance/bench_nccl_log.py [MEGABYTES]

The log is made here: 8 hosts of 8 GPUs; a communicator of all ranks, one per host and one per
rail, made anew at every restart; NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING,COLL. A quarter of it
are channel lines, a quarter tuning lines, the rest calls, proxies and topology. The reader runs in
a child process, so that the peak is its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOSTS, GPUS, CHANNELS, SEED = 8, 8, 16, 7
STEPS = 12  # of training between two restarts
TARGET_S, TARGET_MIB = 3.0, 200

CHILD = """
import resource, sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from bench.formats.nccl_log import read
from bench.formats.source import Source
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start, busy = time.perf_counter(), time.process_time()
log = read(Source.open(Path(sys.argv[1])))
took, cpu = time.perf_counter() - start, time.process_time() - busy
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
edges = sum(len(group.edges) for group in log.communicators)
print(f"{took:.2f} {cpu:.2f} {peak:.0f} {base:.0f} {log.lines} {log.nccl_lines} "
      f"{len(log.communicators)} {edges} {len(log.tuning)}")
"""


def head(rank, thread=0):
    host, gpu = divmod(rank, GPUS)
    pid = 20000 + 100 * host + gpu
    return f"node{host:02d}:{pid}:{pid + 1000 * thread} [{gpu}] NCCL INFO "


def beginning(rank):
    """What a rank prints once."""
    host, gpu = divmod(rank, GPUS)
    ib = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(8))
    yield head(rank) + "NCCL_SOCKET_IFNAME set by environment to =bond0"
    yield head(rank) + f"Bootstrap: Using bond0:10.0.{host}.{gpu}<0>"
    yield head(rank) + "cudaDriverVersion 12080"
    yield head(rank) + "NCCL version 2.27.3+cuda12.9"
    yield head(rank) + "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    yield head(rank) + f"NET/IB : Using {ib} [RO]; OOB bond0:10.0.{host}.{gpu}<0>"
    yield head(rank) + "Using network IB"
    for gpu_index in range(8):
        yield head(rank) + f"GPU/0-{gpu_index}b000 :GPU/0-b000 (0/5000.0/LOC) NET/0-0 (4/48.0/PHB)"


def communicator(rng, members, name, pointer):
    """START, rings, channels, trees, COMPLETE of every member: a list of lines per rank."""
    size = len(members)
    order = " ".join(str(i) for i in range(size))
    for index, rank in enumerate(members):
        gpu = rank % GPUS
        begun = (
            f"ncclCommInitRankConfig comm 0x{pointer + index:x} rank {index} nranks {size} "
            f"cudaDev {gpu} nvmlDev {gpu} busId {gpu + 1}b000 commId 0x{name:x} - Init "
        )
        nodes = f"nNodes {max(size // GPUS, 1)} localRanks {GPUS} localRank {gpu} MNNVL 0"
        lines = [
            begun + "START",
            f"comm 0x{pointer + index:x} rank {index} nRanks {size} {nodes}",
        ]
        if index == 0:
            lines += [f"Channel {c:02d}/{CHANNELS:02d} : {order}" for c in range(CHANNELS)]
        trees = " ".join(f"[{c}] {index + 1}/-1/-1->{index}->{index - 1}" for c in range(CHANNELS))
        lines.append(f"Trees {trees}")
        for channel in range(CHANNELS):
            for step in (1, 2, 4):  # a ring and two neighbours of trees
                to, came = (index + step) % size, (index - step) % size
                for source, target, way in ((index, to, "send"), (came, index, "receive")):
                    a, b = members[source] % GPUS, members[target] % GPUS
                    edge = f"Channel {channel:02d}/0 : {source}[{a}] -> {target}[{b}] "
                    if members[source] // GPUS != members[target] // GPUS:
                        lines.append(edge + f"[{way}] via NET/IB/{gpu}/GDRDMA")
                    elif way == "send":
                        lines.append(edge + "via P2P/CUMEM/read")
                lines.append(
                    f"New proxy send connection {channel} from local rank {gpu}, transport 2"
                )
                lines.append(
                    f"Connected to proxy localRank {gpu} -> connection 0x{rng.getrandbits(44):x}"
                )
        lines.append("Connected all rings, use ring PXN 0 GDR 1")
        lines.append(
            "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, "
            "2 p2p channels per peer"
        )
        lines.append(begun + "COMPLETE")
        yield rank, lines


def steps(rng, number):
    """Calls and choices of a training step, over all ranks."""
    for rank in range(HOSTS * GPUS):
        for size in (4, 2 << 20, 33554432, 67108864, 151003136):
            name = rng.choice(("AllReduce", "AllGather", "ReduceScatter"))
            yield head(rank, 3) + (
                f"{name}: opCount {number:x} sendbuff 0x{rng.getrandbits(47):x} recvbuff "
                f"0x{rng.getrandbits(47):x} count {size} datatype 7 op 0 root 0 comm 0x55c1e9c4 "
                "[nranks=64] stream 0x555e2b3a4370"
            )
            for choice in range(3):
                yield head(rank, 3) + (
                    f"{name}: {size >> choice} Bytes -> Algo RING proto SIMPLE "
                    "channel{Lo..Hi}={0..15}"
                )


def make(path, megabytes):
    """Write the log; each restart's lines of all ranks are shuffled together rank by rank."""
    rng = random.Random(SEED)
    ranks = list(range(HOSTS * GPUS))
    written, restart = 0, 0
    with path.open("w") as out:

        def put(lines):
            text = "\n".join(lines) + "\n"
            out.write(text)
            return len(text)

        written += put(interleaved(rng, {rank: list(beginning(rank)) for rank in ranks}))
        number = 0
        while written < megabytes * 1e6:
            restart += 1
            groups = [ranks]
            groups += [[host * GPUS + gpu for gpu in range(GPUS)] for host in range(HOSTS)]
            groups += [[host * GPUS + gpu for host in range(HOSTS)] for gpu in range(GPUS)]
            queues = {rank: [] for rank in ranks}
            for place, members in enumerate(groups):
                name = 0x1000 * restart + place + 0xABC0000000
                pointer = 0x55A000000000 + 0x100000 * restart + 0x1000 * place
                for rank, lines in communicator(rng, members, name, pointer):
                    queues[rank] += [head(rank, 2) + line for line in lines]
            written += put(interleaved(rng, queues))
            for _ in range(STEPS):
                number += 1
                written += put(list(steps(rng, number)))
                if written > megabytes * 1e6:
                    break
    return written


def interleaved(rng, queues):
    """Lines of all ranks mixed, each rank's in order, a few at a time as pipes deliver them."""
    mixed, waiting = [], {rank: iter(lines) for rank, lines in queues.items()}
    while waiting:
        rank = rng.choice(list(waiting))
        for _ in range(rng.randint(1, 6)):
            line = next(waiting[rank], None)
            if line is None:
                del waiting[rank]
                break
            mixed.append(line)
    return mixed


def main():
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranks.log"
        size = make(path, megabytes)
        kinds = {" via ": 0, "Bytes -> Algo": 0}
        with path.open() as lines:
            for line in lines:
                for kind in kinds:
                    kinds[kind] += len(line) if kind in line else 0
        shares = ", ".join(f"{kind.strip()} {100 * n / size:.0f} %" for kind, n in kinds.items())
        print(f"{size / 1e6:.0f} MB; {shares}")
        for attempt in range(3):
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(path), str(ROOT)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            took, cpu, peak, base, *rest = done.stdout.split()
            lines, told, groups, edges, tuning = rest
            verdict = "ok" if float(cpu) <= TARGET_S and float(peak) <= TARGET_MIB else "TOO MUCH"
            print(
                f"run {attempt + 1}: {took} s ({cpu} s of one core), peak {peak} MiB "
                f"(imports {base} MiB); {lines} lines, {told} of NCCL, {groups} communicators, "
                f"{edges} edges, {tuning} choices: {verdict}"
            )


if __name__ == "__main__":
    main()
