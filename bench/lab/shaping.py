"""Rates: a tbf on both ends of a host's link, HTB where one pair alone is slow, netem for delay.

In: a netlink socket, an interface, a rate. The values are those that distort least on veth
(facts/lab.md, Shaping): with a 64 KiB burst, 400 Mbit/s came out at 92-97 %, with these at 99.5 %.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.protocols import ETH_P_IP

from bench.records import BadInput

MIN_BURST_BYTES = 128 * 1024
BURST_S = 0.005  # above 210 Mbit/s the burst must hold what a 2-core machine's scheduler delays
QUEUE_S = 0.4  # a deep queue: a switch that drops early would be a fault of its own

FASTEST_MBIT = 30_000.0  # stands for "unshaped" where a class must have a rate

_DELAY, _RATE = 0x10000, 0x20000  # handles 1: and 2:
_MAIN = 0x20010  # the class of all; those of slow peers count up from it
# The kernel says ENOENT for a qdisc or filter that it lacks.
MISSING = (errno.ENOENT, errno.EOPNOTSUPP)


def bytes_per_s(rate_mbit: float) -> int:
    """A rate in Mbit/s as tc counts it."""
    return int(rate_mbit * 1e6 / 8)


def burst_bytes(rate_mbit: float) -> int:
    """Burst in bytes for a rate in Mbit/s."""
    return max(MIN_BURST_BYTES, int(bytes_per_s(rate_mbit) * BURST_S))


def limit(
    netlink: IPRoute,
    index: int,
    rate_mbit: float | None,
    *,
    delay_ms: float | None = None,
    slow: Sequence[tuple[float, str, str]] = (),
) -> None:
    """Shape what leaves interface `index`: `rate_mbit` for all (None: as fast as it goes).

    `slow` holds (rate in Mbit/s, "source" or "destination", IPv4 address): only packets from or to
    that address get this lower rate. `delay_ms` is added to every packet. BadInput when the
    kernel lacks what is needed.
    """
    parent = None
    if delay_ms is not None:
        with explained("netem", "a delay fault"):
            # netem holds packets for the delay: at 30 Gbit/s and 1 s that is 2.5 million
            netlink.tc(
                "add", "netem", index, handle=_DELAY, delay=int(delay_ms * 1000), limit=2_500_000
            )
        parent = _DELAY | 1
    if slow:
        with explained("htb", "a rate fault with peer"):
            _classes(netlink, index, rate_mbit, slow, parent)
    elif rate_mbit is not None:
        with explained("tbf", "rate_mbit"):
            place = {} if parent is None else {"parent": parent}
            netlink.tc(
                "add",
                "tbf",
                index,
                handle=_RATE,
                rate=bytes_per_s(rate_mbit),
                burst=burst_bytes(rate_mbit),
                latency=f"{int(QUEUE_S * 1000)}ms",
                **place,
            )


def _classes(
    netlink: IPRoute,
    index: int,
    rate_mbit: float | None,
    slow: Sequence[tuple[float, str, str]],
    parent: int | None,
) -> None:
    """One class for everybody, one for each slow peer."""
    whole = FASTEST_MBIT if rate_mbit is None else rate_mbit
    place = {} if parent is None else {"parent": parent}
    netlink.tc("add", "htb", index, handle=_RATE, default=_MAIN & 0xFFFF, **place)
    # The leaves keep the kernel's default queue, 1000 packets: sockets bound what waits in it.
    rates = [whole, *(slow_mbit for slow_mbit, _, _ in slow)]
    for number, rate in enumerate(rates):
        burst = burst_bytes(rate)
        netlink.tc(
            "add-class",
            "htb",
            index,
            handle=_MAIN + number,
            parent=_RATE,
            rate=bytes_per_s(rate),
            ceil=bytes_per_s(rate),
            burst=burst,
            cburst=burst,
        )
    for number, (_, side, address) in enumerate(slow, start=1):
        offset = {"source": 12, "destination": 16}[side]
        value = int.from_bytes(socket.inet_aton(address), "big")
        netlink.tc(
            "add-filter",
            "u32",
            index,
            parent=_RATE,
            prio=1,
            protocol=ETH_P_IP,
            target=_MAIN + number,
            keys=[f"0x{value:08x}/0xffffffff+{offset}"],
        )


@contextmanager
def explained(module: str, what: str) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code not in MISSING:
            raise
        raise BadInput(
            f"this kernel has no {module} (module sch_{module}), which {what} needs; "
            f"as root, modprobe sch_{module}, or use a kernel that has it"
        ) from None
