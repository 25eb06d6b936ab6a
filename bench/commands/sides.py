"""The sides of a comparison, read from whatever the user named.

In: a path: a report, a run's folder, an nccl-tests output, or a folder of which every entry (file
or folder) is one session, in any mix. Out: a Side. One run alone shows its own sessions, where its
samples are at hand. What cannot be read is told and left out; a side of nothing is refused.
"""

from __future__ import annotations

import calendar
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.commands import foreign_side
from bench.commands.foreign_side import Part
from bench.formats import file_walk, recognition
from bench.formats.recognition import UNKNOWN, UNREADABLE
from bench.judge.sides import faults, topics
from bench.model import side_curves
from bench.records import (
    BadInput,
    Dossier,
    Report,
    Session,
    SessionCurve,
    Side,
    SideSession,
)
from bench.report.session_times import session_times
from bench.report.stored import REPORT_NAME, SAMPLES_NAME, read_report

MOST_ENTRIES = 2000  # of one side: years of nights; a mistaken "/" would be read for hours
OWN = (b'"schema"', b'"verdict"', b'"run"')  # in the first bytes of a report.json
BEGINNING = 4096
_RUN_NAME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)Z")


def read(named: str) -> Side:
    """One side. BadInput where the path is not there or holds nothing that can be compared."""
    path, named = Path(named), file_walk.shown(named)
    if not path.exists():
        raise BadInput("no such file or folder", file=named)
    run = _run_of(path)
    if run is not None:
        return _of_run(named, run)
    if path.is_dir():
        return _of_entries(named, path)
    dossier = recognition.gather(file_walk.files([str(path)]))
    side = _joined(named, [foreign_side.part(path, dossier)], [], [dossier])
    return _refuse_nothing(side, dossier)


def figures(named: str) -> Dossier:
    """One file that may be a list of figures over versions, or hold both sides."""
    if not Path(named).exists():
        raise BadInput("no such file or folder", file=named)
    return recognition.gather(file_walk.files([named]))


def _run_of(path: Path) -> Path | None:
    """The report of a run's folder or a report itself; None for everything else."""
    if path.is_dir():
        return path / REPORT_NAME if (path / REPORT_NAME).is_file() else None
    try:
        with path.open("rb") as stream:
            head = stream.read(BEGINNING)
    except OSError:
        return None
    return path if head.lstrip()[:1] == b"{" and all(mark in head for mark in OWN) else None


def _of_entries(named: str, folder: Path) -> Side:
    """Every entry is a session; hidden files and notes for people are none."""
    entries = [Path(found) for found in sorted(folder.iterdir()) if not _is_note(found)]
    if len(entries) > MOST_ENTRIES:
        raise BadInput(f"holds {len(entries)} entries, more than {MOST_ENTRIES}", file=named)
    parts: list[Part] = []
    skipped: list[str] = []
    dossiers: list[Dossier] = []
    seen: set[Path] = set()
    runs: list[Path] = []
    for entry in entries:
        if entry.resolve() in seen:
            continue  # a link such as reports/latest
        seen.add(entry.resolve())
        try:
            run = _run_of(entry)
            if run is not None:
                runs.append(run)
                parts.append(_report(run))
                continue
            dossier = recognition.gather(file_walk.files([str(entry)]))
        except BadInput as bad:
            skipped.append(f"skipped: {bad}")
            continue
        told = foreign_side.part(entry, dossier)
        parts.append(told)
        dossiers.append(dossier)
        if not told[0] and not told[1] and not faults.SHOWING & set(told[2]):
            skipped += [f"skipped: {file.file}: {file.summary}" for file in dossier.files[:1]]
    if len(runs) == 1 and len(parts) == 1:
        return _of_run(named, runs[0])
    side = _joined(named, parts, skipped, dossiers)
    if not _holds(side):
        why = f": {skipped[0]}" if skipped else ""
        raise BadInput(f"holds no report and no table{why}", file=named)
    return side


def _is_note(entry: Path) -> bool:
    small = entry.name.lower()
    return small.startswith((".", "readme", "case.yaml", "license")) or small.endswith(
        (".md", "~")
    )


def _joined(
    named: str, parts: Sequence[Part], skipped: Sequence[str], dossiers: Sequence[Dossier]
) -> Side:
    return Side(
        path=named,
        sessions=tuple(session for sessions, _, _ in parts for session in sessions),
        topics=tuple(topic for _, own, _ in parts for topic in own),
        told=tuple(dict.fromkeys(kind for _, _, kinds in parts for kind in kinds)),
        skipped=tuple(skipped),
        findings=foreign_side.wrong_by_themselves(dossiers),
    )


