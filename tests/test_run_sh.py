"""run.sh: what it says, what it installs, and that a signal leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
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

ROOT = Path(__file__).resolve().parents[1]
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


# A Python that installs nothing and says what it is asked to run: what is tried is run.sh itself.
STAND_IN = """#!/bin/sh
case "$1 $2" in
"- "*) grep -q PackageNotFoundError && echo "stand-in|own|none|" ;;
"-m venv") for folder; do :; done; mkdir -p "$folder/bin"; cp "$0" "$folder/bin/python" ;;
"-m pip") [ "$3" != install ] || { echo "$$" >>pip.log; } ;;
"-m bench") shift 2; echo "bench $*" ;;
esac
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """run.sh in a folder of its own; BASE_PYTHON is ./python."""
    place = tmp_path / "a place" / "checkout"
    (place / "configs").mkdir(parents=True)
    shutil.copy2(ROOT / "run.sh", place)
    for name in ("pyproject.toml", "configs/constraints.txt"):
        (place / name).touch()
    (place / "python").write_text(STAND_IN)
    (place / "python").chmod(0o755)
    return place


def run_in(
    cwd: Path, place: Path, *command: str, path: Path | None = None
) -> tuple[int, str, str]:
    """`command` in `cwd` with the stand-in of `place`; programs in `path` come first."""
    found = f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]
    environment = {"PATH": found, "BASE_PYTHON": str(place / "python")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("below", "command"),
    [
        (".", ["./run.sh"]),
        (".", ["bash", "run.sh"]),
        ("..", ["checkout/run.sh"]),
        ("../..", ["a place/checkout/run.sh"]),
        ("configs", ["bash", "../run.sh"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_it_is_called_from_any_folder(stand_in: Path, below: str, command: list[str]) -> None:
    for _ in range(2):  # the second time everything is there
        code, out, err = run_in(stand_in / below, stand_in, *command, "compare", "a", "b")
        assert (code, out) == (0, "bench compare a b\n"), err
        assert len((stand_in / "pip.log").read_text().splitlines()) == 1, err
    assert "No such file" not in err


@pytest.mark.parametrize("status", [65, 71])
def test_where_the_file_system_has_no_locks_it_installs_all_the_same(
    stand_in: Path, tmp_path: Path, status: int
) -> None:
    """What flock(1) ends with on NFS (a descriptor that is not for writing) and on Lustre."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "flock").write_text(f"#!/bin/sh\necho 'flock: 9: no' >&2\nexit {status}\n")
    (programs / "flock").chmod(0o755)
    code, out, err = run_in(stand_in, stand_in, "./run.sh", "compare", "a", path=programs)
    assert (code, out) == (0, "bench compare a\n"), err
    assert "waiting" not in err and "flock" not in err


def test_the_lock_is_open_for_writing_and_one_that_is_held_is_waited_for(stand_in: Path) -> None:
    with (stand_in / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = subprocess.Popen(
            ["./run.sh", "compare", "a"], cwd=stand_in, text=True,
            env={"PATH": os.environ["PATH"], "BASE_PYTHON": str(stand_in / "python")},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert first.stderr is not None
        assert first.stderr.readline() == (
            "run.sh: waiting for another run.sh that is installing\n"
        )
        flags = Path(f"/proc/{first.pid}/fdinfo/9").read_text()
        assert int(re.search(r"flags:\s*(\d+)", flags)[1], 8) & os.O_RDWR  # type: ignore[index]
        assert not (stand_in / "pip.log").exists()
    assert first.communicate(timeout=60)[0] == "bench compare a\n"


def test_what_is_installed_runs_where_nothing_can_be_written(stand_in: Path) -> None:
    assert run_in(stand_in, stand_in, "./run.sh", "compare", "a")[0] == 0
    (stand_in / ".install.lock").unlink()
    (stand_in / ".install.lock").mkdir()  # cannot be opened for writing, by root neither
    code, out, err = run_in(stand_in, stand_in, "./run.sh", "compare", "a")
    assert (code, out, err) == (0, "bench compare a\n", "")


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
