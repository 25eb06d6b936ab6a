"""What faults of RDMA mean, by their numbers and addresses: completions, queue pairs.

In: the text of a warning. Out: what it means, and what mends it. Completion states after the verbs
manual; a queue pair that cannot be joined after a maintainer's answer (nccl issue 2013): its NIC
looks the other's address up in its own network, where rails are often apart.
"""

from __future__ import annotations

import ipaddress
import re

from bench.records import LogEvent

_STATUS = re.compile(r"(?:with error |status=(?:\w{1,40}\()?|status )(\d{1,3})")
_VENDOR = re.compile(r"vendor[ _]err[ =](\d{1,4})")
_GID = re.compile(r"(local|remote) GID ([0-9A-Fa-f:.]{2,45})")
_GID_INDEX = re.compile(r"local GID index (\d{1,3})")
_DEVICE = re.compile(r"on dev ([\w.-]{1,60})")
# ENETUNREACH, ETIMEDOUT and EHOSTUNREACH, by number since 2.24 and by their words.
_UNREACHED = re.compile(
    r"failed with (?:101|110|113)\b|Network is unreachable|Connection timed out|No route to host"
)
_V4_MAPPED = "::ffff:"

# enum ibv_wc_status, rdma-core's verbs.h
COMPLETIONS = {
    1: ("IBV_WC_LOC_LEN_ERR", "a message is larger than the receiver can take (MTU, sizes)"),
    2: ("IBV_WC_LOC_QP_OP_ERR", "the local queue pair failed"),
    4: ("IBV_WC_LOC_PROT_ERR", "the local buffer is not registered for this access"),
    5: ("IBV_WC_WR_FLUSH_ERR", "the queue pair had failed before"),
    9: ("IBV_WC_REM_INV_REQ_ERR", "the other end refused the request"),
    10: ("IBV_WC_REM_ACCESS_ERR", "the other end's buffer is not registered for this access"),
    11: ("IBV_WC_REM_OP_ERR", "the other end failed"),
    12: ("IBV_WC_RETRY_EXC_ERR", "the other NIC never answered (retry exceeded)"),
    13: ("IBV_WC_RNR_RETRY_EXC_ERR", "the other end was never ready to receive"),
}
RETRY_EXCEEDED = 12
VENDOR_TIMEOUT = 129


def _status(event: LogEvent) -> int:
    match = _STATUS.search(event.text)
    return int(match[1]) if match else 0


def after_completion(event: LogEvent) -> str:
    if _status(event) == RETRY_EXCEEDED:
        return (
            "export NCCL_IB_GID_INDEX='3'   # RoCE: the v2 GID of IPv4, see show_gids; on "
            "InfiniBand ibdiagnet and the link's error counters"
        )
    return "ibv_devinfo -v   # on both hosts: active_mtu, firmware; sudo dmesg | grep mlx5"


def of_completion(event: LogEvent) -> str:
    vendor, number = _VENDOR.search(event.text), _status(event)
    if number not in COMPLETIONS:
        return "an RDMA operation failed"
    name, means = COMPLETIONS[number]
    timeout = ", vendor error 129 is its timeout" if vendor and vendor[1] == "129" else ""
    advice = ""
    if number == RETRY_EXCEEDED:
        advice = (
            "; right after the start the two NICs cannot reach each other (on RoCE the default "
            "GID may not be routed), later it is a lossy or broken link"
        )
    return f"status {number} is {name}, {means}{timeout}{advice}"


def of_queue_pair(event: LogEvent) -> str:
    """Why two queue pairs could not be joined."""
    if _UNREACHED.search(event.text):
        ends = [f"{which} {v4}" for which, gid in _GID.findall(event.text) if (v4 := _v4(gid))]
        told = f" ({', '.join(ends)})" if ends else ""
        return (
            f"the addresses of the two NICs{told} do not reach each other: rails that are apart, "
            "no route between their networks, or a GID of another network"
        )
    gids = dict(_GID.findall(event.text))
    empty = [which for which, gid in gids.items() if gid == "::"]
    if empty:
        return f"the {' and the '.join(empty)} NIC has no GID at the index that NCCL takes"
    return "two RDMA devices could not be joined: other link layer, GID or partition"


def after_queue_pair(event: LogEvent) -> str:
    """A GID index is advised only where the message shows none, or one without an IPv4 address."""
    gids, index = dict(_GID.findall(event.text)), _GID_INDEX.search(event.text)
    mapped = gids.get("local", "").lower().startswith(_V4_MAPPED)
    device = _DEVICE.search(event.text)
    if _UNREACHED.search(event.text) and (mapped or not gids):
        here, there = (_v4(gids.get(which, "")) for which in ("local", "remote"))
        netdev = f" (the port of {device[1]})" if device else ""
        shown = "" if here and there else "show_gids; "
        gid = "" if mapped else "; on RoCE also NCCL_IB_GID_INDEX, that of IPv4 and v2"
        return (
            f"{shown}ping -c 3 -I {here or 'NETDEV'} {there or 'ADDRESS'}   # between the two "
            f"NICs' own addresses{netdev}; where only equal rails reach each other: export "
            f"NCCL_CROSS_NIC='0'{gid}"
        )
    if mapped:
        return "show_gids; ibv_devinfo -v   # on both hosts: link layer, MTU, partition, GIDs"
    if index:
        return (
            f"show_gids   # on RoCE index {index[1]} is not the GID of IPv4 and v2: unset "
            "NCCL_IB_GID_INDEX, or set it to the index that is, which may differ between hosts"
        )
    return "show_gids; export NCCL_IB_GID_INDEX='3'   # alike on all hosts"


def _v4(gid: str) -> str | None:
    """The IPv4 address that a GID holds; None for another GID, and for a redacted one."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped else None
