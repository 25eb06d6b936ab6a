"""Prints tables as nccl-tests and rccl-tests of every age do, with what launchers add to them.

In: a Shape (which era, collective, ranks, options) and a seed for the numbers. Out: a Printed: the
text and every number in it as a string. Widths and formats are those of print_line_header() and
BenchTime() up to 2.16, of src/util.cu since 2.17, and of rccl-tests.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

# Ages of the printers: NCCL 1 and the first nccl-tests ("bytes"), 2.0 to 2.7 ("narrow"), 2.8 to
# 2.12 ("error"), 2.13 to 2.16 ("wrong"), 2.17 and 2.18 ("util"), 2.19 and later ("util3").
ERAS = ("bytes", "narrow", "error", "wrong", "util", "util3", "rccl-error", "rccl-util")
UTIL = ("util", "util3", "rccl-util")  # that print through src/util.cu
ELEMENT = {
    "int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2,
    "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1, "char": 1, "int": 4,
}  # fmt: skip
TYPES = {
    "bytes": ("char", "int", "half", "float", "double", "int64", "uint64"),
    "narrow": ("int8", "uint8", "int32", "half", "float", "double"),
    "error": ("int8", "half", "float", "double", "bfloat16"),
    "rccl-error": ("int8", "half", "float", "double", "bfloat16"),
    "wrong": ("uint8", "int64", "half", "float", "bfloat16"),
    "util": ("float", "bfloat16", "half", "f8e4m3"),
    "util3": ("float", "bfloat16", "f8e4m3", "f8e5m2", "uint64"),
    "rccl-util": ("float", "bfloat16", "half"),
}
PROGRAMS = {
    "all_reduce": "all_reduce_perf", "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf", "broadcast": "broadcast_perf",
    "reduce": "reduce_perf", "all_to_all": "alltoall_perf", "send_recv": "sendrecv_perf",
    "gather": "gather_perf", "scatter": "scatter_perf", "hypercube": "hypercube_perf",
}  # fmt: skip
OLD_COLUMNS = {
    "all_reduce": ("redop",), "reduce_scatter": ("redop",), "reduce": ("redop", "root"),
    "broadcast": ("root",), "all_gather": (), "send_recv": (), "all_to_all": ("redop",),
    "gather": ("root",), "scatter": ("root",), "hypercube": (),
}  # fmt: skip
PARTS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "hypercube")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCES = ("all_reduce", "reduce_scatter", "reduce", "send_recv")
LAUNCHERS = ("none", "mpirun", "srun", "hydra", "chunks", "pdsh", "kubectl", "stamp", "compose")


@dataclass(frozen=True)
class Shape:
    """What is printed. `named`: by a line or a command that tells the program."""

    era: str = "wrong"
    collective: str = "all_reduce"
    ranks: int = 8
    hosts: int = 1
    rows: int = 6
    dtype: str = "float"
    check: bool = True
    per_iteration: bool = False
    bitwise: bool = False
    timestamps: bool = False
    cputime: bool = False
    halves: str = "both"  # both, in-place, out-of-place; null: an empty first half
    hipevt: bool = False
    algo: bool = False
    devices: bool = True
    header: bool = True
    settings: bool = True
    footer: bool = True
    named: bool = False
    launcher: str = "none"
    noise: bool = False
    interrupted: bool = False
    line_end: str = "\n"
    colour: bool = False
    hash_lost: bool = False
    huge: bool = False  # times and bandwidths that overflow their columns


@dataclass
class Half:
    """The printed tokens of one half; wrong is "N/A" where nothing was checked."""

    time: str
    algbw: str
    busbw: str
    check: str
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Row:
    size: int
    count: int
    redop: str | None
    root: str | None
    out_of_place: Half | None
    in_place: Half | None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Printed:
    text: str
    rows: list[Row]
    average: str | None
    hosts: list[str]


def print_table(shape: Shape, seed: int) -> Printed:
    """One table with everything that the shape asks for around it."""
    rng = random.Random(seed)
    hosts = [f"gpu-{rng.randrange(100, 999)}-{at}" for at in range(shape.hosts)]
    rows = [_row(shape, rng, at) for at in range(shape.rows)]
    lines: list[str] = []
    if shape.named and shape.era not in UTIL:
        lines.append(_command(shape, hosts))
    if shape.settings:
        lines += _opening(shape, rng)
    if shape.devices:
        lines += ["# Using devices", *_devices(shape, rng, hosts)]
    if shape.noise:
        lines += _nccl_lines(rng, hosts, 3)
    if shape.header:
        lines += ["#", *_header(shape)]
    for row in rows:
        text = _line(shape, row)
        if shape.interrupted and rng.random() < 0.4:
            lines += _interrupted(shape, rng, text, row, hosts)
        elif shape.launcher == "chunks":
            lines.append(_in_chunks(shape, row))
        else:
            lines.append(text)
        if shape.noise and rng.random() < 0.3:
            lines += _nccl_lines(rng, hosts, rng.randrange(1, 4))
    average = None
    if shape.footer:
        busbw = [float(half.busbw) for row in rows for half in _halves(row)]
        average = f"{math.fsum(busbw) / max(len(busbw), 1):g}"
        lines += _closing(shape, average)
    if shape.hash_lost:
        lines = [line.removeprefix("#") if line[:1] == "#" else line for line in lines]
    return Printed(_launched(shape, rng, lines, hosts), rows, average, hosts)


def _halves(row: Row) -> list[Half]:
    return [half for half in (row.out_of_place, row.in_place) if half]


# Numbers


def _row(shape: Shape, rng: random.Random, at: int) -> Row:
    element = ELEMENT[shape.dtype]
    size = (rng.choice((8, 64, 1000)) if rng.randrange(4) == 0 else 8) << at
    elements = size // element
    part = shape.collective in PARTS
    count = elements // shape.ranks if part else elements
    size = count * element * (shape.ranks if part else 1)
    redop: str | None = None
    root: str | None = None
    old = shape.era in ("bytes", "narrow", "error", "rccl-error")
    columns = OLD_COLUMNS[shape.collective] if old else ("redop", "root")
    if shape.era == "bytes":
        columns = ("redop",)
    if "redop" in columns:
        redop = "sum" if shape.collective in REDUCES else "" if old else "none"
        if shape.era == "bytes":
            redop = "sum"
    if "root" in columns:
        root = "0" if shape.collective in ROOTED else "-1"
    slow = 10 ** rng.uniform(0.7, 4) if not shape.huge else 10 ** rng.uniform(-1, 9)
    seconds = slow * 1e-6 + size / 10 ** rng.uniform(8, 12)
    both = shape.halves in ("both", "out-of-place")
    first = _half(shape, rng, size, seconds, False) if both else None
    second = None
    if shape.halves != "out-of-place":
        second = _half(shape, rng, size, seconds * rng.uniform(0.9, 1.1), True)
    labels = {}
    if shape.timestamps:
        labels["timestamp"] = f"2026-11-{rng.randrange(10, 30)} 10:{rng.randrange(10, 59)}:07"
    if shape.algo:
        labels |= {"algo": "RING", "proto": "SIMPLE", "nchannels": str(rng.randrange(1, 64))}
    return Row(size, count, redop, root, first, second, labels)


def _half(shape: Shape, rng: random.Random, size: int, seconds: float, in_place: bool) -> Half:
    ranks = shape.ranks
    shrunk = shape.collective == "hypercube" or (
        shape.era == "narrow" and shape.collective in ("all_gather", "reduce_scatter")
    )
    algbw = size / 1e9 / seconds * ((ranks - 1) / ranks if shrunk else 1)
    factor = 1.0
    if shape.collective == "all_reduce":
        factor = 2 * (ranks - 1) / ranks
    elif shape.collective in PARTS and not shrunk:
        factor = (ranks - 1) / ranks
    extra = {}
    if shape.hipevt:
        extra["hipevt"] = _width(shape, rng.uniform(1, 1e5), 7) if rng.random() < 0.9 else "N/A"
    if shape.bitwise:
        extra["#bitdiff"] = f"{rng.choice((0, 0, 1, 123456789)):g}"
    if shape.per_iteration:
        micro = seconds * 1e6
        for name, value in (
            ("i_min", micro * 0.9),
            ("i_max", micro * 1.7),
            ("i_p99", micro * 1.6),
            ("i_cv%", rng.uniform(0, 300)),
        ):
            extra[name] = _width(shape, value, 7)
    unchecked = in_place and shape.collective in ("all_to_all", "send_recv")
    return Half(
        _time(shape, seconds * 1e6 * (rng.uniform(0.2, 1) if shape.cputime else 1)),
        _bandwidth(shape, algbw),
        _bandwidth(shape, algbw * factor),
        _check(shape, rng, shape.check and not (unchecked and "error" not in shape.era)),
        extra,
    )


def _time(shape: Shape, micro: float) -> str:
    if shape.era == "bytes":
        return f"{micro / 1000:.3f}"
    if shape.era in UTIL:
        return _width(shape, micro, 7)
    if micro >= 10000:
        return f"{micro:.0f}"
    return f"{micro:.1f}" if micro >= 100 else f"{micro:.2f}"


def _bandwidth(shape: Shape, value: float) -> str:
    return _width(shape, value, 6) if shape.era in UTIL else f"{value:.2f}"


def _width(shape: Shape, value: float, width: int) -> str:
    """getFloatStr(): by powers of ten in 2.17 and 2.18, by what fits since."""
    if shape.era == "util3":
        for decimals in (2, 1, 0):
            if len(f"{value:.{decimals}f}") <= width:
                return f"{value:.{decimals}f}"
        return f"{value:.1e}" if width >= 7 else f"{value:.0e}"
    power = 0
    while value >= 10**power:
        power += 1
    if power < width - 2:
        return f"{value:.2f}"
    if power < width - 1:
        return f"{value:.1f}"
    if power < width + 1:
        return f"{value:.0f}"
    return f"{value:.1e}" if width >= 7 else f"{value:.0e}"


def _check(shape: Shape, rng: random.Random, checked: bool) -> str:
    if not checked:
        return "N/A"
    if shape.era in ("bytes", "narrow", "error", "rccl-error"):
        value = f"{rng.choice((0.0, 1e-6, 2.3e-7, 1.0, 4e2)):.0e}"
        return value + ("*" if shape.era == "rccl-error" and rng.random() < 0.2 else "")
    return f"{rng.choice((0, 0, 0, 7, 4096, 1234567, 987654321)):g}"


# Lines


def _line(shape: Shape, row: Row) -> str:
    return _lead(shape, row) + "".join(_pieces(shape, row))


def _lead(shape: Shape, row: Row) -> str:
    if shape.era == "bytes":
        return f"{row.size:12d}  {row.count:12d}  {shape.dtype:>6s}  {row.redop or '':>6s}"
    width = 6 if shape.era in ("narrow", "rccl-error") else 8
    text = f"{row.size:12d}  {row.count:12d}  {shape.dtype:>{width}s}"
    if row.redop is not None:
        text += f"  {row.redop:>6s}"
    if row.root is not None:
        text += f"  {row.root:>6s}"
    return text


def _pieces(shape: Shape, row: Row) -> list[str]:
    """What is flushed at a time: a half each, and the labels."""
    pieces = []
    if shape.halves == "null":
        pieces.append(" " * 32)
    for half in _halves(row):
        text = f"  {half.time:>7s}"
        if shape.hipevt:
            text += f"  {half.extra['hipevt']:>7s}"
        text += f"  {half.algbw:>6s}  {half.busbw:>6s}"
        if shape.era in UTIL:
            text += "    N/A" if half.check == "N/A" else f"  {half.check:>6s}"
        elif shape.era == "bytes":
            text += f"  {half.check:>7s}"
        else:
            text += f"  {half.check:>5s}"
        if shape.bitwise:
            text += f"  {half.extra['#bitdiff']:>8s}"
        if shape.per_iteration:
            for name in ("i_min", "i_max", "i_p99", "i_cv%"):
                text += f"  {half.extra[name]:>7s}"
        pieces.append(text)
    if shape.algo:
        labels = row.labels
        pieces.append(f"  {labels['algo']:>8s}  {labels['proto']:>8s}  {labels['nchannels']:>10s}")
    if shape.timestamps:
        pieces.append(f"{row.labels['timestamp']:>21s}")
    return pieces


def _header(shape: Shape) -> list[str]:
    half = ["cputime" if shape.cputime else "time"]
    if shape.era == "bytes":
        names = ["bytes", "N", "type", "op"]
        half += ["algbw", "busbw", "res"]
    else:
        old = shape.era in ("narrow", "error", "rccl-error")
        columns = OLD_COLUMNS[shape.collective] if old else ("redop", "root")
        names = ["size", "count", "type", *columns]
        half += ["hipevt"] if shape.hipevt else []
        half += ["algbw", "busbw", "error" if old else "#wrong"]
        half += ["#bitdiff"] if shape.bitwise else []
        half += ["i_min", "i_max", "i_p99", "i_cv%"] if shape.per_iteration else []
    places = {"in-place": ["in-place"], "out-of-place": ["out-of-place"]}.get(
        shape.halves, ["out-of-place", "in-place"]
    )
    words = half * len(places)
    if shape.algo:
        words = [*words, "algo", "proto", "nchannels"]
    if shape.timestamps:
        words = [*words, "timestamp"]
    lead = f"# {names[0]:>10s}  {names[1]:>12s}  {names[2]:>8s}"
    lead += "".join(f"  {name:>6s}" for name in names[3:])
    top = "#" + " " * 50 + (" " * 24).join(places)
    units = f"# {'(B)':>10s}  {'(elements)':>12s}" + " " * 24 + "(us)  (GB/s)  (GB/s)  "
    return [top, lead + "".join(f"  {word:>6s}" for word in words), units]


def _opening(shape: Shape, rng: random.Random) -> list[str]:
    step = "2(factor)"
    text = f"# nThread 1 nGpus 1 minBytes 8 maxBytes {1 << (2 + shape.rows)} step: {step} "
    text += "warmup iters: 5 iters: 20 "
    program = PROGRAMS[shape.collective]
    if shape.era in ("bytes", "narrow", "error"):
        return [text + f"validation: {int(shape.check)} ", "#"]
    text += f"agg iters: 1 validation: {int(shape.check)} graph: 0"
    if shape.era == "rccl-error":
        return [text, "#", "rccl-tests: Version develop:448c4c7"]
    if shape.era == "wrong":
        return [text, "#"]
    first = "# nccl-tests version 2.18.3 nccl-headers=23005 nccl-library=23005"
    if shape.era == "util3":
        first = "# nccl-tests version 2.20.0 (b4d5bee) nccl-headers=23102 nccl-library=23102"
    if shape.era == "rccl-util":
        first = "# rccl-tests version 2.17.9-448c4c7 rccl-headers=22707 rccl-library=22707"
    named = [f"# Collective test starting: {program}"] if shape.named else []
    return [first, *named, text + " unalign: 0", "#"]


def _devices(shape: Shape, rng: random.Random, hosts: list[str]) -> list[str]:
    lines = []
    each = math.ceil(shape.ranks / len(hosts))
    for rank in range(shape.ranks):
        host, device = hosts[rank // each], rank % each
        bus = f"0x{rng.randrange(256):02x}"
        if shape.era == "bytes":
            lines.append(
                f"#   Rank {rank:2d} on {host:>10s} device {device:2d} [{bus}] Tesla P100"
            )
        elif shape.era in ("narrow", "error", "rccl-error"):
            lines.append(
                f"#   Rank {rank:2d} Pid {4000 + rank:6d} on {host:>10s} device {device:2d} "
                f"[{bus}] Tesla V100-SXM2-16GB"
            )
        else:
            lines.append(
                f"#  Rank {rank:2d} Group  0 Pid {4000 + rank:6d} on {host:>10s} device "
                f"{device:2d} [0000:{rng.randrange(256):02x}:00] NVIDIA H100 80GB HBM3"
            )
    return lines


def _closing(shape: Shape, average: str) -> list[str]:
    lines = ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average} ", "#"]
    if shape.era.startswith("rccl"):
        lines.insert(
            0,
            "# Errors with asterisks indicate errors that have exceeded the maximum threshold.",
        )
    if shape.era in UTIL:
        named = (
            [f"# Collective test concluded: {PROGRAMS[shape.collective]}"] if shape.named else []
        )
        lines += [*named, "#"]
    return lines


def _command(shape: Shape, hosts: list[str]) -> str:
    program = PROGRAMS[shape.collective]
    if shape.hosts > 1:
        listed = ",".join(f"{host}:8" for host in hosts)
        return (
            f"user@login:~$ mpirun -np {shape.ranks} -H {listed} ./build/{program} -b 8 -e 1G -f 2"
        )
    return f"$ NCCL_DEBUG=INFO ./build/{program} -b 8 -e 1G -f 2 -g {shape.ranks}"


# What launchers, terminals and NCCL add


def _nccl_lines(rng: random.Random, hosts: list[str], lines: int) -> list[str]:
    said = (
        "NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM",
        "NCCL INFO 1048576 Bytes -> Algo 1 proto 2 time 25.148",
        "NCCL INFO NCCL_SOCKET_IFNAME set by environment to ens1",
        "NCCL INFO Launch mode Parallel",
    )
    host = rng.choice(hosts)
    return [f"{host}:4001:40{rng.randrange(10, 99)} [0] {rng.choice(said)}" for _ in range(lines)]


def _interrupted(
    shape: Shape, rng: random.Random, text: str, row: Row, hosts: list[str]
) -> list[str]:
    """NCCL's lines come between the pieces that a row is flushed in (NVIDIA/nccl#1453)."""
    pieces = [_lead(shape, row), *_pieces(shape, row)]
    if shape.halves == "null":
        return [text]
    halves = len(_halves(row))
    pieces[halves:] = ["".join(pieces[halves:])]
    lines = []
    for piece in pieces[:-1]:
        first, *rest = _nccl_lines(rng, hosts, rng.randrange(1, 3))
        lines += [piece + first, *rest]
    return [*lines, pieces[-1]]


