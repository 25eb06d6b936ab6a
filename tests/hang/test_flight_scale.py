"""The variants on which torchfrtrace was seen to go wrong: odd rank read first, a missing file.

Jobs of 12 ranks with a full ring and groups of four, with files under the names that torch gives,
renamed, in folders per host, packed, and so that the odd rank's file comes first or last.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
from pathlib import Path

import pytest

from bench.cli import main
from tests.hang.job import Call, Job

WORLD, GROUP, ENTRIES = 12, 4, 120
VARIANTS = ("healthy", "missing", "missing0", "size", "size0", "nofile")
NAMES = {
    "as torch names them": "comm_lib_trace_rank_{rank}",
    "odd rank first": "{order}_trace-rank{rank}.pickle",
    "odd rank last": "z{last}.rank_{rank}.bin",
    "a folder per host": "host{host}/nccl_trace_rank_{rank}",
    "a folder per rank": "rank_{rank}/dump",
    "packed": "rank_{rank}.gz",
}


def job(variant: str) -> tuple[Job, int]:
    odd = 0 if variant.endswith("0") else WORLD // 2
    kind = variant.rstrip("0")
    groups = {
        str(1 + at): list(range(at * GROUP, at * GROUP + GROUP)) for at in range(WORLD // GROUP)
    }
    programs = {}
    for rank in range(WORLD):
        calls = [
            Call(
                group=str(1 + rank // GROUP) if at % 3 == 1 else "0", inputs=[[64 * (at % 7 + 1)]]
            )
            for at in range(ENTRIES)
        ]
        last = Call(inputs=[[4096]])
        if rank == odd and kind == "size":
            last = Call(inputs=[[4608]])
        if not (rank == odd and kind in ("missing", "nofile")):
            calls.append(last)
        programs[rank] = calls
    return Job(WORLD, programs, groups, ring=60), odd


def diagnosis(*arguments: object) -> dict[str, object]:
    out = io.StringIO()
    assert main(["diagnose", *map(str, arguments), "--json"], out) == 0
    (line,) = out.getvalue().splitlines()
    told: dict[str, object] = json.loads(line)
    return told


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("naming", NAMES)
def test_the_odd_rank_is_named_and_nobody_else(variant: str, naming: str, tmp_path: Path) -> None:
    made, odd = job(variant)
    for rank in range(WORLD):
        if variant == "nofile" and rank == odd:
            continue
        name = NAMES[naming].format(
            rank=rank, order=(rank - odd) % WORLD + 10, last=(rank - odd - 1) % WORLD + 10,
            host=rank // GROUP,
        )  # fmt: skip
        path = tmp_path / "dumps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = pickle.dumps(made.dump(rank), protocol=2)
        path.write_bytes(gzip.compress(data) if naming == "packed" else data)
    told = diagnosis(tmp_path / "dumps")
    assert told["ranks"] == ([] if variant == "healthy" else [odd])
    assert told["verdict"] == {"healthy": "healthy", "nofile": "inconclusive"}.get(
        variant, "broken"
    )
    assert told["suspects"] == ([odd] if variant == "nofile" else [])
