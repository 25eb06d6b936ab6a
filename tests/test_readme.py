"""README.md is executed: shell blocks run, files in it are read, tables are complete.

The word after the language says how: `sh` runs in a checkout, in order; `sh cluster` runs as
written on both hosts of a virtual cluster; `sh slurm` runs with stand-ins for the absent Slurm, up
to torchrun's command line; `toml KIND` is loaded as such a file; `text` is output or a drawing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.cli import app
from bench.formats.toml_file import load
from bench.judge.catalogue import CATALOGUE
from bench.lab import checks
from bench.plan import options
from bench.records import Fabric
from bench.report.stored import read_report

if TYPE_CHECKING:
    from tests.conftest import Checkout

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+ ?\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
NOT_RUN = {
    "./run.sh test": "this test is a part of it",
    "./run.sh nightly": "tests/test_nightly_job.py runs three of them",
}


def blocks(kind: str) -> list[str]:
    found = [text.strip() for how, text in BLOCKS if how == kind]
    return [text for text in found if text not in NOT_RUN]


def test_every_block_says_how_it_is_tested() -> None:
    kinds = {how for how, _ in BLOCKS}
    assert kinds <= {
        "sh",
        "sh cluster",
        "sh slurm",
        "toml lab",
        "toml fabric",
        "text",
        "text history",
    }
    assert README.count("```") == 2 * len(BLOCKS)


@pytest.fixture(scope="session")
def front_door(checkout: Checkout) -> subprocess.CompletedProcess[str]:
    """The first command that anybody types, in a checkout with nothing installed."""
    return checkout.shell("./run.sh", 500)


@pytest.mark.lab
@pytest.mark.timeout(600)
def test_the_front_door_shows_the_misselected_interface(
    front_door: subprocess.CompletedProcess[str],
) -> None:
    assert front_door.returncode == 0, front_door.stdout + front_door.stderr
    assert "run.sh: no GPU: sweeping the virtual cluster" in front_door.stderr
    for words in (
        "! interface-misselected",
        "Bootstrap: Using mgmt0:",
        "times faster (95 %",
        "export NCCL_SOCKET_IFNAME='=data0'",
        "verdict: misconfigured",
    ):
        assert words in front_door.stdout


@pytest.mark.lab
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("front_door")
def test_the_shell_blocks_run_in_order(checkout: Checkout) -> None:
    scripts = blocks("sh")
    assert scripts.pop(0) == "./run.sh"
    for script in scripts:
        result = checkout.shell(script)
        assert result.returncode == 0, script + "\n" + result.stdout + result.stderr
        assert result.stdout or result.stderr, script  # watch leaves stdout to the job


@pytest.mark.lab
@pytest.mark.usefixtures("front_door")
def test_the_second_start_installs_nothing(checkout: Checkout) -> None:
    begun = time.monotonic()
    result = checkout.shell("./run.sh --maxbytes 1", 60)
    assert time.monotonic() - begun < 30  # a second or two on an idle machine
    assert result.returncode == 2
    assert "installing" not in result.stderr


@pytest.fixture
def two_hosts(checkout: Checkout, tmp_path: Path) -> Iterator[None]:
    """A virtual cluster of two hosts, up as a user would have it."""
    lab = tmp_path / "readme.toml"
    lab.write_text('hosts = 2\n[[network]]\nname = "data"\ninterface = "data0"\nrate_mbit = 200\n')
    up = checkout.shell(f"python -m bench lab up {lab}", 60)
    assert up.returncode == 0, up.stderr
    try:
        yield
    finally:
        down = checkout.shell("python -m bench lab down", 60)
    assert down.returncode == 0, down.stderr


@pytest.mark.lab
@pytest.mark.usefixtures("front_door", "two_hosts")
def test_the_cluster_block_runs_as_written_on_both_hosts(checkout: Checkout) -> None:
    (script,) = blocks("sh cluster")
    command = [sys.executable, "-m", "bench", "lab", "exec"]
    hosts = [
        subprocess.Popen(
            [*command, f"readme/host{number}", "--", "bash", "-euc", script],
            cwd=checkout.folder,
            env=checkout.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in (1, 2)
    ]
    try:
        printed = [host.communicate(timeout=200)[0] for host in hosts]
    finally:
        for host in hosts:
            host.kill()
            host.wait()
    assert [host.returncode for host in hosts] == [0, 0], "\n".join(printed)
    assert sum("verdict: " in text for text in printed) == 1, "only one host prints the screen"
    report = read_report(checkout.folder / "reports" / "first")
    assert [host.host for host in report.hosts] == ["host1", "host2"]
    assert {line.candidate for line in report.lines} >= {"data0"}


# What a login node has and this machine has not: srun runs the task here, as one of two nodes.
FAKE_SRUN = """#!/bin/sh
while [ "$1" != bash ]; do shift; done
SLURM_NNODES=2 SLURM_JOB_ID=17 SLURM_JOB_NODELIST='node[1-2]' exec "$@"
"""
FAKE_SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames node[1-2]" ] && printf 'node1\\nnode2\\n'
"""
# torchrun's own parser and the sweep's, and nothing started.
DRY_TORCHRUN = """#!{python}
import sys
from torch.distributed.run import parse_args
from bench.plan import options
parsed = parse_args(sys.argv[1:])
print(parsed.nnodes, parsed.rdzv_id, parsed.rdzv_endpoint, parsed.training_script)
print(options.parse(parsed.training_script_args).plan)
"""


