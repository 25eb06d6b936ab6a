"""A file that a user names, as in `--page FILE`: written where the name leads, never a node lost.

In: its path and bytes. Out: the file, whole, or a sentence why not. A link leads to what it points
at, and that is replaced in one step. A device or a pipe is written to and stays what it is.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from bench.report import folder

INTO = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY
STDOUT, STDERR = 1, 2


def put(file: Path, content: bytes) -> str | None:
    """Write a file; a sentence where that was not possible."""
    try:
        found = file.stat()
        kind = found.st_mode
        if stat.S_ISBLK(kind):
            return f"{file.name} could not be written: it is a disk."
        output = _own_output(found)
        if output is not None:
            sys.stdout.flush()
            folder.write_all(output, content)
            return None
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            _write_into(file, content)
            return None
    except FileNotFoundError:
        pass  # a new file, also behind a link that leads nowhere yet
    except OSError as error:
        return f"{file.name} could not be written: {folder.why(error)}."
    return folder.put(Path(os.path.realpath(file)), content)


def _own_output(found: os.stat_result) -> int | None:
    """This process's own stdout or stderr, where the name leads to it: `/dev/stdout`. Another
    descriptor of the same file would start at its beginning."""
    for descriptor in (STDOUT, STDERR):
        try:
            if os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
        except OSError:
            pass  # it is closed
    return None


def _write_into(file: Path, content: bytes) -> None:
    descriptor = os.open(file, INTO)
    try:
        folder.write_all(descriptor, content)
    finally:
        os.close(descriptor)
