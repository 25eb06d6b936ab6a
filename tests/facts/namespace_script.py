"""Runs inside a network namespace of its own, made here and gone with this process.

stdin: JSON {"steps": [[verb, name, options]], "questions": [...], "sysfs": bool, "call": str}.
stdout: JSON with what our rules and the real library say, or what `call` returned.
No named namespaces, no `ip` command: nothing is left behind if this process is killed.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import sys
from pathlib import Path

import msgspec
from pyroute2 import IPRoute

from bench.facts import host, interfaces, nccl, nccl_rules, routes

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_TAP, IFF_NO_PI = 0x400454CA, 1, 2, 0x1000
MS_REC_PRIVATE = 0x44000

LIBC = ctypes.CDLL(None, use_errno=True)
HELD = []  # open files keep a tun's carrier


def call(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def enter(sysfs: bool) -> None:
    flags = CLONE_NEWNET | (CLONE_NEWNS if sysfs else 0)
    if os.geteuid() == 0:
        call("unshare", flags)
    else:
        user, group = os.getuid(), os.getgid()
        call("unshare", flags | CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if sysfs:  # as `ip netns exec` does; without, /sys shows the parent's interfaces
        call("mount", b"none", b"/", None, MS_REC_PRIVATE, None)
        call("mount", b"sysfs", b"/sys", b"sysfs", 0, None)
    for name, value in (("accept_dad", "0"), ("addr_gen_mode", "1")):
        # IPv6 addresses are there at once, and only those that a step adds.
        Path(f"/proc/sys/net/ipv6/conf/default/{name}").write_text(value)


def build(netlink: IPRoute, verb: str, name: str, options: dict) -> None:
    def index(of: str) -> int:
        return netlink.link_lookup(ifname=of)[0]

    up = options.get("up", True)
    if verb == "veth":
        peer = options.get("peer", "~" + name)
        fields = {"index": options["index"]} if "index" in options else {}
        netlink.link("add", ifname=name, kind="veth", peer={"ifname": peer}, **fields)
        netlink.link("set", index=index(name), state="up" if up else "down")
        netlink.link(
            "set", index=index(peer), state="up" if options.get("peer_up", True) else "down"
        )
    elif verb == "bridge":
        netlink.link("add", ifname=name, kind="bridge")
        netlink.link("set", index=index(name), state="up")
    elif verb == "macvlan":
        netlink.link("add", ifname=name, kind="macvlan", link=index(options["of"]))
        netlink.link("set", index=index(name), state="up")
    elif verb in ("tun", "tap"):
        file = os.open("/dev/net/tun", os.O_RDWR)
        mode = (IFF_TUN if verb == "tun" else IFF_TAP) | IFF_NO_PI
        fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), mode))
        HELD.append(file)
        netlink.link("set", index=index(name), state="up")
    elif verb == "port":
        netlink.link("set", index=index(name), master=index(options["of"]))
    elif verb == "up":
        netlink.link("set", index=index(name), state="up")
    elif verb == "down":
        netlink.link("set", index=index(name), state="down")
    elif verb == "address":
        address, _, length = options["address"].partition("/")
        fields = {"label": options["label"]} if "label" in options else {}
        if "peer" in options:
            fields |= {"local": address, "address": options["peer"]}
        else:
            fields |= {"address": address}
        netlink.addr("add", index=index(name), prefixlen=int(length), **fields)
    elif verb == "route":
        netlink.route("add", dst=name, gateway=options["by"])
    else:
        raise ValueError(verb)


def answer(question: dict, found: tuple) -> dict:
    """What the library and our rules take for one question."""
    environment = {"NCCL_CONF_FILE": "/dev/null"} | question.get("environment", {})
    asked = nccl.ask(question["setting"], environment=environment)
    predicted = nccl_rules.bootstrap(
        question["setting"],
        found,
        family=environment.get("NCCL_SOCKET_FAMILY"),
        comm_id=environment.get("NCCL_COMM_ID"),
    )
    return {
        "asked": [asked.bootstrap, asked.address],
        "code": asked.code,
        "line": asked.line,
        "predicted": list(predicted) if predicted else [None, None],
    }


def peel(netlink: IPRoute, question: dict) -> dict:
    """All matches as the real library orders them: take the first one down, ask again."""
    predicted = nccl_rules.matching(question["setting"], interfaces.read()[0])
    order = []
    while True:
        asked = nccl.ask(question["setting"], environment={"NCCL_CONF_FILE": "/dev/null"})
        if asked.bootstrap is None or asked.bootstrap in order:
            return {"asked": order, "predicted": list(predicted)}
        order.append(asked.bootstrap)
        netlink.link("set", index=netlink.link_lookup(ifname=asked.bootstrap)[0], state="down")


def main() -> None:
    request = json.load(sys.stdin)
    enter(request.get("sysfs", False))
    with IPRoute() as netlink:
        for verb, name, options in request["steps"]:
            build(netlink, verb, name, options)
        found, unreadable = interfaces.read()
        result = {
            "interfaces": msgspec.to_builtins(found),
            "unreadable": unreadable,
            "answers": [answer(question, found) for question in request.get("questions", ())],
            "routes": [
                msgspec.to_builtins(routes.egress(address))
                for address in request.get("egress", ())
            ],
            "defaults": msgspec.to_builtins(routes.defaults()),
            "peeled": [peel(netlink, question) for question in request.get("peel", ())],
        }
        if request.get("gather"):
            result["host"] = msgspec.to_builtins(host.gather(ranks=(3,), local_ranks=(1,)))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
