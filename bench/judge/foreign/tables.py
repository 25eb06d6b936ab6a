"""The judge of nccl-tests tables: each one's answer, and what is wrong with it.

In: a dossier. Out: one TableAnswer a table, findings on the docket. First what makes a table no
measurement (one rank, independent programs, wrong data, a crash), then its shape (curves), then
its level (normal). One rank has a bus bandwidth of 0 by definition, N/A is not an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from bench.judge.docket import Docket
from bench.judge.foreign import curves, integrity, launches, normal
from bench.judge.foreign.amounts import duration, size, span
from bench.judge.foreign.surroundings import Run, run_of
from bench.model import table_line
from bench.model.table_level import Level, level
from bench.model.table_series import times_of
from bench.records import (
    CollectiveTable,
    CostLine,
    Dossier,
    Fabric,
    TableAnswer,
)

# A mean this far below the plateau is what a reader would take for the system's speed.
MISLEADS = 0.8
SMALL = 8 * 1024  # a table that starts above shows no small messages
# Of so many tables lines are tried by leaving sizes out (0.4 s for 30 sizes), and of so many they
# are fitted at all (0.04 s): a folder of a year's nightly runs is judged by its curves' shapes.
MOST_TRIED, MOST_FITTED = 24, 300


def lines(dossier: Dossier) -> tuple[CostLine, ...]:
    """The cost lines of tables that carry one, in order; of the first 300 tables."""
    return tuple(
        line
        for at, table in enumerate(dossier.tables[:MOST_FITTED])
        for line in table_line.lines(table, tried=at < MOST_TRIED)
    )


def judge(
    dossier: Dossier,
    docket: Docket,
    fabric: Fabric | None,
    fitted: Sequence[CostLine] | None = None,
) -> tuple[TableAnswer, ...]:
    """Answers in the order of the dossier's tables. `fitted`: the result of `lines`, else it is
    taken anew."""
    by_table: dict[str, list[CostLine]] = {}
    for line in lines(dossier) if fitted is None else fitted:
        by_table.setdefault(line.candidate.rpartition(" ")[0], []).append(line)
    launches.judge(dossier, docket)
    pairs = _pairs(dossier)
    answers = []
    for at, table in enumerate(dossier.tables):
        own = by_table.get(f"{table.file}:{table.line}", [])
        answer = _answer(table, dossier, docket, fabric, own)
        if at in pairs:
            answer = msgspec.structs.replace(answer, notes=(*answer.notes, pairs[at]))
        answers.append(answer)
    return tuple(answers)


def _answer(
    table: CollectiveTable,
    dossier: Dossier,
    docket: Docket,
    fabric: Fabric | None,
    own_lines: Sequence[CostLine],
) -> TableAnswer:
    run = run_of(table, dossier)
    notes = list(integrity.judge(table, docket))
    reached = level(table) if integrity.moves(table) else None
    answer = normal.Answer(None, None, ())
    if reached is not None:
        shape = curves.judge(table, docket)
        answer = normal.judge(table, reached, run, docket, fabric)
        notes = [*answer.notes, *_level_notes(table, reached), *shape, *notes]
        notes += _line_notes(own_lines)
    chosen = answer.expectation
    average = table.average_busbw_gbs
    if average is None and reached is not None:
        average = reached.mean
    return TableAnswer(
        file=table.file,
        line=table.line,
        collective=table.collective,
        ranks=table.ranks,
        hosts=run.hosts,
        peak_busbw_gbs=reached.peak if reached else None,
        peak_size_bytes=reached.peak_bytes if reached else None,
        plateau_busbw_gbs=reached.plateau if reached else None,
        average_busbw_gbs=average,
        expected_busbw_gbs=chosen.busbw_gbs if chosen else None,
        system=chosen.system if chosen else None,
        basis_text=chosen.basis_text if chosen else None,
        share=answer.share,
        notes=tuple(dict.fromkeys(notes)),
        reasons=answer.reasons,
    )


def _level_notes(table: CollectiveTable, reached: Level) -> list[str]:
    notes = []
    rows = f"{reached.sizes} largest sizes" if reached.sizes > 1 else "only size"
    spread = span(reached.low, reached.high, decimals=2)
    words = f"plateau: the median of the better half over the {rows}, {spread} GB/s"
    if not reached.reached:
        words = (
            f"no plateau: busbw still rises at {size(reached.to_bytes)}; the figure is the median "
            f"over the {rows}, {spread} GB/s"
        )
    notes.append(words)
    sizes = sorted({one for one, _, _ in times_of(table)})
    if reached.mean_fits is False and table.average_busbw_gbs is not None:
        notes.append(
            f"the printed average {table.average_busbw_gbs:g} GB/s is not that of the rows here, "
            f"{reached.mean:.2f}: rows are missing from the file, which is no fault of the run"
        )
    average = table.average_busbw_gbs if table.average_busbw_gbs is not None else reached.mean
    if average < MISLEADS * reached.plateau and len(sizes) > 1:
        notes.append(
            f"the average {average:.6g} GB/s misleads: it mixes all rows from {size(sizes[0])} to "
            f"{size(sizes[-1])}"
        )
    return notes


def _line_notes(own_lines: Sequence[CostLine]) -> list[str]:
    """Latency of the half that knows it better, and whether the curve is a line at all."""
    notes = []
    latencies = [line.latency_s for line in own_lines if line.latency_s and line.pieces]
    small = [line for line in own_lines if line.pieces and line.pieces[0].from_bytes <= SMALL]
    if latencies and small:
        least = min(latencies, key=lambda one: one.value)
        notes.append(f"small messages take about {duration(least.value)} (fitted latency)")
    errors = [line.held_out_error for line in own_lines if line.held_out_error is not None]
    if errors and min(errors) > table_line.LINE_ERROR:
        notes.append(
            f"the curve is not a line: sizes left out are foretold {min(errors):.0%} off (median)"
        )
    return notes


def _pairs(dossier: Dossier) -> dict[int, str]:
    """By a table's place: that it is no "after" of the one before it in the same file."""
    told = {}
    for at, (first, second) in enumerate(itertools.pairwise(dossier.tables), start=1):
        if first.file != second.file or first.collective != second.collective:
            continue
        one, other = run_of(first, dossier), run_of(second, dossier)
        if _differ(one, other):
            told[at] = (
                f"no before and after with the table at line {first.line}: {one.words} there, "
                f"{other.words} here; they measure different jobs"
            )
    return told


def _differ(one: Run, other: Run) -> bool:
    known = one.ranks is not None and other.ranks is not None
    return known and (one.ranks, one.hosts) != (other.ranks, other.hosts)
