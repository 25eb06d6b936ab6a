"""The run's folder as a place: taken by one sweep at a time, refused with a reason, kept whole.

In: paths and bytes. Out: files that are there whole or not at all. A full disk, a read-only one,
a folder with a finished run in it, another sweep's folder: one sentence each.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from bench.records import BadInput
from bench.report.stored import REPORT_NAME, SAMPLES_NAME

LOCK_NAME, LATEST_NAME, REPORTS_NAME = ".lock", "latest", "reports"
ROOM_BYTES = 4 * 2**20  # a page of 2 MiB, a report, samples: less is known to be too little
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
}


def take(out: Path, *, keep_samples: bool = False) -> int | None:
    """Make the folder `out` ours. Returns the descriptor that holds it until `give_back`; None
    where the file system has no locks. BadInput where it cannot be had."""
    new = not out.exists()
    lock = None
    try:
        out.mkdir(parents=True, exist_ok=True)
        _refuse_finished(out)
        lock = _locked(out / LOCK_NAME)
        _refuse_finished(out)
        _refuse_full(out)
        _tidy(out)
        if not keep_samples:
            _set_aside(out)
    except BadInput:
        give_back(out, lock)
        if new and lock is not None:  # without the lock it is another sweep's by now
            try:
                out.rmdir()
            except OSError:
                pass  # somebody has put something there
        raise
    except (FileExistsError, NotADirectoryError):
        raise BadInput("is not a folder: a run needs one of its own", file=str(out)) from None
    except OSError as error:
        give_back(out, lock)
        raise BadInput(f"no run can be kept here: {why(error)}", file=str(out)) from None
    return lock


def give_back(out: Path, lock: int | None) -> None:
    """The folder is free for others; what was written stays."""
    if lock is not None:
        # Removed while still held: whoever opens it in between notices that it is gone.
        remove(out / LOCK_NAME)
        os.close(lock)


def put(file: Path, content: bytes) -> str | None:
    """Replace a file in one step; a sentence where that was not possible."""
    temporary = file.with_name(f".{file.name}.tmp")
    try:
        descriptor = os.open(temporary, NEW_FILE, 0o644)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(file)
    except OSError as error:
        return f"{file.name} could not be written: {why(error)}."
    finally:
        remove(temporary)
    return None


def _locked(path: Path) -> int | None:
    """A descriptor that holds the folder; None where the file system has no locks.

    The kernel drops the lock with its process, so that a file left by a dead one is no obstacle.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_ino == path.stat().st_ino:
                os.ftruncate(file, 0)
                os.write(file, f"{os.getpid()}\n".encode())
                return file
        except FileNotFoundError:
            pass  # its holder has just finished: try again with a new file
        except BlockingIOError:
            holder = os.pread(file, 32, 0).decode("ascii", "replace").strip()
            os.close(file)
            raise BadInput(
                "another sweep"
                + (f" (process {holder})" if holder.isdigit() else "")
                + " is writing into this folder; give each its own --out",
                file=str(path.parent),
            ) from None
        except OSError as error:
            os.close(file)
            if error.errno in NO_LOCKS:
                return None
            remove(path)
            raise
        os.close(file)


def _refuse_finished(out: Path) -> None:
    if (out / REPORT_NAME).exists():
        raise BadInput(
            f"holds a finished run ({REPORT_NAME}); choose another folder with --out",
            file=str(out),
        )


def _refuse_full(out: Path) -> None:
    disk = os.statvfs(out)
    free_bytes = disk.f_bavail * disk.f_frsize
    # Some network file systems tell no size at all: zero blocks is no full disk.
    if disk.f_blocks and free_bytes < ROOM_BYTES:
        raise BadInput(
            f"the disk is full: {free_bytes // 1024} KiB are left, a run needs about "
            f"{ROOM_BYTES // 2**20} MiB",
            file=str(out),
        )


def _tidy(out: Path) -> None:
    """Drop the temporary files of a run that died here."""
    for leftover in out.glob(".*.tmp"):
        remove(leftover)


def _set_aside(out: Path) -> None:
    """Keep the samples of a run that died here under another name."""
    old = out / SAMPLES_NAME
    if old.exists():
        number = 1
        while (aside := out / f"samples.{number}.jsonl").exists():
            number += 1
        old.rename(aside)


def point_latest(out: Path, *, anywhere: bool = False) -> None:
    """`reports/latest` → this run; `anywhere`: also beside a run elsewhere, such as a history's.
    Someone's own file of that name is left alone."""
    folder = out.resolve()
    link = folder.parent / LATEST_NAME
    ours = anywhere or folder.parent.name == REPORTS_NAME
    if not ours or (link.exists() and not link.is_symlink()):
        return
    temporary = folder.parent / f".{LATEST_NAME}.{os.getpid()}"
    try:
        temporary.symlink_to(folder.name)
        temporary.replace(link)
    except OSError:
        remove(temporary)  # a file system without links: the folder's name sorts last anyway


def write_all(file: int, content: bytes) -> None:
    """All of it or an OSError: one write may take a part only."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def remove(path: Path) -> None:
    """Away with it, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # a read-only folder: there is nothing to remove, and nothing to say


def why(error: OSError) -> str:
    """The system's reason in words that fit after a colon."""
    return REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())
