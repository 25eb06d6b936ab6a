"""The listening side of the preflight: says who it is, then sends and takes large segments.

In: the addresses to listen on, and this host's identity. Out: a port per address, bound to that
address as NCCL and gloo bind theirs. The protocol, all of it untrusted and bounded:

    caller HELLO                       small: any path carries it
    host   HELLO, length, identity, clock    nanoseconds since 1970, eight bytes
    caller GO, then BULK_BYTES         large: full segments, both ways at once
    host   GO, then BULK_BYTES
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Mapping
from types import TracebackType

from bench.measure import descriptors

HELLO = b"fabric-bench preflight 2\n"
GO = b"g"
# Several segments at any MTU up to 9000, yet every pair of 64 hosts at once is 4 MiB a host: 0.7 s
# of a 50 Mbit/s link, well within the time that the probe waits without any progress.
BULK_BYTES = 32 * 1024
IDENTITY_BYTES = 512
CLOCK = struct.Struct("!Q")
MOST_CALLERS = 1024
IDLE_S = 10.0  # a caller that says nothing so long has gone; one waits 6 s for its turn at most
_SHORT_S = 0.02  # without descriptors, the next look at who waits to be accepted

_BULK = memoryview(bytes(BULK_BYTES))


class Listener:
    """Answers probes on every address of `addresses` (key -> address) until it is closed.

    `ports` has the port of each key whose address could be bound. One thread serves all callers,
    as many at a time as half of this process's descriptors; keep it open until every host has
    probed.
    """

    def __init__(self, addresses: Mapping[str, str], identity: str) -> None:
        name = identity.encode()[:IDENTITY_BYTES]
        self._answer = HELLO + len(name).to_bytes(2, "big") + name
        self.ports: dict[str, int] = {}
        self._selector = selectors.DefaultSelector()
        self._callers: set[_Caller] = set()
        self._most = min(MOST_CALLERS, descriptors.limit() // 2)
        for key, address in addresses.items():
            try:
                bound = _bind(address)
            except OSError:
                continue  # not one of ours any more; callers are told that nobody listens there
            self.ports[key] = bound.getsockname()[1]
            self._selector.register(bound, selectors.EVENT_READ)
        self._wake, asleep = socket.socketpair()
        self._selector.register(asleep, selectors.EVENT_READ)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="preflight", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and close every socket; may be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        try:
            self._wake.send(b".")
        except BrokenPipeError:
            pass  # the thread was just looking, and has ended already
        self._thread.join(timeout=2.0)
        self._wake.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _serve(self) -> None:
        while not self._closing.is_set():
            for key, events in self._selector.select(timeout=1.0):
                if isinstance(key.data, _Caller):
                    if not key.data.advance(events):
                        self._drop(key.data)
                elif isinstance(key.fileobj, socket.socket) and not self._closing.is_set():
                    self._accept(key.fileobj)
            now = time.monotonic()
            for caller in [c for c in self._callers if now > c.until]:
                self._drop(caller)
        for entry in list(self._selector.get_map().values()):
            assert isinstance(entry.fileobj, socket.socket), "only sockets were registered"
            entry.fileobj.close()
        self._selector.close()

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:
            # The caller has gone again, or descriptors have run out: then it is still there, and
            # the selector would wake us for it without pause.
            self._closing.wait(_SHORT_S)
            return
        if len(self._callers) >= self._most:
            connection.close()
            return
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._callers.add(_Caller(connection, self._answer, self._selector))
        except OSError:
            connection.close()

    def _drop(self, caller: _Caller) -> None:
        self._callers.discard(caller)
        self._selector.unregister(caller.connection)
        caller.connection.close()


class _Caller:
    """One connection of somebody who probes us, and how far it has got."""

    def __init__(
        self, connection: socket.socket, answer: bytes, selector: selectors.BaseSelector
    ) -> None:
        self.connection, self._answer, self._selector = connection, answer, selector
        self.until = time.monotonic() + IDLE_S
        self._expected = HELLO  # next words; then any BULK_BYTES
        self._heard = b""
        self._taken = 0
        self._to_send = memoryview(b"")
        selector.register(connection, selectors.EVENT_READ, self)

    def advance(self, events: int) -> bool:
        """Read and write what is possible; False when the connection is to be dropped."""
        try:
            alive = self._read() if events & selectors.EVENT_READ else True
            self._write()
        except BlockingIOError:
            return True
        except OSError:
            return False  # reset: the caller has what it wanted, or has gone
        return alive

    def _read(self) -> bool:
        wanted = len(self._expected) - len(self._heard) if self._expected else 1 << 16
        data = self.connection.recv(wanted)
        if not data:
            return False
        self.until = time.monotonic() + IDLE_S
        if not self._expected:
            self._taken += len(data)
            return self._taken <= BULK_BYTES
        self._heard += data
        if not self._expected.startswith(self._heard):
            return False  # not one of ours
        if self._heard == HELLO:
            self._say(self._answer + CLOCK.pack(time.time_ns()), next_words=GO)
        elif self._heard == GO:
            # in a segment of its own: if it arrives and the rest does not, size is what is lost
            self._say(GO, next_words=b"")
            self._to_send = _BULK
        return True

    def _say(self, words: bytes, *, next_words: bytes) -> None:
        self.connection.send(words)  # less than any socket buffer
        self._expected, self._heard = next_words, b""

    def _write(self) -> None:
        if self._to_send:
            try:
                self._to_send = self._to_send[self.connection.send(self._to_send) :]
            except BlockingIOError:
                pass
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._to_send else 0)
        self._selector.modify(self.connection, events, self)


def _bind(address: str) -> socket.socket:
    """A listening socket on an ephemeral port of one address ("fe80::1%eth0" with its scope)."""
    family, _, _, _, place = socket.getaddrinfo(
        address, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
    )[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.bind(place)
        bound.listen(1024)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound
