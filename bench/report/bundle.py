"""One archive of a run for a vendor's ticket: report, samples, logs, facts, serials, counters.

In: a run's folder. Out: the members of a .tar.gz, made anew from the run's records, so that
nothing gets in by lying in the folder; of foreign files only torchrun's logs are taken, by their
ends. MANIFEST lists every member with its size and SHA-256, and what was left out and why. Equal
runs make equal archives.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.records import HostFacts, MeasuredRound, Report, Session
from bench.report import conclusion, cut_run, exports, host_screen, page, serials
from bench.report.redaction import HostNames, names_of, redacted, scrubbed
from bench.report.run_files import TORCHRUN_NAME, regular_files, tail
from bench.report.stored import (
    REPORT_NAME,
    SAMPLES_NAME,
    Header,
    encode,
    plain,
    read_header,
    read_report,
    read_rounds,
    read_samples,
)

MOST_BYTES = 128 * 2**20  # unpacked; a night on 64 hosts is about 40 MB
SAMPLES_MOST_BYTES = 64 * 2**20  # larger ones stay where they are, and the manifest says so
LOG_TAIL_BYTES = 2**20
MOST_LOGS = 256
WIDTH = 100


@dataclass(frozen=True)
class Member:
    """One file of the archive."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Bundle:
    """What goes into the archive, MANIFEST first; `left_out` are sentences."""

    run: str
    members: tuple[Member, ...]
    left_out: tuple[str, ...]


def collect(run: Path, *, anonymize: bool = False) -> Bundle:
    """Everything that is worth sending. BadInput where the folder holds no run."""
    left_out: list[str] = []
    report, hosts, sessions, header = _read(run, left_out)
    names = HostNames(names_of(hosts)) if anonymize else None
    report, hosts = redacted(report, names), redacted(hosts, names)
    sessions, header = redacted(sessions, names), redacted(header, names)
    rounds = redacted(_rounds(run), names) if header is not None else ()
    members = [
        Member(REPORT_NAME, encode(report)),
        _text("report.html", page.render(report)),
        _text("summary.md", exports.summary_md(report)),
        _text("nccl.env", exports.nccl_env(report)),
        *(_samples(header, (*sessions, *rounds)) if header is not None else ()),
        *_facts(hosts),
        _text("serials.csv", serials.table(hosts)),
        _text("counters.csv", counters(sessions or report.sessions)),
        *_logs(sessions or report.sessions),
        *_torchrun_logs(run, names, left_out),
    ]
    status = tail(run / "status", 16)
    if status is not None:
        members.append(_text("status", status.decode(errors="replace")))
    kept = _within(sorted(members, key=lambda member: member.name), left_out)
    manifest = _manifest(report.run, kept, left_out, anonymize)
    return Bundle(report.run, (_text("MANIFEST", manifest), *kept), tuple(left_out))


def _read(
    run: Path, left_out: list[str]
) -> tuple[Report, tuple[HostFacts, ...], tuple[Session, ...], Header | None]:
    """The report, the facts as they were gathered, the sessions with their logs.

    samples.jsonl has the last two whole; the report has them trimmed."""
    folder = run if run.is_dir() else run.parent
    samples = folder / SAMPLES_NAME
    size_bytes = samples.stat().st_size if samples.is_file() else 0
    if not size_bytes:
        left_out.append(f"{SAMPLES_NAME}: not in the run's folder")
        report = read_report(run)
        return report, report.hosts, (), None
    if size_bytes > SAMPLES_MOST_BYTES:
        header = read_header(folder)
        left_out.append(f"{SAMPLES_NAME}: {size_bytes:,} bytes, more than {SAMPLES_MOST_BYTES:,}")
        return read_report(run), header.hosts, (), None
    header, sessions = read_samples(folder)
    if (folder / REPORT_NAME).is_file():
        return read_report(run), header.hosts, sessions, header
    left_out.append(f"{REPORT_NAME}: the run was cut short; it was made of the samples for this")
    report = conclusion.conclude(cut_run.as_far_as_it_went(header, sessions, _rounds(run)))
    return report, header.hosts, sessions, header


def _text(name: str, text: str) -> Member:
    return Member(name, text.encode("utf-8", "backslashreplace"))


def _rounds(run: Path) -> tuple[MeasuredRound, ...]:
    return read_rounds(run if run.is_dir() else run.parent)


def _samples(header: Header, ended: Iterable[Session | MeasuredRound]) -> Iterator[Member]:
    lines = (json.dumps(plain(record), ensure_ascii=False) for record in (header, *ended))
    yield _text(SAMPLES_NAME, "".join(f"{line}\n" for line in lines))


def _facts(hosts: Iterable[HostFacts]) -> Iterator[Member]:
    for host in hosts:
        name = file_name(host.host)
        yield _text(f"facts/{name}.json", json.dumps(plain(host), indent=1) + "\n")
        yield _text(f"facts/{name}.txt", host_screen.screen(host, width=WIDTH) + "\n")
        for tool, text in host.tool_outputs.items():
            yield _text(f"tools/{name}/{file_name(tool)}.txt", text)


