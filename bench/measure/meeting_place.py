"""The place where ranks meet, tried before any job does: MASTER_ADDR and MASTER_PORT.

In: a name and a port. Out: a `Meeting`: what the name resolves to here, whether that is this host,
and what becomes of a connection. A store of torch is recognised by its own protocol (c10d
TCPStoreBackend.hpp: VALIDATE with its magic number, then GETNUMKEYS, answered by 8 bytes; nothing
is changed in it). Ends within 10 s whatever the network does.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time

import psutil

from bench.facts import host as host_facts
from bench.facts import readiness, routes
from bench.records import Meeting, MeetingOutcome

ATTEMPT_S = 4.0  # two SYNs lost are repeated after 1 and 3 s
SAID_S = 2.0  # a store answers within milliseconds; thousands of ranks at once make it slower
MOST_ADDRESSES = 2  # of a name are tried; torch takes the first that answers
_VALIDATE = b"\x00" + struct.pack("=I", 0x3C85F7CE)
_NUMBER_OF_KEYS = b"\x07"
_ANSWER_BYTES = 8
_SHOWN = 60  # bytes of what a stranger said

_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EINVAL}


def look(name: str, port: int) -> Meeting:
    """What this host finds at `name`:`port`; where it is this host itself, whether the port can
    be opened."""
    seen_from = host_facts.own_name()
    addresses, trouble = readiness.resolved(name)
    if not addresses:
        return Meeting(
            host=name, port=port, outcome="unresolved", seen_from=seen_from, detail=trouble
        )
    cards = _own_cards()
    mine = next((cards[address] for address in addresses if address in cards), None)
    own = mine is not None or any(map(readiness.is_loopback, addresses))
    outcome: MeetingOutcome = "no-answer"
    detail: str | None = None
    rtt_s: float | None = None
    tried = addresses[0]
    for address in addresses[:MOST_ADDRESSES]:
        tried = address
        outcome, rtt_s, detail = _knock(address, port)
        if outcome == "store":
            break
    if own and outcome == "refused":
        outcome, detail = _open(port)
    return Meeting(
        host=name, port=port, outcome=outcome, seen_from=seen_from, addresses=addresses, own=own,
        interface=mine or routes.egress(tried).interface, neighbour=routes.neighbour(tried),
        rtt_s=rtt_s, detail=detail,
    )  # fmt: skip


def _own_cards() -> dict[str, str]:
    """This host's addresses and the interfaces that have them."""
    try:
        cards = psutil.net_if_addrs()
    except OSError:
        return {}
    return {a.address.partition("%")[0]: name for name, found in cards.items() for a in found}


def _knock(address: str, port: int) -> tuple[MeetingOutcome, float | None, str | None]:
    """Connect, and ask what listens there whether it is a store."""
    began = time.monotonic()
    try:
        connection = socket.create_connection((address, port), timeout=ATTEMPT_S)
    except TimeoutError:
        return "no-answer", None, f"no answer from {address} in {ATTEMPT_S:g} s"
    except OSError as error:
        why = (os.strerror(error.errno) if error.errno else str(error)).lower()
        if error.errno == errno.ECONNREFUSED:
            return "refused", None, f"{address}: {why}"
        if error.errno in (errno.EPERM, errno.EACCES):
            return "no-route", None, f"this host itself forbids it: {why}"
        return "no-route" if error.errno in _NO_ROUTE else "no-answer", None, f"{address}: {why}"
    rtt_s = time.monotonic() - began
    with connection:
        return (*_kind(connection, rtt_s),)


def _kind(
    connection: socket.socket, rtt_s: float
) -> tuple[MeetingOutcome, float | None, str | None]:
    connection.settimeout(SAID_S)
    heard = b""
    try:
        connection.sendall(_VALIDATE + _NUMBER_OF_KEYS)
        while len(heard) < _ANSWER_BYTES:
            more = connection.recv(1024)
            if not more:
                break
            heard += more
    except TimeoutError:
        if not heard:
            return "silent", rtt_s, f"accepts connections and says nothing in {SAID_S:g} s"
    except OSError:
        pass  # it hung up on words that it does not know; what it said before counts
    if len(heard) == _ANSWER_BYTES and 0 <= struct.unpack("=q", heard)[0] < 1 << 40:
        return "store", rtt_s, None
    said = heard[:_SHOWN].decode("ascii", "replace").split("\n")[0].strip()
    shown = "".join(c if c.isprintable() else "?" for c in said)
    return "stranger", rtt_s, f"it said {shown!r}" if shown else "it hung up on a store's greeting"


def _open(port: int) -> tuple[MeetingOutcome, str | None]:
    """Whether rank 0 could open its store here: on all addresses, as torch does."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except OSError as error:
        if both and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            return "free", None  # IPv6 is switched off: the refusal has shown the port free
        return "taken", (error.strerror or str(error)).lower()
    return "free", None
