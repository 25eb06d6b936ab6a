"""What a line says between and beyond its pieces, and how its errors are scored."""

from __future__ import annotations

import pytest

from bench.model.prediction import curve, held_out_error, in_switch, predict, score
from bench.records import BadInput, CostLine, Piece, Point

LOW = Piece(from_bytes=1024, to_bytes=16384, latency_s=10e-6, bandwidth_bytes_per_s=1e9)
HIGH = Piece(from_bytes=32768, to_bytes=2**20, latency_s=30e-6, bandwidth_bytes_per_s=1e10)
LINE = CostLine(candidate="data", collective="all_reduce", ranks=2, pieces=(LOW, HIGH))
EMPTY = CostLine(candidate="data", collective="all_reduce", ranks=2)


def point(size, time_s, group="held-out"):
    return Point(
        size_bytes=size,
        time_s=time_s,
        low_s=time_s,
        high_s=time_s,
        iterations=1,
        sessions=1,
        algbw_gbs=0.0,
        busbw_gbs=0.0,
        group=group,
    )


def test_each_size_is_on_its_own_piece_and_the_ends_are_prolonged():
    assert predict(LINE, 0) == pytest.approx(10e-6)
    assert predict(LINE, 1024) == pytest.approx(11.024e-6)
    assert predict(LINE, 16384) == pytest.approx(26.384e-6)
    assert predict(LINE, 32768) == pytest.approx(33.2768e-6)
    assert predict(LINE, 2**30) == pytest.approx(30e-6 + 2**30 / 1e10)


def test_where_the_pieces_cross_within_the_switch_the_cheaper_one_counts():
    for size in (18000, 22222, 26000):
        assert predict(LINE, size) == pytest.approx(min(10e-6 + size / 1e9, 30e-6 + size / 1e10))


def test_where_they_do_not_cross_the_switch_is_split_evenly():
    dear = Piece(from_bytes=32768, to_bytes=2**20, latency_s=90e-6, bandwidth_bytes_per_s=1e10)
    line = CostLine(candidate="data", collective="all_reduce", ranks=2, pieces=(LOW, dear))
    left, right = 10e-6 + 20000 / 1e9, 90e-6 + 20000 / 1e10
    assert left < predict(line, 20000) < right
    assert predict(line, 20000) ** 2 == pytest.approx(left * right)


def test_predictions_grow_with_size_within_a_piece():
    for piece in LINE.pieces:
        sizes = range(piece.from_bytes, piece.to_bytes, (piece.to_bytes - piece.from_bytes) // 9)
        times = [predict(LINE, size) for size in sizes]
        assert times == sorted(times)


def test_errors_are_told_apart_by_range():
    points = [
        point(5792, predict(LINE, 5792) * 1.25),
        point(23170, predict(LINE, 23170) / 1.5),
        point(92681, predict(LINE, 92681) / 1.01),
        point(185363, predict(LINE, 185363) / 1.03),
        point(370727, predict(LINE, 370727) / 1.02),
        point(65536, 1.0, group="fit"),
    ]
    found = score(LINE, points)
    assert set(found) == {"up to 64 KiB", "above 64 KiB", "in a switch"}
    assert found["up to 64 KiB"].median == pytest.approx(0.2)
    assert found["in a switch"].largest == pytest.approx(0.5)
    assert found["above 64 KiB"].median == pytest.approx(0.02)
    assert found["above 64 KiB"].count == 3
    assert held_out_error(LINE, points) == pytest.approx(0.02)
    assert in_switch(LINE, 23170) and not in_switch(LINE, 16384)


def test_without_points_or_pieces_there_is_no_error_to_tell():
    assert held_out_error(LINE, []) is None
    assert held_out_error(LINE, [point(1024, 1.0)]) is None
    assert held_out_error(EMPTY, [point(2**20, 1.0)]) is None
    assert score(EMPTY, [point(2**20, 1.0)]) == {}
    with pytest.raises(BadInput, match="no line"):
        predict(EMPTY, 1024)
    with pytest.raises(BadInput, match="at least 0"):
        predict(LINE, -1)


def test_a_curve_runs_over_each_piece_from_end_to_end():
    drawn = curve(LINE, steps=4)
    assert [len(piece) for piece in drawn] == [5, 5]
    assert drawn[0][0] == pytest.approx((1024, predict(LINE, 1024)))
    assert drawn[1][-1] == pytest.approx((2**20, predict(LINE, 2**20)))
