"""Channel edges: "Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/0(3)/GDRDMA/Shared" of all ages.

In: the raw line behind "NCCL INFO". Out: LogEdge, or None for what is no edge. Also the order of a
ring ("Channel 00/02 : 0 1 2 3"). Formats: NCCL's src/transport/{p2p,shm,net,coll_net}.cc.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from bench.records import LogEdge

Transport = Literal["P2P", "SHM", "NET", "COLLNET", "NVLS", "unknown"]

_EDGE = re.compile(
    rb"(?:Channel|Ring) (\d{1,3})(?:/\d{1,3})? ?: {0,8}(\d{1,7})(?:\[([0-9a-fA-F]{1,16})\])? -> "
    rb"(\d{1,7})(?:\[([0-9a-fA-F]{1,16})\])? {0,4}(?:\[(send|receive)\] {0,8})?via (.{1,200})",
    re.DOTALL,
)
_COLLNET = re.compile(
    rb"CollNet (\d{1,3})(?:/\d{1,3})? : (\d{1,7})(?:\[[0-9a-fA-F]{1,16}\])? "
    rb"\[(send|receive)\] via (.{1,200})"
)
_NET = re.compile(r"(?:NET|COLLNET)/([^/]{1,60})/(\d{1,4})(?:\((\d{1,7})\))?(/.{0,80})?$")
# RCCL appends which communicator it is: " comm 0x9bbf3b0 nRanks 4096"
_TAIL = re.compile(
    rb" comm (0x[0-9a-fA-F]{1,16}) n[rR]anks (\d{1,7})(?: busId ([0-9a-fA-F]{1,16}))?\s*$"
)
# Since 2.26 the end of a line that is too short for all ranks is overwritten: "… 34 35 3...".
_ORDER = re.compile(
    rb"(?:Channel|Ring) (\d{1,3})(?:/(\d{1,3}))? ?:((?: {1,8}\d{1,7}){1,16384})"
    rb"(?P<cut> {0,8}\d{0,7}\.\.\.)?\s*$"
)

LONGEST_RING = 4096  # ranks kept of a ring's order; beyond it only the first part is


class Carrier(NamedTuple):
    """What follows "via"."""

    transport: Transport
    kind: str = ""
    network: str | None = None
    device: int | None = None
    gdr: bool | None = None
    proxy_rank: int | None = None


class Tail(NamedTuple):
    """Which communicator RCCL says a line belongs to."""

    pointer: str
    ranks: int
    bus_id: str | None


def split_tail(text: bytes) -> tuple[bytes, Tail | None]:
    """The line without RCCL's tail, and the tail."""
    found = _TAIL.search(text[-120:])
    if found is None:
        return text, None
    length = len(found[0])
    bus = found[3].decode() if found[3] else None
    return text[:-length], Tail(found[1].decode(), int(found[2]), bus)


@lru_cache(maxsize=4096)
def carrier(via: str) -> Carrier:
    """What carries an edge, from the text behind "via"."""
    via = via.strip()
    if via.startswith("P2P"):
        return Carrier("P2P", via[4:])
    if via.startswith("SHM"):
        return Carrier("SHM", via[4:])
    if "shared memory" in via:  # up to 2.12
        return Carrier("SHM", via.replace(" shared memory", ""))
    if found := _NET.match(via):
        kinds = [kind for kind in (found[4] or "").split("/") if kind]
        gdr: bool | None = any(kind.startswith("GDRDMA") for kind in kinds)
        if found[1] == "Socket":
            gdr = None  # a socket has none to give
        rest = "/".join(kind for kind in kinds if kind != "GDRDMA")
        transport: Transport = "COLLNET" if via.startswith("COLLNET") else "NET"
        proxy = int(found[3]) if found[3] else None
        return Carrier(transport, rest, found[1], int(found[2]), gdr, proxy)
    if via.startswith("NVLS"):
        return Carrier("NVLS", via[5:])
    return Carrier("unknown", via[:80])


def is_ours(edge: LogEdge) -> int:
    """The rank that prints such a line: the sender, but for [receive]."""
    return edge.destination if edge.direction == "receive" else edge.source


def edge(text: bytes, line: int, host: str) -> LogEdge | None:
    """One edge, told by its own end of it."""
    found = _EDGE.match(text)
    if found is None:
        return _collective_edge(text, line, host)
    channel, source, source_device, destination, destination_device, direction, via = (
        found.groups()
    )
    what = carrier(via.decode("utf-8", "replace"))
    start, end = int(source), int(destination)
    return LogEdge(
        channel=int(channel),
        source=start,
        destination=end,
        transport=what.transport,
        kind=what.kind,
        network=what.network,
        device=what.device,
        gdr=what.gdr,
        direction=_direction(direction),
        proxy_rank=what.proxy_rank,
        told_by=end if direction == b"receive" else start,
        host=host,
        source_device=source_device.decode() if source_device else None,
        destination_device=destination_device.decode() if destination_device else None,
        line=line,
    )


def _collective_edge(text: bytes, line: int, host: str) -> LogEdge | None:
    found = _COLLNET.match(text)
    if found is None:
        return None
    what = carrier(found[4].decode("utf-8", "replace"))
    rank = int(found[2])
    return LogEdge(
        channel=int(found[1]),
        source=rank,
        destination=rank,
        transport=what.transport,
        kind=what.kind,
        network=what.network,
        device=what.device,
        gdr=what.gdr,
        direction=_direction(found[3]),
        told_by=rank,
        host=host,
        line=line,
    )


def _direction(text: bytes | None) -> Literal["send", "receive"] | None:
    if text is None:
        return None
    return "send" if text == b"send" else "receive"


class Order(NamedTuple):
    """What "Channel 00/02 : 0 1 2 3" tells: `ranks` are the first ones only where `cut`."""

    channel: int
    channels: int | None
    ranks: tuple[int, ...]
    cut: bool


def order(text: bytes) -> Order | None:
    """The order of a ring, as far as it is printed; older NCCL cuts it without a mark."""
    found = _ORDER.match(text)
    if found is None:
        return None
    ranks = tuple(int(rank) for rank in found[3].split()[:LONGEST_RING])
    channels = int(found[2]) if found[2] else None
    return Order(int(found[1]), channels, ranks, found["cut"] is not None)
