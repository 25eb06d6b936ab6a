"""A folder of runs read as nights: in order, damaged ones named and skipped, each run once.

In: a folder of run folders. Out: a Past of Night records; full reports on request. What a night
needs is kept beside the runs in .nights.jsonl, a line a run that holds as long as its report.json
is unchanged, so that a year of nights of a thousand hosts is not read again every night. The file
may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.judge.history.nights import night_of
from bench.records import BadInput, Night, Nightly, Record, Report
from bench.report import folder as run_folder
from bench.report.stored import REPORT_NAME, SAMPLES_NAME, read_report

INDEX_NAME, LOCK_NAME, NIGHTLY_NAME = ".nights.jsonl", ".nightly.lock", "nightly.json"
MOST_NIGHTS = 1000  # the newest by name: nearly three years
INDEX_LIMIT_BYTES = 512 * 2**20
NIGHTLY_LIMIT_BYTES = 64 * 2**20
INDEX_SCHEMA = 1


class IndexLine(Record, frozen=True, kw_only=True):
    """One run as .nights.jsonl keeps it, with the state of the file that it was made of."""

    schema: int
    name: str
    size_bytes: int
    modified_ns: int
    run: str  # what the report calls itself: a copy under another name is the same run
    night: Night


@dataclass(frozen=True)
class History:
    """`nights` in order of time, each under the name of its folder. `skipped` are sentences."""

    folder: Path
    nights: tuple[Night, ...]
    skipped: tuple[str, ...]
    index: tuple[IndexLine, ...]

    def report(self, run: str) -> Report:
        """The whole report of a night. BadInput where it is not readable any more."""
        report = read_report(self.folder / run)
        return msgspec.structs.replace(report, run=run)

    def up_to(self, run: str) -> tuple[Night, ...]:
        """The nights until that of `run`, which is the last of them."""
        at = next(at for at, night in enumerate(self.nights) if night.run == run)
        return self.nights[: at + 1]

    def said(self, run: str) -> Nightly | None:
        """What the nightly job said on that night; None where it said nothing readable."""
        content = content_of(self.folder / run / NIGHTLY_NAME, NIGHTLY_LIMIT_BYTES)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Nightly)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


def read(folder: Path) -> History:
    """The nights of a history. BadInput where `folder` is no folder; an empty one is a history
    without nights."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if _may_be_a_run(entry))
    except FileNotFoundError:
        raise BadInput("no such folder", file=str(folder)) from None
    except NotADirectoryError:
        raise BadInput(
            "is not a folder; a history is a folder of runs", file=str(folder)
        ) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {run_folder.why(error)}", file=str(folder)) from None
    skipped: list[str] = []
    if len(names) > MOST_NIGHTS:
        skipped.append(f"the oldest {len(names) - MOST_NIGHTS} of {len(names)} runs are left out")
        names = names[-MOST_NIGHTS:]
    known = {line.name: line for line in _index(folder / INDEX_NAME)}
    found: list[IndexLine] = []
    for name in names:
        line = _line(folder / name, known.get(name), skipped)
        if line is not None:
            found.append(line)
    nights: dict[tuple[str, float, tuple[str, ...]], Night] = {}
    for line in found:
        own = line.run, line.night.started_at, line.night.hosts
        if own in nights and nights[own].lines == line.night.lines:
            skipped.append(f"{line.name} is a copy of {nights[own].run} and counts once")
        else:
            nights[own] = line.night
    ordered = sorted(nights.values(), key=lambda night: (night.started_at, night.run))
    return History(folder, tuple(ordered), tuple(skipped), tuple(found))


def keep(history: History) -> None:
    """Write the index; where the disk does not let us, the next night reads the reports again."""
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in history.index)
    run_folder.put(history.folder / INDEX_NAME, lines)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The history is this job's alone meanwhile. BadInput where another job holds it: to wait
    would pile up jobs behind one that hangs."""
    path = folder / LOCK_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise BadInput(
            f"no history can be kept here: {run_folder.why(error)}", file=str(folder)
        ) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
            by = f" (process {holder})" if holder.isdigit() else ""
            raise BadInput(
                f"another nightly job{by} is at work in this history; this one has done nothing",
                file=str(folder),
            ) from None
        except OSError as error:
            if error.errno not in run_folder.NO_LOCKS:
                raise
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(lock)  # the file stays: to remove it would let two jobs lock two files


def _may_be_a_run(entry: Path) -> bool:
    return not entry.name.startswith(".") and not entry.is_symlink() and entry.is_dir()


def _line(place: Path, known: IndexLine | None, skipped: list[str]) -> IndexLine | None:
    file = place / REPORT_NAME
    try:
        state = file.stat()
    except OSError:
        if (place / SAMPLES_NAME).exists():
            skipped.append(
                f"{place.name} has no report: its run ended early (fabric-bench report {place})"
            )
        return None
    fresh = known is not None and (known.size_bytes, known.modified_ns) == (
        state.st_size,
        state.st_mtime_ns,
    )
    if known is not None and fresh:
        return known
    try:
        report = read_report(file)
        night = msgspec.structs.replace(night_of(report), run=place.name)
    except BadInput as bad:
        skipped.append(f"{place.name} is damaged and left out: {bad.sentence}")
        return None
    return IndexLine(
        schema=INDEX_SCHEMA,
        name=place.name,
        size_bytes=state.st_size,
        modified_ns=state.st_mtime_ns,
        run=report.run,
        night=night,
    )


def _index(file: Path) -> Sequence[IndexLine]:
    """The lines that can be believed; none where the file is absent or of another version."""
    content = content_of(file, INDEX_LIMIT_BYTES)
    found = []
    for line in (content or b"").split(b"\n"):
        try:
            one = msgspec.json.decode(line, type=IndexLine) if line else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # half written, or by another version: its report is read again
        if one is not None and one.schema == INDEX_SCHEMA and _is_whole(one.night):
            found.append(one)
    return found


def _is_whole(night: Night) -> bool:
    return all(
        len(line.sizes_bytes) == len(line.times_s) == len(line.half_widths) for line in night.lines
    )


def content_of(file: Path, limit_bytes: int) -> bytes | None:
    """A small regular file's bytes; None where there is none that can be read."""
    try:
        with file.open("rb") as stream:
            content = stream.read(limit_bytes + 1)
    except OSError:
        return None
    return content if len(content) <= limit_bytes else None
