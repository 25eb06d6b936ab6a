"""The other end of every sentry's line: who is there, what it said, what it is asked.

In: an abstract socket that only this user's processes are heard on. Out: Told messages, in the
order in which they came; a rank's end shows as its line's end. Nothing here waits: whoever calls
`take` when a descriptor is ready gets what is there.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

MAX_LINE = 1 << 16
MAX_DATA = 64 << 20  # a dump of the longest ring; more is no sentry
_CREDENTIALS = struct.Struct("iii")  # pid, uid, gid


@dataclass(frozen=True)
class Told:
    """One message. `say` is "hello", "look", "calls", "dump", "told" (all dumps without
    stacks), "stacks", "done", "farewell", or "gone": the board's own word for a line's end."""

    line: Line
    say: str
    fields: dict[str, Any] = field(default_factory=dict)
    data: bytes = b""


class Line:
    """A rank's line. `rank` is -1 until it has said hello."""

    def __init__(self, link: socket.socket, pid: int) -> None:
        self.link, self.pid = link, pid
        self.rank, self.host, self.signal = -1, "", 0
        self.by = ""  # the variable that tells the rank
        self.variables: dict[str, str] = {}
        self.open = True
        self._buffer = bytearray()
        self._waiting: dict[str, Any] | None = None  # a message whose bytes are still to come
        self._unsent = b""

    def ask(self, what: str, number: int = 0) -> None:
        """Send a question; a rank that reads nothing any more (SIGSTOP) keeps nobody waiting."""
        line = msgspec.json.encode({"ask": what, "id": number}) + b"\n"
        if len(self._unsent) < MAX_LINE:
            self._unsent += line
        try:
            sent = self.link.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            self._unsent = self._unsent[sent:]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""

    def take(self) -> Iterator[Told]:
        try:
            data = self.link.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.open = bool(data)
        self._buffer += data
        yield from self._complete()
        if not self.open:
            yield Told(self, "gone")

    def _complete(self) -> Iterator[Told]:
        while True:
            if self._waiting is None:
                at = self._buffer.find(b"\n")
                if at < 0:
                    self.open &= len(self._buffer) <= MAX_LINE
                    return
                self._waiting = _fields(bytes(self._buffer[:at]))
                del self._buffer[: at + 1]
            size = self._waiting.get("bytes", 0)
            if not isinstance(size, int) or not 0 <= size <= MAX_DATA:
                self.open = False
                return
            if len(self._buffer) < size:
                return
            fields, self._waiting = self._waiting, None
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield self._heard(fields, data)

    def _heard(self, fields: dict[str, Any], data: bytes) -> Told:
        say = fields.get("say")
        if say == "hello":
            self.rank = _number(fields.get("rank"), -1)
            self.host = str(fields.get("host", ""))[:256]
            self.signal = _number(fields.get("signal"), 0)
            self.by = str(fields.get("by", ""))[:64]
            told = fields.get("variables")
            self.variables = (
                {str(k): str(v)[:64] for k, v in told.items()} if isinstance(told, dict) else {}
            )
        return Told(self, say if isinstance(say, str) else "", fields, data)


class Switchboard:
    """Lines of all ranks of this host. A context manager; `address` is for the ranks."""

    def __init__(self) -> None:
        self.address = f"fabric-bench-{os.getpid()}-{secrets.token_hex(8)}"
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind("\0" + self.address)
        self._door.listen(128)
        self._door.setblocking(False)
        self.lines: list[Line] = []

    def __enter__(self) -> Switchboard:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        for line in self.lines:
            line.link.close()

    def descriptors(self) -> list[int]:
        return [self._door.fileno(), *(line.link.fileno() for line in self.lines)]

    def take(self, timeout_s: float = 0.0) -> list[Told]:
        """What has come, waiting up to `timeout_s` for the first."""
        poll = select.poll()  # select() ends at descriptor 1023
        for descriptor in self.descriptors():
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(timeout_s * 1000)}
        if self._door.fileno() in ready:
            self._admit()
        told = [each for line in self.lines if line.link.fileno() in ready for each in line.take()]
        for line in [line for line in self.lines if not line.open]:
            self.lines.remove(line)
            line.link.close()
        return told

    def _admit(self) -> None:
        try:
            link, _ = self._door.accept()
        except OSError:
            return
        raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        if uid not in (os.getuid(), 0):  # an abstract name is everybody's
            link.close()
            return
        self.lines.append(Line(link, pid))


def _fields(line: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return told if isinstance(told, dict) else {}


def _number(value: object, otherwise: int) -> int:
    return value if type(value) is int else otherwise
