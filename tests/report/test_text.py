"""Foreign text cannot do anything but be read."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bench.report.text import abbreviated, cell, encodable, printable, show, wrapped

ANY_TEXT = st.text(st.characters(codec=None), max_size=200)


@given(ANY_TEXT)
def test_nothing_that_a_terminal_acts_upon_is_left(text: str) -> None:
    safe = printable(text)
    assert not any(unicodedata.category(letter)[0] == "C" for letter in safe)
    assert "\n" not in safe and "\u2028" not in safe


@given(ANY_TEXT, st.integers(0, 20), st.integers(30, 120))
def test_wrapped_lines_fit_whatever_is_in_them(text: str, hang: int, width: int) -> None:
    lines = wrapped(text, label="label"[:hang], hang=hang, width=width)
    assert all(cell_len(line) <= width for line in lines)


@given(ANY_TEXT, st.integers(6, 30))
def test_a_cell_is_as_many_columns_as_it_has_characters(text: str, columns: int) -> None:
    safe = cell(text, columns)
    assert cell_len(safe) == len(safe) <= columns


def test_escapes_show_what_was_there() -> None:
    assert printable("\x1b[31mred\x07 \u202egnp.exe") == "\\x1b[31mred\\x07 \\u202egnp.exe"
    assert printable("two\r\nlines\tand a tab") == "two lines and a tab"
    assert printable("naïve 主机") == "naïve 主机"


def test_names_are_cut_in_the_middle_for_they_differ_at_both_ends() -> None:
    assert cell("enp65s0f0np0-very-long", 12) == "enp65s…-long"


def test_long_lists_say_how_many_more() -> None:
    names = [f"host{number}" for number in range(1, 17)]
    assert abbreviated(names) == "host1, host2 … 14 more"
    assert abbreviated(names[:3]) == "host1, host2, host3"
    assert abbreviated([]) == ""


def test_an_ascii_terminal_gets_ascii() -> None:
    text = "4 hosts × 1 rank · ±0.3 % … 主"
    assert encodable(text, "utf-8") == text
    assert encodable(text, "ascii") == "4 hosts x 1 rank | +-0.3 % ... \\u4e3b"
    assert encodable(text, "no-such").isascii()
    assert encodable(text, None) == text


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "2 × 1 …\n"), ("latin-1", "2 x 1 ...\n"), ("ascii", "2 x 1 ...\n")],
)
def test_a_screen_is_shown_whatever_the_stream_can_encode(encoding: str, shown: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    show("2 × 1 …", stream)
    assert stream.buffer.getvalue().decode(encoding) == shown  # type: ignore[attr-defined]
    kept = io.StringIO()
    show("2 × 1 …", kept)
    assert kept.getvalue() == "2 × 1 …\n"