def _holds(side: Side) -> bool:
    """Whether there is anything that could be held against another side."""
    return bool(side.sessions or side.topics or faults.SHOWING & set(side.told))


def _refuse_nothing(side: Side, dossier: Dossier) -> Side:
    if _holds(side):
        return side
    first = next((f for f in dossier.files if f.kind in (UNKNOWN, UNREADABLE)), None)
    why = f": {first.summary}" if first is not None else ""
    raise BadInput(f"holds no report and no table of nccl-tests{why}", file=side.path)


# ---------------------------------------------------------------------------------- our own runs


def _of_run(named: str, file: Path) -> Side:
    """A run by itself: its sessions, where samples of the same run lie beside the report."""
    report = read_report(file)
    sessions: tuple[SideSession, ...] = ()
    skipped: list[str] = []
    if (file.parent / SAMPLES_NAME).is_file():
        try:
            run, raw = session_times(file.parent)
        except BadInput as bad:
            skipped.append(f"skipped: {bad}")
        else:
            if run in ("", report.run):
                sessions = tuple(_sessions(report, file, raw))
    if not any(session.curves for session in sessions):
        sessions = (_summary(report, file),)
    return Side(
        path=named,
        sessions=sessions,
        topics=tuple(topics.of_report(report)),
        told=("report",),
        skipped=tuple(skipped),
    )


def _report(file: Path) -> Part:
    """A run as one session among others."""
    report = read_report(file)
    return (_summary(report, file),), tuple(topics.of_report(report)), ("report",)


def _summary(report: Report, file: Path) -> SideSession:
    dtype = report.plan.settings.dtype if report.plan is not None else None
    curves = [
        curve for line in report.lines if (curve := side_curves.of_line(line, dtype)) is not None
    ]
    return _session(report, file, tuple(curves), place=_started(report.run))


def _sessions(report: Report, file: Path, raw: Sequence[Session]) -> Iterator[SideSession]:
    """Sessions of the same number belong together: each candidate has one of them."""
    ranks = {line.candidate: line.ranks for line in report.lines}
    everyone = report.plan.ranks if report.plan is not None else 0
    for number in sorted({session.case.session for session in raw}):
        own = [session for session in raw if session.case.session == number]
        curves = [
            curve
            for session in own
            for collective in dict.fromkeys(sample.collective for sample in session.samples)
            if (curve := side_curves.of_session(
                session, collective, ranks.get(session.case.candidate) or everyone or None
            )) is not None
        ]  # fmt: skip
        starts = [session.started_at for session in own if session.started_at]
        yield _session(
            report,
            file,
            tuple(curves),
            place=min(starts, default=None) or _started(report.run),
            number=number,
            wrong=sum(sample.wrong for session in own for sample in session.samples),
        )


def _session(
    report: Report,
    file: Path,
    curves: tuple[SessionCurve, ...],
    *,
    place: float | None,
    number: int | None = None,
    wrong: int | None = None,
) -> SideSession:
    hosts = tuple(sorted(host.host for host in report.hosts))
    name = file_walk.shown(str(file.parent if file.name == REPORT_NAME else file))
    if wrong is None:
        wrong = sum(point.wrong for line in report.lines for point in line.points)
    return SideSession(
        name=name if number is None else f"{name} session {number}",
        run=f"{report.run} {name}",
        curves=curves,
        boot=_boot(report),
        hosts=hosts,
        host_count=len(hosts) or (report.plan.hosts if report.plan is not None else 0) or None,
        ranks=report.plan.ranks if report.plan is not None else None,
        backend=report.backend,
        place=place,
        outcomes={c.name: c.outcome for c in report.candidates},
        wrong=wrong,
    )


def _boot(report: Report) -> str | None:
    """One name for the boots of all hosts; None where one of them is not known."""
    boots = sorted((host.host, host.boot_id) for host in report.hosts if host.boot_id)
    if not boots or len(boots) < len(report.hosts):
        return None
    return hashlib.sha256(repr(boots).encode()).hexdigest()[:16]


def _started(run: str) -> float | None:
    """Seconds since the epoch of a run's name, where it is a time."""
    match = _RUN_NAME.search(run)
    if match is None:
        return None
    try:
        return float(calendar.timegm(time.strptime(match[0], "%Y-%m-%dT%H-%M-%SZ")))
    except ValueError:
        return None
