"""A run's folder: held by one sweep at a time, filled as the sweep goes, finished atomically.

In: the folder's path, then records. Out: samples.jsonl (a line per session or round as it ends),
report.json, report.html, summary.md, nccl.env, lines.csv, junit.xml, metrics.prom, suspects.txt,
status. A crash loses one session at most; a reader sees a whole report or none. A disk that fills
up costs files, never the run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from bench.records import (
    Candidate,
    CopyCheck,
    Fabric,
    HostFacts,
    MeasuredRound,
    Plan,
    PreflightPair,
    Report,
    Session,
)
from bench.report import exports, folder, page
from bench.report.pairs import suspects_file
from bench.report.stored import (
    REPORT_NAME,
    SAMPLES_NAME,
    Header,
    encode,
    plain,
    read_report,
    read_samples,
)

__all__ = ["Header", "Journal", "read_report", "read_samples"]


class Journal:
    """The folder of one run, from before the first measurement to the verdict.

    BadInput where the folder cannot be had: another sweep holds it, it has a finished report, it
    cannot be written, the disk is full. Afterwards nothing here raises for a disk's sake.
    """

    def __init__(self, out: Path, *, keep_samples: bool = False) -> None:
        """`keep_samples`: the samples that are there are this run's, cut short and now judged;
        otherwise those of a run that died here are set aside under another name."""
        self.out = out
        self.finished = False  # report.json is in its place
        self._samples: int | None = None
        self._good_bytes = 0  # of samples.jsonl, up to the last whole line
        self._pending: list[bytes] = []
        self._sessions = self._rounds = 0
        self._trouble: str | None = None
        self._lock = folder.take(out, keep_samples=keep_samples)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back. What was written stays."""
        if self._samples is not None:
            os.close(self._samples)
            self._samples = None
        folder.give_back(self.out, self._lock)
        self._lock = None

    def header(
        self,
        hosts: Sequence[HostFacts],
        plan: Plan,
        candidates: Sequence[Candidate],
        fabric: Fabric | None,
        *,
        preflight: Sequence[PreflightPair] = (),
        copies: Sequence[CopyCheck] = (),
        labels: dict[str, str] | None = None,
        run: str | None = None,
    ) -> None:
        """The first line of samples.jsonl: what the sessions belong to."""
        self._keep(
            Header(
                run=run or self.out.name,
                started_at=time.time(),
                labels=labels or {},
                fabric=fabric,
                hosts=tuple(hosts),
                plan=plan,
                candidates=tuple(candidates),
                preflight=tuple(preflight),
                copies=tuple(copies),
            )
        )

    def append(self, session: Session) -> None:
        """A session that has ended, with all its raw times."""
        self._sessions += 1
        self._keep(session)

    def append_round(self, measured: MeasuredRound) -> None:
        """A round of pairs that has ended."""
        self._rounds += 1
        self._keep(measured)

    def _keep(self, record: Header | Session | MeasuredRound) -> None:
        self._pending.append(json.dumps(plain(record), ensure_ascii=False).encode() + b"\n")
        self._flush()

    def _flush(self) -> None:
        """Write what is pending; what cannot be written stays pending for the next time."""
        if not self._pending:
            return
        try:
            if self._samples is None:
                self._samples = os.open(self.out / SAMPLES_NAME, folder.NEW_FILE, 0o644)
            while self._pending:
                folder.write_all(self._samples, self._pending[0])
                self._good_bytes += len(self._pending.pop(0))
        except OSError as error:
            self._trouble = folder.why(error)
            if self._samples is not None:
                self._drop_half_a_line(self._samples)

    def _drop_half_a_line(self, samples: int) -> None:
        try:
            os.ftruncate(samples, self._good_bytes)
            os.lseek(samples, self._good_bytes, os.SEEK_SET)
        except OSError:
            pass  # it stays at the end, where read_samples expects it

    def missing(self) -> tuple[str, ...]:
        """Sentences for the report: what samples.jsonl lacks, and why."""
        if not self._pending:
            return ()
        written = self._sessions + self._rounds
        lost = min(len(self._pending), written)
        what = "sessions and rounds" if self._rounds else "sessions"
        sentence = f"samples.jsonl lacks {lost} of {written} {what}: {self._trouble}."
        return (sentence,)

    def write(self, report: Report) -> tuple[str, ...]:
        """The finished run: report.json first, for the others can be made from it again.

        Returns one sentence for each file that could not be written; `finished` tells whether
        report.json is there.
        """
        self._flush()
        lacking = tuple(s for s in self.missing() if s not in report.missing)
        report = msgspec.structs.replace(report, missing=(*report.missing, *lacking))
        # Here, because their libraries take a third of a second that no rank should wait for.
        from bench.report import junit, metrics, points_csv

        makers: dict[str, Callable[[Report], str]] = {
            "nccl.env": exports.nccl_env,
            "summary.md": exports.summary_md,
            "report.html": page.render,
            "lines.csv": points_csv.lines,
            "junit.xml": junit.render,
            "metrics.prom": metrics.render,
        }
        if report.location is not None:
            makers["suspects.txt"] = suspects_file.render
        trouble = [folder.put(self.out / REPORT_NAME, encode(report))]
        self.finished = trouble == [None]
        for name, maker in makers.items():
            content = maker(report).encode("utf-8", "backslashreplace")
            trouble.append(folder.put(self.out / name, content))
        if self.finished:
            folder.point_latest(self.out)
        return tuple(sentence for sentence in trouble if sentence)

    def status(self, code: int) -> bool:
        """The sweep's true exit status, as torchrun makes 1 of every failure."""
        return folder.put(self.out / "status", f"{code}\n".encode()) is None
