"""The faults kill and stop strike one rank, in the phase that the file names, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from bench.lab import victim
from bench.lab.description import Fault, VictimPhase
from bench.lab.victim import Victim

# A launcher with two workers, as the lab's is: each walks through the phases by its own name.
WORKERS = """
import ctypes, os, sys, time
def name(text): ctypes.CDLL(None).prctl(15, text.encode(), 0, 0, 0)
for rank in (1, 2):
    if os.fork() == 0:
        for phase in ("rendezvous", "init", "first", "midrun"):
            name(f"b{rank}:{phase}")
            time.sleep(0.06)
        os._exit(0)
for _ in range(2):
    pid, status = os.waitpid(-1, os.WUNTRACED if sys.argv[1] == 'stop' else 0)
    print(pid, status, flush=True)
time.sleep(60)
"""


@pytest.fixture
def launcher() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(kind: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKERS, kind]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        for pid in victim.descendants(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()


@pytest.mark.parametrize("phase", ["rendezvous", "init", "first", "midrun"])
@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_the_named_rank_is_struck_in_the_named_phase(
    launcher: Callable[[str], subprocess.Popen[str]], kind: str, phase: VictimPhase
) -> None:
    process = launcher(kind)
    fault = Fault(kind="kill" if kind == "kill" else "stop", rank=2, phase=phase)
    watcher = Victim(fault, process.pid)
    watcher.start()
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(2)]
    ends = {int(pid): int(status) for pid, status in lines}
    watcher.end()
    assert watcher.struck in ends
    struck = ends.pop(watcher.struck)
    if kind == "kill":
        assert os.WTERMSIG(struck) == signal.SIGKILL
    else:
        assert os.WIFSTOPPED(struck)
        assert victim.process_name(watcher.struck) == f"b2:{phase}"
    assert list(ends.values()) == [0], "the other rank went its way"


def test_a_phase_that_never_comes_strikes_nobody(
    launcher: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = launcher("kill")
    watcher = Victim(Fault(kind="kill", rank=7, phase="init"), process.pid)
    watcher.start()
    assert process.stdout is not None
    ends = [int(process.stdout.readline().split()[1]) for _ in range(2)]
    watcher.end()
    assert (watcher.struck, ends) == (None, [0, 0])
