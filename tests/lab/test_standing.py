"""A lab to play with: up, exec, down; nothing is left of it, even when its holder was killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.lab import standing
from bench.records import BadInput

pytestmark = pytest.mark.lab


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where standing labs are noted, this test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "fabric-bench"


@pytest.fixture
def file(tmp_path: Path, two_networks: str) -> Path:
    path = tmp_path / "play.toml"
    path.write_text(two_networks + '[environment]\nNCCL_DEBUG = "INFO"\n')
    return path


def test_up_exec_down(
    state: Path,
    file: Path,
    lab_processes: Callable[[], set[int]],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "leaked")
    assert standing.up(file) == 0
    try:
        assert "lab play is up: host1 host2" in capfd.readouterr().out
        assert standing.execute("host2", ["sh", "-c", "hostname; env; exit 5"]) == 5
        said = capfd.readouterr().out
        assert said.startswith("host2\n")
        assert "NCCL_DEBUG=INFO" in said
        assert "leaked" not in said
        assert standing.execute("play/host1", ["ping", "-c1", "-W2", "10.1.0.2"]) == 0
        with pytest.raises(BadInput, match="already up"):
            standing.up(file)
        with pytest.raises(BadInput, match="no host is called host9; expected host1, host2"):
            standing.execute("host9", ["true"])
    finally:
        assert standing.down() == 0
    assert not lab_processes()
    assert not state.exists()
    with pytest.raises(BadInput, match="no lab is up"):
        standing.execute("host1", ["true"])


def test_a_lab_whose_holder_was_killed_is_gone_and_forgotten(
    state: Path,
    file: Path,
    lab_processes: Callable[[], set[int]],
    wait_for: Callable[..., bool],
) -> None:
    standing.up(file)
    (answer,) = standing.standing().values()
    os.kill(answer.holder, signal.SIGKILL)
    assert wait_for(lambda: not lab_processes())
    assert standing.standing() == {}
    assert not list(state.iterdir())
    assert standing.up(file) == 0
    assert standing.down() == 0


def test_a_folder_that_others_could_write_is_not_trusted(
    state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(BadInput, match="not a private folder"):
        standing.standing()


def test_python_and_its_packages_are_there_inside(
    state: Path, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    standing.up(file)
    try:
        assert standing.execute("host1", [sys.executable, "-c", "import msgspec, torch"]) == 0
    finally:
        standing.down()
