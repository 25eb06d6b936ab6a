"""Which formats a file is of, and everything that it tells, whichever they are.

In: sources. Out: a Dossier with the records of all formats and a ForeignFile for each file and
format; a file of no kind, or one that cannot be read, has an entry that says so. The table below
is the only place that lists the formats: each is a module with KIND, likeness and read.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from bench.formats import description, own_file, stranger
from bench.formats.file_walk import STDIN, Found
from bench.formats.prefix import Stripper
from bench.formats.source import Source
from bench.records import (
    BadInput,
    CollectiveTable,
    Dossier,
    ForeignFile,
    KernelHints,
    NcclLog,
    NvlinkStatus,
    PciBridge,
    PeerMatrix,
    PlainFigure,
    PortsOf,
    Record,
    SoftwareOf,
    StartFailure,
    TopologyMatrix,
    TopologyTree,
    Variables,
)

LIKELY = 0.5  # a format at least this sure of a file reads it, beside others that are
POSSIBLE = 0.2  # below LIKELY only the surest tries, and only where nobody is sure
UNKNOWN, UNREADABLE = "unknown", "unreadable"  # kinds of files that told nothing


class FormatModule(Protocol):
    """What a module of bench.formats offers to be in the table."""

    KIND: str

    @staticmethod
    def likeness(head: str, name: str) -> float: ...

    @staticmethod
    def read(source: Source) -> Record | Iterable[Record]: ...


@dataclass(frozen=True)
class Format:
    """A format's module. `marks`: any of these, anywhere in a large file, is worth a reading: a
    table may stand in the middle of a log of 100 MB. `alone`: a last resort, never beside others.
    """

    module: str
    marks: tuple[bytes, ...] = ()
    alone: bool = False

    def load(self) -> FormatModule:
        return cast(FormatModule, importlib.import_module(f"bench.formats.{self.module}"))


FORMATS = (
    Format("nccl_tests", marks=(b"out-of-place", b"Avg bus bandwidth")),
    Format("nccl_log", marks=(b" NCCL INFO ", b" NCCL WARN ")),
    Format("topo_matrix"),
    Format("amd_topology"),
    Format("topo_xml"),
    Format("nvlink_status"),
    Format("peer_matrix"),
    Format("lspci"),
    Format("gpu_query"),
    Format("kernel_hints"),
    Format("ibv_devinfo"),
    Format("accelerate_env"),
    Format("variables_file"),
    Format("start_failure", marks=(b"Test NCCL failure", b"Test CUDA failure")),
    Format("figures_list", alone=True),
)

# Where in a Dossier the records of a type are kept.
FIELDS: dict[type[Record], str] = {
    CollectiveTable: "tables",
    NcclLog: "logs",
    TopologyMatrix: "matrices",
    TopologyTree: "trees",
    NvlinkStatus: "nvlinks",
    PeerMatrix: "peers",
    PciBridge: "bridges",
    KernelHints: "kernels",
    Variables: "variables",
    PortsOf: "ports",
    SoftwareOf: "software",
    PlainFigure: "figures",
    StartFailure: "starts",
}


def gather(found: Iterable[Found], stdin: BinaryIO | None = None) -> Dossier:
    """Everything that the files tell. What cannot be read is in `files`, and no reason to stop."""
    records: dict[str, list[Record]] = {field: [] for field in FIELDS.values()}
    files: list[ForeignFile] = []
    for each in found:
        try:
            source = _opened(each, stdin)
            told, described = read(source)
        except BadInput as bad:
            files.append(ForeignFile(file=each.file, kind=UNREADABLE, summary=bad.sentence))
            continue
        files += described
        for record in told:
            records[FIELDS[type(record)]].append(record)
    lists = {field: tuple(listed) for field, listed in records.items()}
    return Dossier(files=tuple(files), **lists)  # type: ignore[arg-type]  # by FIELDS


def _opened(found: Found, stdin: BinaryIO | None) -> Source:
    if found.file == STDIN:
        return Source.of_stream(stdin or sys.stdin.buffer)
    return Source.open(Path(found.path), file=found.file)


def read(source: Source) -> tuple[list[Record], list[ForeignFile]]:
    """The records of one file, of all the formats it is of, and an entry for each format."""
    if own := own_file.describe(source):
        return [], [own]
    records: list[Record] = []
    files: list[ForeignFile] = []
    refusals: list[BadInput] = []
    for module in kinds(source):
        try:
            told = _listed(module.read(source))
        except BadInput as bad:
            refusals.append(bad)
            continue
        if told:
            records += told
            files.append(
                ForeignFile(
                    file=source.file,
                    kind=module.KIND,
                    summary=description.of(told),
                    bytes=source.size_bytes,
                    lines=source.line_count,
                    notes=_notes(source),
                )
            )
    if not files and refusals:
        raise refusals[0]
    return records, files or [_unknown(source)]


def kinds(source: Source) -> list[FormatModule]:
    """The formats that the file is of, the surest first; empty where it is of none."""
    sample = source.samples()
    stripper = Stripper.of_lines(sample)
    heads = ["\n".join(sample)]
    if stripper.layers:  # a launcher's prefix hides what every line begins with
        heads.append("\n".join(stripper.strip(line)[1] for line in sample))
    name = Path(source.file).name
    sure: list[tuple[float, FormatModule]] = []
    unsure: list[tuple[float, FormatModule]] = []
    marked = _marked(source)
    for at, each in enumerate(FORMATS):
        if each.alone and sure:
            continue
        module = each.load()
        likeness = max(module.likeness(head, name) for head in heads)
        likeness = max(likeness, LIKELY if at in marked else 0.0)
        if likeness >= LIKELY:
            sure.append((likeness, module))
        elif likeness >= POSSIBLE:
            unsure.append((likeness, module))
    chosen = sure or sorted(unsure, key=_likeness, reverse=True)[:1]
    return [module for _, module in sorted(chosen, key=_likeness, reverse=True)]


def _likeness(each: tuple[float, FormatModule]) -> float:
    return each[0]


def _marked(source: Source) -> set[int]:
    """The formats whose marks stand somewhere in a file that its sample does not show whole."""
    marked: set[int] = set()
    if source.is_sampled_whole:
        return marked
    wanted = {at: each.marks for at, each in enumerate(FORMATS) if each.marks}
    for _, chunk in source.chunks():
        here = [at for at, marks in wanted.items() if any(mark in chunk for mark in marks)]
        for at in here:
            marked.add(at)
            del wanted[at]
        if not wanted:
            break
    return marked


def _listed(told: Record | Iterable[Record]) -> Sequence[Record]:
    return (told,) if isinstance(told, Record) else tuple(told)


def _notes(source: Source) -> tuple[str, ...]:
    return tuple(_limits(source))


def _limits(source: Source) -> Iterator[str]:
    """What of the file was not read, and why."""
    if source.cut_lines:
        lines = "a line" if source.cut_lines == 1 else f"{source.cut_lines} lines"
        yield f"{lines} longer than 64 KiB cut"
    if source.cut_bytes is not None:
        yield f"only the first {source.cut_bytes >> 20:,} MiB were read"
    if source.damaged:
        yield f"the packed file ends early or is damaged: {source.damaged}"


def _unknown(source: Source) -> ForeignFile:
    return ForeignFile(
        file=source.file,
        kind=UNKNOWN,
        summary=f"looks like {stranger.looks_like(source.head())}",
        bytes=source.size_bytes,
    )