def counters(sessions: Iterable[Session]) -> str:
    """What moved around each session, a line per counter."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("number", "candidate", "session", "outcome", "host", "counter", "moved"))
    for session in sessions:
        case = (session.case.number, session.case.candidate, session.case.session)
        for host in session.hosts:
            moved: dict[str, object] = {
                f"{interface}.{field}": value
                for interface, counts in host.interfaces.items()
                for field in counts.__struct_fields__
                if (value := getattr(counts, field))
            }
            moved |= {
                f"{port}.{name}": count
                for port, counts in host.rdma.items()
                for name, count in counts.items()
            }
            moved |= {
                "tcp_segments_out": host.tcp_segments_out,
                "tcp_retransmits": host.tcp_retransmits,
                **host.error_counters,
                **{f"{name}.throttled_s": seconds for name, seconds in host.throttled_s.items()},
                **{f"{name}_mhz": f"{a} to {b}" for name, (a, b) in host.gpu_clocks_mhz.items()},
                **{name: f"{a} to {b}" for name, (a, b) in host.changed.items()},
            }
            for name, value in moved.items():
                if value is not None:
                    rows.writerow((*case, session.outcome, host.host, name, value))
            for name, why in host.unreadable.items():
                rows.writerow((*case, session.outcome, host.host, name, f"unreadable: {why}"))
    return out.getvalue()


def _logs(sessions: Iterable[Session]) -> Iterator[Member]:
    for session in sessions:
        case = session.case
        folder = f"logs/{case.number:04d}-{file_name(case.candidate)}-{case.session}"
        for host in session.hosts:
            if host.nccl_log:
                yield _text(f"{folder}/{file_name(host.host)}.nccl.log", _lines(host.nccl_log))
        for rank in session.ranks:
            texts = (rank.error, rank.stacks, rank.log_tail)
            if any(texts):
                parts = [text for text in texts if text]
                yield _text(f"{folder}/rank{rank.rank}.txt", _lines(parts))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _torchrun_logs(run: Path, names: HostNames | None, left_out: list[str]) -> Iterator[Member]:
    files = regular_files(run / TORCHRUN_NAME)
    if len(files) > MOST_LOGS:
        left_out.append(f"{TORCHRUN_NAME}: {len(files) - MOST_LOGS} of {len(files)} files")
    for file in files[:MOST_LOGS]:
        content = tail(file, LOG_TAIL_BYTES)
        if not content:
            continue
        text = scrubbed(content.decode(errors="replace"))
        parts = [file_name(part) for part in file.relative_to(run).parts]
        yield _text("/".join(parts), names.replaced(text) if names is not None else text)


def file_name(name: str) -> str:
    """A name as part of a path: letters, digits and a few signs, never "..", never empty."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-#@") else "-" for c in name)
    return safe.strip(".-")[:120] or "unnamed"


def _within(members: Iterable[Member], left_out: list[str]) -> tuple[Member, ...]:
    """Members up to the limit, each name once; what does not fit is told."""
    kept: dict[str, Member] = {}
    room = MOST_BYTES
    for member in members:
        name, number = member.name, 1
        while name in kept:  # two hosts whose names differ in odd letters only
            number += 1
            stem, dot, ending = member.name.rpartition(".")
            name = f"{stem}~{number}{dot}{ending}"
        if len(member.content) > room:
            left_out.append(f"{name}: {len(member.content):,} bytes, no room left")
            continue
        room -= len(member.content)
        kept[name] = Member(name, member.content)
    return tuple(kept.values())


def _manifest(
    run: str, members: Iterable[Member], left_out: Iterable[str], anonymize: bool
) -> str:
    lines = [
        f"fabric-bench bundle of run {run}",
        "host names: " + ("replaced by host1, host2 …" if anonymize else "as they are"),
        "addresses, serial numbers, UUIDs and GUIDs: as they are",
        "variables: only those that steer communication; values behind secret names left out",
        *(f"left out: {sentence}" for sentence in left_out),
        "",
        f"{'bytes':>12}  {'sha256':64}  name",
        *(f"{len(m.content):12d}  {m.sha256}  {m.name}" for m in members),
    ]
    return "\n".join(lines) + "\n"


def packed(bundle: Bundle) -> bytes:
    """The archive. No clock, no owner, no path but below one folder of the run's name."""
    raw = io.BytesIO()
    top = f"fabric-bench-{file_name(bundle.run)}"
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in bundle.members:
            entry = tarfile.TarInfo(f"{top}/{member.name}")
            entry.size, entry.mode, entry.mtime = len(member.content), 0o644, 0
            archive.addfile(entry, io.BytesIO(member.content))
    return gzip.compress(raw.getvalue(), compresslevel=6, mtime=0)
