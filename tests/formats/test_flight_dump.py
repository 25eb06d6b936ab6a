"""Flight Recorder dumps of torch, gloo's and NCCL's, pickle and JSON, whole and hostile."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import flight_dump, flight_name
from bench.formats.flight_rows import DTYPE
from bench.formats.source import Source
from bench.records import BadInput, FlightDump
from tests.hang.job import Call, Job, as_json, same

DATA = Path(__file__).resolve().parents[1] / "data" / "flight"


def read(content: bytes | Path, name: str = "rank_0") -> FlightDump:
    if isinstance(content, Path):
        return flight_dump.read(Source.open(content))
    return flight_dump.read(Source.of_text(content, name))


def rows(dump: FlightDump) -> Any:
    return np.frombuffer(dump.rows, dtype=DTYPE)


def refusal(content: bytes) -> str:
    with pytest.raises(BadInput) as told:
        read(content)
    assert "\n" not in str(told.value)
    return str(told.value)


def outcome(content: bytes) -> str:
    """The refusal, "" where there is none."""
    try:
        read(content)
    except BadInput as bad:
        return bad.sentence
    return ""


def test_every_entry_of_a_real_dump_is_there_with_its_shape_state_and_stack() -> None:
    path = DATA / "gloo_healthy" / "after_0"
    told = pickle.loads(path.read_bytes())  # noqa: S301 - ours
    dump = read(path)
    assert (dump.version, dump.form, dump.entries) == ("2.10", "pickle", len(told["entries"]))
    for row, entry in zip(rows(dump), told["entries"], strict=True):
        call, group = dump.calls[row["call"]], dump.groups[row["group"]]
        assert f"{call.library}:{call.name}" == entry["profiling_name"]
        assert [list(shape) for shape in call.input_sizes] == entry["input_sizes"]
        assert [list(shape) for shape in call.output_sizes] == entry["output_sizes"]
        assert list(call.input_dtypes) == entry["input_dtypes"]
        assert (group.name, group.desc, group.pg_id) == (*entry["process_group"], entry["pg_id"])
        assert row["seq"] == entry["collective_seq_id"]
        assert row["record_id"] == entry["record_id"]
        assert row["created_ns"] == entry["time_created_ns"]
        assert bool(row["retired"]) == entry["retired"]
        stack = [dump.frames[at] for at in dump.stacks[row["stack"]]]
        assert [(f.name, f.file, f.line) for f in stack] == [
            (f["name"], f["filename"], f["line"]) for f in entry["frames"]
        ]


@pytest.mark.parametrize("rank", range(3))
def test_json_and_pickle_of_one_moment_say_the_same_but_for_stacks(rank: int) -> None:
    one = read(DATA / "gloo_missing" / f"after_{rank}")
    other = read(DATA / "gloo_missing" / f"after_{rank}.json")
    assert other.form == "json"
    assert (one.groups, one.calls, one.rank) == (other.groups, other.calls, other.rank)
    for name in set(DTYPE.names or ()) - {"stack"}:
        mine, theirs = rows(one)[name], rows(other)[name]
        assert np.array_equal(mine, theirs, equal_nan=name == "duration_ms"), name


def test_packed_dumps_are_read() -> None:
    path = DATA / "gloo_missing" / "during_0"
    packed = read(gzip.compress(path.read_bytes()), str(path))
    assert packed.rows == read(path).rows
    assert "damaged" in refusal(gzip.compress(path.read_bytes())[:-300])


def test_the_rank_is_what_the_groups_leave() -> None:
    job = Job(4, same(4, [Call()]), {"tp": [2, 3], "dp": [1, 3]})
    dump = read(pickle.dumps(job.dump(3), protocol=2), "trace-of-somebody")
    assert (dump.rank, dump.possible_ranks) == (3, (3,))
    dump = read(pickle.dumps(job.dump(2), protocol=2), "trace-7")
    assert (dump.rank, dump.possible_ranks) == (None, (2, 3))
    assert read(pickle.dumps(job.dump(2), protocol=2), "trace-2").rank == 2


def test_a_send_tells_its_own_rank() -> None:
    job = Job(3, {0: [Call(name="send", peer=2)], 2: [Call(name="recv", peer=0)]})
    assert read(pickle.dumps(job.dump(2), protocol=2), "x").rank == 2
    call = read(pickle.dumps(job.dump(0), protocol=2), "x").calls[0]
    assert (call.name, call.me, call.peer) == ("send", 0, 2)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("nccl_trace_rank_12", ("rank", 12)),
        ("comm_lib_trace_rank_3", ("rank", 3)),
        ("job7/host-2_rank-031.json.gz", ("rank", 31)),
        ("dumps/rank_4/trace.pkl", ("folder's rank", 4)),
        ("fr-17.pickle", ("last", 17)),
        ("r5.json", ("r", 5)),
    ],
)
def test_numbers_in_names(file: str, expected: tuple[str, int]) -> None:
    assert flight_name.numbers(file)[0] == expected


def test_older_schemas_and_missing_keys_are_read() -> None:
    entry = {
        "record_id": 0,
        "seq_id": 4,
        "process_group": "0",
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[3]],
        "output_sizes": [[3]],
        "state": "completed",
    }
    dump = read(json.dumps({"version": "2.1", "entries": [entry]}).encode())
    assert (dump.version, rows(dump)["seq"].tolist()) == ("2.1", [4])
    assert dump.groups[0].name == "0"
    mixed = [entry, {**entry, "duration_ms": 1.5, "record_id": 1}]
    dump = read(json.dumps({"version": "2.3", "entries": mixed}).encode())
    assert np.isnan(rows(dump)["duration_ms"][0])
    assert rows(dump)["duration_ms"][1] == 1.5


def test_an_empty_recorder_is_a_dump_without_entries() -> None:
    dump = read(json.dumps({"version": "2.10", "pg_config": {}, "pg_status": {}}).encode())
    assert dump.entries == 0
    assert "empty" in refusal(b"")
    assert "empty" in refusal(b"\0" * 4096)


HOSTILE: dict[str, Any] = {
    "entries are no list": {"entries": {"a": 1}},
    "entries are numbers": {"entries": [1, 2]},
    "a number is a list": {"entries": [{"record_id": [1]}]},
    "a number is huge": {"entries": [{"record_id": 1 << 70}]},
    "a name is a number": {"entries": [{"profiling_name": 7}]},
    "a shape is a word": {"entries": [{"input_sizes": "big"}]},
    "a shape holds words": {"entries": [{"input_sizes": [["a"]]}]},
    "a dtype is a list": {"entries": [{"input_dtypes": [["Float"]]}]},
    "frames are words": {"entries": [{"frames": ["main"]}]},
    "a line is a word": {"entries": [{"frames": [{"name": "f", "filename": "f", "line": "1"}]}]},
    "a group is a dict": {"entries": [{"process_group": {"a": 1}}]},
    "a group holds lists": {"entries": [{"process_group": [["0"], "x"]}]},
    "a state is a number": {"entries": [{"state": 3}]},
    "a flag is a word": {"entries": [{"retired": "yes"}]},
    "a duration is a word": {"entries": [{"duration_ms": "long"}]},
    "groups are a list": {"entries": [], "pg_config": [1]},
    "no dump": {"hello": 1},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_values_that_no_recorder_writes_are_refused_in_one_sentence(name: str) -> None:
    value = {"version": "2.10", **HOSTILE[name]} if name != "no dump" else HOSTILE[name]
    assert "no Flight Recorder dump" in refusal(pickle.dumps(value, protocol=2))
    if name != "a number is huge":  # JSON has its own limit
        assert "no Flight Recorder dump" in refusal(json.dumps(value).encode())


def test_bad_json_is_refused_in_one_sentence() -> None:
    assert "JSON" in refusal(b'{"version": "2.10", "entries": [')
    assert "JSON" in refusal(b'{"entries":' + b"[" * 100_000)
    assert "containers" in refusal(b'{"entries":[' + b"[]," * (5 << 20) + b"1]}")


KEYS = ["record_id", "collective_seq_id", "profiling_name", "input_sizes", "frames", "state"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from([*KEYS, "process_group", "pg_id"]), ANYTHING), max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_any_entries_are_read_or_refused_but_never_crash(entries: list[Any]) -> None:
    assert "\n" not in outcome(pickle.dumps({"version": "2.10", "entries": entries}, protocol=2))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_are_read_or_refused_but_never_crash(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([DATA / "gloo_order/during_1", DATA / "tutorial/rank_0"]))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert "\n" not in outcome(bytes(content))


def test_a_job_written_as_json_reads_like_its_pickle() -> None:
    job = Job(2, same(2, [Call(), Call(name="barrier", inputs=[])]), ring=1)
    one = read(pickle.dumps(job.dump(1), protocol=2), "rank_1")
    other = read(as_json(job.dump(1)), "rank_1.json")
    assert (one.groups, one.calls) == (other.groups, other.calls)
    assert rows(one)["record_id"].tolist() == rows(other)["record_id"].tolist() == [1]
