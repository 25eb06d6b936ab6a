"""Rank 0's words on the caller's screen, live, without the page that torchrun adds to a failure.

In: the output of torchrun on host 1. Out: stdout as it comes; stderr up to torchrun's own
complaint about an exit status that the script meant (46 lines with a traceback). All of stderr is
kept in a log. A terminal stays a terminal for the sweep: progress lines need one.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TextIO

CHUNK_BYTES = 1 << 16
SHOW_CURSOR = "\x1b[?25h"
_OWN_LINE = re.compile(r"^([EW])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S*torch/distributed/")
_TRACEBACK = "Traceback (most recent call last):"


class Complaints:
    """Lets through what the script says on stderr and drops what torchrun adds."""

    def __init__(self, told: Callable[[], bool]) -> None:
        self._told = told  # whether the sweep has ended by its own rules (its status is written)
        self._rest = ""
        self._muted = False

    def passed(self, text: str) -> str:
        """The part of `text` to show now; the start of a line that may be torchrun's waits."""
        if self._muted:
            return ""
        *lines, self._rest = (self._rest + text).split("\n")
        shown = []
        for line in lines:
            own = _OWN_LINE.match(line)
            if (own and own[1] == "E") or (line.startswith(_TRACEBACK) and self._told()):
                self._muted = True
                self._rest = ""
                break
            if not own:
                shown.append(line + "\n")
        if self._rest and not re.match(r"[EWT]", self._rest) and not self._muted:
            shown.append(self._rest)  # a progress line that the sweep will overwrite
            self._rest = ""
        return "".join(shown)

    def flushed(self) -> str:
        """What still waits when the stream has ended."""
        rest, self._rest = self._rest, ""
        return "" if self._muted else rest


class Console:
    """File descriptors to start torchrun with, and threads that carry what it writes there."""

    def __init__(self, log: Path, stdout: TextIO | None, told: Callable[[], bool]) -> None:
        self._threads: list[threading.Thread] = []
        self._ours: list[int] = []
        self._log = log.open("wb")
        shown = stdout or sys.stdout
        inherited = self._inherited(shown)
        self.stdout: int = (
            self._carried(shown, False, lambda text: text, lambda: "", None)
            if inherited is None
            else inherited
        )
        complaints = Complaints(told)
        self._terminal = sys.stderr.isatty()
        self.stderr = self._carried(
            sys.stderr, self._terminal, complaints.passed, complaints.flushed, self._log
        )

    def started(self) -> None:
        """torchrun has its own copies of the descriptors now."""
        for descriptor in self._ours:
            os.close(descriptor)
        self._ours = []

    def close(self, wait_s: float = 5.0) -> None:
        """Everything that was written has been shown, once the writers have ended."""
        self.started()
        for thread in self._threads:
            thread.join(wait_s)
        self._log.close()
        if self._terminal:
            _show(sys.stderr, SHOW_CURSOR)  # a sweep that was killed could not

    @staticmethod
    def _inherited(stream: TextIO) -> int | None:
        """The descriptor behind `stream`, None for one that lives in memory."""
        try:
            stream.flush()
            return stream.fileno()
        except (OSError, ValueError, AttributeError):
            return None

    def _carried(
        self,
        stream: TextIO,
        terminal: bool,
        passed: Callable[[str], str],
        flushed: Callable[[], str],
        log: IO[bytes] | None,
    ) -> int:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        if terminal:
            _copy_size(stream.fileno(), theirs)
        self._ours.append(theirs)
        thread = threading.Thread(
            target=self._carry, args=(ours, stream, passed, flushed, log), daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return theirs

    def _carry(
        self,
        source: int,
        stream: TextIO,
        passed: Callable[[str], str],
        flushed: Callable[[], str],
        log: IO[bytes] | None,
    ) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while True:
            try:
                data = os.read(source, CHUNK_BYTES)
            except OSError:  # EIO: the last writer of a terminal is gone
                break
            if not data:
                break
            if log is not None:
                log.write(data)
                log.flush()
            _show(stream, passed(decode(data)))
        _show(stream, flushed())
        os.close(source)


def _show(stream: TextIO, text: str) -> None:
    if text:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            pass  # the reader has left (`| head`); the sweep goes on and its report is kept


def _copy_size(source: int, target: int) -> None:
    """A new terminal is 0 columns wide; and its newline must not grow a second carriage return."""
    size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(target, termios.TIOCSWINSZ, size)
    modes = termios.tcgetattr(target)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(target, termios.TCSANOW, modes)
