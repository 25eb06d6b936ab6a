"""Measured lines of what the user named: reports of ours, and tables of nccl-tests.

In: paths. Out: a FabricLines: what there is inside a host and between hosts, over which network,
and the lines of the networks that are worse. A report's best network stands for it: that is what
training gets once NCCL is told to use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.formats import file_walk, own_file, recognition
from bench.formats.source import Source
from bench.judge.foreign import tables
from bench.judge.foreign.surroundings import run_of
from bench.model.strategies.measured import MeasuredLine
from bench.model.table_line import lines as lines_of_table
from bench.records import Backend, BadInput, Candidate, CostLine, Dossier, Finding, Report
from bench.report.stored import REPORT_NAME, read_report

FAULTS = ("interface-misselected", "link-degraded", "host-slow", "rail-slow", "below-expectation",
          "bandwidth-collapse", "link-negotiated-down")  # fmt: skip


class FabricLines(msgspec.Struct, frozen=True, kw_only=True):
    """`chosen` are the lines that stand for the fabric; `others` those of a report's further
    networks by candidate. `default` names the candidate that jobs get with nothing set, where it
    is not the chosen one. `findings` are those of the reports that say what is wrong with it."""

    source: str = ""
    backend: Backend = "nccl"
    ranks: int | None = None
    hosts: int | None = None
    gpu_memory_bytes: int | None = None
    network: str | None = None
    chosen: tuple[MeasuredLine, ...] = ()
    others: dict[str, tuple[MeasuredLine, ...]] = {}
    default: str | None = None
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def gather(paths: Sequence[str], candidate: str = "") -> FabricLines:
    """Everything of all paths. BadInput where one is not there or holds no line."""
    gathered = [_one(path, candidate) for path in paths]
    backends = {each.backend for each in gathered}
    if len(backends) > 1:
        raise BadInput("lines of NCCL and of gloo do not go together; name reports of one of them")
    main = max(gathered, key=lambda each: (each.hosts or 0, each.ranks or 0))
    return FabricLines(
        source=" · ".join(dict.fromkeys(each.source for each in gathered)),
        backend=main.backend,
        ranks=main.ranks,
        hosts=main.hosts,
        gpu_memory_bytes=main.gpu_memory_bytes,
        network=main.network,
        chosen=tuple(line for each in gathered for line in each.chosen),
        others=main.others,
        default=main.default,
        findings=tuple(f for each in gathered for f in each.findings),
        notes=tuple(dict.fromkeys(note for each in gathered for note in each.notes)),
    )


def _one(path: str, candidate: str) -> FabricLines:
    if path != file_walk.STDIN and not Path(path).exists():
        raise BadInput("no such file or folder", file=file_walk.shown(path))
    run = _run_of(Path(path)) if path != file_walk.STDIN else None
    if run is not None:
        return _of_report(read_report(run), file_walk.shown(path), candidate)
    if candidate:
        raise BadInput("--candidate names a network of a report of ours; this is none", file=path)
    return _of_tables(recognition.gather(file_walk.files([path])), file_walk.shown(path))


def _run_of(path: Path) -> Path | None:
    """The report of a run's folder or a report itself; None for everything else."""
    if path.is_dir():
        return path / REPORT_NAME if (path / REPORT_NAME).is_file() else None
    told = own_file.describe(Source.open(path))
    return path if told is not None and told.kind == "report" else None


# ---------------------------------------------------------------------------------- our own runs


