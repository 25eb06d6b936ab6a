"""Stands in every rank of a watched job and answers `watch`: dumps, stacks, how far it has come.

`watch` lays this file as sitecustomize.py on the ranks' PYTHONPATH; it needs nothing but the
standard library of Python 3.8 and runs whatever sitecustomize it hides. In: one JSON line per
question on a socket. Out: JSON lines, some with bytes behind them. It asks nothing of torch before
the job has made its process group, and costs nothing but a sleeping thread until it is asked.
Source: torch/csrc/distributed/c10d/init.cpp (_dump_fr_trace, _dump_nccl_trace), Lib/site.py.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing's own would be loaded into every process of the job
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

ADDRESS = "FABRIC_BENCH_WATCH"  # the name of an abstract socket
FOLDER = "FABRIC_BENCH_WATCH_DIR"
MARK = "FABRIC_BENCH_WATCHED"  # "variable:pid" of the rank that stands in for its children
# Who starts ranks, and the variables it says so with; the first that is there is the rank's.
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
# Programs and modules that start ranks: a number that they inherit is a node's or a task's.
LAUNCHERS = (b"torchrun", b"accelerate", b"deepspeed")
LAUNCHER_MODULES = (
    b"torch.distributed.run", b"torch.distributed.launch", b"accelerate.commands.launch",
    b"accelerate.commands.accelerate_cli", b"deepspeed.launcher.launch",
)  # fmt: skip
CONNECT_S, GOODBYE_S = 2.0, 2.0
ANSWER_S = 10.0  # at a rank's end, for an answer that is being given: the first stacks take 0.9 s
ORPHAN_LOOKS, ORPHAN_S = 120, 0.5  # a launcher that is asked to end takes up to half a minute
# 29 above SIGRTMIN: nobody's, as far as we know, and left alone where somebody handles it.
STACKS_SIGNAL = 63


def chain() -> None:
    """Run the sitecustomize that this one hides, as Python would have."""
    import importlib.machinery

    # pathlib costs every process of the job 5 ms
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    paths = [path for path in sys.path if os.path.abspath(path or ".") != here]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def launches() -> bool:
    """Whether this process is torchrun or the like: not a rank, whatever it has inherited."""
    try:
        with open("/proc/self/cmdline", "rb") as stream:  # noqa: PTH123 - as in `chain`
            words = stream.read(1 << 16).split(b"\0")
    except OSError:
        return False
    before = b""
    for word in words[1:]:
        if before == b"-m":
            return word in LAUNCHER_MODULES
        if not word.startswith(b"-") and before not in (b"-X", b"-W"):
            return word.rpartition(b"/")[2] in LAUNCHERS
        before = word
    return False


def post() -> None:
    """Take up the post, if this process is a rank and nobody above it stands there already."""
    address = os.environ.get(ADDRESS)
    variable = next((name for name in RANKS if os.environ.get(name, "").isdigit()), None)
    if not address or variable is None:
        return
    who, _, pid = os.environ.get(MARK, "").partition(":")
    if who == variable and pid != str(os.getpid()):
        return  # a data loader or another child of a rank, which has its variables
    if launches():
        return  # its ranks say hello themselves
    import socket

    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(CONNECT_S)
    try:
        link.connect("\0" + address)
        sentry = Sentry(link, int(os.environ[variable]))
        sentry.hello(variable)
    except OSError:
        link.close()
        return  # another network namespace, or `watch` is gone: the job runs without
    link.settimeout(None)
    os.environ[MARK] = variable + ":" + str(os.getpid())
    import atexit
    import threading  # loaded here: inside the thread it would take that for the main one

    assert threading
    import _thread

    atexit.register(sentry.farewell)
    os.register_at_fork(after_in_child=sentry.forget)
    _thread.start_new_thread(sentry.stand, ())  # threading would count it among the job's own


class Sentry:
    """The rank's end of the line. Everything it does, it does when it was asked."""

    def __init__(self, link: socket.socket, rank: int) -> None:
        import _thread
        import faulthandler
        import json
        import time

        self.faulthandler, self.json, self.clock = faulthandler, json, time.perf_counter
        self.sleep = time.sleep
        self.link, self.rank, self.parent = link, rank, os.getppid()
        self.lock = _thread.allocate_lock()
        # A thread that is inside torch when the interpreter goes takes the process with it.
        self.answering = _thread.allocate_lock()
        self.pid = os.getpid()
        self.signal = self._arm()

    def _arm(self) -> int:
        """Stacks by a signal, for when somebody else holds the interpreter for good."""
        import signal

        folder = os.environ.get(FOLDER, "")
        try:
            if signal.getsignal(STACKS_SIGNAL) is not signal.SIG_DFL:
                return 0
            name = "{}/stuck-{}.txt".format(folder, self.rank)  # noqa: UP032
            self.file = open(name, "wb")  # noqa: SIM115, PTH123
            self.faulthandler.register(STACKS_SIGNAL, self.file, all_threads=True)
        except (OSError, ValueError, RuntimeError, AttributeError):
            return 0
        return STACKS_SIGNAL

    def hello(self, variable: str) -> None:
        import platform

        told = {
            name: os.environ.get(name, "")
            for name in ("LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
        }
        self.say(
            {
                "say": "hello",
                "rank": self.rank,
                "pid": self.pid,
                "host": platform.node(),
                "by": variable,
                "signal": self.signal,
                "variables": told,
            }
        )

    def say(self, message: dict[str, Any], data: bytes = b"", patience_s: float = -1) -> None:
        message["bytes"] = len(data)
        if self.lock.acquire(timeout=patience_s):
            try:
                self.link.sendall(self.json.dumps(message).encode() + b"\n" + data)
            finally:
                self.lock.release()

    def stand(self) -> None:
        """Answer until `watch` has gone."""
        buffer = b""
        try:
            while True:
                data = self.link.recv(1 << 16)
                if not data:
                    break
                buffer += data
                while b"\n" in buffer:
                    line, _, buffer = buffer.partition(b"\n")
                    with self.answering:
                        self.answer(self.json.loads(line))
        except (OSError, ValueError):
            pass
        # `watch` has gone, and its launcher with it: nobody else would ever end this rank.
        for _ in range(ORPHAN_LOOKS):
            if os.getpid() == self.pid and os.getppid() != self.parent:
                os.kill(self.pid, 15)
                return
            self.sleep(ORPHAN_S)

    def answer(self, asked: dict[str, Any]) -> None:
        number, what = asked.get("id", 0), asked.get("ask")
        if what == "look":
            self._look(number)
        elif what == "calls":
            for recorder, dump in self._recorders("json"):
                began = self.clock()
                data = _called(dump, True, False)
                cost = self.clock() - began
                told = {"say": "calls", "id": number, "recorder": recorder, "cost_s": cost}
                self.say(told, data)
            self.say({"say": "done", "id": number})
        elif what == "dump":
            self._dump(number)
        elif what == "stacks":
            self._stacks(number)

    def _look(self, number: int) -> None:
        """Numbers alone: three microseconds, whatever the recorder holds."""
        began = self.clock()
        status: dict[str, Any] = {}
        for recorder, dump in self._recorders("json"):
            told = self.json.loads(_called(dump, False, False) or b"{}")
            status[recorder] = told.get("pg_status") or {}
        cost = self.clock() - began
        self.say({"say": "look", "id": number, "status": status, "cost_s": cost})

    def _dump(self, number: int) -> None:
        """Without stacks at once, because a launcher may end this rank any moment; then with."""
        for form in ("json", "pickle"):
            for recorder, dump in self._recorders(form):
                data = _called(dump, *((True, False) if form == "json" else (True, True, False)))
                self.say({"say": "dump", "id": number, "recorder": recorder, "form": form}, data)
            self.say({"say": "told" if form == "json" else "done", "id": number})

    def _stacks(self, number: int) -> None:
        descriptor = os.memfd_create("stacks")
        try:
            self.faulthandler.dump_traceback(descriptor, all_threads=True)
            data = os.pread(descriptor, 1 << 20, 0)
        finally:
            os.close(descriptor)
        self.say({"say": "stacks", "id": number}, data)

    def _recorders(self, form: str) -> list[tuple[str, Callable[..., Any]]]:
        """(name, function) of what this torch has; nothing before the job has made a group: the
        first question would set the recorder up by variables that the job may still set."""
        library = sys.modules.get("torch._C._distributed_c10d")
        front = sys.modules.get("torch.distributed.distributed_c10d")
        group = getattr(front, "GroupMember", None)
        if library is None or not (self.seen or getattr(group, "WORLD", None) is not None):
            return []
        self.seen = True  # what was recorded outlives destroy_process_group()
        ending = "_json" if form == "json" else ""
        names = (("gloo", "_dump_fr_trace" + ending), ("nccl", "_dump_nccl_trace" + ending))
        return [(name, getattr(library, each)) for name, each in names if hasattr(library, each)]

    seen = False

    def farewell(self) -> None:
        """The last dump of a rank that ends by itself: others may still wait for it."""
        if os.getpid() != self.pid or not self.answering.acquire(timeout=ANSWER_S):
            return  # held for good from here on: no further question is answered
        try:
            self.link.settimeout(GOODBYE_S)  # a rank's end waits for nobody
            for recorder, dump in self._recorders("json"):
                data = _called(dump, True, False)
                told = {"say": "dump", "id": 0, "recorder": recorder, "form": "json"}
                self.say(told, data, GOODBYE_S)
            failed = getattr(sys, "last_type", None) is not None
            self.say({"say": "farewell", "failed": failed}, b"", GOODBYE_S)
        except (OSError, RuntimeError, ValueError):
            pass  # `watch` has gone

    def forget(self) -> None:
        """In a forked child: the line is the rank's alone, or its end would not be noticed."""
        self.pid = -1
        try:
            self.link.close()
        except OSError:
            pass


def _called(dump: Callable[..., Any], *arguments: bool) -> bytes:
    """Its answer as bytes, empty where this torch does not know these arguments."""
    try:
        told = dump(*arguments)
    except (TypeError, RuntimeError):
        return b""
    return told if isinstance(told, bytes) else str(told).encode("utf-8", "replace")


if __name__ == "sitecustomize":
    try:
        post()
    except Exception as error:  # noqa: BLE001 - whatever fails here, the job runs without us
        print("fabric-bench: this rank is not watched: %s" % error, file=sys.stderr)  # noqa: UP031
    chain()
