"""What the screen says of dumps in which no collective is held up."""

from __future__ import annotations

import pytest

from bench.records import Diagnosis, FlightPicture
from bench.report.diagnosis import words


@pytest.mark.parametrize("undecided", [True, False])
def test_none_stands_still_is_only_said_where_nothing_is_under_way(undecided: bool) -> None:
    picture = FlightPicture(collectives=3, groups=1, undecided=undecided)
    shown = dict(words.state(Diagnosis(verdict="healthy", flight=picture)))["shows"]
    assert "all called alike" in shown
    assert ("none stands still" in shown) is not undecided
