"""The few Linux calls a lab is made of: unshare, setns, mount, prctl (man 2 of each).

Python has os.unshare and os.setns only since 3.12, and mount not at all, so these are ctypes.
Every call raises OSError with the kernel's reason; nothing here knows what a lab is.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEW_MOUNT = 0x00020000
NEW_UTS = 0x04000000
NEW_USER = 0x10000000
NEW_PID = 0x20000000
NEW_NET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Leave the namespaces in `flags` for new ones (NEW_PID: children only)."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def enter(path: str, flag: int) -> None:
    """Enter the namespace behind a /proc/PID/ns file; `flag` guards against the wrong kind."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_descriptor(descriptor, flag)
    finally:
        os.close(descriptor)


def enter_descriptor(descriptor: int, flag: int) -> None:
    """Enter the namespace behind an open /proc/PID/ns file."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flag)), "setns")


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in the network namespace of `pid` for a while; the process must have one thread."""
    back = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(f"/proc/{pid}/ns/net", NEW_NET)
        yield
    finally:
        enter_descriptor(back, NEW_NET)
        os.close(back)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2); `kind` None for bind mounts and changes of propagation."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    _check(result, f"mount {target}")


def private_mounts() -> None:
    """From here on no mount made in this namespace shows outside."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def become_root_of_new_user_namespace() -> None:
    """Map the caller to root in a user namespace of its own (what `unshare -Ur` does)."""
    user, group = os.geteuid(), os.getegid()
    unshare(NEW_USER)
    # without this an unprivileged process may not write gid_map (user_namespaces(7))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def may_make_namespaces() -> bool:
    """True when this process holds the capabilities that network namespaces need."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return bool(held >> CAP_SYS_ADMIN & held >> CAP_NET_ADMIN & 1)
    return False


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when its parent `parent` ends; ends at once if it is gone.

    `parent` 0: the parent is outside the own PID namespace, where getppid() says 0.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def set_name(name: str) -> None:
    """Name this process for ps; the kernel keeps 15 bytes."""
    _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def adopt_orphans() -> None:
    """Make grandchildren whose parent ends children of this process (PR_SET_CHILD_SUBREAPER)."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
