"""The loop of `watch` without a job of torch: what may go wrong in it never ends the job."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.commands import run_folder, watching
from bench.hang.watch.started import Started
from bench.hang.watch.switchboard import Line, Switchboard, Told
from bench.records import WatchedJob


@dataclass
class Heard:
    """What the user sees."""

    out: bytes = b""
    said: list[str] = field(default_factory=list)

    def take(self, data: bytes) -> None:
        self.out += data


def follow(
    folder: Path, board: Any, heard: Heard, diagnose: Callable[[Path], str] = lambda _: "page"
) -> watching.Watching:
    screen = watching.Screen(heard.take, heard.take, heard.said.append, lambda *_: None)
    settings = watching.Settings(stall_s=300.0, pausable=True)
    job = WatchedJob(command=("x",))
    return watching.Watching(job, folder, board, screen, settings, diagnose)


def run(folder: Path, heard: Heard, script: str, **more: Any) -> int:
    with Switchboard() as board:
        follows = follow(folder, board, heard, **more)
        started = Started(["sh", "-c", script], dict(os.environ), follows.signalled)
        try:
            return follows.run(started)
        finally:
            started.close()
            started.stdout.close()
            started.stderr.close()


@pytest.mark.parametrize("full", [("console.log",), (".watch.json.new",), ("console.log", "both")])
def test_a_full_disk_ends_no_job_and_is_said_once(tmp_path: Path, full: tuple[str, ...]) -> None:
    for name in full:
        (tmp_path / name.replace("both", ".watch.json.new")).symlink_to("/dev/full")
    heard = Heard()
    assert run(tmp_path, heard, "echo one; echo two >&2; sleep 0.3; echo three; exit 3") == 3
    assert sorted(heard.out.split()) == [b"one", b"three", b"two"]
    assert sum("No space left" in line for line in heard.said) == 1, heard.said
    assert "exit 3" in heard.said[-1]


def test_a_folder_that_is_gone_ends_no_job(tmp_path: Path) -> None:
    heard = Heard()
    assert run(tmp_path / "gone", heard, "echo one; exit 3") == 3
    assert heard.out == b"one\n"
    assert sum("No such file" in line for line in heard.said) == 1, heard.said


def test_a_judge_that_fails_is_a_sentence(tmp_path: Path) -> None:
    def fails(_: Path) -> str:
        raise KeyError("rank")

    heard = Heard()
    assert run(tmp_path, heard, "exit 3", diagnose=fails) == 3
    assert "not diagnosed: KeyError: 'rank'" in heard.said[-1]


@dataclass
class Board:
    """Says what a test lets ranks say."""

    said: list[Told] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def take(self, timeout_s: float = 0.0) -> list[Told]:
        told, self.said = self.said, []
        return told


@dataclass
class Launcher:
    """A started job that is stopped and set going."""

    paused: bool = False
    told: tuple[int, ...] = ()  # signals

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


@pytest.mark.parametrize(("late", "told"), [(2, True), (0, False)])
def test_a_launcher_goes_on_even_if_a_rank_comes_up_while_it_is_stopped(
    tmp_path: Path, late: int, told: bool
) -> None:
    """Rank 2 was started before rank 0 died; rank 0 itself has run another program in its place
    and is alive."""
    links = [socket.socketpair() for _ in range(3)]
    lines = [Line(link, os.getpid()) for link, _ in links]
    for line, rank in zip(lines, (0, 1, late), strict=True):
        line.rank = rank
    launcher: Any = Launcher()
    heard = Heard()
    board = Board([Told(line, "hello") for line in lines[:2]] + [Told(lines[0], "gone")])
    follows = follow(tmp_path, board, heard)
    follows._hear(launcher)
    assert launcher.paused
    board.said = [Told(lines[2], "hello")]
    follows._hear(launcher)
    follows._watch_death(launcher, follows.now_s + 2 * watching.PAUSE_S)
    assert not launcher.paused
    follows._watch_death(launcher, follows.now_s + 2 * watching.LAUNCHER_S)
    assert any("its launcher has not" in line for line in heard.said) is told
    for pair in links:
        for link in pair:
            link.close()


@pytest.mark.parametrize(("host", "pid"), [("node2", 7), ("node1", 8), ("node 2/x", 7)])
def test_two_nodes_and_two_processes_have_folders_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, pid: int
) -> None:
    """In one directory, within one second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda *_: "2026-01-31T03-00-00Z")
    made = []
    for node, number in (("node1", 7), (host, pid)):
        monkeypatch.setattr("platform.node", lambda node=node: node)
        monkeypatch.setattr("os.getpid", lambda number=number: number)
        made.append(run_folder.made("", "watch", ("flight", "nccl")))
    assert made[0] != made[1]
    assert all(folder.parent == Path("reports") and (folder / "nccl").is_dir() for folder in made)
    assert made[0].name == "watch-2026-01-31T03-00-00Z-node1-7"
