"""Virtual clusters with one thing slow: a short sweep of each names it, and nobody else.

tests/performance/bench_locate_labs.py has the rest of them, with how often and how long.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LABS = ROOT / "configs" / "labs"
SHORT = ("--sessions", "1", "--collective", "all_reduce", "--minbytes", "64K", "--maxbytes", "1M")
TWO_SLOW = """
hosts = 6
[[network]]
name = "data"
interface = "data0"
rate_mbit = 100
[[fault]]
kind = "rate"
host = 2
network = "data"
rate_mbit = 50
[[fault]]
kind = "rate"
host = 5
network = "data"
rate_mbit = 50
"""


def swept(lab: Path, out: Path) -> tuple[dict, str]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "lab", "run", str(lab), "--out", str(out), "--", *SHORT],
        cwd=ROOT, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "report.json").read_text()), done.stdout


def accused(report: dict) -> set[tuple[str, str]]:
    """(code, host or link) of all that is worse than a remark."""
    return {
        (f["code"], f["where"].get("host") or "-".join(sorted(f["where"].get("link", []))))
        for f in report["findings"]
        if f["severity"] != "info" and f["code"] not in ("skewed", "noisy", "unsettled")
    }


@pytest.mark.lab
@pytest.mark.measures
def test_two_slow_hosts_of_six_are_both_named_and_what_it_takes_is_told_before(
    tmp_path: Path,
) -> None:
    lab = tmp_path / "lab.toml"
    lab.write_text(TWO_SLOW)
    report, screen = swept(lab, tmp_path / "run")
    assert accused(report) == {("host-slow", "host2"), ("host-slow", "host5")}
    assert report["verdict"] == "degraded"
    told = " ".join(screen.split("locate ")[1].split("\n\n")[0].split())
    assert re.match(r"\d rounds of 3 pairs over data0 · \d+ KiB each way · about \d+ s", told)
    assert screen.index("locate ") < screen.index("  candidate  interface")
    lines = [json.loads(x) for x in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    rounds = [line for line in lines if "pair_round" in line]
    # On a busy machine pairs scatter, and all of them are measured again: the last rounds count.
    numbers = [one["pair_round"]["number"] for one in rounds]
    counted = [one["number"] for one in report["location"]["rounds"]]
    assert numbers == list(range(len(rounds)))
    assert numbers[-len(counted) :] == counted and len(counted) >= 5
    assert len(counted) == len(numbers) or "measured again" in report["location"]["notes"][-1]
    assert sum(one["duration_s"] for one in rounds) < 45


@pytest.mark.lab
@pytest.mark.measures
def test_a_link_that_the_ring_never_uses_is_found(tmp_path: Path) -> None:
    report, _ = swept(LABS / "degraded-link.toml", tmp_path / "run")
    assert accused(report) == {("link-degraded", "host2-host4")}
    ring = next(line for line in report["lines"] if line["candidate"] == "data")
    assert ring["busbw_gbs"]["value"] > 0.9 * ring["expected_busbw_gbs"]


@pytest.mark.lab
@pytest.mark.measures
def test_a_host_that_sends_slowly_is_told_from_one_that_receives_slowly(tmp_path: Path) -> None:
    report, _ = swept(LABS / "slow-transmit.toml", tmp_path / "run")
    assert accused(report) == {("host-slow", "host2")}
    (suspect,) = report["location"]["suspects"]
    assert suspect["direction"] == "transmit"
    assert suspect["slowdown"]["value"] == pytest.approx(2.0, rel=0.1)
