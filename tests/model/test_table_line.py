"""Foreign tables as lines: what one-offs, holes and zero rows do to them; what they foretell."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.formats import nccl_tests
from bench.formats.source import Source
from bench.model.pieces import split, split_without
from bench.model.table_level import level
from bench.model.table_line import LINE_ERROR, lines
from bench.model.table_series import bytes_share, one_offs, scatter_of
from bench.records import CollectiveTable, TableRow, TableTime

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl_tests"
SHARE = 1.875


def tables(name: str) -> tuple[CollectiveTable, ...]:
    return nccl_tests.read(Source.open(DATA / name))


def table(sizes, out, into=None, **more) -> CollectiveTable:
    """A table of 16 ranks' all_reduce; times in microseconds."""

    def half(size: float, us: float) -> TableTime:
        algbw = size / us / 1e3
        return TableTime(time_s=us * 1e-6, algbw_gbs=algbw, busbw_gbs=round(algbw * SHARE, 2))

    rows = tuple(
        TableRow(
            size_bytes=int(size),
            count=int(size) // 4,
            dtype="float",
            out_of_place=half(size, out[at]),
            in_place=half(size, into[at]) if into is not None else None,
            line=at + 1,
        )
        for at, size in enumerate(sizes)
    )
    more = {"collective": "all_reduce", "ranks": 16, **more}
    return CollectiveTable(file="t", line=1, last_line=len(rows), rows=rows, **more)


SIZES = 2 ** np.arange(3, 31)
TRUE_US = np.minimum(25 + SIZES / 4e3, 60 + SIZES / 200e3)


def noisy(seed: int) -> np.ndarray:
    return TRUE_US * np.exp(np.random.default_rng(seed).normal(0, 0.01, SIZES.size))


def test_both_halves_get_a_line_with_latency_and_bandwidth() -> None:
    out, into = lines(table(SIZES, noisy(1), noisy(2)))
    assert out.candidate == "t:1 out-of-place"
    assert into.candidate == "t:1 in-place"
    for line in (out, into):
        assert line.latency_s.value == pytest.approx(25e-6, rel=0.02)
        assert line.bandwidth_bytes_per_s.value == pytest.approx(200e9, rel=0.02)
        assert line.busbw_gbs.value == pytest.approx(200 * SHARE, rel=0.02)
        assert line.held_out_error < LINE_ERROR


def test_one_row_three_times_off_at_8_bytes_does_not_move_the_latency() -> None:
    clean = lines(table(SIZES, noisy(1), noisy(2)))[0]
    off = noisy(1)
    off[0] *= 3
    line = lines(table(SIZES, off, noisy(2)))[0]
    assert line.latency_s.value == pytest.approx(clean.latency_s.value, rel=0.01)
    assert line.latency_s.low <= 25e-6 <= line.latency_s.high


def test_a_one_off_alone_in_its_half_does_not_move_the_latency_either() -> None:
    off = noisy(1)
    off[0] *= 3
    line = lines(table(SIZES, off))[0]
    assert line.latency_s.value == pytest.approx(25e-6, rel=0.03)


def test_rows_of_70_ms_move_neither_plateau_nor_bandwidth() -> None:
    clean = table(SIZES, noisy(1), noisy(2))
    out, into = noisy(1), noisy(2)
    out[18:21] = into[18:21] = 70e3
    holed = table(SIZES, out, into)
    assert level(holed).plateau == level(clean).plateau
    for before, after in zip(lines(clean), lines(holed), strict=True):
        value = before.bandwidth_bytes_per_s.value
        assert after.bandwidth_bytes_per_s.value == pytest.approx(value, rel=0.01)
        assert any(note.startswith("left out of the line: 2097152 to") for note in after.notes)
        assert [p.size_bytes for p in after.points if p.group == "held-out"] == [
            2**21,
            2**22,
            2**23,
        ]


def test_rows_of_size_0_are_no_points() -> None:
    (one,) = tables("a100-all_gather-old-columns.log")
    assert sum(row.size_bytes == 0 for row in one.rows) == 5
    for line in lines(one):
        assert min(point.size_bytes for point in line.points) == 32
        assert line.latency_s.value == pytest.approx(34.3e-6, rel=0.02)


def test_one_rank_has_no_line() -> None:
    rows = table(SIZES, noisy(1), noisy(2)).rows
    still = msgspec.structs.replace(rows[0].out_of_place, busbw_gbs=0.0)
    rows = tuple(msgspec.structs.replace(r, out_of_place=still, in_place=still) for r in rows)
    single = CollectiveTable(
        file="t", line=1, last_line=1, collective="all_reduce", ranks=1, rows=rows
    )
    assert lines(single) == ()
    assert level(single) is None


def test_a_curve_that_no_line_fits_is_said_to_be_none_and_quoted_no_bandwidth() -> None:
    (one,) = tables("tcp-100g-collapse.txt")
    for line in lines(one):
        assert line.held_out_error > LINE_ERROR
        assert line.busbw_gbs is None
        assert any(note.startswith("not a line") for note in line.notes)


def test_fewer_than_four_sizes_carry_no_line() -> None:
    assert lines(table(SIZES[:3], noisy(1), noisy(2))) == ()


def test_busbw_follows_the_rows_where_an_old_program_counts_otherwise() -> None:
    """nccl-tests of 2019 divided an all_gather's algbw by its n - 1 of n parts already."""
    (one,) = tables("2080ti-tail-then-nothing.txt")
    assert bytes_share(one) == pytest.approx(0.5, rel=0.001)
    assert lines(one)[1].busbw_gbs.value == pytest.approx(22.1, rel=0.02)


