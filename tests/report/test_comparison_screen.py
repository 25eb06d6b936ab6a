"""How a comparison reads: words, rows, screen, markdown, figures."""

from __future__ import annotations

import json

import pytest

from bench.judge.sides import words
from bench.records import (
    Change,
    ComparedCell,
    ComparedFigure,
    ComparedGate,
    ComparedLine,
    ComparedRange,
    Comparison,
    Difference,
    SideSummary,
)
from bench.report.comparison import figures as comparison_figures
from bench.report.comparison import markdown as comparison_markdown
from bench.report.comparison import screen as comparison_screen
from bench.report.comparison.rows import blocks


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (65536, "64 KiB"), (700_000, "700 kB"), (1_000_000, "1 MB"), (1_100_000, "1.1 MB"),
        (2**30, "1 GiB"), (123, "123 bytes"), (1_500_000, "1.5 MB"), (33_333, "33333 bytes"),
    ],
)  # fmt: skip
def test_a_size_is_called_as_people_call_it(size: int, text: str) -> None:
    assert words.size(size) == text


def test_a_range_of_one_unit_names_it_once() -> None:
    assert words.sizes(4096, 32768) == "4 to 32 KiB"
    assert words.sizes(700_000, 1_000_000) == "700 kB to 1 MB"
    assert words.sizes(65536, 65536) == "64 KiB"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.3, "2.3 times slower"), (-0.6, "2.5 times faster"), (0.094, "9.4 % slower"),
     (-0.12, "12 % faster"), (0.499, "50 % slower"), (40.0, "41 times slower")],
)  # fmt: skip
def test_a_change_is_a_factor_where_it_is_a_large_one(value: float, text: str) -> None:
    assert words.longer(Change(value=value)) == text


def test_zero_has_no_sign_and_an_interval_has_the_digits_it_needs() -> None:
    assert words.percent(-0.0001) == "0.0 %"
    assert words.interval(Change(value=0.0, low=-0.004, high=0.05)) == "[0, +5]"
    assert words.interval(Change(value=0.0, low=-0.004, high=0.006)) == "[-0.4, +0.6]"
    assert words.interval(Change(value=0.0)) == ""


def ranged(low, high, value, verdict, sizes=4):
    time = ComparedFigure(
        before=1e-3, after=1e-3 * (1 + value),
        change=Change(value=value, low=value - 0.02, high=value + 0.02),
    )  # fmt: skip
    busbw = ComparedFigure(
        before=100.0, after=100 / (1 + value),
        change=Change(value=1 / (1 + value) - 1, low=-0.1, high=0.0),
    )  # fmt: skip
    return ComparedRange(from_bytes=low, to_bytes=high, sizes=sizes, verdict=verdict, time_s=time,
                         busbw_gbs=busbw)  # fmt: skip


def line(name, verdict, value=0.0, **more):
    small = ComparedGate(sizes="small", whole=ranged(4096, 32768, 0.001, "equivalent"),
                         verdict="equivalent", p=0.8, detectable=0.02)  # fmt: skip
    large = ComparedGate(sizes="large", whole=ranged(65536, 2**30, value, verdict),
                         verdict=verdict, p=0.001, detectable=0.04, **more)  # fmt: skip
    cells = tuple(
        ComparedCell(size_bytes=n, before_s=1e-3, after_s=1e-3 * (1 + value), before_busbw_gbs=1.0,
                     after_busbw_gbs=1.0, change=Change(value=value, low=-0.1, high=0.1),
                     moved=verdict == "regressed")
        for n in (65536, 131072)
    )  # fmt: skip
    return ComparedLine(
        candidate=name,
        collective="all_reduce",
        verdict=verdict,
        before_sessions=5,
        after_sessions=5,
        gates=(small, large),
        cells=cells,
    )


def made(*lines, **more):
    more = {"verdict": "regressed", "equal": "everything else equal", **more}
    sides = [SideSummary(path=path, sessions=5, runs=5) for path in "ab"]
    return Comparison(before=sides[0], after=sides[1], lines=lines, **more)


