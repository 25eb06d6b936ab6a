"""A Fabric as text reads back as the same Fabric, whatever its strings hold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import fabric_file, shipped, toml_file
from bench.records import Fabric, FabricBusbw, FabricGpus, FabricNetwork, Tolerance

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
RATE = st.floats(1e-9, 1e12)
COUNT = st.integers(0, 2**40)


def some(kind: type, **fields: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(kind, **fields)


def maybe(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


NETWORKS = some(
    FabricNetwork, name=TEXT, role=st.sampled_from(["data", "management", "storage"]),
    interfaces=st.lists(TEXT, max_size=3).map(tuple), subnet=maybe(TEXT), rate_gbps=maybe(RATE),
    mtu=maybe(COUNT), ports_per_host=maybe(COUNT), claimed=st.booleans(), technology=maybe(TEXT),
)  # fmt: skip
ENTRIES = some(
    FabricBusbw, collective=TEXT, hosts=COUNT | st.just("many"), busbw_gbs=RATE,
    ranks_per_host=maybe(COUNT), candidate=maybe(TEXT), backend=maybe(st.sampled_from(["gloo"])),
    from_bytes=maybe(COUNT), latency_us=maybe(RATE), tolerance=maybe(RATE), note=maybe(TEXT),
)  # fmt: skip
FABRICS = some(
    Fabric, name=TEXT, title=maybe(TEXT), hint=st.booleans(), source=maybe(TEXT),
    hosts=st.lists(TEXT, max_size=2).map(tuple), network=st.lists(NETWORKS, max_size=2).map(tuple),
    gpus=some(FabricGpus, model=st.lists(TEXT, max_size=2).map(tuple), per_host=maybe(COUNT),
              path=maybe(st.sampled_from(["nvlink", "none"])), pcie=maybe(TEXT)),
    busbw=st.lists(ENTRIES, max_size=2).map(tuple),
    tolerance=some(Tolerance, bandwidth=RATE, latency=RATE),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(FABRICS, st.lists(TEXT, max_size=3))
def test_any_fabric_reads_back_as_it_was(fabric: Fabric, head: list[str]) -> None:
    text = fabric_file.render(fabric, head=head)
    assert toml_file.load_text(text, Fabric, file="x.toml") == fabric


@pytest.mark.parametrize("file", sorted(shipped.folder("fabrics").glob("*.toml")), ids=str)
def test_shipped_fabrics_read_back_as_they_are(file) -> None:
    fabric = toml_file.load(file, Fabric)
    assert toml_file.load_text(fabric_file.render(fabric), Fabric, file="x") == fabric


def test_no_name_can_end_a_comment_or_a_string() -> None:
    evil = 'x"\nname = "evil'
    fabric = Fabric(name=evil, network=(FabricNetwork(name=evil, interfaces=(evil,)),))
    text = fabric_file.render(fabric, head=[evil, "a" * 500])
    assert toml_file.load_text(text, Fabric, file="x.toml").name == evil
    assert text.startswith('# x"?name = "evil\n# aaa')


def test_lone_surrogates_of_a_name_that_is_no_text_become_question_marks() -> None:
    text = fabric_file.render(Fabric(name="a\udc80b"))
    assert toml_file.load_text(text, Fabric, file="x.toml").name == "a?b"


def test_what_is_not_set_is_not_written_but_for_the_role_that_was_guessed() -> None:
    text = fabric_file.render(Fabric(name="x", network=(FabricNetwork(name="data"),)))
    keys = [line.split(" ")[0] for line in text.splitlines() if " = " in line]
    assert keys == ["name", "name", "role", "bandwidth", "latency"]


def test_every_field_has_its_own_line_and_known_ones_a_comment() -> None:
    entry = FabricBusbw(collective="all_reduce", hosts=2, busbw_gbs=10, tolerance=0.04, runs=5)
    text = fabric_file.render(Fabric(name="x", busbw=(entry,)))
    assert "tolerance = 0.04                 # below by so much is a finding\n" in text
    for table in fabric_file.COMMENTS.items():
        kind, comments = table
        assert set(comments) <= {field.name for field in msgspec.structs.fields(kind)}
