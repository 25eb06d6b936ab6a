"""Foreign files in a run's folder: which there are, and the end of one.

In: paths. Out: regular files only, by name; links are not followed and pipes not waited for.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

TORCHRUN_NAME = "torchrun"  # where run.sh has torchrun keep its logs
MOST_FILES = 4096


def regular_files(folder: Path) -> list[Path]:
    """All files below, sorted, without following links out of it."""
    if folder.is_symlink():
        return []
    found: list[Path] = []
    for place, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        found += [
            Path(place) / name for name in sorted(files) if not (Path(place) / name).is_symlink()
        ]
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def tail(file: Path, limit_bytes: int) -> bytes | None:
    """The last bytes of a regular file; None where it is absent, refused or something else."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as stream:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return None
        try:
            stream.seek(max(about.st_size - limit_bytes, 0))
            return stream.read(limit_bytes)
        except OSError:
            return None
