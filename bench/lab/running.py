"""Open a lab, run commands in its hosts, close it: what `lab run`, `lab up` and tests share.

In: a checked Lab. Out: a `RunningLab`. The building happens in a process of its own (`holder`):
it must have one thread and, for ordinary users, a user namespace; the caller keeps neither.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

import bench
from bench.lab.description import Lab
from bench.lab.holder import Answer, Order
from bench.lab.keeper import Keeper
from bench.records import BadInput

BUILD_S = 60.0  # 64 hosts take 10 s on 2 cores; four take one
CLOSE_S = 10.0  # the kernel ends all processes of a PID namespace at once

# -c instead of -m: whatever lies in the working folder must not stand in for this package.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from bench.lab.{module} import main; sys.exit(main({arguments}))"
)
ROOT = str(Path(bench.__file__).resolve().parent.parent)


class RunningLab:
    """A lab that is up. Leaving the `with` block takes it down, whatever happened inside."""

    def __init__(self, answer: Answer, holder: subprocess.Popen[bytes] | None) -> None:
        assert answer.lab is not None, "the holder answers with the lab it built"
        self.lab: Lab = answer.lab
        self.hosts: tuple[Keeper, ...] = answer.hosts
        self._holder = holder

    def __enter__(self) -> RunningLab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def command(self, host: Keeper, argv: Sequence[str]) -> list[str]:
        """The command line, for this machine, that runs `argv` inside `host`."""
        boot = _BOOT.format(module="enter", arguments="sys.argv[1:]")
        # -S -I: nothing of site-packages is needed to enter, and nothing may be in the way
        start = [sys.executable, "-I", "-S", "-c", boot, ROOT]
        return [*start, str(host.pid), str(Path.cwd()), *argv]

    def environment(self, host: Keeper, inherited: Mapping[str, str]) -> dict[str, str]:
        """`inherited` with a HOME and TMPDIR of the host's own and what the lab file sets."""
        own = {"HOME": host.home, "TMPDIR": host.temporary, "HOSTNAME": host.hostname}
        return {**inherited, **own, **self.lab.environment}

    def start(
        self,
        host: Keeper,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `argv` inside `host`, in a session of its own (Ctrl-C reaches only the caller)."""
        return subprocess.Popen(
            self.command(host, argv),
            env=self.environment(host, os.environ if environment is None else environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    def close(self) -> None:
        """Take the lab down and wait until nothing of it is left. May be called twice."""
        if self._holder is None:
            return
        holder, self._holder = self._holder, None
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdin.close()
        holder.stdout.close()
        try:
            holder.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            holder.kill()  # the keepers die with it; only the waiting for them is lost
            holder.wait()


def open_lab(lab: Lab, *, needed: Sequence[str | os.PathLike[str]] = ()) -> RunningLab:
    """Build `lab` and hold it until the RunningLab is closed or this process ends.

    `needed` are paths that must stay visible inside. Call it from a thread that lives as long as
    the lab: the kernel ends the holder with the thread that started it. Raises BadInput with one
    sentence when the kernel or this user's rights do not allow it.
    """
    order = Order(lab=lab, needed=needed_paths(needed), parent=os.getpid())
    answer, holder = _start(order)
    return RunningLab(answer, holder)


def open_detached(
    lab: Lab, state: Path, *, needed: Sequence[str | os.PathLike[str]] = ()
) -> Answer:
    """Build `lab` and leave it up; its holder keeps the answer in the file `state`."""
    order = Order(lab=lab, needed=needed_paths(needed), detached=True, state=str(state))
    answer, holder = _start(order)
    assert holder.stdin is not None and holder.stdout is not None
    holder.stdin.close()
    holder.stdout.close()
    return answer


def needed_paths(extra: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Paths that a host must see: Python, its packages, the programs, the folder we are in."""
    places = [
        *(os.fspath(path) for path in extra),
        *(path for path in sys.path if path),
        *os.environ.get("PATH", "").split(os.pathsep),
        *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep),
        sys.prefix,
        sys.base_prefix,
        sys.executable,
        ROOT,
        str(Path.cwd()),
        tempfile.gettempdir(),
    ]
    return tuple(dict.fromkeys(path for path in places if path))


def _start(order: Order) -> tuple[Answer, subprocess.Popen[bytes]]:
    boot = _BOOT.format(module="holder", arguments="")
    holder = subprocess.Popen(
        [sys.executable, "-c", boot, ROOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        holder.stdin.write(msgspec.json.encode(order) + b"\n")
        holder.stdin.flush()
        readable, _, _ = select.select([holder.stdout], [], [], BUILD_S)
        if not readable:
            raise BadInput(f"the lab was not up within {BUILD_S:g} s")
        line = holder.stdout.readline()
        if not line:
            raise BadInput("the lab's holder ended before the lab was up")
        answer = msgspec.json.decode(line, type=Answer)
        if answer.error is not None:
            raise BadInput(answer.error)
    except BaseException:  # Ctrl-C included: a holder that nobody waits for would stay
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
        raise
    return answer, holder
