"""The screen of a reading: 80 columns, verdict last, foreign text harmless, long lists cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.records import (
    CostLine,
    Dossier,
    Evidence,
    Finding,
    ForeignFile,
    Interval,
    Reading,
    TableAnswer,
    Where,
)
from bench.report import reading_screen

GOLDEN = Path(__file__).resolve().parent / "golden"
FOLDER = "/data/tickets/4711"

HEALTHY = Reading(
    verdict="healthy",
    dossier=Dossier(
        files=(
            ForeignFile(
                file=f"{FOLDER}/all_reduce.txt",
                kind="nccl-tests",
                summary="all_reduce, 16 ranks on 2 hosts, 32 sizes",
                lines=90,
            ),
        )
    ),
    answers=(
        TableAnswer(
            file=f"{FOLDER}/all_reduce.txt",
            line=12,
            collective="all_reduce",
            ranks=16,
            hosts=2,
            peak_busbw_gbs=469.21,
            peak_size_bytes=1 << 34,
            plateau_busbw_gbs=466.1,
            average_busbw_gbs=139.56,
            expected_busbw_gbs=470.0,
            system="DGX H100",
            basis_text="NVIDIA's published figure, 2024-05",
            share=0.99,
        ),
    ),
    lines=(
        CostLine(
            candidate=f"{FOLDER}/all_reduce.txt:12 in_place",
            collective="all_reduce",
            ranks=16,
            latency_s=Interval(value=2.79e-5, low=2.7e-5, high=2.9e-5),
            bandwidth_bytes_per_s=Interval(value=2.5e11, low=2.4e11, high=2.6e11),
            busbw_gbs=Interval(value=468.9, low=460.0, high=470.0),
            held_out_error=0.031,
        ),
    ),
)

SICK = Reading(
    verdict="misconfigured",
    dossier=Dossier(
        files=(
            *(
                ForeignFile(file=f"{FOLDER}/logs/rank{n}.log", kind="nccl-log", summary="4 lines")
                for n in range(20)
            ),
            ForeignFile(
                file=f"{FOLDER}/topo.txt",
                kind="topo",
                summary="8 GPUs",
                notes=("a line longer than 64 KiB cut",),
            ),
            ForeignFile(
                file=f"{FOLDER}/a.png", kind="unknown", summary="looks like a PNG picture"
            ),
            ForeignFile(file=f"{FOLDER}/b", kind="unreadable", summary="cannot be read: EACCES"),
        )
    ),
    facts=("NCCL 2.27.3", "8 GPUs: all 28 pairs NV18 and a sentence that is longer than one line"),
    findings=(
        Finding(
            code="interface-link-local",
            severity="broken",
            summary="Data goes over veth25f2e72, which has only a link-local address.",
            where=Where(
                host="hostB", interface="veth25f2e72", file=f"{FOLDER}/logs/rank1.log", line=17
            ),
            evidence=(Evidence(basis="asked", text="Channel 00 : 0 -> 1 via NET/Socket/1"),),
            remedy="export NCCL_SOCKET_IFNAME='=eno1'",
        ),
        Finding(code="noisy", severity="info", summary="rows scatter"),
    ),
)

HOSTILE = Reading(
    dossier=Dossier(
        files=(
            ForeignFile(file="\x1b[2J\u202eevil\n", kind="nccl-tests", summary="\x07" + "x" * 300),
        )
    ),
    answers=(
        TableAnswer(
            file="\x1b[2J\u202eevil\n",
            line=1,
            collective="今日" * 30,
            plateau_busbw_gbs=float("nan"),
            peak_busbw_gbs=float("inf"),
            notes=("\x1b]0;owned\x07",),
            reasons=tuple(f"reason {n}" for n in range(9)),
        ),
    ),
    facts=tuple(f"fact {n}" for n in range(99)),
)


@pytest.mark.parametrize(
    ("name", "reading"), [("healthy", HEALTHY), ("sick", SICK), ("hostile", HOSTILE)]
)
def test_the_screen_is_as_agreed(name: str, reading: Reading) -> None:
    golden = GOLDEN / f"reading_{name}.txt"
    screen = reading_screen.screen(reading) + "\n"
    if os.environ.get("BENCH_WRITE_GOLDEN"):
        golden.write_text(screen)
    assert screen == golden.read_text()
    assert max(map(len, screen.splitlines())) <= 80
    assert screen.splitlines()[-1].startswith("verdict: ")
    assert all(letter.isprintable() or letter == "\n" for letter in screen)


def test_colour_marks_the_verdict_and_nothing_else_changes() -> None:
    coloured = reading_screen.screen(SICK, colour=True)
    assert "\x1b[31mmisconfigured\x1b[0m" in coloured
    plain = coloured
    for code in ("\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == reading_screen.screen(SICK)


def test_a_wide_table_gives_up_names_and_then_its_last_columns() -> None:
    wide = TableAnswer(
        file="a-very-long-name-of-a-file-with-a-table.txt",
        line=123_456,
        collective="reduce_scatter",
        ranks=16_384,
        hosts=2_048,
        plateau_busbw_gbs=0.00123,
        peak_busbw_gbs=0.0012345,
        peak_size_bytes=(1 << 30) + 12_345_678,
        average_busbw_gbs=0.0009876,
    )
    screen = reading_screen.screen(Reading(answers=(wide,)))
    assert max(map(len, screen.splitlines())) <= 80
    assert "reduce_scatter  16384 on 2048  0.00123 GB/s  0.0012345" in screen


def test_tables_beyond_what_fits_are_counted() -> None:
    many = tuple(
        TableAnswer(file="t", line=n, collective="all_reduce", plateau_busbw_gbs=1.0)
        for n in range(40)
    )
    screen = reading_screen.screen(Reading(answers=many))
    assert "… 28 more tables in --json" in screen


def test_proof_and_remarks_are_short_where_there_is_no_page() -> None:
    devices = "Using " + " ".join(f"[{n}]mlx5_{n}:1/RoCE" for n in range(40))
    proofs = (devices, *(f"line {n}" for n in range(1, 10)))
    found = Finding(
        code="hca-missing",
        severity="degraded",
        summary="Two of 40 devices are not used.",
        evidence=tuple(Evidence(basis="asked", text=text) for text in proofs),
    )
    remarks = [
        Finding(code="noisy", severity="info", summary=f"table {n} scatters", where=Where(line=n))
        for n in range(6)
    ]
    first = Finding(code="first-fault", severity="info", summary="The first fault is …")
    told = Reading(verdict="degraded", findings=(found, *remarks, first))
    lines = reading_screen.screen(told).splitlines()
    cut = next(line for line in lines if line.endswith(" …"))
    assert lines.index(cut) - next(n for n, line in enumerate(lines) if "Using [0]" in line) == 2
    assert "  asked      line 5" in lines and "line 6" not in "\n".join(lines)
    assert "             … 4 more lines in --json" in lines
    assert sum("scatters" in line for line in lines) == 4
    assert "        … 2 more in --json" in lines
    assert not any("The first fault is" in line for line in lines)  # the finding says it


def test_what_is_said_with_the_table_is_said_once() -> None:
    answer = TableAnswer(
        file="t.txt",
        line=1,
        collective="all_reduce",
        plateau_busbw_gbs=40.0,
        notes=("plateau: the median of 4 rows", "no GPU is named"),
        reasons=("one network card of eight carries it",),
    )
    lines = tuple(
        CostLine(
            candidate=f"t.txt:1 {half}",
            collective="all_reduce",
            ranks=64,
            notes=("not a line: points are 30 % off it, at most 10 %",),
        )
        for half in ("out_of_place", "in_place")
    )
    low = Finding(
        code="below-expected",
        severity="degraded",
        summary="Busbw is 40 GB/s.",
        evidence=(
            Evidence(basis="asked", text="40 of 400 GB/s"),
            Evidence(basis="predicted", text="likeliest: one network card of eight"),
        ),
    )
    told = Reading(verdict="degraded", answers=(answer,), lines=lines, findings=(low,))
    screen = reading_screen.screen(told)
    assert "none: points are 30 % off it" in screen and "in place" not in screen
    assert "no GPU is named" in screen and "the median of" not in screen
    assert "perhaps    1. one network card of eight carries it" in screen
    assert "likeliest" not in screen
