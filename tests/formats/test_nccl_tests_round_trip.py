"""Random tables in every layout the tests ever printed, read back: no number lost, none misread.

BENCH_TABLES=10000 pytest tests/formats/test_nccl_tests_round_trip.py runs the long round (a few
minutes); normally 300 tables are built, and as many are cut at a random place.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.formats import nccl_tests
from bench.formats.source import Source
from bench.records import BadInput, CollectiveTable, TableRow, TableTime

TABLES = int(os.environ.get("BENCH_TABLES", "300"))
RUN = settings(max_examples=TABLES, deadline=None, suppress_health_check=list(HealthCheck))


def _load(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


printer = _load("nccl_tests_printer")
Shape, print_table = printer.Shape, printer.print_table


@st.composite
def shapes(draw: st.DrawFn) -> printer.Shape:
    """Only what some version can print: options came with versions, collectives too."""
    era = draw(st.sampled_from(printer.ERAS))
    collectives = [*printer.PROGRAMS]
    if era == "bytes":
        collectives = ["all_reduce", "reduce"]
    elif era == "rccl-error":
        collectives.remove("hypercube")
    elif era == "narrow":
        collectives = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]
    util, rccl = era in printer.UTIL, era == "rccl-util"
    halves = ["both", *(["null"] if util or era == "wrong" else [])]
    halves += ["in-place", "out-of-place"] if rccl else []
    shape = Shape(
        era=era,
        collective=draw(st.sampled_from(collectives)),
        ranks=draw(st.sampled_from((1, 2, 3, 4, 8, 16, 24, 32, 64, 72, 256))),
        rows=draw(st.integers(1, 30)),
        dtype=draw(st.sampled_from(printer.TYPES[era])),
        check=draw(st.booleans()),
        per_iteration=era == "util3" and draw(st.booleans()),
        bitwise=era == "util3" and draw(st.booleans()),
        timestamps=util and draw(st.booleans()),
        cputime=(util or era == "wrong") and draw(st.integers(0, 3)) == 0,
        halves=draw(st.sampled_from(halves)),
        hipevt=rccl and draw(st.booleans()),
        algo=rccl and draw(st.booleans()),
        devices=draw(st.booleans()),
        settings=draw(st.booleans()),
        footer=draw(st.booleans()),
        named=draw(st.booleans()),
        launcher=draw(st.sampled_from(printer.LAUNCHERS)),
        noise=draw(st.booleans()),
        interrupted=draw(st.integers(0, 3)) == 0,
        line_end=draw(st.sampled_from(("\n", "\r\n"))),
        colour=draw(st.integers(0, 4)) == 0,
        hash_lost=draw(st.integers(0, 4)) == 0,
        huge=draw(st.integers(0, 4)) == 0,
    )
    plain = shape.halves == "both" and not shape.hipevt and not shape.algo
    if plain and shape.rows >= 2 and draw(st.integers(0, 4)) == 0:
        shape = replace(shape, header=False, interrupted=False)
    if shape.launcher not in ("none", "mpirun", "kubectl"):
        # What a launcher writes is told by how often it stands in front of lines.
        shape = replace(shape, header=True, devices=True, settings=True)
    if shape.ranks % max(shape.hosts, 1) == 0 and shape.ranks >= 8:
        shape = replace(shape, hosts=draw(st.sampled_from((1, 2))))
    if shape.launcher == "chunks" or shape.noise is False:
        shape = replace(shape, interrupted=False)
    return shape


def seconds(text: str, power: int) -> float:
    return float(Decimal(text).scaleb(power))


def assert_half(
    shape: printer.Shape, printed: printer.Half | None, read: TableTime | None
) -> None:
    if printed is None:
        assert read is None
        return
    power = -3 if shape.era == "bytes" else -6
    assert read is not None
    assert read.time_s == seconds(printed.time, power)
    assert (read.algbw_gbs, read.busbw_gbs) == (float(printed.algbw), float(printed.busbw))
    mark = printed.check.rstrip("*")
    if "error" in shape.era or shape.era in ("bytes", "narrow"):
        assert (read.error, read.wrong) == (None if mark == "N/A" else float(mark), None)
        assert read.beyond == printed.check.endswith("*")
    else:
        assert (read.error, read.wrong) == (None, None if mark == "N/A" else int(float(mark)))
    if shape.bitwise:
        assert read.different_bits == int(float(printed.extra["#bitdiff"]))
    if shape.per_iteration:
        spread = read.iterations
        assert spread is not None
        assert (spread.min_s, spread.max_s, spread.p99_s) == tuple(
            seconds(printed.extra[name], -6) for name in ("i_min", "i_max", "i_p99")
        )
        assert spread.cv == seconds(printed.extra["i_cv%"], -2)
    else:
        assert read.iterations is None
    hipevt = printed.extra.get("hipevt", "N/A")
    assert read.more == ({} if hipevt == "N/A" else {"hipevt": float(hipevt)})


def assert_row(shape: printer.Shape, printed: printer.Row, read: TableRow) -> None:
    assert (read.size_bytes, read.count, read.dtype) == (printed.size, printed.count, shape.dtype)
    assert read.redop == (printed.redop or None)
    assert read.root == (None if printed.root is None else int(printed.root))
    assert read.labels == printed.labels
    assert not read.cut
    assert_half(shape, printed.out_of_place, read.out_of_place)
    assert_half(shape, printed.in_place, read.in_place)


def assert_says_only_what_is_so(shape: printer.Shape, table: CollectiveTable) -> None:
    """What is inferred may be missing; wrong it may not be."""
    assert table.collective in (None, shape.collective)
    assert table.ranks in (None, shape.ranks)
    if shape.named and (shape.era not in printer.UTIL or shape.settings or shape.footer):
        assert table.collective == shape.collective
    if shape.devices:
        assert (table.ranks, table.ranks_basis) == (shape.ranks, "listed")


@RUN
@given(shapes(), st.integers(0, 2**32))
def test_no_number_of_a_table_is_lost_or_changed(shape: printer.Shape, seed: int) -> None:
    printed = print_table(shape, seed)
    (table,) = nccl_tests.read(Source.of_text(printed.text, "table.txt"))
    assert len(table.rows) == len(printed.rows)
    for expected, read in zip(printed.rows, table.rows, strict=True):
        assert_row(shape, expected, read)
    assert table.average_busbw_gbs == (float(printed.average) if printed.average else None)
    assert table.complete is shape.footer
    assert table.out_of_bounds == (0 if shape.footer else None)
    assert table.hosts == (tuple(printed.hosts) if shape.devices else ())
    assert table.runs == 1
    assert_says_only_what_is_so(shape, table)


@RUN
@given(shapes(), st.integers(0, 2**32), st.floats(0, 1))
def test_a_table_that_is_cut_anywhere_gives_true_numbers_only(
    shape: printer.Shape, seed: int, part: float
) -> None:
    shape = replace(shape, header=True, noise=False, interrupted=False, colour=False)
    printed = print_table(shape, seed)
    text = printed.text[: int(len(printed.text) * part)]
    try:
        tables = nccl_tests.read(Source.of_text(text, "table.txt"))
    except BadInput:
        return
    assert len(tables) == 1
    (table,) = tables
    assert len(table.rows) <= len(printed.rows)
    for expected, read in zip(printed.rows, table.rows, strict=False):
        if read is table.rows[-1]:
            assert (read.size_bytes, read.count) == (expected.size, expected.count)
            for half, place in ((read.out_of_place, "out_of_place"), (read.in_place, "in_place")):
                wanted = getattr(expected, place)
                if half is None:
                    continue
                power = -3 if shape.era == "bytes" else -6
                assert half.time_s == seconds(wanted.time, power)
                assert half.algbw_gbs == float(wanted.algbw)
                assert half.busbw_gbs == float(wanted.busbw)
                if half.wrong is not None and len(table.rows) > 2:
                    assert half.wrong == int(float(wanted.check))
        else:
            assert_row(shape, expected, read)
    if table.collective:
        assert table.collective == shape.collective


@settings(parent=RUN, max_examples=max(TABLES // 6, 20))
@given(st.lists(st.tuples(shapes(), st.integers(0, 2**32)), min_size=2, max_size=4))
def test_tables_in_one_file_stay_apart(drawn: list[tuple[printer.Shape, int]]) -> None:
    whole = [
        replace(shape, launcher="none", settings=True, header=True, footer=True, line_end="\n")
        for shape, _ in drawn
    ]
    printed = [print_table(shape, seed) for shape, (_, seed) in zip(whole, drawn, strict=True)]
    tables = nccl_tests.read(Source.of_text("\n".join(each.text for each in printed), "all.log"))
    assert len(tables) == len(printed)
    for shape, expected, table in zip(whole, printed, tables, strict=True):
        assert len(table.rows) == len(expected.rows)
        for row, read in zip(expected.rows, table.rows, strict=True):
            assert_row(shape, row, read)
        assert_says_only_what_is_so(shape, table)


def test_the_printer_prints_what_the_tools_print() -> None:
    """Held against a line of NVIDIA/nccl-tests#309 and one of #340, character by character."""
    half = printer.Half("17262", "248.81", "466.52", "0")
    row = printer.Row(4294967296, 1073741824, "sum", "-1", half, half)
    text = printer._line(Shape(era="wrong"), row)
    assert text == (
        "  4294967296    1073741824     float     sum      -1    17262  248.81  466.52      0"
        "    17262  248.81  466.52      0"
    )
    half = printer.Half("13.39", "1.22", "1.22", "0e+00")
    row = printer.Row(32768, 4096, None, None, half, half)
    assert printer._line(Shape(era="narrow", collective="all_gather"), row) == (
        "       32768          4096   float    13.39    1.22    1.22  0e+00"
        "    13.39    1.22    1.22  0e+00"
    )


@pytest.mark.parametrize("era", printer.ERAS)
def test_every_era_is_told_by_its_first_kilobytes(era: str) -> None:
    printed = print_table(Shape(era=era, dtype=printer.TYPES[era][0]), 7)
    assert nccl_tests.likeness(printed.text[:4096], "out.txt") >= 0.9
