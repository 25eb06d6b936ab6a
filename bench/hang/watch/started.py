"""A job started as its user typed it: its signals, its end, and nothing of it left over.

In: a command, an environment. Out: a process in a session of its own that ends when `watch` ends,
whatever ended it, and whose orphans come to `watch`. Signals are handed on: those of a terminal to
all of its session's first group, others to the process alone, as the kernel would.
Source: man 2 prctl (PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from bench.hang.watch import proc
from bench.records import BadInput

TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
HANDED_ON = (*TERMINAL, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
GRACE_S = 5.0  # of orphans, between being asked to end and being killed
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell tells


class Started:
    """The running job. `stdout` and `stderr` are the ends to read from."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], on_signal: Callable[[], None]
    ) -> None:
        self.told: list[int] = []  # signals handed on
        self.paused = False
        self._on_signal = on_signal
        self._libc = ctypes.CDLL(None)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._parent = os.getpid()
        self._before = {number: signal.signal(number, self._hand_on) for number in HANDED_ON}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                argv,
                env=dict(environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=self._die_with_parent,  # there is but one thread
            )
        except (OSError, ValueError) as error:
            self.close()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise BadInput(f"cannot be started: {reason}", file=argv[0]) from None
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stdout, self.stderr = self._process.stdout, self._process.stderr
        self.pid = self._process.pid
        for number in self.told:
            self._send(number)  # came while it was being started

    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def pause(self) -> None:
        """Stop the launcher itself, not its ranks: a tenth of a second after one has died it
        would end the others, and what they were in would be lost."""
        if not self.told and self.status() is None:
            self.paused = True
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.paused and self.status() is None:
            os.kill(self.pid, signal.SIGCONT)
        self.paused = False

    def _die_with_parent(self) -> None:
        # SIGTERM, not SIGKILL: torchrun then ends its ranks, which SIGKILL would leave behind
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != self._parent:
            os._exit(1)

    def _hand_on(self, number: int, frame: FrameType | None) -> None:
        self.told.append(number)
        if self._process is not None:
            self._on_signal()
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            return
        self.resume()
        try:
            if number in TERMINAL:
                os.killpg(self._process.pid, number)
            else:
                os.kill(self._process.pid, number)
        except ProcessLookupError:
            pass

    def end_orphans(self, pids: Sequence[int]) -> tuple[int, ...]:
        """End ranks that outlived their launcher, and their children; those that were alive."""
        alive = [pid for pid in pids if _is_ours(pid)]
        every = [*alive, *(child for pid in alive for child in proc.children(pid))]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in every:
                _signal(pid, number)
            _signal_stopped(every)
            end = time.monotonic() + GRACE_S
            while any(_is_alive(pid) for pid in every) and time.monotonic() < end:
                _reap(every)
                time.sleep(0.02)
            every = [pid for pid in every if _is_alive(pid)]
        return tuple(alive)

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _is_ours(pid: int) -> bool:
    """Alive and a child of this process by now, so its number cannot be somebody else's."""
    try:
        told, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return told == 0


def _is_alive(pid: int) -> bool:
    return proc.look(pid, -1).state not in (None, "Z", "X")


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _signal_stopped(pids: Sequence[int]) -> None:
    """A stopped process takes no other signal before this one."""
    for pid in pids:
        if proc.look(pid, -1).state in ("T", "t"):
            _signal(pid, signal.SIGCONT)


def _reap(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