def _in_chunks(shape: Shape, row: Row) -> str:
    """Intel MPI's -l writes its number before every piece, within the line too."""
    return "[0]".join([_lead(shape, row), *_pieces(shape, row)])


def _launched(shape: Shape, rng: random.Random, lines: list[str], hosts: list[str]) -> str:
    prefixes = {
        "none": "", "mpirun": "[1,0]<stdout>:", "srun": " 0: ", "hydra": "[0] ", "chunks": "[0] ",
        "pdsh": f"{hosts[0]}: ", "kubectl": "[pod/nccl-test-launcher-x7f/nccl] ", "stamp": None,
        "compose": "trainer-1  | ",
    }  # fmt: skip
    prefix = prefixes[shape.launcher]
    out = []
    for at, line in enumerate(lines):
        mark = f"2026-11-30T10:{at // 60 % 60:02d}:{at % 60:02d}.{rng.randrange(10**6):06d}Z "
        line = (mark if prefix is None else prefix) + line
        if shape.colour and rng.random() < 0.3:
            line = f"\x1b[0;32m{line}\x1b[0m"
        out.append(line)
    if shape.launcher == "mpirun" and shape.noise:
        banner = "-" * 74
        out = [banner, "WARNING: Could not generate an xpmem segment id for this process'", *out]
    return shape.line_end.join(out) + shape.line_end
