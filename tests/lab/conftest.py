"""What the lab's tests share: a lab from text, commands inside it, and a look for leftovers."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.lab import checks, running
from bench.lab.description import Lab
from bench.lab.running import RunningLab

HERE = Path(__file__).parent
TRANSFER = str(HERE / "transfer.py")

TWO_NETWORKS = """
hosts = 2

[[network]]
name = "mgmt"
interface = "mgmt0"
rate_mbit = 100

[[network]]
name = "docker"
interface = "docker0"
isolated = true

[[network]]
name = "data"
interface = ["data0", "ens1f0"]
rate_mbit = 200
"""


class Ground:
    """A lab that is up, and what tests do in it. Hosts count from 1."""

    def __init__(self, lab: RunningLab) -> None:
        self.lab = lab

    def inside(self, host: int, *argv: str, timeout_s: float = 20.0) -> str:
        """What a command prints on a host."""
        process = self.lab.start(
            self.lab.hosts[host - 1], argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output, _ = process.communicate(timeout=timeout_s)
        return output.decode()

    def address(self, network: str, host: int) -> str:
        return self.lab.lab.network_named(network).address_of(host).partition("/")[0]

    def sink(self, host: int, network: str, port: int = 7000) -> None:
        """A TCP sink on a host; it ends with the lab."""
        argv = [sys.executable, TRANSFER, "sink", self.address(network, host), str(port)]
        process = self.lab.start(self.lab.hosts[host - 1], argv, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdout.close()

    def once(self, source: int, target: int, network: str, size: int, port: int = 7000) -> str:
        """Whether `size` bytes from one host reach another's sink within 1 s."""
        where = self.address(network, target)
        command = [sys.executable, TRANSFER, "once", where, str(port), str(size), "1"]
        return self.inside(source, *command).strip()

    def rate_mbit(self, source: int, target: int, network: str) -> float:
        """Payload rate from one host to another's sink, over a second."""
        where = self.address(network, target)
        return float(self.inside(source, sys.executable, TRANSFER, "send", where, "7000", "1"))


@pytest.fixture
def two_networks() -> str:
    """A lab file: two hosts, mgmt, docker and data, the data interface called differently."""
    return TWO_NETWORKS


@pytest.fixture
def lab_of(tmp_path: Path) -> Callable[[str], Lab]:
    """Loads a lab from TOML text, as from a file."""

    def load(text: str) -> Lab:
        file = tmp_path / "lab.toml"
        file.write_text(text)
        return checks.load(file)

    return load


@pytest.fixture
def up(lab_of: Callable[[str], Lab]) -> Iterator[Callable[[str], Ground]]:
    """Builds labs from text; all of them are taken down at the end."""
    opened: list[RunningLab] = []

    def build(text: str) -> Ground:
        opened.append(running.open_lab(lab_of(text)))
        return Ground(opened[-1])

    yield build
    for lab in opened:
        lab.close()


@pytest.fixture
def payload_mbit() -> Callable[[float], float]:
    """Payload share of a shaped rate: tbf on veth counts 14 bytes of header per packet."""
    return lambda rate: rate * 1448 / 1514


@pytest.fixture
def lab_processes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[int]]:
    """PIDs of everything that this test started and that still lives, wherever it ended up."""
    mark = f"LAB_TEST={uuid.uuid4().hex}"
    monkeypatch.setenv(*mark.split("="))

    def look() -> set[int]:
        found = set()
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdigit() and mark.encode() in (path / "environ").read_bytes():
                    found.add(int(path.name))
            except OSError:
                continue  # it has ended, or is a kernel thread
        return found

    return look


@pytest.fixture
def wait_for() -> Callable[..., bool]:
    """Whether a condition comes true within a limit (10 s)."""

    def wait(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    return wait
