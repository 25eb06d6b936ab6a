"""The unpickler that trusts nobody: what it reads, what it refuses, and at what cost."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import bare_pickle
from bench.records import BadInput

DATA = Path(__file__).resolve().parents[1] / "data" / "flight"
REAL = sorted(
    path
    for path in DATA.rglob("*")
    if path.suffix not in (".json", ".md", ".txt") and path.is_file()
)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=5), inner, max_size=5)
        | st.tuples(st.text(max_size=5), st.text(max_size=5))
    ),
    max_leaves=40,
)


def refusal(data: bytes) -> str:
    with pytest.raises(BadInput) as told:
        bare_pickle.load(data, "dump")
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_reads_what_torch_wrote(path: Path) -> None:
    data = path.read_bytes()
    assert bare_pickle.load(data, str(path)) == pickle.loads(data)  # noqa: S301 - ours


@given(PLAIN, st.integers(2, 5))
@settings(max_examples=100, deadline=None)
def test_reads_all_plain_data_of_every_protocol(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol=protocol)
    assert bare_pickle.load(data, "dump") == value


class Payload:
    """What an attacker would send: runs a command where it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", range(6))
def test_runs_nothing_and_says_so_in_one_sentence(protocol: int, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for value in (Payload(marker), {"entries": [Payload(marker)], "version": "2.10"}):
        data = pickle.dumps(value, protocol=protocol)
        refusal(data)
        with pytest.raises(BadInput):
            bare_pickle.load(data, "dump", check=False)
    assert not marker.exists()


@pytest.mark.parametrize(
    "value",
    [collections.OrderedDict(a=1), {1, 2}, frozenset("a"), b"bytes", bytearray(b"x"), Path, 1j],
    ids=repr,
)
def test_refuses_what_is_no_plain_data(value: object) -> None:
    for protocol in (2, 4, 5):
        refusal(pickle.dumps({"a": value}, protocol=protocol))


def test_names_what_was_asked_for() -> None:
    assert "asks for a global" in refusal(b"\x80\x02cos\nsystem\n.")
    assert "calls something" in refusal(b"\x80\x02R.")
    assert "persistent" in refusal(b"\x80\x02K\x01Q.")
    assert "no pickle" in refusal(b"(dp0\n.")
    assert "unknown protocol" in refusal(b"\x80\x09.")


@pytest.mark.parametrize("path", REAL[:6], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_dump_that_was_cut_short_is_told_at_every_length(path: Path) -> None:
    data = path.read_bytes()
    for length in range(2, len(data) - 1, 7):
        assert "dump: " in refusal(data[:length])


def test_a_huge_memo_slot_allocates_nothing() -> None:
    put = b"\x80\x02]r" + struct.pack("<I", 0x7FFF_FFFF) + b"."
    assert "beyond any" in refusal(put)
    kept = b"\x80\x02X\x01\0\0\0ar" + struct.pack("<I", 0x7FFF_FFFF) + b"."
    assert "beyond any" in refusal(kept)


def test_a_huge_length_allocates_nothing() -> None:
    for opcode in (b"X" + struct.pack("<I", 0xFFFF_FFF0), b"\x8d" + struct.pack("<Q", 1 << 60)):
        assert "cut short" in refusal(b"\x80\x04" + opcode + b"abc.")
    assert "cut short" in refusal(b"\x80\x04\x95" + struct.pack("<Q", 1 << 50) + b"N.")


def test_millions_of_containers_are_refused_at_once() -> None:
    begun = time.process_time()
    assert "containers" in refusal(b"\x80\x02" + b"]" * (bare_pickle.MAX_CONTAINERS + 1) + b".")
    assert time.process_time() - begun < 5


def nested_tuples(levels: int, *, keep: bool) -> bytes:
    """A key whose hash costs 2**levels, or as many stack frames as there are levels."""
    out = b"\x80\x02}(X\x01\0\0\0aX\x01\0\0\0b\x86" + (b"q\x00" if keep else b"")
    for level in range(1, levels):
        if keep:
            out += (
                b"0h" + bytes([level - 1]) + b"h" + bytes([level - 1]) + b"\x86q" + bytes([level])
            )
        else:
            out += b"X\x01\0\0\0a\x86"
    return out + b"K\x01u."


def test_tuples_in_tuples_are_refused_before_anybody_hashes_them() -> None:
    begun = time.process_time()
    assert "tuple" in refusal(nested_tuples(100_000, keep=False))
    refusal(nested_tuples(60, keep=True))
    pairs = b"\x80\x02(X\x01\0\0\0aX\x01\0\0\0b\x86q\x00h\x00h\x00\x86q\x01h\x01h\x01\x86q\x02l."
    assert "tuple" in refusal(pairs)
    assert time.process_time() - begun < 10


def test_deep_nesting_is_no_crash(tmp_path: Path) -> None:
    """In a process of its own: what fails here is the C stack."""
    path = tmp_path / "deep"
    for data in (b"\x80\x02" + b"](" * 500_000 + b"e" * 500_000 + b".", b"\x80\x02" + b"](" * 10):
        path.write_bytes(data)
        code = (
            "import sys; from bench.formats import flight_dump; from bench.formats.source import "
            "Source; from pathlib import Path; from bench.records import BadInput\n"
            "try: flight_dump.read(Source.open(Path(sys.argv[1])))\n"
            "except BadInput as bad: print(bad)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1


def test_a_list_that_holds_itself_and_lists_shared_a_million_times_cost_nothing() -> None:
    """Amplification: small files whose walk never ends, or takes hours."""
    from bench.formats import flight_dump
    from bench.formats.source import Source

    shape: list[object] = [[1] * 1000] * 1000
    entry = {"record_id": 1, "profiling_name": "nccl:x", "input_sizes": shape}
    itself: list[object] = []
    itself.append(itself)
    doubled: list[object] = [1]
    for _ in range(60):
        doubled = [doubled, doubled]
    begun = time.process_time()
    for entries in (
        [dict(entry) for _ in range(5000)],
        [{**entry, "input_sizes": itself}],
        [{**entry, "input_sizes": doubled}],
        [{**entry, "frames": [{"name": "f", "filename": "f", "line": 1}] * 100_000}] * 9000,
    ):
        data = pickle.dumps({"version": "2.10", "entries": entries}, protocol=2)
        with contextlib.suppress(BadInput):
            flight_dump.read(Source.of_text(data, "dump"))
    assert time.process_time() - begun < 60


def test_memory_stays_in_proportion_to_the_file() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = b"\x80\x02(" + b"]" * (bare_pickle.MAX_CONTAINERS - 1) + b"l."
    refusal(data)
    data = b"\x80\x02](" + b"]" * 1_000_000 + b"e."
    assert isinstance(bare_pickle.load(data, "dump"), list)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 200
