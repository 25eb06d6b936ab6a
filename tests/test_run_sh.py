"""run.sh: what it says, what it installs, and that a signal leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Checkout

MARK = "FABRIC_BENCH_TEST"


def start(checkout: Checkout, command: Sequence[str], mark: str) -> subprocess.Popen[str]:
    """A run.sh in a process group of its own, whose descendants carry `mark`."""
    return subprocess.Popen(
        command,
        cwd=checkout.folder,
        env=checkout.environment() | {MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(mark: str) -> list[str]:
    """Command lines of processes that carry `mark`, after a moment to go."""
    wanted = f"{MARK}={mark}".encode()
    deadline = time.monotonic() + 10
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue  # it has gone, or was never ours
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def until_measuring(process: subprocess.Popen[str], words: str) -> str:
    """Read what it prints until `words`; the pipe's end or a minute ends the wait."""
    assert process.stdout is not None
    printed = ""
    deadline = time.monotonic() + 60
    for line in process.stdout:
        printed += line
        if words in line or time.monotonic() > deadline:
            break
    assert words in printed, printed
    return printed


def test_help_names_its_commands_and_installs_nothing(checkout: Checkout, tmp_path: Path) -> None:
    result = checkout.shell("./run.sh --help", 20)
    assert result.returncode == 0
    for command in ("lab FILE", "test", "bench", "--help"):
        assert f"./run.sh {command}" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_every_command_that_help_names_is_one(checkout: Checkout) -> None:
    script = (checkout.folder / "run.sh").read_text()
    named = set(re.findall(r"^\./run\.sh ([a-z]+)", script, re.MULTILINE))
    handled = set(re.findall(r"^(?:help \| )?([a-z]+)\)", script, re.MULTILINE))
    assert named == handled == {"nightly", "compare", "lab", "test", "bench"}


def test_an_unknown_command_is_one_sentence(checkout: Checkout) -> None:
    result = checkout.shell("./run.sh nigthly", 20)
    assert result.returncode == 2
    assert result.stderr.startswith("run.sh: unknown command 'nigthly'; expected ")
    assert "compare, lab, test, bench" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_python_that_is_too_old_or_absent_is_one_sentence(checkout: Checkout) -> None:
    tools = "for t in bash dirname cat id tr grep paste flock; do ln -s $(command -v $t) $D; done"
    script = f"D=$(mktemp -d); {tools}; unset BASE_PYTHON; PATH=$D bash ./run.sh; rm -r $D"
    result = checkout.shell(script, 20)
    assert result.returncode == 2
    assert "run.sh: needs Python 3.10 or newer" in result.stderr


@pytest.mark.timeout(400)
def test_two_at_once_install_once_and_a_bad_option_is_one_sentence(checkout: Checkout) -> None:
    for stamp in (checkout.folder / ".venv").glob(".installed-*"):
        stamp.unlink()
    both = [start(checkout, ["./run.sh", "--pln", "quick"], "install") for _ in range(2)]
    printed = [process.communicate(timeout=350)[0] for process in both]
    assert [process.returncode for process in both] == [2, 2], printed
    assert sum("installed in" in text for text in printed) == 1, printed
    for text in printed:
        assert text.endswith("fabric-bench: unknown option '--pln'; did you mean --plan?\n")


@pytest.mark.lab
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_virtual_cluster_and_leaves_nothing(
    checkout: Checkout, tmp_path: Path, number: signal.Signals
) -> None:
    checkout.shell("./run.sh --pln", 350)  # installed before the clock runs
    mark = uuid.uuid4().hex
    process = start(checkout, ["./run.sh", "--out", str(tmp_path / "run")], mark)
    try:
        until_measuring(process, "case 1/")
        # Ctrl-C reaches the whole group; kill reaches run.sh alone.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert left_behind(mark) == []
    assert (tmp_path / "run" / "samples.jsonl").exists()
    assert "Traceback" not in rest


@pytest.mark.lab
@pytest.mark.timeout(400)
def test_without_namespaces_this_host_is_swept_and_a_signal_leaves_nothing(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.shell("./run.sh --pln", 350)
    # A user namespace with a limit of its own: no network namespace can be made inside.
    forbid = (
        "echo 0 >/proc/sys/user/max_net_namespaces && echo 0 >/proc/sys/user/max_user_namespaces"
    )
    short = "--sessions 1 --collective all_reduce --maxbytes 16K"
    sweep = f"{forbid} && exec ./run.sh {short} --out"
    mark = uuid.uuid4().hex
    command = ["unshare", "--user", "--map-root-user", "bash", "-c"]
    process = start(checkout, [*command, f"{sweep} {tmp_path}/whole"], mark)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    assert "run.sh: no GPU, and no virtual cluster (" in printed
    assert "sweeping this host over gloo with 2 ranks" in printed
    assert (tmp_path / "whole" / "status").read_text() == "0\n"
    process = start(checkout, [*command, f"{sweep} {tmp_path}/cut --sessions 9"], mark)
    try:
        until_measuring(process, "case 1/")
        os.kill(process.pid, signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert left_behind(mark) == []
    assert (tmp_path / "cut" / "samples.jsonl").exists(), rest


@pytest.mark.lab
@pytest.mark.timeout(400)
def test_a_lab_file_is_swept_and_its_errors_are_sentences(checkout: Checkout) -> None:
    result = checkout.shell("./run.sh lab", 350)
    assert (result.returncode, result.stdout) == (2, "")
    assert "which lab?" in result.stderr
    result = checkout.shell("./run.sh lab configs/labs/no-such.toml", 60)
    assert result.returncode == 2
    assert "fabric-bench: configs/labs/no-such.toml: no such file" in result.stderr
