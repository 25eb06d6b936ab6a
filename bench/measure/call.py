"""One probe of the preflight: from connecting to the end of the large exchange.

In: a peer to call. Out: what became of it, as a PreflightPair. Loss must not be mistaken for a
wall: a lost SYN costs a second, so up to three attempts are under way; a lost segment costs 0.2 s
or more, so only a large exchange of which nothing at all arrives in 1.5 s is a black hole.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Collection, Mapping
from typing import Literal, Protocol

from bench.measure.echo import BULK_BYTES
from bench.measure.exchange import STALL_S, Attempt, Exchange
from bench.records import PreflightPair

Outcome = Literal["ok", "refused", "timeout", "no-route", "wrong-host", "mtu-blackhole"]

ATTEMPTS_S = (0.0, 0.35, 0.9)  # the kernel repeats a SYN after 1 s: with 2 % loss, one pair in 40
MOVING_S = 0.3  # an exchange without progress for longer holds up no other
TURN_S = 6.0  # 256 black holes in turns of 16 take 5 s; who still waits then is not asked for more

_NO_ROUTE = {
    errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EINVAL, errno.EAFNOSUPPORT,
}  # fmt: skip
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}  # of ours, and for a while


class Called(Protocol):
    """Whom to call: see preflight.Peer."""

    @property
    def host(self) -> str: ...
    @property
    def candidate(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int | None: ...
    @property
    def identity(self) -> str: ...
    @property
    def also(self) -> tuple[str, ...]: ...


class Call:
    """A peer being called. `look` after every `wait` until it returns True; then `pair`."""

    def __init__(self, me: str, peer: Called) -> None:
        self._me, self._peer = me, peer
        self._attempts: list[Attempt] = []
        self._exchange: Exchange | None = None
        self._named: Attempt | None = None
        self._result: tuple[Outcome, str | None] | None = None
        self._source: str | None = None
        self._rtt_s: float | None = None
        self._ahead_s: float | None = None
        self._began = self._until = self._answered = 0.0
        self._shortage: int | None = None  # why the last attempt got no socket

    def begin(self, now: float, deadline_s: float) -> None:
        """Start the clock and the first attempt."""
        self._began, self._until = now, now + deadline_s
        self._source = _source_towards(self._peer.address)
        if self._source == self._peer.address:
            self._end("wrong-host", f"{self._source} is {self._me}'s own address")
        elif self._peer.port is None:
            self._end("refused", f"{self._peer.host} does not listen on it")
        else:
            self._try_again(now)

    @property
    def ready(self) -> bool:
        """The right host has answered, and the large exchange may begin."""
        return self._result is None and self._named is not None and self._exchange is None

    def moves(self, now: float) -> bool:
        return self._exchange is not None and now - self._exchange.moved < MOVING_S

    def exchange(self, now: float) -> None:
        assert self._named is not None, "nobody has answered yet"
        self._exchange = Exchange(self._named.socket, now)

    @staticmethod
    def wait(calls: Collection[Call], timeout_s: float) -> None:
        """Until something happens on a socket of `calls`, or `timeout_s` has passed."""
        poll = select.poll()
        for call in calls:
            for attempt in call._attempts if not call.ready else ():
                if attempt.socket.fileno() >= 0:
                    poll.register(attempt.socket, call._events(attempt))
        poll.poll(timeout_s * 1000)

    def look(self, now: float) -> bool:
        """Take note of what has happened; True once the outcome is known (sockets are closed)."""
        if self._result is None and self._exchange is not None:
            self._look_at_exchange(now)
        elif self._result is None and self._named is None:
            self._look_at_attempts(now)
        elif self._result is None and now - self._answered > TURN_S:
            self._end("ok", f"no turn for a large exchange in {TURN_S:g} s")
        if self._result is not None:
            self.close()
        return self._result is not None

    def pair(self, owners: Mapping[str, str]) -> PreflightPair:
        """`owners` are this host's addresses with the interfaces that have them."""
        outcome, detail = self._result or ("timeout", "was not called to the end")
        return PreflightPair(
            candidate=self._peer.candidate,
            source=self._me,
            destination=self._peer.host,
            outcome=outcome,
            address=self._peer.address,
            detail=detail,
            egress=owners.get(self._source or ""),
            rtt_s=self._rtt_s,
            ahead_s=self._ahead_s,
        )

    def close(self) -> None:
        for attempt in self._attempts:
            attempt.socket.close()

    # ----------------------------------------------------------------------------- reaching

    def _events(self, attempt: Attempt) -> int:
        if not attempt.connected:
            return select.POLLOUT
        sending = self._exchange is not None and self._exchange.sent < BULK_BYTES
        return select.POLLIN | (select.POLLOUT if sending else 0)

    def _try_again(self, now: float) -> None:
        try:
            attempt = Attempt(self._peer.address, self._peer.port or 0)
        except OSError as error:
            self._shortage = error.errno
            if error.errno not in _SHORT:
                self._end("no-route", _words(error.errno))
            return
        self._attempts.append(attempt)
        self._source = attempt.source or self._source
        self._judge(attempt)

    def _look_at_attempts(self, now: float) -> None:
        for attempt in self._attempts:
            attempt.advance()
            self._judge(attempt)
            if self._result is not None:
                return
            if self._named is not None:
                break
        if self._named is not None:
            self._answered = now
            for other in self._attempts:
                if other is not self._named:
                    other.socket.close()
            self._attempts = [self._named]
        elif now >= self._until:
            self._end(*self._silence())
        elif (n := len(self._attempts)) < len(ATTEMPTS_S) and now - self._began >= ATTEMPTS_S[n]:
            self._try_again(now)

    def _judge(self, attempt: Attempt) -> None:
        """What one attempt proves; a connection that breaks proves nothing yet."""
        if attempt.identity is not None:
            if attempt.identity != self._peer.identity:
                self._end("wrong-host", f"another host answers at {self._peer.address}")
            else:
                self._named, self._rtt_s = attempt, attempt.rtt_s()
                self._ahead_s = attempt.ahead_s
        elif attempt.error == errno.ECONNREFUSED and self._peer.also:
            self._end(*self._shared())
        elif attempt.error == errno.ECONNREFUSED:
            self._end("refused", "connection refused")
        elif attempt.error in _NO_ROUTE:
            self._end("no-route", _words(attempt.error))
        elif attempt.error in (errno.EPERM, errno.EACCES):
            self._end("refused", f"{self._me} itself forbids it: {_words(attempt.error)}")

    def _shared(self) -> tuple[Outcome, str]:
        """Two hosts answer for one address in turn, so connections are refused and break."""
        also = " and ".join(self._peer.also)
        return "wrong-host", f"{self._peer.address} is also {also}'s address"

    def _silence(self) -> tuple[Outcome, str]:
        waited = f"in {self._until - self._began:g} s"
        if not self._attempts:
            return "refused", f"{self._me} itself has no socket left: {_words(self._shortage)}"
        if any(attempt.connected for attempt in self._attempts if attempt.error is None):
            return "timeout", f"accepts connections but says nothing {waited}"
        errors = [attempt.error for attempt in self._attempts if attempt.error is not None]
        if errors and errors[-1] != errno.ETIMEDOUT and self._peer.also:
            return self._shared()
        if errors and errors[-1] != errno.ETIMEDOUT:
            return "refused", _words(errors[-1])
        return "timeout", f"no answer to {len(self._attempts)} connection attempts {waited}"

    # ----------------------------------------------------------------------------- exchange

    def _look_at_exchange(self, now: float) -> None:
        exchange = self._exchange
        assert exchange is not None, "only called while one is under way"
        error = exchange.advance(now)
        if exchange.sent_whole and exchange.received_whole:
            self._end("ok", None)
        elif error is not None and self._peer.also:
            self._end(*self._shared())
        elif error is not None:
            self._end("refused", f"{_words(error)} during a large exchange")
        elif exchange.stands_still(now):
            self._end(*self._standstill(exchange, now))

    def _standstill(self, exchange: Exchange, now: float) -> tuple[Outcome, str | None]:
        here, there = self._me, self._peer.host
        lost = (
            [f"{here} to {there}"]
            if exchange.go_acknowledged and not exchange.acknowledged
            else []
        )
        if exchange.go_heard and not exchange.received:
            lost.append(f"{there} to {here}")
        if lost:
            return "mtu-blackhole", (
                f"small messages pass, but in {STALL_S:g} s nothing of {BULK_BYTES // 1024} KiB "
                f"arrives from {' and from '.join(lost)} (segments of {exchange.segment} bytes)"
            )
        if not exchange.acknowledged or not exchange.received:
            return "timeout", f"{there} has stopped answering after its first words"
        least = min(exchange.acknowledged, exchange.received)
        return "ok", f"slow: {least} of {BULK_BYTES} bytes in {now - exchange.began:.1f} s"

    def _end(self, outcome: Outcome, detail: str | None) -> None:
        self._result = outcome, detail


def _source_towards(address: str) -> str | None:
    """The address from which the kernel would send there; None without a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((address, 9))
            source: str = asked.getsockname()[0]
    except OSError:
        return None
    return source


def _words(code: int | None) -> str:
    return os.strerror(code).lower() if code else "unknown"
