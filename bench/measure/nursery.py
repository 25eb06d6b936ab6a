"""Fresh worker processes in milliseconds: a single-threaded process that has torch, and forks.

NCCL reads its interface variables once per process, so every case needs a new one; importing torch
anew costs a second. The agent forks the nursery once, after `import torch` and before it opens any
store or thread; the nursery then forks a worker per request. multiprocessing's forkserver would do
the same but imports torch a second time per rank, which four hosts on two cores feel.

The socket between agent and nursery carries one JSON line per request (with the write end of the
worker's pipe attached) and one per event: {"started": pid, "request": n} or {"ended": pid,
"status": n}.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

from bench.measure import process

_LINE_LIMIT = 1 << 20  # a request names a case; a megabyte means something is wrong
_START_DEADLINE_S = 5.0  # forking takes milliseconds; on a machine that swaps, seconds


class Worker:
    """The agent's handle on one forked worker: read its pipe, learn of its end, end it."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid, self.pipe = pid, pipe
        self.status: int | None = None  # wait status once ended
        self._buffer = b""

    def lines(self, timeout_s: float) -> tuple[list[dict[str, Any]], bool]:
        """Messages that arrived within `timeout_s`, and whether the pipe is still open."""
        if not select.select([self.pipe], [], [], timeout_s)[0]:
            return [], True
        data = os.read(self.pipe, 1 << 16)
        if not data:
            return [], False
        *complete, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in complete if line], True

    def signal(self, number: int) -> None:
        """Send a signal unless it is known to have ended (its pid may then be somebody else's)."""
        if self.status is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        os.close(self.pipe)


class Barren(Exception):
    """The nursery forks no more: it was killed, stopped, or the machine has no room."""


class Nursery:
    """Forks at construction and calls itself `name`; `serve(request)` runs in each worker."""

    def __init__(
        self, serve: Callable[[dict[str, Any], int], None], name: str = "nursery"
    ) -> None:
        ours, theirs = socket.socketpair()
        agent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            process.set_name(name)
            code = 1
            try:
                _tend(theirs, agent, serve)
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        theirs.close()
        self._socket, self._buffer = ours, b""
        self._workers: dict[int, Worker] = {}
        self._ended: dict[int, int] = {}  # pid -> status of one whose start is still to be read
        self._requests = 0

    def spawn(self, request: dict[str, Any]) -> Worker:
        """A worker for `request`; raises Barren when none is forked in time."""
        self._requests += 1
        self._ended.clear()
        read_end, write_end = os.pipe()
        try:
            line = json.dumps([self._requests, request]).encode() + b"\n"
            socket.send_fds(self._socket, [line], [write_end])
            end = time.monotonic() + _START_DEADLINE_S
            while (left := end - time.monotonic()) > 0:
                for event in self._events(left):
                    worker = self._started(event, read_end)
                    if worker is not None:
                        return worker
            raise Barren(f"no worker was forked within {_START_DEADLINE_S:g} s")
        except OSError as error:
            os.close(read_end)
            raise Barren(f"no worker can be forked: {error}") from None
        except Barren:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)

    def _started(self, event: dict[str, int], pipe: int) -> Worker | None:
        """The worker of the latest request; one that comes too late for its own is ended."""
        if event.get("request") == self._requests:
            worker = Worker(event["started"], pipe)
            worker.status = self._ended.pop(worker.pid, None)  # both events in one read
            if worker.status is None:
                self._workers[worker.pid] = worker
            return worker
        if "started" in event:
            Worker(event["started"], -1).signal(signal.SIGKILL)
        return None

    def reap(self, worker: Worker, timeout_s: float) -> int | None:
        """The worker's wait status, waiting up to `timeout_s` for it; None while it lives."""
        if worker.status is None:
            try:
                self._events(timeout_s)
            except (Barren, OSError):
                return None  # whoever forks next is told
        return worker.status

    def _events(self, timeout_s: float) -> list[dict[str, int]]:
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return []
        data = self._socket.recv(1 << 16)
        if not data:
            raise Barren("the process that forks workers has ended")
        *complete, self._buffer = (self._buffer + data).split(b"\n")
        events: list[dict[str, int]] = [json.loads(line) for line in complete]
        for event in events:
            if "ended" not in event:
                continue
            worker = self._workers.pop(event["ended"], None)
            if worker is not None:
                worker.status = event["status"]
            else:
                self._ended[event["ended"]] = event["status"]
        return events

    def close(self) -> None:
        """End it and every worker that still lives."""
        self._socket.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _tend(link: socket.socket, agent: int, serve: Callable[[dict[str, Any], int], None]) -> None:
    """The nursery's loop: fork on request, report ends, leave when the agent has gone."""
    process.die_with_parent(agent)
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # the agent decides; torchrun signals the session
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_r, False)
    os.set_blocking(wake_w, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    me, buffer, fds = os.getpid(), b"", list[int]()
    while True:
        ready = select.select([link.fileno(), wake_r], [], [])[0]
        if wake_r in ready:
            os.read(wake_r, 4096)
            _report_ends(link)
        if link.fileno() not in ready:
            continue
        data, new, _, _ = socket.recv_fds(link, 1 << 16, 8)
        if not data:
            return
        fds += new
        buffer += data
        assert len(buffer) < _LINE_LIMIT, "a request longer than a megabyte"
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            number, request = json.loads(line)
            pipe = fds.pop(0)
            pid = os.fork()
            if pid == 0:
                _become_worker(link, (wake_r, wake_w), me)
                serve(request, pipe)
                os._exit(0)
            os.close(pipe)
            _tell(link, {"started": pid, "request": number})


def _become_worker(link: socket.socket, wake: tuple[int, int], nursery: int) -> None:
    signal.set_wakeup_fd(-1)
    process.die_with_parent(nursery)
    # SIGTERM and SIGINT stay ignored: torchrun sends them to the whole session, and a worker that
    # dies of one would look like a rank that was killed. The agent ends it.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    link.close()
    for descriptor in wake:
        os.close(descriptor)


def _report_ends(link: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell(link, {"ended": pid, "status": status})


def _tell(link: socket.socket, event: dict[str, int]) -> None:
    link.sendall(json.dumps(event).encode() + b"\n")