def _of_report(report: Report, named: str, wanted: str) -> FabricLines:
    hosts = len(report.hosts) or (report.plan.hosts if report.plan is not None else 0) or 1
    kinds = {each.name: each for each in report.candidates}
    fitted = [line for line in report.lines if line.pieces and line.ranks > 1]
    if not fitted:
        raise BadInput("no line was fitted in this run; nothing can be timed by it", file=named)
    whole = max(line.ranks for line in fitted)
    spanning: dict[str, list[CostLine]] = {}
    for line in fitted:
        if line.ranks == whole and not _is_path(kinds.get(line.candidate)):
            spanning.setdefault(line.candidate, []).append(line)
    if wanted and wanted not in spanning:
        raise BadInput(
            f"no network {wanted!r} was measured over all {whole} ranks; there are "
            f"{', '.join(spanning) or 'none'}",
            file=named,
        )
    best = wanted or max(spanning, key=lambda name: _pace(spanning[name]), default=None)
    by_name = {
        name: tuple(_measured(line, hosts, report, name) for line in lines)
        for name, lines in spanning.items()
    }
    inside = _paths(fitted, kinds, report) if hosts > 1 or best is None else ()
    default = next((c.name for c in report.candidates if c.kind == "default"), None)
    notes = [f"the run was judged {report.verdict}"] if report.verdict != "healthy" else []
    return FabricLines(
        source=f"{named} ({report.run})",
        backend=report.backend,
        ranks=whole,
        hosts=hosts,
        gpu_memory_bytes=_gpu_memory(report),
        network=best,
        chosen=(*(by_name.get(best, ()) if best else ()), *inside),
        others={name: lines for name, lines in by_name.items() if name != best},
        default=default if default != best and default in by_name else None,
        findings=tuple(f for f in report.findings if f.code in FAULTS),
        notes=tuple(notes),
    )


def _is_path(candidate: Candidate | None) -> bool:
    return candidate is not None and candidate.kind == "gpu-path"


def _pace(lines: Iterable[CostLine]) -> float:
    return max((line.busbw_gbs.value for line in lines if line.busbw_gbs), default=0.0)


def _measured(line: CostLine, hosts: int, report: Report, name: str) -> MeasuredLine:
    return MeasuredLine(line=line, hosts=hosts, backend=report.backend, source=name)


def _paths(
    fitted: Sequence[CostLine], kinds: dict[str, Candidate], report: Report
) -> tuple[MeasuredLine, ...]:
    """Lines inside a host: what NCCL takes there by itself (p2p), of the slowest host."""
    slowest: dict[str, CostLine] = {}
    for line in fitted:
        if not _is_path(kinds.get(line.candidate)) or not line.candidate.startswith("p2p"):
            continue
        known = slowest.get(line.collective)
        if known is None or _pace([line]) < _pace([known]):
            slowest[line.collective] = line
    return tuple(_measured(line, 1, report, line.candidate) for line in slowest.values())


def _gpu_memory(report: Report) -> int | None:
    """Of the smallest GPU, where every host tells."""
    sizes = [gpu.memory_bytes for host in report.hosts for gpu in host.gpus]
    known = [size for size in sizes if size]
    return min(known) if known and len(known) == len(sizes) else None


# ----------------------------------------------------------------------------------- foreign files


def _of_tables(dossier: Dossier, named: str) -> FabricLines:
    measured = list(_measured_tables(dossier))
    if not measured:
        why = f": {dossier.files[0].summary}" if dossier.files else ""
        raise BadInput(f"holds no report and no table with a line{why}", file=named)
    main = max(measured, key=lambda each: (each[0].hosts, each[0].ranks))[0]
    notes = dict.fromkeys(note for _, note in measured if note)
    return FabricLines(
        source=named,
        ranks=main.ranks,
        hosts=main.hosts,
        chosen=tuple(each for each, _ in measured),
        notes=tuple(notes),
    )


def _measured_tables(dossier: Dossier) -> Iterator[tuple[MeasuredLine, str]]:
    """The better half of each table, and what had to be assumed of it."""
    for table in dossier.tables[: tables.MOST_FITTED]:
        halves = [line for line in lines_of_table(table) if line.pieces and line.ranks > 1]
        if not halves:
            continue
        line = max(halves, key=lambda one: _pace([one]))
        run = run_of(table, dossier)
        hosts, note = run.hosts, ""
        if hosts is None:
            hosts = 1 if line.ranks <= 8 else -(-line.ranks // 8)
            note = (
                f"{table.file}:{table.line} does not tell its hosts: {line.ranks} ranks are taken "
                f"for {hosts} host{'s' if hosts != 1 else ''} of up to 8"
            )
        name = f"{table.file}:{table.line}"
        yield MeasuredLine(line=line, hosts=hosts, source=name), note
