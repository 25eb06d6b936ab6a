"""nccl.env in real shells, summary.md as text that stays text."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.records import Recommendation
from bench.report import exports

SHELLS = [
    shell for shell in ("sh", "dash", "bash", "zsh", "ksh", "busybox") if shutil.which(shell)
]
NAMES = ("healthy", "misselected", "hung", "unreachable", "thousand", "hostile")


def _sourced(
    shell: str, file: Path, variable: str, hostname: str
) -> subprocess.CompletedProcess[str]:
    """Source the file on a host of that name; uname is ours, as a test cannot rename its host."""
    tools = file.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "uname").write_text('#!/bin/sh\nprintf "%s\\n" "$TEST_HOSTNAME"\n')
    (tools / "uname").chmod(0o755)
    return subprocess.run(
        [*([shell, "sh"] if shell == "busybox" else [shell]), "-c",
         f'set -eu; . "$1"; printf "%s" "${{{variable}-unset}}"', "x", str(file)],
        capture_output=True, text=True, timeout=20, check=False, cwd=file.parent,
        env={"PATH": f"{tools}:{os.environ['PATH']}", "TEST_HOSTNAME": hostname},
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_reads_the_settings(made: Any, name: str, shell: str, tmp_path: Path) -> None:
    file = tmp_path / "nccl.env"
    file.write_text(exports.nccl_env(getattr(made, name)), encoding="utf-8")
    check = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
    done = subprocess.run([*check, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_values_arrive_as_they_are(made: Any, shell: str, tmp_path: Path) -> None:
    file = tmp_path / "nccl.env"
    file.write_text(exports.nccl_env(made.misselected))
    assert _sourced(shell, file, "NCCL_SOCKET_IFNAME", "host1").stdout == "=data0"
    file.write_text(exports.nccl_env(made.hostile))
    value = made.hostile.recommendation.environment["NCCL_DEBUG"]
    assert _sourced(shell, file, "NCCL_DEBUG", "host1").stdout == value


@pytest.mark.parametrize("shell", SHELLS)
def test_each_host_gets_its_own_settings(made: Any, shell: str, tmp_path: Path) -> None:
    file = tmp_path / "nccl.env"
    file.write_text(exports.nccl_env(made.thousand))
    odd = _sourced(shell, file, "NCCL_SOCKET_IFNAME", "node0001")
    even = _sourced(shell, file, "NCCL_SOCKET_IFNAME", "node0002")
    stranger = _sourced(shell, file, "NCCL_SOCKET_IFNAME", "elsewhere")
    assert (odd.stdout, even.stdout) == ("=ens1f0np0", "=enp65s0f0np0")
    assert stranger.stdout == "unset" and "no settings for the host elsewhere" in stranger.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hostile_host_name_is_a_name_and_no_command(
    made: Any, shell: str, tmp_path: Path
) -> None:
    file = tmp_path / "nccl.env"
    file.write_text(exports.nccl_env(made.hostile), encoding="utf-8")
    for at, host in enumerate(made.hostile.hosts):
        done = _sourced(shell, file, "NCCL_SOCKET_IFNAME", host.hostname)
        assert done.stdout == f"={at}'", done.stderr
    assert not Path("/tmp/owned").exists()


def test_hosts_that_cannot_be_told_apart_are_left_to_the_user(made: Any) -> None:
    hosts = tuple(
        msgspec.structs.replace(host, hostname="node") for host in made.healthy.hosts[:2]
    )
    advice = Recommendation(
        per_host={
            "host1": {"NCCL_SOCKET_IFNAME": "=data0"},
            "host2": {"NCCL_SOCKET_IFNAME": "=eth1"},
        }
    )
    text = exports.nccl_env(
        msgspec.structs.replace(made.healthy, hosts=hosts, recommendation=advice)
    )
    assert "\nexport" not in text and "#   host2: export NCCL_SOCKET_IFNAME='=eth1'" in text


def test_nothing_to_set_is_a_file_that_says_so(made: Any) -> None:
    assert exports.nccl_env(made.healthy).endswith("# Nothing to set.\n")


def test_a_name_that_is_no_variable_is_never_exported(made: Any) -> None:
    advice = Recommendation(environment={"A;touch x": "1", "\nexport B": "2", "C": "3"})
    text = exports.nccl_env(msgspec.structs.replace(made.healthy, recommendation=advice))
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["export C='3'"]


@pytest.mark.parametrize("name", NAMES)
def test_the_summary_is_as_agreed(made: Any, name: str) -> None:
    golden = Path(__file__).parent / "golden" / f"summary_{name}.md"
    text = exports.summary_md(getattr(made, name))
    if os.environ.get("BENCH_WRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_foreign_names_are_no_markup(made: Any) -> None:
    text = exports.summary_md(made.hostile)
    outside = "\n".join(part for at, part in enumerate(text.split("```")) if at % 2 == 0)
    assert "<script" not in outside and "<img" not in outside and "\x1b" not in text
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
