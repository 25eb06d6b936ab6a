"""`preflight` as people type it: alone, under torchrun, and on every host of a virtual cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.cli import main

ROOT = Path(__file__).resolve().parents[1]
LAB = """
hosts = 3
[[network]]
name = "mgmt"
interface = "mgmt0"
subnet = "10.1.0.0/24"
rate_mbit = 400
[[network]]
name = "data"
interface = "data0"
subnet = "10.2.0.0/24"
rate_mbit = 400
[[fault]]
kind = "{kind}"
host = {host}
network = "data"
{more}
"""


def answer(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict]:
    code = main(["preflight", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def codes(seen: dict) -> set[str]:
    return {f"{f['code']}:{f['kind']}" for f in seen["findings"]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rdzv-endpoint", "host:99999"], "expected HOST:PORT with port 1 to 65535"),
        (["--rdzv-endpoint", ":29500"], "expected HOST:PORT"),
        (["--nnodes", "2"], "several hosts need --nnodes, --node-rank and --rdzv-endpoint"),
        (["--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", "a"], "expected 0 to 1"),
        (["--wait", "0"], "expected seconds above 0"),
        (["--fail-on", "sever"], "expected one of info, warning"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preflight", *arguments]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_alone_it_says_what_it_saw_of_the_meeting_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, seen = answer("--rdzv-endpoint", "nowhere.invalid:29500", capsys=capsys)
    assert code == 1 and seen["verdict"] == "broken"
    assert "rendezvous-unreachable:unresolved" in codes(seen)
    code, seen = answer("--rdzv-endpoint", "[::1]", "--fail-on", "none", capsys=capsys)
    assert code == 0 and seen["meetings"][0]["port"] == 29500
    assert main(["preflight"]) in (0, 1)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "this host alone" in printed


def test_torchrun_starts_it_on_all_ranks_and_one_speaks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "bench",
         "preflight", "--json", "--fail-on", "none"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["together"] and seen["hosts"][0]["ranks"] == [0, 1]
    assert seen["meetings"][0]["outcome"] == "store"


@pytest.fixture
def cluster(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # a standing lab of this test's own
    lab = tmp_path / "lab.toml"
    lab.write_text(LAB.format(**request.param))
    bench = [sys.executable, "-m", "bench", "lab"]
    subprocess.run([*bench, "up", str(lab)], cwd=ROOT, check=True, timeout=60)
    try:
        yield
    finally:
        subprocess.run([*bench, "down"], cwd=ROOT, check=True, timeout=60)


def on_hosts(nodes: Sequence[int], endpoint: str, wait_s: int) -> list[tuple[int, dict]]:
    """Exit status and answer of each host; {} of one that leaves the word to rank 0."""

    def command(node: int) -> Sequence[str]:
        return (
            sys.executable, "-m", "bench", "lab", "exec", f"host{node + 1}", "--",
            sys.executable, "-m", "bench", "preflight", "--json", "--nnodes", "3",
            "--node-rank", str(node), "--rdzv-endpoint", endpoint, "--wait", str(wait_s),
        )  # fmt: skip

    running = [
        subprocess.Popen(command(node), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for node in nodes
    ]
    ended = [process.communicate(timeout=150) for process in running]
    return [
        (process.returncode, json.loads(out) if out.strip() else {})
        for process, (out, _) in zip(running, ended, strict=True)
    ]


@pytest.mark.lab
@pytest.mark.parametrize(
    "cluster", [{"kind": "mtu", "host": 3, "more": 'mtu = 1400\nat = "switch"'}], indirect=True
)
@pytest.mark.usefixtures("cluster")
def test_together_hosts_find_the_black_hole_before_any_job_does() -> None:
    (code, seen), *others = on_hosts(range(3), "10.1.0.1:29500", 60)
    assert code == 1 and seen["together"] and len(seen["hosts"]) == 3
    (hole,) = [f for f in seen["findings"] if f["code"] == "mtu-blackhole"]
    assert hole["where"]["host"] == "host3"
    assert all(pair["ahead_s"] is not None for pair in seen["pairs"])
    assert not {"clock-offset", "software-differs"} & {f["code"] for f in seen["findings"]}
    assert [(code, answer) for code, answer in others] == [(0, {}), (0, {})]


@pytest.mark.lab
@pytest.mark.parametrize("cluster", [{"kind": "firewall", "host": 1, "more": ""}], indirect=True)
@pytest.mark.usefixtures("cluster")
def test_each_host_that_cannot_reach_rank_0_says_why() -> None:
    for code, seen in on_hosts([1, 2], "10.2.0.1:29500", 8):
        assert code == 1 and "rendezvous-unreachable:no-answer" in codes(seen)
        proof = [e["text"] for f in seen["findings"] for e in f["evidence"]]
        assert any("firewall" in text for text in proof)
