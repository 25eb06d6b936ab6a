"""The terminal screen, against golden files, and its promises whatever the report holds.

After a wanted change of wording: BENCH_WRITE_GOLDEN=1 pytest tests/report/test_tables.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from bench.records import Finding, Report, Where
from bench.report import tables

GOLDEN = Path(__file__).parent / "golden"
FOLDER = Path("reports/2026-11-30T10-44-14Z")
NAMES = ("healthy", "misselected", "hung", "unreachable", "thousand", "hostile")


@pytest.mark.parametrize("name", NAMES)
def test_the_screen_is_as_agreed(made: Any, name: str) -> None:
    golden = GOLDEN / f"screen_{name}.txt"
    screen = tables.screen(getattr(made, name), folder=FOLDER) + "\n"
    if os.environ.get("BENCH_WRITE_GOLDEN"):
        golden.write_text(screen)
    assert screen == golden.read_text()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [60, 72, 80, 132])
def test_no_line_is_wider_than_the_screen(made: Any, name: str, width: int) -> None:
    report = getattr(made, name)
    text = tables.screen(report, folder=FOLDER, width=width)
    text += "\n" + tables.before(report.plan, report.hosts, report.candidates, width=width)
    assert [line for line in text.splitlines() if cell_len(line) > width] == []


def test_the_verdict_comes_last_and_the_fix_can_be_pasted(made: Any) -> None:
    lines = tables.screen(made.misselected, folder=FOLDER).splitlines()
    assert lines[-2] == "verdict: misconfigured · 1 finding · 41 s"
    assert lines[-1].startswith(f"report   {FOLDER}/report.html")
    assert "  fix        export NCCL_SOCKET_IFNAME='=data0'" in lines


def test_what_was_printed_before_the_start_is_not_printed_again(made: Any) -> None:
    rest = tables.screen(made.misselected, header=False)
    assert rest.startswith("\n  candidate")
    assert tables.screen(made.misselected).endswith(rest)


def test_colour_is_never_the_only_mark(made: Any) -> None:
    plain = tables.screen(made.hung)
    colour = tables.screen(made.hung, colour=True)
    assert "\x1b[31m! hang-midrun\x1b[0m" in colour and "\x1b[31mbroken\x1b[0m" in colour
    assert re.sub(r"\x1b\[\d+m", "", colour) == plain
    assert "! hang-midrun" in plain and "? not-determinable" in plain


def test_names_cannot_send_terminal_escapes(made: Any) -> None:
    screen = tables.screen(made.hostile, folder=FOLDER)
    assert "\x1b" not in screen and "\x07" not in screen and "\u202e" not in screen
    assert "\\x1b[2J" in screen


def test_a_thousand_alike_findings_are_counted_not_printed(made: Any) -> None:
    screen = tables.screen(made.thousand)
    assert screen.count("! interface-no-match") == 3
    assert "… 297 more of interface-no-match: all in report.json" in screen
    assert "node0000, node0001 … 14 more" in screen
    assert len(screen.splitlines()) < 40


def test_a_remark_is_no_finding(made: Any) -> None:
    remark = Finding(
        code="noisy", severity="info", summary="4 KiB is noisy.", where=Where(candidate="data")
    )
    report: Report = msgspec.structs.replace(made.healthy, findings=(remark,))
    screen = tables.screen(report)
    assert "notes   noisy (data)" in screen
    assert "verdict: healthy · no findings" in screen


def test_what_is_missing_is_said(made: Any) -> None:
    many = tuple(f"Session {number} of data was lost." for number in range(30))
    screen = tables.screen(msgspec.structs.replace(made.healthy, missing=many, complete=False))
    assert "missing  Session 0 of data was lost." in screen
    assert "… 24 more in report.json" in screen
    assert "healthy · no findings · incomplete" in screen


def test_before_the_start_the_cost_is_said(made: Any) -> None:
    report = made.misselected
    text = tables.before(report.plan, report.hosts, report.candidates, fabric=report.fabric)
    assert "about 38 s of at most 1 min · 12 cases" in text
    assert "quick · 3 candidates × 2 collectives × 11 sizes × 3 sessions · seed 4711" in text
    settings = msgspec.structs.replace(report.plan.settings, gpu_hours=0.5)
    plan = msgspec.structs.replace(report.plan, settings=settings, gpu_hours=0.0444)
    assert "0.0444 GPU-hours of at most 0.500" in tables.before(
        plan, report.hosts, report.candidates
    )


def test_an_empty_report_has_a_screen() -> None:
    screen = tables.screen(Report(run="x", verdict="inconclusive", complete=False))
    assert "verdict: inconclusive · no findings · incomplete · 0 s" in screen
