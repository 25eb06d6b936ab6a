"""Everything that foreign files have told, together: the input of the judges of evidence."""

from __future__ import annotations

from bench.records.facts import RdmaPort, Software
from bench.records.finding import Finding
from bench.records.line import CostLine
from bench.records.log import NcclLog
from bench.records.table import CollectiveTable
from bench.records.topology import (
    KernelHints,
    NvlinkStatus,
    PciBridge,
    PeerMatrix,
    TopologyMatrix,
    TopologyTree,
)
from bench.records.words import Record, Verdict


class ForeignFile(Record, frozen=True, kw_only=True):
    """One file: what it was taken for and one line about it. `kind` is its format's name."""

    file: str
    kind: str
    summary: str = ""
    bytes: int = 0
    lines: int = 0
    notes: tuple[str, ...] = ()


class Variables(Record, frozen=True, kw_only=True):
    """Environment variables of a file: `KEY=value` lines, `export`s, `-x` of an mpirun line.

    Only allow-listed names are kept. `forwarded` are those that a launcher was told to hand on
    (mpirun -x, srun --export; "ALL" stands for everything); `exported` those that the file exports
    to the launcher itself; `launched_on` the hosts that the launcher's line names.
    """

    file: str
    line: int = 1
    host: str | None = None
    variables: dict[str, str] = {}
    exported: tuple[str, ...] = ()
    forwarded: tuple[str, ...] = ()
    launched_on: tuple[str, ...] = ()
    launcher: str | None = None  # mpirun, srun, torchrun: the line as written, secrets left out


class PortsOf(Record, frozen=True, kw_only=True):
    """RDMA ports of one host, as ibv_devinfo (or ibstat) prints them; host from the file's name
    where it holds none."""

    file: str
    host: str
    line: int = 1
    ports: tuple[RdmaPort, ...] = ()


class SoftwareOf(Record, frozen=True, kw_only=True):
    """Versions from a bug report (`accelerate env`, collect_env)."""

    file: str
    software: Software
    details: dict[str, str] = {}


class PlainFigure(Record, frozen=True, kw_only=True):
    """One measured bandwidth of a list or CSV, busbw in 1e9 bytes/s where the file says so.

    `labels` are its other columns (state, version, test); `hosts` the pair or set it ran on.
    `quantity` is the column's own word (busbw, algbw, bandwidth) where it has one.
    """

    file: str
    line: int
    busbw_gbs: float
    hosts: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    ranks: int | None = None
    size_bytes: int | None = None
    quantity: str | None = None
    note: str | None = None


class StartFailure(Record, frozen=True, kw_only=True):
    """A program that did not start, or a build that broke, in its own words.

    `subject` is what is named: a library, a symbol, a header, an error of CUDA's or NCCL's;
    `program` what wanted it. `count` is how often the file says it; `driver` the NVIDIA driver
    where the file tells its version.
    """

    file: str
    line: int
    kind: str
    text: str
    subject: str | None = None
    program: str | None = None
    hosts: tuple[str, ...] = ()
    count: int = 1
    driver: str | None = None


class Dossier(Record, frozen=True, kw_only=True):
    """All records of all files, each with the file it came from."""

    files: tuple[ForeignFile, ...] = ()
    tables: tuple[CollectiveTable, ...] = ()
    logs: tuple[NcclLog, ...] = ()
    matrices: tuple[TopologyMatrix, ...] = ()
    trees: tuple[TopologyTree, ...] = ()
    nvlinks: tuple[NvlinkStatus, ...] = ()
    peers: tuple[PeerMatrix, ...] = ()
    bridges: tuple[PciBridge, ...] = ()
    kernels: tuple[KernelHints, ...] = ()
    variables: tuple[Variables, ...] = ()
    ports: tuple[PortsOf, ...] = ()
    software: tuple[SoftwareOf, ...] = ()
    figures: tuple[PlainFigure, ...] = ()
    starts: tuple[StartFailure, ...] = ()


class TableAnswer(Record, frozen=True, kw_only=True):
    """What is said of one table: its plateau against what its system should show.

    `plateau_busbw_gbs` is the level of the largest sizes (`peak_…` the single best row);
    `expected_busbw_gbs` with its `system` and `basis_text` None where nothing is known of it.
    """

    file: str
    line: int
    collective: str | None = None
    ranks: int | None = None
    hosts: int | None = None
    peak_busbw_gbs: float | None = None
    peak_size_bytes: int | None = None
    plateau_busbw_gbs: float | None = None
    average_busbw_gbs: float | None = None
    expected_busbw_gbs: float | None = None
    system: str | None = None
    basis_text: str | None = None
    share: float | None = None
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()  # why it may be low, likeliest first, each with its check


class Reading(Record, frozen=True, kw_only=True):
    """`python -m bench read`: what the files are, what they show, what is wrong."""

    schema: int = 1
    verdict: Verdict = "inconclusive"
    dossier: Dossier = Dossier()
    answers: tuple[TableAnswer, ...] = ()
    lines: tuple[CostLine, ...] = ()
    facts: tuple[str, ...] = ()  # what logs and topologies show, one sentence each
    findings: tuple[Finding, ...] = ()
