"""Prints how fast tables are read, in MB/s on one core, and what a large log costs in memory.

    python tests/performance/bench_nccl_tests.py

Input is printed by tests/formats/nccl_tests_printer.py: tables alone, tables behind a launcher's
prefix, rows of 200 tables between NCCL's debug lines, and a table in front of 50 MB of them.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.formats import nccl_tests
from bench.formats.source import Source

DEBUG_LINE = (
    "gpu-117-0:4001:4055 [0] NCCL INFO Channel 07/0 : 3[3] -> 4[4] [send] via NET/IB/2/GDRDMA\n"
)


def load_printer() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "formats" / "nccl_tests_printer.py"
    spec = importlib.util.spec_from_file_location("nccl_tests_printer", path)
    assert spec and spec.loader
    module = sys.modules["nccl_tests_printer"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables(printer: ModuleType, count: int, **options: object) -> str:
    shape = printer.Shape(rows=30, ranks=16, **options)
    return "".join(printer.print_table(shape, seed).text for seed in range(count))


def rate(name: str, text: str, expected_rows: int) -> None:
    source = Source.of_text(text, f"{name}.log")
    start = time.perf_counter()
    found = nccl_tests.read(source)
    seconds = time.perf_counter() - start
    rows = sum(len(table.rows) for table in found)
    assert rows == expected_rows, f"{name}: {rows} rows of {expected_rows}"
    size = len(text) / 1e6
    print(
        f"{name:34s} {size:7.1f} MB  {seconds:6.2f} s  {size / seconds:7.1f} MB/s  {rows:6d} rows"
    )


def main() -> None:
    printer = load_printer()
    rate("tables", tables(printer, 1000), 30_000)
    rate(
        "tables, mpirun prefix, CRLF",
        tables(printer, 1000, launcher="mpirun", line_end="\r\n"),
        30_000,
    )
    rate("tables, per iteration", tables(printer, 600, era="util3", per_iteration=True), 18_000)
    rate("tables between debug lines", tables(printer, 200, noise=True, interrupted=True), 6_000)
    one = tables(printer, 1, era="util3")
    rate("one table, 50 MB of debug lines", one + DEBUG_LINE * 530_000, 30)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process {peak:.0f} MiB")


if __name__ == "__main__":
    main()
