"""The Flight Recorder's pipe: any write makes NCCL's watchdog dump, without stopping the job.

In: a rank's variables. Out: the file with the dump, once it was written anew; or a sentence why
not. Source: ProcessGroupNCCL.cpp, DumpPipe (TORCH_NCCL_DEBUG_INFO_PIPE_FILE); the job must have
been started with that variable.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
DEADLINE_S = 8.0  # its monitor looks once a second; with stacks a dump takes another one
SETTLED_S = 0.2  # without growth: written
POLL_S = 0.05


def ask(rank: int, variables: Mapping[str, str]) -> str | None:
    """Write to the pipe; None, or why not."""
    prefix = variables.get(PIPE)
    if not prefix:
        return f"{PIPE} is not set in its environment"
    path = f"{prefix}{rank}.pipe"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        nobody = error.errno == errno.ENXIO
        return f"{path}: {'nobody reads it' if nobody else error.strerror}"
    try:
        os.write(descriptor, b"1\n")
    except OSError as error:
        return f"{path}: {error.strerror}"
    finally:
        os.close(descriptor)
    return None


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
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if status.st_size else None
