"""gloo marks work that failed as over: dumps of which some were made after the error."""

from __future__ import annotations

import pickle

import pytest

from bench.formats import flight_dump
from bench.formats.source import Source
from tests.hang import judged
from tests.hang.job import Call, Job


@pytest.mark.parametrize("noticed", [(), (0,), (2,), (0, 2), (1,), (0, 1, 2)])
def test_inverted_groups_are_told_whoever_had_noticed_by_then(noticed: tuple[int, ...]) -> None:
    step = [Call(), Call(group="1"), Call(group="2")]
    odd = [Call(), Call(group="2"), Call(group="1")]
    everybody = [0, 1, 2]
    job = Job(
        3,
        {0: step * 4, 1: step * 3 + odd, 2: step * 4},
        {"1": everybody, "2": everybody},
        backend="gloo",
    )
    dumps = []
    for rank in everybody:
        told = job.dump(rank)
        if rank in noticed:
            told["entries"][-1]["retired"] = True
        source = Source.of_text(pickle.dumps(told, protocol=2), f"rank_{rank}")
        dumps.append(flight_dump.read(source))
    found = judged.of(dumps)
    assert found.picture.named == (1,), found.codes
    assert found.codes == ["collective-mismatch"]
