"""The collectives of a step, one by one, against torch itself on loopback: DDP's buckets, FSDP2's
units (padded, resharded or kept, hybrid), ZeroRedundancyOptimizer's shares. Four ranks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from bench.model.strategies import collectives
from bench.records import TrainingJob
from tests.performance import bench_cost

HIDDEN, BLOCKS = 510, 6  # 510 rows do not divide by 4: shards are padded
NAMES = {**bench_cost.STRATEGIES, "hybrid": "HYBRID_SHARD"}


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, Any]]:
    """What rank 0 counted of a step of each strategy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(bench_cost.STEP), *NAMES, "--rank", str(rank), "--ranks", "4",
             "--store", f"127.0.0.1:{port}", "--hidden", str(HIDDEN), "--blocks", str(BLOCKS),
             "--data", "lo", "--control", "lo"],
            env={**os.environ, "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(4)
    ]  # fmt: skip
    try:
        printed = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0] * 4, "\n".join(printed)
    lines = [json.loads(line) for line in printed[0].splitlines() if line.startswith("{")]
    return {line["strategy"]: line for line in lines}


@pytest.mark.parametrize("which", NAMES)
def test_every_call_and_every_byte_is_foretold(
    which: str, told: dict[str, dict[str, Any]]
) -> None:
    job = TrainingJob(
        model=bench_cost.model(HIDDEN, BLOCKS), ranks=4, hosts=2 if which == "hybrid" else 4,
        precision="fp32", optimizer="sgd", framework="torch", backend="gloo",
    )  # fmt: skip
    counts, payload = Counter[str](), Counter[str]()
    for use in collectives.of_step(job, NAMES[which]):
        counts[use.collective] += use.count
        payload[use.collective] += round(use.count * use.size_bytes)
    assert told[which]["counts"] == counts
    assert told[which]["payload"] == payload
