"""`sweep --ladder` in virtual clusters: it stops at the first rung that fails, and says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAB = """
hosts = 3
ranks_per_host = 2
[[network]]
name = "mgmt"
interface = "mgmt0"
subnet = "10.1.0.0/24"
rate_mbit = 100
[[network]]
name = "data"
interface = "data0"
subnet = "10.2.0.0/24"
rate_mbit = 400
[environment]
NCCL_SOCKET_IFNAME = "=data0"
[[fault]]
kind = "mtu"
host = {host}
network = "data"
mtu = 1400
at = "switch"
"""


def climbed(tmp_path: Path, lab: str) -> tuple[dict, str]:
    file = tmp_path / "lab.toml"
    file.write_text(lab)
    done = subprocess.run(
        [sys.executable, "-m", "bench", "lab", "run", str(file), "--out", str(tmp_path / "run"),
         "--", "--ladder"],
        cwd=ROOT, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    report = tmp_path / "run" / "report.json"
    assert report.exists(), done.stdout + done.stderr
    return json.loads(report.read_text()), done.stdout


@pytest.mark.lab
def test_the_first_rung_across_the_black_hole_fails(tmp_path: Path) -> None:
    host, rung = 3, "3 hosts"
    report, screen = climbed(tmp_path, LAB.format(host=host))
    outcomes = {c["name"]: c["outcome"] for c in report["candidates"] if c["kind"] == "default"}
    names = list(outcomes)
    assert names == ["1 rank", "2 ranks", "2 hosts", "3 hosts"]
    at = names.index(rung)
    assert all(outcomes[name] == "measured" for name in names[:at])
    assert outcomes[rung] in ("hung", "failed")
    assert all(outcomes[name] == "skipped" for name in names[at + 1 :])
    assert report["verdict"] == "broken"
    (hole,) = [f for f in report["findings"] if f["code"] == "mtu-blackhole"]
    assert hole["where"]["host"] == f"host{host}"
    assert f"works; the step to {rung} added" in " ".join(screen.split())
    assert max(map(len, screen.splitlines())) <= 80
