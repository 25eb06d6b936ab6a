"""Lists of network devices as NCCL prints them: "[0]eth0:10.0.0.1<0> [1]…", "[0]mlx5_0:1/IB …".

In: the text behind "Using". Out: LogNet tuples. An address may be IPv6 with its %scope; a port
stands in <>; NCCL 2.21 to 2.23 print fused ports as "[0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE}".
"""

from __future__ import annotations

import re

from bench.records import LogNet

MOST_DEVICES = 64  # NCCL knows 16 interfaces and 32 RDMA devices

# An alias is an interface of its own here: "eth0:1" of "eth0:1:10.0.0.1<0>".
_SOCKET = re.compile(
    r"(?:\[(\d{1,3})\])?([^\s\[\]:<>]{1,64}(?::\d{1,3}(?=:\d{1,3}\.))?):([^\s<>\[\]]{0,80})<\d{1,5}>"
)
_DISTANCE = re.compile(r"([^\s(]{1,32})\(\w{3,4}\)")
_FUSED = re.compile(r"\[(\d{1,3})\]=\{([^{}]{1,600})\}")
_RDMA = re.compile(
    r"(?:\[(\d{1,3})\] ?)?([^\s\[\]{}:,;=]{1,80}):(\d{1,3})/(IB|RoCE|[A-Za-z]{2,12})"
)


def sockets(text: str) -> tuple[LogNet, ...]:
    """Every "name:address<port>" of a text, with its index where one is printed."""
    found = []
    for match in _SOCKET.finditer(text):
        index = int(match[1]) if match[1] else None
        found.append(LogNet(name=match[2], index=index, address=match[3] or None))
        if len(found) == MOST_DEVICES:
            break
    return tuple(found)


def distances(text: str) -> tuple[LogNet, ...]:
    """The names of "IP Interfaces : lo(SOC) eth0(PXB)" (2.3), in NCCL's order."""
    names = _DISTANCE.findall(text)[:MOST_DEVICES]
    return tuple(LogNet(name=name, index=index) for index, name in enumerate(names))


def rdma(text: str) -> tuple[LogNet, ...]:
    """The devices of "NET/IB : Using…", each with the index that NET/IB/1 means."""
    found = []
    for match in _FUSED.finditer(text):
        parts = _RDMA.findall(match[2])
        if parts:
            found.append(
                LogNet(
                    name="+".join(part[1] for part in parts),
                    network="IB",
                    index=int(match[1]),
                    link_layer=parts[0][3],
                    parts=tuple(f"{part[1]}:{part[2]}" for part in parts),
                )
            )
    for match in _RDMA.finditer(_FUSED.sub("", text)):
        found.append(
            LogNet(
                name=match[2],
                network="IB",
                index=int(match[1]) if match[1] else None,
                port=int(match[3]),
                link_layer=match[4],
            )
        )
        if len(found) >= MOST_DEVICES:
            break
    return tuple(sorted(found, key=lambda net: (net.index is None, net.index or 0)))