def test_the_slurm_line_starts_the_sweep_on_every_node(checkout: Checkout, tmp_path: Path) -> None:
    (script,) = blocks("sh slurm")
    for name, text in (
        ("srun", FAKE_SRUN),
        ("scontrol", FAKE_SCONTROL),
        ("torchrun", DRY_TORCHRUN.format(python=sys.executable)),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    lines = [f"export PATH={tmp_path}:$PATH PYTHONPATH={ROOT}", script]
    result = checkout.shell("\n".join(lines), 60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["2 17 node1:29400 bench/sweep.py", "nightly"]


@pytest.mark.parametrize("command", ["read", "locate"])
def test_what_reading_from_a_pipe_prints_is_what_it_shows(command: str) -> None:
    (script,) = [text for text in blocks("sh") if f"bench {command} - <<" in text]
    script = script.replace("python", sys.executable, 1)
    result = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() in blocks("text")


def test_the_files_in_it_are_good_files(tmp_path: Path) -> None:
    for number, text in enumerate(blocks("toml lab")):
        (tmp_path / f"{number}.toml").write_text(text)
        checks.load(tmp_path / f"{number}.toml")
    for text in blocks("toml fabric"):
        (tmp_path / "fabric.toml").write_text(text)
        load(tmp_path / "fabric.toml", Fabric)


def test_the_table_of_options_is_complete() -> None:
    _, _, rest = README.partition("## Options of the sweep")
    table = rest.partition("\n## ")[0]
    told = set(re.findall(r"`(--[a-z-]+)", table))
    help_text = options.parse(["--help"]).help
    assert help_text is not None
    assert told | {"--help"} == set(re.findall(r"(?<!\S)(--[a-z-]+)", help_text))


def test_every_code_and_command_that_it_names_exists() -> None:
    table = README.partition("| code |")[2].partition("\n\n")[0]
    codes = re.findall(r"`([a-z-]+)`", table)
    assert len(codes) > 10
    assert set(codes) <= set(CATALOGUE)
    named = set(re.findall(r"python -m bench ([a-z]+)", README))
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert named <= known | {group.name for group in app.registered_groups}


def test_the_tree_is_the_tree() -> None:
    drawn = README.partition("## The tree")[2].partition("```text\n")[2].partition("```")[0]
    place = ROOT
    rooms = []
    for line in drawn.splitlines():
        name = line.split()[0]
        place = ROOT / rooms[-1] if line.startswith("  ") else ROOT
        assert (place / name).exists(), name
        if not line.startswith("  "):
            rooms.append(name)
    for folder in ("bench", "configs"):
        for path in (ROOT / folder).iterdir():
            if path.is_dir() and any(path.rglob("*.*")) and path.name != "__pycache__":
                assert f"  {path.name}/" in drawn, f"{folder}/{path.name} is not in the tree"


def test_it_counts_the_labs_right() -> None:
    labs = list((ROOT / "configs" / "labs").glob("*.toml"))
    assert len(labs) == 11
    assert "has eleven of them" in README


def test_it_names_no_place_of_the_machine_it_was_written_on() -> None:
    assert not re.search(r"/(work|root|tmp|home)/", README)
