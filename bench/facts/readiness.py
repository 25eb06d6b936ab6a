"""What this host grants to a process that trains: names, limits, shared memory.

In: this machine. Out: `Readiness`, and why what is missing could not be read. Sends nothing but
what the resolver sends, which has 3 s to answer (a name server that is gone takes 5 s to be given
up).
"""

from __future__ import annotations

import ipaddress
import os
import resource
import socket
from pathlib import Path

from bench.facts import patience
from bench.records import Readiness

SHM = Path("/dev/shm")  # noqa: S108 - looked at, not written to
RESOLVER_S = 3.0


def read(*, shm: Path = SHM) -> tuple[Readiness, dict[str, str]]:
    """The record, and what could not be read with the reason."""
    unreadable: dict[str, str] = {}
    addresses, trouble = resolved(socket.gethostname())
    total = free = None
    try:
        disk = os.statvfs(shm)
        total, free = disk.f_frsize * disk.f_blocks, disk.f_frsize * disk.f_bavail
    except OSError as error:
        unreadable[str(shm)] = (error.strerror or str(error)).lower()
    found = Readiness(
        name_addresses=addresses,
        name_trouble=trouble,
        open_files=_limit(resource.RLIMIT_NOFILE),
        locked_bytes=_limit(resource.RLIMIT_MEMLOCK),
        processes=_limit(resource.RLIMIT_NPROC),
        shm_bytes=total,
        shm_free_bytes=free,
    )
    return found, unreadable


def resolved(name: str) -> tuple[tuple[str, ...], str | None]:
    """Addresses that a program gets for a name, in its order, and why there are none."""
    try:
        found = patience.within(
            RESOLVER_S, lambda: socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        )
    except patience.OutOfTime:
        return (), f"the resolver gave no answer in {RESOLVER_S:g} s"
    except (OSError, UnicodeError) as error:
        return (), (getattr(error, "strerror", None) or str(error)).lower()
    return tuple(dict.fromkeys(str(place[4][0]) for place in found)), None


def is_loopback(address: str) -> bool:
    """Whether an address leads every host to itself (127.0.1.1 included); a name never does."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _limit(number: int) -> int | None:
    soft, _ = resource.getrlimit(number)
    return None if soft == resource.RLIM_INFINITY else soft
