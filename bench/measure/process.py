"""What Linux lets a process say of itself and ask of others: its name, its end, its state.

A rank's process is named `b<rank>:<phase>` (PR_SET_NAME, shown by `ps -o comm`), so that an
operator sees at a glance where every rank stands. Children die with their parent
(PR_SET_PDEATHSIG), because torchrun's own tear-down does not reach them after `kill -9`.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def set_name(name: str) -> None:
    """Name this process; the kernel keeps the first 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when `parent` ends; ends at once if it has already ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def state(pid: int) -> str | None:
    """The kernel's state letter of `pid` (R, S, D, T = stopped, Z = dead); None: it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the name between parentheses may itself hold anything, so split after the last one
    return text.rpartition(")")[2].split()[0]


class MemoryFile:
    """A file in memory that other processes of this user can open by its path and write to.

    Nothing is left behind however the process ends, which no temporary file can promise.
    """

    def __init__(self, name: str) -> None:
        self._descriptor = os.memfd_create(name)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def head(self, size_bytes: int) -> str | None:
        """The first `size_bytes` as text, None when nothing was written."""
        return self._text(size_bytes, 0)

    def tail(self, size_bytes: int) -> str | None:
        """The last `size_bytes` as text, None when nothing was written."""
        return self._text(size_bytes, max(0, os.fstat(self._descriptor).st_size - size_bytes))

    def _text(self, size_bytes: int, offset: int) -> str | None:
        raw = os.pread(self._descriptor, size_bytes, offset)
        return raw.decode(errors="replace").strip() or None

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
