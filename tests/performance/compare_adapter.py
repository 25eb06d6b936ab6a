"""`bench compare` on two files of simulated sessions, for a scorer that asks many tools alike.

    python tests/performance/compare_adapter.py A.json B.json

In: {"unit": "us", "cells": [{"collective", "size_bytes", "sessions": [[time, ...], ...]}]}: the
times of every call, by session. Each session becomes a report of its own in a folder per side, as
`compare` reads them; the last line printed is {"regressed": [collectives], "cells": [[collective,
size_bytes], ...]}.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from bench import cli
from bench.measure.stopping import median_interval
from bench.records import Candidate, CostLine, Plan, PlanSettings, Point, Report
from bench.report.stored import encode

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
RANKS = 8


def reports(content: dict) -> Iterator[Report]:
    """A report for each session: the median of every cell, as a sweep of one session has it."""
    cells, unit_s = content["cells"], SECONDS[content["unit"]]
    collectives = list(dict.fromkeys(cell["collective"] for cell in cells))
    settings = PlanSettings(name="simulated", collectives=tuple(collectives), sessions=1)
    for at in range(len(cells[0]["sessions"])):
        points: dict[str, list[Point]] = {}
        for cell in cells:
            times = np.array(cell["sessions"][at]) * unit_s
            median, low, high, _ = median_interval(times, 0.95)
            algbw = cell["size_bytes"] / median / 1e9
            points.setdefault(cell["collective"], []).append(
                Point(
                    size_bytes=cell["size_bytes"], time_s=median, low_s=low, high_s=high,
                    iterations=len(times), sessions=1, algbw_gbs=algbw, busbw_gbs=algbw,
                )
            )  # fmt: skip
        yield Report(
            run=f"session-{at}",
            verdict="healthy",
            plan=Plan(settings=settings, ranks=RANKS, hosts=2),
            candidates=(Candidate(name="data", kind="network", outcome="measured"),),
            lines=tuple(
                CostLine(candidate="data", collective=name, ranks=RANKS, points=tuple(own))
                for name, own in points.items()
            ),
        )


def write(content: dict, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for report in reports(content):
        (folder / f"{report.run}.json").write_bytes(encode(report))
    return folder


def compared(before: dict, after: dict) -> dict:
    """What `bench compare --json` says of two such contents."""
    with tempfile.TemporaryDirectory() as place:
        sides = [
            str(write(content, Path(place) / name))
            for name, content in (("before", before), ("after", after))
        ]
        out = io.StringIO()
        with redirect_stdout(out):
            status = cli.main(["compare", *sides, "--json"], stdout=out)
    assert status in (0, 1), f"bench compare could not do its job: exit {status}"
    return json.loads(out.getvalue())


def answer(result: dict) -> dict:
    """Collectives that regressed, and their sizes that are named as slower."""
    regressed = dict.fromkeys(
        finding["where"]["collective"]
        for finding in result["findings"]
        if finding["code"] == "regressed" and "collective" in finding["where"]
    )
    cells = [
        [line["collective"], cell["size_bytes"]]
        for line in result["lines"]
        for cell in line["cells"]
        if cell["moved"] and cell["change"]["value"] > 0 and line["collective"] in regressed
    ]
    return {"regressed": list(regressed), "cells": cells}


if __name__ == "__main__":
    contents = [json.loads(Path(name).read_text()) for name in sys.argv[1:3]]
    print(json.dumps(answer(compared(*contents))))
