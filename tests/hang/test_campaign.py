"""Real jobs that die under torchrun, and the answer that is right: the cheapest of the campaign.

tests/performance/bench_hangs.py has all fifteen, three times each.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.hang import campaign


@pytest.mark.parametrize("name", campaign.CHEAPEST)
def test_a_real_job_that_dies_is_explained_by_what_it_left(name: str, tmp_path: Path) -> None:
    case = campaign.case(name)
    folder = tmp_path / "job"
    folder.mkdir()
    answer = campaign.run(dataclasses.replace(case, ranks=min(case.ranks, 2)), folder)
    assert answer.right, (answer.trouble, answer.diagnosis)
