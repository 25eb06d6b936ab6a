"""Bandwidths that people list: pairs of hosts, versions, sizes, CSV with units."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import figures_list
from bench.formats.bandwidth_unit import factor_to_gbs
from bench.formats.figure_label import size_of
from bench.formats.source import Source
from bench.records import BadInput, PlainFigure

DATA = Path(__file__).resolve().parents[1] / "data/figures_list"


def of(name: str) -> tuple[PlainFigure, ...]:
    source = Source.open(DATA / name)
    assert figures_list.likeness(source.head(), name) >= 0.5
    return figures_list.read(source)


def of_text(text: str) -> tuple[PlainFigure, ...]:
    return figures_list.read(Source.of_text(text))


def test_pairs_of_hosts_keep_their_remarks() -> None:
    figures = of("pairwise.txt")
    assert [figure.hosts for figure in figures] == [
        ("hostD", "hostF"), ("hostB", "hostC"), ("hostA", "hostE"), ("hostC", "hostD"),
        ("hostG", "hostF"),
    ]  # fmt: skip
    assert [figure.busbw_gbs for figure in figures] == [49.36, 88.36, 49.28, 49.30, 86.81]
    assert [figure.note for figure in figures] == [
        None, None, "crossing TOR", None, "crossing TOR",
    ]  # fmt: skip


def test_versions_are_versions() -> None:
    figures = of("busbw_by_version.txt")
    assert figures[0].labels == {"version": "v2.9.9-1"}
    assert [figure.busbw_gbs for figure in figures][:3] == [53.95, 57.06, 7.05]


def test_columns_of_a_csv_go_where_they_belong() -> None:
    figures = of("measurements.csv")
    assert len(figures) == 7
    assert figures[1].labels == {"state": "as_filed", "test": "sendrecv"}
    assert (figures[1].ranks, figures[1].size_bytes, figures[1].busbw_gbs) == (2, 1 << 30, 13.1)
    assert figures[1].quantity == "busbw_GBps"


def test_digits_that_are_no_number_of_ranks_are_a_label() -> None:
    figures = of_text("host,ranks,busbw_GBps\nhostA,²,13.1\nhostB,2,13.2\nhostC,2,13.3\n")
    assert [(figure.ranks, figure.labels) for figure in figures] == [
        (None, {"ranks": "²"}), (2, {}), (2, {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["host1,host2 49.3", "host1 host2 49.3", "host1 <-> host2: 49.3 GB/s", "host1-host2: 49.3",
     "host1,host2,49.3", "host1 -> host2 = 49.3", "host1 & host2 | 49.3 |"],
)  # fmt: skip
def test_pairs_are_written_in_many_ways(line: str) -> None:
    other = line.replace("host2", "host3").replace("49.3", "88.1")
    assert [figure.hosts for figure in of_text(f"{line}\n{other}\n")] == [
        ("host1", "host2"), ("host1", "host3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.0.0.1 10.0.0.2 49.3", "10.0.0.1 10.0.0.3 88.1"),
        ("n1\tn2\t49.3", "n1\tn3\t88.1"),
        ("644,699  49.3", "641,644  88.1"),
        ('"host1","host2","49.3"', '"host1","host3","88.1"'),
        ("host1,host2,all_reduce_perf,8G,49.3", "host1,host3,all_reduce_perf,8G,88.1"),
        ("pair host1-host2 busbw 49.3", "pair host1-host3 busbw 88.1"),
    ],
)
def test_pairs_are_told_by_names_that_come_again_and_words_that_never_change(
    one: str, other: str
) -> None:
    figures = of_text(f"{one}\n{other}\n")
    assert [figure.busbw_gbs for figure in figures] == [49.3, 88.1]
    (a, b), (c, d) = (figure.hosts for figure in figures)
    assert a != b and len({a, b, c, d}) == 3


@pytest.mark.parametrize(
    "text",
    ["2 4 88\n4 8 90\n8 16 91\n", "128,256,88\n256,512,90\n", "1024 8 5.3\n2048 8 6.1\n",
     "driver 535.54: 13.1\ndriver 550.54: 12.9\n"],
)  # fmt: skip
def test_counts_sizes_and_versions_are_no_hosts(text: str) -> None:
    assert not any(figure.hosts for figure in of_text(text))


MATRIX = "GB/s,n1,n2,n3\nn1,,88.1,49\nn2,88,-,49.2\nn3,nan,49.3,0\n"


def test_a_table_of_hosts_against_hosts_is_their_pairs() -> None:
    assert figures_list.likeness(MATRIX, "m.csv") >= 0.5
    for separator in (",", "\t", ";"):
        figures = of_text("# last night\n" + MATRIX.replace(",", separator))
        assert [(*figure.hosts, figure.busbw_gbs, figure.line) for figure in figures] == [
            ("n1", "n2", 88.1, 3), ("n1", "n3", 49.0, 3), ("n2", "n1", 88.0, 4),
            ("n2", "n3", 49.2, 4), ("n3", "n2", 49.3, 5),
        ]  # fmt: skip
    assert of_text(MATRIX.replace("GB/s", "Gbit/s"))[0].busbw_gbs == pytest.approx(88.1 / 8)
    mirrored = of_text("GB/s,n1,n2,n3\nn1,,88.1,49\nn2,88.1,,49.2\nn3,49,49.2,\n")
    assert [figure.hosts for figure in mirrored] == [("n1", "n2"), ("n1", "n3"), ("n2", "n3")]


@pytest.mark.parametrize(
    "text",
    [
        MATRIX.replace("n2,88", "n9,88"),  # a row of nobody
        MATRIX.replace("49.2", "SYS"),
        MATRIX.replace("n3,nan", "n2,nan"),  # twice
        ",GPU0,GPU1,GPU2\nGPU0,0,20,20\nGPU1,20,0,20\nGPU2,20,20,0\n",
    ],
)
def test_what_is_no_such_table_is_no_list_of_pairs(text: str) -> None:
    try:
        figures = of_text(text)
    except BadInput:
        return
    assert not any(figure.hosts for figure in figures)


def test_two_words_that_never_come_again_are_no_pair() -> None:
    figures = of_text("before fix: 13.1\nafter fix: 48.4\n")
    assert [figure.labels for figure in figures] == [{"name": "before fix"}, {"name": "after fix"}]
    assert not any(figure.hosts for figure in figures)


def test_sizes_are_sizes() -> None:
    figures = of_text("8M 12.3\n16M 20.1\n1G 40.5\n")
    assert [figure.size_bytes for figure in figures] == [8 << 20, 16 << 20, 1 << 30]


@pytest.mark.parametrize(
    ("unit", "column", "factor"),
    [
        ("GB/s", "", 1), ("GBps", "", 1), ("Gb/s", "", 1 / 8), ("Gbit/s", "", 1 / 8),
        ("MB/s", "", 1e-3), ("GiB/s", "", 2**30 / 1e9), ("gbps", "bandwidth_gbps", 1 / 8),
        ("gbps", "busbw_gbps", 1), (None, "busbw", 1), ("TB/s", "", 1000),
    ],
)  # fmt: skip
def test_units_are_told_apart_by_their_capitals(
    unit: str | None, column: str, factor: float
) -> None:
    assert factor_to_gbs(unit, column=column) == pytest.approx(factor)


def test_the_unit_of_a_heading_holds_for_its_list() -> None:
    figures = of_text("# pair, Gbit/s\nhost1,host2 392\nhost1,host3 196\n")
    assert [figure.busbw_gbs for figure in figures] == [49.0, 24.5]


@pytest.mark.parametrize(
    ("text", "size"), [("1073741824", 1 << 30), ("8 MiB", 8 << 20), ("x", None)]
)
def test_sizes_are_binary(text: str, size: int | None) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "one line 3.5\n", "a sentence without any number\n" * 5,
     "# nThread 1 nGpus 1\n#\n       8      2  float  sum  -1  1.0 0.0 0.0 0 1.0 0.0 0.0 0\n",
     "host:1:2 [0] NCCL INFO cudaDriverVersion 12040\nhost:1:2 [0] NCCL INFO comm rank\n"],
)  # fmt: skip
def test_what_is_no_list_is_refused(text: str) -> None:
    assert figures_list.likeness(text, "x.txt") == 0
    with pytest.raises(BadInput):
        of_text(text)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(31, 60), st.floats(0.01, 900)),
        min_size=2, max_size=30,
    )
)  # fmt: skip
def test_any_list_of_pairs_comes_back_as_written(pairs: list[tuple[int, int, float]]) -> None:
    text = "".join(f"node{a},node{b}  {value:.2f}\n" for a, b, value in pairs)
    assert [(figure.hosts, figure.busbw_gbs) for figure in of_text(text)] == [
        ((f"node{a}", f"node{b}"), float(f"{value:.2f}")) for a, b, value in pairs
    ]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    figures_list.likeness(text, "x.csv")
    try:
        figures = of_text(text)
    except BadInput:
        return
    assert all(figure.busbw_gbs >= 0 for figure in figures)