def test_leaving_a_point_out_is_the_same_fit_as_without_it() -> None:
    sizes, times = SIZES.astype(float), noisy(3) * 1e-6
    weights = np.ones(sizes.size)
    for at, (breaks, parameters) in zip(
        (1, 9, 26), split_without(sizes, times, weights, (1, 9, 26)), strict=True
    ):
        kept = np.delete(np.arange(sizes.size), at)
        known_breaks, known = split(sizes[kept], times[kept], weights[kept])
        assert breaks == known_breaks
        assert np.allclose(parameters, known, rtol=1e-6)


def test_a_table_of_thousands_of_rows_costs_no_more_than_one_of_64() -> None:
    sizes = np.arange(1, 5001) * 100_000
    times = 30 + sizes / 100e3
    began = time.monotonic()
    out, _ = lines(table(sizes, times, times))
    assert time.monotonic() - began < 10
    assert len(out.points) == 64
    assert out.bandwidth_bytes_per_s.value == pytest.approx(100e9, rel=0.01)


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.05])
def test_the_scatter_that_the_halves_show_is_that_of_a_time(sigma: float) -> None:
    rng = np.random.default_rng(9)
    told = [
        scatter_of(
            table(
                SIZES,
                TRUE_US * np.exp(rng.normal(0, sigma, SIZES.size)),
                TRUE_US * 0.96 * np.exp(rng.normal(0, sigma, SIZES.size)),
            )
        )
        for _ in range(100)
    ]
    assert np.median(told) == pytest.approx(sigma, rel=0.25)


def test_one_offs_are_rows_of_which_one_half_is_slow() -> None:
    (one,) = tables("h100-2-hosts-all_reduce.txt")
    assert [(row.size_bytes, row.half) for row in one_offs(one)] == [
        (8, "out-of-place"),
        (256, "out-of-place"),
    ]
    first = tables("h100-8-and-2-hosts-all_reduce.txt")[0]
    (row,) = one_offs(first)
    assert row.size_bytes == 8 * 2**20
    assert row.factor == pytest.approx(3.96, abs=0.01)


LONG = [
    "h100-2-hosts-all_reduce.txt",
    "h100-8-and-2-hosts-all_reduce.txt",
    "h100-2-hosts-slow-srun-labels.txt",
    "a100-all_reduce-old-columns.log",
    "a100-all_gather-old-columns.log",
    "a100-reduce-old-columns.log",
    "h100-nvl-switch-at-650k.txt",
    "h100-nvl-switch-at-1050k.txt",
    "mi250x-all_gather-hole.txt",
    "mi250x-all_reduce.txt",
    "2080ti-tail-then-nothing.txt",
]


def test_lines_foretell_a_left_out_size_within_five_per_cent_on_public_tables() -> None:
    """All shipped public tables of ten sizes or more; each line that is worse says so."""
    medians = []
    for name in LONG:
        for one in tables(name):
            own = lines(one)
            assert len(own) == 2, name
            medians.append(np.median([line.held_out_error for line in own]))
            for line in own:
                worse = line.held_out_error > LINE_ERROR
                assert worse == any(note.startswith("not a line") for note in line.notes)
    assert len(medians) == 12
    assert np.median(medians) < 0.03
    assert sum(error > LINE_ERROR for error in medians) <= 1


LEVELS = [  # file, table, peak, its size, plateau from, to, printed average
    ("h100-2-hosts-all_reduce.txt", 0, 469.21, 2**34, 466, 469.5, 139.56),
    ("h100-8-and-2-hosts-all_reduce.txt", 0, 321.03, 2**32, 319, 321.1, 183.055),
    ("h100-8-and-2-hosts-all_reduce.txt", 1, 466.73, 2**33, 464, 466.8, 276.999),
    ("h100-2-hosts-slow-srun-labels.txt", 0, 167.87, 2**28, 153, 156, 142.735),
    ("a100-all_reduce-old-columns.log", 0, 235.26, 2**33, 225, 235.3, 68.4048),
    ("a100-all_gather-old-columns.log", 0, 230.07, 2**33, 225, 235, 58.2651),
    ("a100-reduce-old-columns.log", 0, 231.28, 2**32, 225, 235, 65.018),
    ("mi250x-all_gather-hole.txt", 0, 92.74, 2**32, 91, 92.8, 37.9868),
    ("mi250x-all_reduce.txt", 0, 92.89, 2**32, 92, 92.9, 43.7269),
    ("tcp-100g-collapse.txt", 0, 5.21, 2**24, 1.1, 1.5, 2.68429),
    ("gb200-nvl72.txt", 0, 846.82, 2**33, 835, 847, 745.53),
    ("2080ti-tail-then-nothing.txt", 0, 21.86, 2**27, 21, 22, 6.6972),
]


@pytest.mark.parametrize(("name", "at", "peak", "size", "low", "high", "average"), LEVELS)
def test_the_figures_of_public_tables_are_those_of_their_sources(
    name: str, at: int, peak: float, size: int, low: float, high: float, average: float
) -> None:
    one = tables(name)[at]
    told = level(one)
    assert (told.peak, told.peak_bytes) == (peak, size)
    assert low <= told.plateau <= high
    assert one.average_busbw_gbs == average
    assert told.mean_fits is (name != "2080ti-tail-then-nothing.txt")
    assert told.reached


def test_a_curve_that_still_rises_has_no_plateau() -> None:
    short = SIZES[:22]
    assert not level(table(short, TRUE_US[:22] + 300, None)).reached
