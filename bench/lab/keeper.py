"""The process that is a host: PID 1 of its own network, UTS, mount and PID namespaces.

It does nothing but hold them: no name in /run/netns, no file. When it ends, by `lab down` or by
`kill -9` of the lab, the kernel kills every process in it and takes interfaces and mounts away.
/sys is mounted anew, for it shows the interfaces of whoever mounted it (facts: lab.md).
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.lab import namespaces
from bench.records import BadInput

# A folder of its own for HOME and TMPDIR, so that nothing is left behind and no ~/.nccl.conf leaks
# in. It covers a folder that exists everywhere; which one depends on what must stay visible.
SCRATCH_PLACES = ("/run", "/mnt", "/srv", "/media", "/opt")
SCRATCH_BYTES = "256m"


class Keeper(msgspec.Struct, frozen=True, kw_only=True):
    """A host that is up: its number from 1, the PID of its keeper, its private folder."""

    host: int
    hostname: str
    pid: int
    scratch: str

    @property
    def home(self) -> str:
        """HOME for what runs there: empty, and gone with the host."""
        return f"{self.scratch}/home"

    @property
    def temporary(self) -> str:
        """TMPDIR for what runs there: gone with the host."""
        return f"{self.scratch}/temporary"


def scratch_place(needed: Sequence[str]) -> str:
    """A folder that may be covered: none of the paths in `needed` lies in it."""
    real = [os.path.realpath(path) for path in needed]
    for place in SCRATCH_PLACES:
        hidden = [path for path in real if path == place or path.startswith(place + "/")]
        if Path(place).is_dir() and not Path(place).is_symlink() and not hidden:
            return place
    raise BadInput(
        f"no folder of {', '.join(SCRATCH_PLACES)} can be covered inside the lab; "
        "move the output folder or the Python installation out of one of them"
    )


def start(host: int, hostname: str, hosts_file: str, scratch: str) -> Keeper:
    """Start the keeper of a host and wait until its namespaces are ready.

    The caller must have one thread. Raises OSError with the kernel's reason and the step. A child
    in between makes the PID namespace: the caller itself could not come back from having made one
    (setns to the real PID namespace is refused to an ordinary user).
    """
    namespaces.adopt_orphans()
    ready, tell = os.pipe()
    wait, go = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(ready)
        os.close(go)
        _make_pid_namespace(hostname, hosts_file, scratch, wait, tell)
    os.close(tell)
    os.close(wait)
    os.waitpid(between, 0)
    os.write(go, b"go")  # the keeper is the caller's own child from here on
    os.close(go)
    with os.fdopen(ready, "rb") as stream:
        pid, answer = int(stream.readline() or b"0"), stream.read()
    if answer != b"ready":
        number, _, step = answer.decode(errors="replace").partition(" ")
        code = int(number) if number.isdigit() else 0
        raise OSError(code, os.strerror(code), step or "the keeper of a host ended")
    return Keeper(host=host, hostname=hostname, pid=pid, scratch=scratch)


def _make_pid_namespace(
    hostname: str, hosts_file: str, scratch: str, wait: int, tell: int
) -> None:
    """The child in between; never returns."""
    try:
        namespaces.unshare(namespaces.NEW_PID)
        pid = os.fork()
        if pid == 0:
            _be_host(hostname, hosts_file, scratch, wait, tell)
        os.write(tell, f"{pid}\n".encode())
    except OSError as error:
        os.write(tell, f"0\n{error.errno} {error.filename or error.strerror}".encode())
    finally:
        os._exit(0)


def _be_host(hostname: str, hosts_file: str, scratch: str, wait: int, tell: int) -> None:
    """The keeper; never returns."""
    try:
        if os.read(wait, 2) != b"go":
            os._exit(1)  # the caller is gone
        namespaces.die_with_parent(0)
        namespaces.set_name(f"lab-{hostname}")
        namespaces.unshare(namespaces.NEW_NET | namespaces.NEW_UTS | namespaces.NEW_MOUNT)
        socket.sethostname(hostname)
        _mount_all(hosts_file, scratch)
        # Orphans of whatever ran here become this process's children: the kernel reaps them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.write(tell, b"ready")
        os.close(tell)
        while True:
            signal.pause()
    except OSError as error:
        os.write(tell, f"{error.errno} {error.filename or error.strerror}".encode())
    finally:
        os._exit(1)


def _mount_all(hosts_file: str, scratch: str) -> None:
    quiet = namespaces.MS_NOSUID | namespaces.MS_NODEV
    namespaces.private_mounts()
    namespaces.mount("proc", "/proc", "proc", quiet | namespaces.MS_NOEXEC)
    namespaces.mount("sysfs", "/sys", "sysfs", quiet | namespaces.MS_NOEXEC)
    # nosuid, nodev, but programs may run from it: torch's compile cache lives in TMPDIR
    namespaces.mount("tmpfs", scratch, "tmpfs", quiet, f"size={SCRATCH_BYTES},mode=755")
    for folder in ("home", "temporary"):
        Path(scratch, folder).mkdir()
    hosts = Path(scratch, "hosts")
    hosts.write_text(hosts_file)
    namespaces.mount(str(hosts), "/etc/hosts", None, namespaces.MS_BIND)
    # A site-wide setting of the real machine would apply to every host of the lab.
    if Path("/etc/nccl.conf").is_file():
        empty = Path(scratch, "nccl.conf")
        empty.touch()
        namespaces.mount(str(empty), "/etc/nccl.conf", None, namespaces.MS_BIND)
