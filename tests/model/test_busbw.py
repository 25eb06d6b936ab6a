"""nccl-tests' factors, and nothing invented beside them."""

from __future__ import annotations

import pytest

from bench.model.busbw import factor
from bench.plan.volumes import COLLECTIVES
from bench.records import BadInput


@pytest.mark.parametrize(
    ("collective", "ranks", "expected"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 4, 1.5),
        ("all_reduce", 1, 0.0),
        ("all_gather", 4, 0.75),
        ("reduce_scatter", 8, 0.875),
        ("all_to_all", 2, 0.5),
        ("broadcast", 16, 1.0),
        ("send_recv", 2, 1.0),
        ("barrier", 8, 0.0),
    ],
)
def test_factors_are_those_of_nccl_tests(collective, ranks, expected):
    assert factor(collective, ranks) == pytest.approx(expected)


def test_no_factor_exceeds_two_or_falls_below_zero():
    assert all(0 <= factor(name, ranks) < 2 for name in COLLECTIVES for ranks in (1, 2, 3, 1024))


def test_an_unknown_collective_is_told_with_the_known_ones():
    with pytest.raises(BadInput, match=r"'allreduce'.*all_gather, all_reduce"):
        factor("allreduce", 4)


def test_no_ranks_are_bad_input():
    with pytest.raises(BadInput, match="at least 1 rank"):
        factor("all_reduce", 0)
