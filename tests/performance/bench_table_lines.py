"""Prints how well lines foretell sizes of public tables that they never saw, table by table.

    python tests/performance/bench_table_lines.py [FILE ...]

Without files: those of tests/data/nccl_tests. Each inner size is left out in turn, the whole line
(breaks too) is fitted to the others and asked for it; the error is |predicted / measured - 1|,
median over sizes. The goal, a median of 5 % or less over tables of ten sizes or more, is the last
line; what is worse is said to be no line.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.formats import nccl_tests
from bench.formats.source import Source
from bench.model.table_level import level
from bench.model.table_line import LINE_ERROR, lines

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl_tests"
GOAL_SIZES = 10
SMALL_BYTES = 32 * 1024  # a table that starts above has no small messages


def percent(share: float | None) -> str:
    return "     –" if share is None else f"{share:6.1%}"


def main(files: list[Path]) -> None:
    print(f"{'table':44} sizes  plateau  latency  out-of-place in-place  seconds")
    errors = []
    for file in files:
        for table in nccl_tests.read(Source.open(file)):
            began = time.perf_counter()
            own = lines(table)
            took_s = time.perf_counter() - began
            told = level(table)
            if told is None or not own:
                print(f"{file.name}:{table.line}: no line")
                continue
            both = {line.candidate.rpartition(" ")[2]: line for line in own}
            halves = [both.get(half) for half in ("out-of-place", "in-place")]
            shown = [percent(line.held_out_error if line else None) for line in halves]
            found = [line.held_out_error for line in own if line.held_out_error is not None]
            sizes = max(len(line.points) for line in own)
            starts_small = table.rows[0].size_bytes <= SMALL_BYTES
            latencies = [one.latency_s.value * 1e6 for one in own if one.latency_s]
            latencies = latencies if starts_small else []
            latency = f"{min(latencies):6.1f}µs" if latencies else "       –"
            worst = statistics.median(found) if found else 0.0
            note = "  not a line" if worst > LINE_ERROR else ""
            name = f"{file.name}:{table.line}"
            print(
                f"{name:44} {sizes:5d} {told.plateau:8.2f} {latency} "
                f"{shown[0]:>13} {shown[1]:>8} {took_s:8.2f}{note}"
            )
            if sizes >= GOAL_SIZES and found:
                errors.append(worst)
    if errors:
        median = statistics.median(errors)
        within = sum(error <= LINE_ERROR for error in errors)
        print(f"tables of {GOAL_SIZES} sizes or more: median {median:.1%}, ", end="")
        print(f"{within} of {len(errors)} within {LINE_ERROR:.0%}")


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:]]
    shipped = sorted(path for path in DATA.iterdir() if path.suffix in (".txt", ".log"))
    main(given or shipped)
