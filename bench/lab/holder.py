"""The process that owns a lab: the switch's namespace, and the parent of every host's keeper.

Started by `running`; reads an `Order` from stdin, builds, answers with one line of JSON, and then
waits for stdin to end (or, detached, for SIGTERM). When it ends, however it ends, the kernel ends
the keepers and with them all that ran inside.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import msgspec
from pyroute2.netlink.exceptions import NetlinkError

from bench.lab import cluster, faults, namespaces
from bench.lab.description import Lab
from bench.lab.keeper import Keeper
from bench.records import BadInput


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to build. `needed`: paths that must stay visible inside. `detached`: outlive the caller
    and keep `state` (the answer, as JSON) at that path while the lab is up."""

    lab: Lab
    needed: tuple[str, ...] = ()
    parent: int = 0
    detached: bool = False
    state: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The lab is up (`hosts`), or one sentence why it is not. `started` guards against reuse of
    the PID: the kernel's start time of the holder, in clock ticks since boot."""

    holder: int = 0
    started: int = 0
    hosts: tuple[Keeper, ...] = ()
    lab: Lab | None = None
    error: str | None = None


class _Ended(Exception):
    """SIGTERM: time to take the lab down."""


def main() -> int:
    """Build what stdin orders, hold it, take it down; the exit status of the process."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    namespaces.set_name("lab-holder")
    if not order.detached:
        namespaces.die_with_parent(order.parent)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hosts: tuple[Keeper, ...] = ()
    try:
        hosts = _build(order)
        answer = Answer(
            holder=os.getpid(), started=started_ticks(os.getpid()) or 0, hosts=hosts, lab=order.lab
        )
        if order.state is not None:
            _write(Path(order.state), msgspec.json.encode(answer))
        _say(answer)
        _hold(order)
        return 0
    except BadInput as bad:
        _say(Answer(error=bad.sentence))
        return 2
    except _Ended:
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_keepers(hosts)
        if order.state is not None:
            Path(order.state).unlink(missing_ok=True)


def started_ticks(pid: int) -> int | None:
    """The kernel's start time of a process (/proc/PID/stat, field 22), None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])  # a zombie waits only to be noticed


def _build(order: Order) -> tuple[Keeper, ...]:
    as_user = not namespaces.may_make_namespaces()
    step = "user namespaces"
    try:
        if as_user:
            namespaces.become_root_of_new_user_namespace()
        step = "network and mount namespaces"
        namespaces.unshare(namespaces.NEW_NET | namespaces.NEW_MOUNT)
        namespaces.private_mounts()
        step = "namespaces, mounts or links of a host"
        hosts = cluster.build(order.lab, needed=order.needed)
        cluster.shape(order.lab, hosts)
        faults.apply(order.lab, hosts)
        cluster.wait_until_running(order.lab, hosts)
        return hosts
    except OSError as error:
        raise BadInput(_forbidden(error, step, as_user)) from None
    except NetlinkError as error:
        raise BadInput(f"the kernel refused a link of the lab: {error.args[-1]}") from None


def _forbidden(error: OSError, step: str, as_user: bool) -> str:
    """Why the kernel said no, and what to do about it, in one sentence."""
    reason = f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)
    if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.EINVAL):
        return f"the kernel refused {step}: {reason}"
    if not as_user:
        return (
            f"this system forbids {step} even to root: {reason}; in a container, "
            "start it with --privileged"
        )
    for name, refusing in (
        ("kernel/unprivileged_userns_clone", "0"),
        ("user/max_user_namespaces", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        try:
            value = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue
        if value == refusing:
            return (
                f"this system forbids ordinary users {step} ({name.replace('/', '.')} = {value}); "
                "run the lab as root, or have an administrator change that setting"
            )
    return f"this system forbids ordinary users {step}: {reason}; run the lab as root"


def _hold(order: Order) -> None:
    """Wait for the end: SIGTERM, or the end of stdin when the caller is to be followed."""
    if order.detached:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 2)
        while True:
            signal.pause()
    sys.stdin.buffer.read()


def _end_keepers(hosts: tuple[Keeper, ...]) -> None:
    """Kill the keepers and wait: the kernel lets a PID 1 end only after all that ran in there."""
    for host in hosts:
        os.kill(host.pid, signal.SIGKILL)
    for host in hosts:
        os.waitpid(host.pid, 0)


def _end(number: int, frame: object) -> None:
    raise _Ended


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(data)
    temporary.replace(path)


def _say(answer: Answer) -> None:
    """One line on stdout, which then ends: whoever reads may read to the end."""
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()
    os.close(1)