DRIVER = Difference(name="driver", kind="factor", before="550.54.15", after="570.86.10")


def test_the_screen_says_first_what_changed_and_last_the_verdict() -> None:
    text = comparison_screen.screen(
        made(line("data", "regressed", 0.1), differences=(DRIVER,), interleaved=False), status=1
    )
    lines = text.splitlines()
    assert lines[0] == "changed   driver 550.54.15 → 570.86.10 · everything else equal"
    assert lines[1] == "sessions  5 before, 5 after · interleaved: no"
    assert lines[-1] == "verdict: regressed · exit 1"
    assert any(one.split()[:1] == ["64"] and one.endswith("regressed") for one in lines)


def test_lines_that_moved_come_first_and_many_that_did_not_are_only_named() -> None:
    many = [line(f"net{at}", "equivalent") for at in range(9)]
    text = comparison_screen.screen(made(*many, line("slow", "regressed", 0.1)), status=1)
    assert text.index("slow, all_reduce") < text.index("\nequal ")
    assert "net3, all_reduce" in text and text.count("4 to 32 KiB") == 1
    assert "1 regressed, 9 equivalent" in text


def test_of_a_gate_that_moved_in_part_the_parts_are_shown_and_not_their_mean() -> None:
    part = ranged(2**28, 2**30, 0.2, "regressed")
    rest = ranged(65536, 2**27, 0.0, "equivalent")
    (block,) = blocks(made(line("data", "regressed", 0.05, moved=(part,), rest=rest)))
    names = [row.name for row in block.rows]
    assert names == ["4 to 32 KiB", "256 MiB to 1 GiB", "other large sizes"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_screen_and_no_figure_is_cut(width: int) -> None:
    name = "a-candidate-whose-name-is-longer-than-anybody-would-like"
    text = comparison_screen.screen(made(line(name, "regressed", 0.1)), status=1, width=width)
    table = [one for one in text.splitlines() if "GB/s" in one or "ms" in one]
    assert table and all("…" not in one[20:] for one in table)
    if width >= 80:
        assert all(len(one) <= width for one in text.splitlines())


def test_a_range_of_sizes_is_shortened_before_it_is_cut() -> None:
    part = ranged(2**28, 2**30, 0.2, "regressed")
    rest = ranged(65536, 2**27, 0.0, "equivalent")
    comparison = made(line("data", "regressed", 0.05, moved=(part,), rest=rest))
    wide = comparison_screen.screen(comparison, status=1, width=100)
    assert "256 MiB to 1 GiB" in wide and "other large sizes" in wide
    narrow = comparison_screen.screen(comparison, status=1, width=66)
    assert "256 MiB-1 GiB " in narrow and "other large " in narrow


def test_colour_marks_verdicts_and_the_words_stay_without_it() -> None:
    comparison = made(line("data", "regressed", 0.1))
    bare = comparison_screen.screen(comparison, status=1)
    shaded = comparison_screen.screen(comparison, status=1, colour=True)
    assert "\x1b[31m" in shaded and "\x1b" not in bare
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"):
        shaded = shaded.replace(code, "")
    assert shaded == bare


def test_markdown_has_a_row_for_each_and_bold_for_what_is_worse() -> None:
    text = comparison_markdown.render(made(line("data", "regressed", 0.1), differences=(DRIVER,)))
    assert text.startswith("## regressed") and "**regressed**" in text
    assert "driver 550.54.15 → 570.86.10" in text


def test_figures_are_json_and_fill_only_what_moved() -> None:
    one = line("data", "regressed", 0.1)
    change = comparison_figures.changes(one)
    (trace,) = json.loads(json.dumps(change))["data"]
    assert trace["marker"]["symbol"] == ["circle", "circle"]
    assert trace["y"] == pytest.approx([10.0, 10.0])
    both = json.loads(json.dumps(comparison_figures.curves(one)))
    assert {t["name"] for t in both["data"]} == {"before", "after"}
