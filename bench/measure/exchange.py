"""The calling side's two steps: reach a host and hear its name; move large segments both ways.

In: an address and port. Out: non-blocking connections that are advanced whenever something may
have happened, and say how far they have got. The protocol is in echo.py.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import time

from bench.measure.echo import BULK_BYTES, CLOCK, GO, HELLO, IDENTITY_BYTES

STALL_S = 1.5  # retransmissions come after 0.2, 0.6 and 1.4 s: three lost in a row are no accident
BULK_S = 5.0  # what still moves after that is slow, and passes

_SIOCOUTQ = 0x5411  # bytes handed to the kernel that the peer has not acknowledged
_TCPI_RTT = slice(68, 72)  # tcpi_rtt in struct tcp_info, in microseconds
_ANSWER_BYTES = len(HELLO) + 2 + IDENTITY_BYTES + CLOCK.size
_BULK = memoryview(bytes(BULK_BYTES))


class Attempt:
    """One connection, up to the peer's name. OSError where no socket is to be had.

    A connection that has failed is closed at once: poll would report it again and again.
    """

    def __init__(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.connected = False
        self.identity: str | None = None
        self.error: int | None = None
        self.source: str | None = None
        self.ahead_s: float | None = None  # the peer's clock, against the middle of its answer
        self._asked_ns = 0
        self._heard = b""
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self.socket.connect_ex((address, port))
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, "connect")
            self.source = self.socket.getsockname()[0]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = error.errno or errno.EIO
        self.socket.close()

    def advance(self) -> None:
        if self.error is not None or self.identity is not None:
            return
        try:
            if not self.connected:
                self._connect()
            if self.connected:
                self._hear()
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(error)

    def _connect(self) -> None:
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "connect")
        try:
            self.socket.getpeername()
        except OSError:
            return  # still on its way
        self.connected = True
        self._asked_ns = time.time_ns()
        self.socket.send(HELLO)

    def _hear(self) -> None:
        data = self.socket.recv(_ANSWER_BYTES - len(self._heard))
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "closed")
        self._heard += data
        words, rest = self._heard[: len(HELLO)], self._heard[len(HELLO) :]
        if words != HELLO[: len(words)]:
            self.identity = ""  # something else answers at that port
        elif len(rest) >= 2:
            length = int.from_bytes(rest[:2], "big")
            name, clock = rest[2 : 2 + length], rest[2 + length :]
            if length > IDENTITY_BYTES:
                self.identity = ""
            elif len(clock) >= CLOCK.size:
                self.identity = name.decode(errors="replace")
                middle_ns = (self._asked_ns + time.time_ns()) / 2
                self.ahead_s = (CLOCK.unpack(clock[: CLOCK.size])[0] - middle_ns) / 1e9

    def rtt_s(self) -> float | None:
        """The kernel's own estimate: this loop's rounds do not count."""
        try:
            info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        except OSError:
            return None
        microseconds = struct.unpack("=I", info[_TCPI_RTT])[0] if len(info) >= 72 else 0
        return microseconds / 1e6 or None


class Exchange:
    """BULK_BYTES both ways at once, counted as acknowledged and as received.

    A connection that has broken since the peer's name is told by the first `advance`.
    """

    def __init__(self, connection: socket.socket, now: float) -> None:
        self._socket = connection
        self.began = self._out_moved = self._in_moved = now
        self.sent = self.acknowledged = self.received = 0
        self.go_acknowledged = self.go_heard = False
        self.segment = 0
        self._broken: int | None = None
        try:
            self.segment = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            connection.send(GO)  # a segment of its own: it passes where large ones do not
        except OSError as error:
            self._broken = error.errno or errno.EIO

    @property
    def moved(self) -> float:
        return max(self._out_moved, self._in_moved)

    @property
    def sent_whole(self) -> bool:
        return self.acknowledged == BULK_BYTES

    @property
    def received_whole(self) -> bool:
        return self.received == BULK_BYTES

    def advance(self, now: float) -> int | None:
        """Move what can be moved; an error number when the connection broke."""
        if self._broken is not None:
            return self._broken
        try:
            self._send(now)
            self._receive(now)
        except OSError as error:
            return error.errno or errno.EIO
        return None

    def _send(self, now: float) -> None:
        try:
            if self.sent < BULK_BYTES:
                self.sent += self._socket.send(_BULK[self.sent :])
        except BlockingIOError:
            pass
        raw = fcntl.ioctl(self._socket, _SIOCOUTQ, bytes(4))
        unacknowledged: int = struct.unpack("=i", raw)[0]
        self.go_acknowledged = unacknowledged <= self.sent
        acknowledged = max(0, self.sent - unacknowledged)
        if acknowledged > self.acknowledged:
            self.acknowledged, self._out_moved = acknowledged, now

    def _receive(self, now: float) -> None:
        try:
            data = self._socket.recv(BULK_BYTES + len(GO))
        except BlockingIOError:
            return
        if not data and not self.received_whole:
            raise ConnectionResetError(errno.ECONNRESET, "closed")
        if data and not self.go_heard:
            self.go_heard, data = True, data[len(GO) :]
        if data:
            self.received = min(BULK_BYTES, self.received + len(data))
            self._in_moved = now

    def stands_still(self, now: float) -> bool:
        """Both ways are through or have not moved for STALL_S; or it has taken too long."""
        out_over = self.sent_whole or now - self._out_moved > STALL_S
        in_over = self.received_whole or now - self._in_moved > STALL_S
        return (out_over and in_over) or now - self.began > BULK_S
