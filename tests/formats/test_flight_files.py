"""Many dumps at once: the same as one by one, whatever hostile files are among them."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import pytest

from bench.formats import file_walk, flight_files
from bench.formats.file_walk import Found
from bench.formats.source import Source
from bench.records import BadInput, FlightDump
from tests.hang.job import Call, Job, same, write


def opened(found: Found) -> Source:
    return Source.open(found.path, file=found.file)


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Found]:
    """Twelve dumps, read in processes however small they are."""
    monkeypatch.setattr(flight_files, "PARALLEL_BYTES", 1)
    job = Job(12, same(12, [Call()] * 30))
    write(tmp_path, {rank: job.dump(rank) for rank in range(12)})
    return list(file_walk.files([str(tmp_path)]))


def test_processes_read_what_is_read_here(
    crowd: list[Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_processes = flight_files.read_all(crowd, opened)
    monkeypatch.setattr(flight_files, "PARALLEL_BYTES", 1 << 40)
    assert in_processes == flight_files.read_all(crowd, opened)
    assert all(isinstance(outcome, FlightDump) for outcome in in_processes)
    assert dict(flight_files._in_processes(crowd)) == {}


def test_the_processes_do_read(crowd: list[Found]) -> None:
    assert sorted(at for at, _ in flight_files._in_processes(crowd)) == list(range(12))


def deep_key(levels: int) -> bytes:
    """A tuple in a tuple in a tuple: whoever hashes it runs out of C stack and dies."""
    return b"\x80\x02}(X\x01\0\0\0aX\x01\0\0\0b\x86" + b"X\x01\0\0\0a\x86" * levels + b"K\x01u."


HOSTILE = {
    "huge slot": b"\x80\x02]r" + struct.pack("<I", 0x7FFF_FFFF) + b".",
    "deep tuple": deep_key(2_000_000),
    "a global": b"\x80\x02cos\nsystem\n(X\x04\0\0\0true\x85R.",
    "cut short": pickle.dumps({"version": "2.10", "entries": [{}] * 50}, protocol=2)[:-20],
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_costs_a_sentence_and_no_other_dump(
    crowd: list[Found], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight_files, "QUIET_S", 5.0)
    crowd[3].path.write_bytes(HOSTILE[name])
    outcomes = flight_files.read_all(crowd, opened)
    refused = outcomes.pop(3)
    assert isinstance(refused, BadInput)
    assert "\n" not in str(refused)
    assert all(isinstance(outcome, FlightDump) for outcome in outcomes)
