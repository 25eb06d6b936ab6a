"""The Flight Recorder's pipe: any write makes NCCL's watchdog dump, without stopping the job.

In: a rank's variables and its user. Out: the dump, once it was written anew; or a sentence why
not. The variables name files, and whoever asks may be root: only a pipe and a plain file of that
user count, and no link to another's.
Source: ProcessGroupNCCL.cpp, DumpPipe (TORCH_NCCL_DEBUG_INFO_PIPE_FILE); the job must have been
started with that variable.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
DEADLINE_S = 8.0  # its monitor looks once a second; with stacks a dump takes another one
SETTLED_S = 0.2  # without growth: written
POLL_S = 0.05
MAX_BYTES = 64 << 20  # a dump of the longest ring


class Refused(Exception):
    """One sentence."""


def ask(rank: int, variables: Mapping[str, str], uid: int) -> str | None:
    """Write to the pipe of this user; None, or why not."""
    prefix = variables.get(PIPE)
    if not prefix:
        return f"{PIPE} is not set in its environment"
    path = Path(f"{prefix}{rank}.pipe")
    try:
        with _opened(path, os.O_WRONLY, stat.S_ISFIFO, "pipe", uid) as descriptor:
            os.write(descriptor, b"1\n")
    except Refused as refused:
        return str(refused)
    except OSError as error:
        nobody = error.errno == errno.ENXIO
        return f"{path}: {'nobody reads it' if nobody else error.strerror}"
    return None


def read(path: Path, uid: int) -> bytes:
    """A dump of this user."""
    try:
        with (
            _opened(path, os.O_RDONLY, stat.S_ISREG, "plain file", uid) as descriptor,
            open(descriptor, "rb", closefd=False) as stream,
        ):
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise Refused(f"{path}: more than {MAX_BYTES >> 20} MiB is no dump")
    return data


@contextmanager
def _opened(
    path: Path, flags: int, fits: Callable[[int], bool], kind: str, uid: int
) -> Iterator[int]:
    """The file itself, never what a link leads to. Refused for another kind or user."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused(f"{path}: is a link") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not fits(status.st_mode):
            raise Refused(f"{path}: is no {kind}")
        if status.st_uid != uid:
            raise Refused(f"{path}: belongs to another user than the rank")
        yield descriptor
    finally:
        os.close(descriptor)


def dumps(rank: int, variables: Mapping[str, str]) -> list[Path]:
    """Where this rank's dump may be written, the set names first."""
    home = Path(variables.get("HOME", "/root"))
    cache = Path(variables.get("XDG_CACHE_HOME", str(home / ".cache"))) / "torch"
    prefixes = [variables[name] for name in FILES if variables.get(name)]
    if not prefixes:
        prefixes = [
            str(cache / "comm_lib_trace_rank_"),
            str(cache / "nccl_trace_rank_"),
            str(home / ".cache/torch/nccl_trace_rank_"),
            "/tmp/nccl_trace_rank_",  # noqa: S108 - torch's own name
        ]
    return [Path(f"{prefix}{rank}") for prefix in dict.fromkeys(prefixes)]


def stamp(paths: list[Path]) -> dict[Path, tuple[int, int]]:
    """What stands there before it is asked."""
    return {path: found for path in paths if (found := _state(path)) is not None}


def written(paths: list[Path], before: Mapping[Path, tuple[int, int]]) -> Path | None:
    """The file that was written since, waiting for it up to DEADLINE_S."""
    end = time.monotonic() + DEADLINE_S
    last: tuple[Path, tuple[int, int]] | None = None
    since = time.monotonic()
    while time.monotonic() < end:
        new = next(
            ((p, s) for p in paths if (s := _state(p)) is not None and s != before.get(p)), None
        )
        if new != last:
            last, since = new, time.monotonic()
        elif new is not None and time.monotonic() - since >= SETTLED_S:
            return new[0]
        time.sleep(POLL_S)
    return last[0] if last is not None else None


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if status.st_size else None
