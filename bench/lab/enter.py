"""Run one command inside a host of a lab: `enter PID FOLDER COMMAND...` (a tiny nsenter).

A process of its own, because a user namespace can be entered only by a process with one thread.
Passes signals on, ends with the command's status, and takes the command along if it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from bench.lab import namespaces

COULD_NOT = 126  # as a shell says it: found, but could not be run; 127 for not found
NOT_FOUND = 127
# A terminal sends these to the whole group, so the command has them already.
IGNORED = (signal.SIGINT, signal.SIGQUIT)
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Enter the namespaces of keeper `arguments[0]`, run the rest there; returns its status."""
    pid, folder, command = int(arguments[0]), arguments[1], list(arguments[2:])
    namespaces.die_with_parent(os.getppid())
    try:
        _enter_all(pid)
        os.chdir(folder)
    except OSError as error:
        print(f"cannot enter the lab's host: {error}", file=sys.stderr)
        return COULD_NOT
    child = os.fork()
    if child == 0:
        _run(command)

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for number in PASSED_ON:
        signal.signal(number, pass_on)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def _enter_all(pid: int) -> None:
    base = Path(f"/proc/{pid}/ns")
    kinds = {
        "user": namespaces.NEW_USER,
        "pid": namespaces.NEW_PID,
        "net": namespaces.NEW_NET,
        "uts": namespaces.NEW_UTS,
        "mnt": namespaces.NEW_MOUNT,
    }
    if (base / "user").stat().st_ino == Path("/proc/self/ns/user").stat().st_ino:
        del kinds["user"]  # entering the user namespace one is already in is refused
    # All are opened before the first is entered: afterwards /proc is the host's own.
    wanted = [
        (os.open(base / name, os.O_RDONLY | os.O_CLOEXEC), flag) for name, flag in kinds.items()
    ]
    for descriptor, flag in wanted:
        namespaces.enter_descriptor(descriptor, flag)
        os.close(descriptor)


def _run(command: list[str]) -> None:
    """The forked child; never returns. Its parent is outside its PID namespace: PID 0."""
    try:
        namespaces.die_with_parent(0)
        os.execvp(command[0], command)  # noqa: S606  an argument list; a shell is not wanted
    except FileNotFoundError:
        print(f"{command[0]}: not found", file=sys.stderr)
        os._exit(NOT_FOUND)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(COULD_NOT)
