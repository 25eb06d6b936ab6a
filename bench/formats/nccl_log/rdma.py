"""What one process's NCCL says of its RDMA devices: list, speeds, fused ones, GPUDirect.

In: messages of NET/IB. Out: notes on the Process. Formats: src/transport/net_ib.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from bench.formats.nccl_log import lists
from bench.records import LogNet

if TYPE_CHECKING:
    from bench.formats.nccl_log.processes import Process

_GDR = re.compile(r"GPU Direct RDMA (?:\(\w{1,12}\) )?(\w{1,10}) for HCA \d{1,3} '([^']{1,60})'")
_GDR_OLD = re.compile(r"GPU Direct RDMA (\w{1,10}) for GPU [\w[\]]{1,32} / HCA ([\w.-]{1,60})")
_SIDEBAND = re.compile(r"Using interface ([^\s:<>]{1,64}) for sideband")  # 2.3
_SPEED = re.compile(
    r"name=([^\s=]{1,80}) speed=(\d{1,8})|\[\d{1,3}\] ([^\s:]{1,80}):\S{1,80} "
    r".{0,60}?speed=(\d{1,8})"
)
# 2.24: every device is one; of several ports only where they are fused.
_VIRTUAL = re.compile(
    r"Made virtual device \[(\d{1,4})\] name=([^\s=]{1,400}) speed=(\d{1,8}) ndevs=(\d{1,4})"
)


def infiniband(process: Process, text: str, line: int) -> None:
    """ "NET/IB : Using …; OOB eth0:…", "No device found.", speeds, GPUDirect. 2.3 prints a
    device a line, with the verbs library's number and not its own."""
    if "No device found" in text or "No IP interface found" in text:
        process.rdma = False
        process.quote("no-rdma", text, line)
    elif match := _SIDEBAND.search(text):
        process.oob = process.oob or LogNet(name=match[1])
    elif " Using" in text:
        devices, _, meeting = text.partition("OOB ")
        found = lists.rdma(devices)
        for net in found:
            process.add(net)
        if found:
            process.rdma = True
            process.quote("rdma", text, line)
        elif process.rdma is None:
            process.rdma = False
        for net in lists.sockets(meeting)[:1]:
            process.oob = process.oob or net
    elif "speed=" in text:
        if (match := _VIRTUAL.search(text)) and int(match[4]) > 1:
            _fused(process, int(match[1]), match[2], int(match[3]))
        elif match := _SPEED.search(text):
            process.speeds.setdefault(match[1] or match[3], int(match[2] or match[4]))
    elif "GPU Direct" in text:
        gpu_direct(process, text, line)
    elif text.startswith("NET/IB: [") and (found := lists.rdma(text)):
        process.rdma = True
        process.quote("rdma", text, line)
        known = [net for net in process.nets.values() if net.network == "IB"]
        if not any((net.name, net.port) == (found[0].name, found[0].port) for net in known):
            process.add(msgspec.structs.replace(found[0], index=len(known)))


def _fused(process: Process, index: int, name: str, speed_mbit: int) -> None:
    if len(process.fused) < lists.MOST_DEVICES:
        net = LogNet(
            name=name,
            network="IB",
            index=index,
            parts=tuple(name.split("+")),
            speed_mbit=speed_mbit,
        )
        process.fused.setdefault(index, net)


def gpu_direct(process: Process, text: str, line: int) -> None:
    if (match := _GDR.search(text)) or (match := _GDR_OLD.search(text)):
        name, told = match[2], match[1]
    else:
        return
    if told in ("Enabled", "Disabled") and len(process.gdr_devices) < lists.MOST_DEVICES:
        on = told == "Enabled"
        process.gdr_devices[name] = process.gdr_devices.get(name, True) and on
        process.quote("gdr" if on else "no-gdr", text, line)
