"""What makes a table no measurement of a network: one rank, wrong data, a crash, no rows.

In: a table. Out: wrong-result, measurement-failed, not-determinable, and notes. One rank moves
nothing: its busbw is 0 by definition and no fault (unless more were meant: launches).
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign import start_causes
from bench.judge.foreign.amounts import size
from bench.model.table_series import times_of
from bench.records import CollectiveTable, Evidence, Finding, Where

# nccl-tests before 2.13 printed the largest relative error, and allowed 1e-5 for float, 1e-2 for
# half. Its own sum, "Out of bounds values", is believed where the file holds it.
WRONG_ERROR = 0.1
SHOWN = 4
MEAN = "rows: the printed average"  # the parser's words for what the level's note says better
NO_HEADER = "header and rows"  # the parser's words as well


def moves(table: CollectiveTable) -> bool:
    """Whether bytes went between ranks."""
    if table.ranks == 1:
        return False
    return any(time.busbw_gbs > 0 for _, _, time in times_of(table))


def judge(table: CollectiveTable, docket: Docket) -> tuple[str, ...]:
    """Findings on one table; notes on what is no fault."""
    notes = [*_alone(table), *_unchecked(table)]
    _wrong(table, docket)
    _failed(table, docket)
    _followed(table, docket)
    if not table.complete and table.failure is None:
        sizes = [row.size_bytes for row in table.rows]
        end = f"after {size(sizes[-1])}" if sizes else "before the first row"
        notes.append(f"cut off {end}: the closing lines are not in the file")
    if table.average_ok is False:
        notes.append("the average is below NCCL_TESTS_MIN_BW, so the program failed (exit 7)")
    if table.bitwise_mismatches:
        notes.append(f"{table.bitwise_mismatches} results were not bit for bit repeatable")
    lacking = [text for text in table.missing if not text.startswith(MEAN)]
    if lacking:
        notes.append(f"missing in the file: {'; '.join(lacking)}")
    return tuple(notes)


def _alone(table: CollectiveTable) -> list[str]:
    if table.ranks != 1 or table.runs > 1:
        return []
    text = (
        "one rank: busbw is 0 by definition (its factor, such as 2(n-1)/n, is 0 for n = 1), no "
        "fault; algbw is a copy on the GPU. Run it with two ranks or more to see a network"
    )
    return [text]


def _unchecked(table: CollectiveTable) -> list[str]:
    halves = [time for _, _, time in times_of(table)]
    if not halves or any(t.wrong is not None or t.error is not None for t in halves):
        return []
    return ["data was not checked (N/A): neither right nor wrong"]


def _wrong(table: CollectiveTable, docket: Docket) -> None:
    wrong = [
        (bytes_, half, time)
        for bytes_, half, time in times_of(table)
        if (time.wrong or 0) > 0
        or time.beyond
        or (table.out_of_bounds != 0 and (time.error or 0.0) >= WRONG_ERROR)
    ]
    outside = table.out_of_bounds or 0
    if not wrong and outside <= 0:
        return
    total = sum(time.wrong or 0 for _, _, time in wrong)
    number = f"{total:,} wrong elements" if total else f"{max(len(wrong), outside)} wrong results"
    rows = sorted({bytes_ for bytes_, _, _ in wrong})
    where = f" in rows of {len(rows)} sizes, from {size(rows[0])} on" if rows else ""
    lines = {row.size_bytes: row.line for row in reversed(table.rows)}
    docket.add(
        Finding(
            code="wrong-result",
            severity="broken",
            summary=f"{table.collective or 'the collective'} returned {number}{where}.",
            where=Where(
                file=table.file,
                line=lines[rows[0]] if rows and lines[rows[0]] else table.line,
                collective=table.collective,
                size_bytes=rows[0] if len(rows) == 1 else None,
                from_bytes=rows[0] if len(rows) > 1 else None,
                to_bytes=rows[-1] if len(rows) > 1 else None,
            ),
            evidence=(
                *(
                    Evidence(
                        basis="measured",
                        text=f"{size(bytes_)} {half}: "
                        + (
                            f"{time.wrong} wrong"
                            if time.wrong
                            else f"error {time.error:g}"
                            if time.error is not None
                            else "marked as beyond the threshold"
                        ),
                    )
                    for bytes_, half, time in wrong[:SHOWN]
                ),
                *(
                    (Evidence(basis="measured", text=f"Out of bounds values: {outside}, FAILED"),)
                    if outside > 0
                    else ()
                ),
            ),
        )
    )


def _failed(table: CollectiveTable, docket: Docket) -> None:
    if table.failure is None:
        return
    rows = len(table.rows)
    after = f"after {rows} row{'s' if rows != 1 else ''}" if rows else "before its first row"
    cause = start_causes.of_test(table.failure)
    # NCCL's own lines in the same file say what failed; this is what came of it.
    known = any(
        finding.where.file == table.file and finding.severity in ("degraded", "broken")
        for finding in docket.findings
    )
    means = f" {start_causes.sentence(cause)}" if cause.means else ""
    docket.add(
        Finding(
            code="measurement-failed",
            severity="info" if known else "broken",
            summary=f"{table.program or 'the test'} ended {after} with an error of its own: "
            f"{table.failure[:200].rstrip(' .')}.{means}",
            where=Where(
                host=table.failure_host,
                file=table.file,
                line=table.failure_line or table.last_line,
                collective=table.collective,
            ),
            evidence=(
                Evidence(
                    basis="asked",
                    text=f"{table.file}:{table.failure_line or table.last_line}: "
                    f"{table.failure[:200]}",
                ),
            ),
            remedy=cause.check,
        )
    )


def _followed(table: CollectiveTable, docket: Docket) -> None:
    """A program that was started and printed no row: this table's own, or one behind it."""
    begun = table.devices and not (table.rows or table.complete or table.failure)
    # The header comes behind NCCL's start: without it the text simply ends, as excerpts do.
    if begun and table.runs == 1 and NO_HEADER not in table.missing:
        _silent(table, docket)
    if table.following is None:
        return
    command = table.following_command or table.following
    docket.add(
        Finding(
            code="not-determinable",
            severity="warning",
            kind="hang",
            summary=f"{table.following} was started after this table and printed no rows: it hung "
            "or was stopped before its first result. The file does not say which.",
            where=Where(file=table.file, line=table.following_line or table.last_line),
            evidence=(Evidence(basis="measured", text=f"the file ends behind: {command[:160]}"),),
            remedy=f"NCCL_DEBUG=INFO {command[:120]}",
            confidence="inferred",
        )
    )


def _silent(table: CollectiveTable, docket: Docket) -> None:
    program = f"./{table.program or 'all_reduce_perf'}"
    docket.add(
        Finding(
            code="not-determinable",
            severity="info",
            kind="hang",
            summary=f"{table.program or 'the test'} listed its devices and printed no row: it "
            "hung before its first result, was stopped, or the file ends there.",
            where=Where(file=table.file, line=table.last_line, hosts=table.hosts[:SHOWN]),
            evidence=(
                Evidence(basis="measured", text=f"{len(table.devices)} devices, no row, no end"),
            ),
            remedy=f"NCCL_DEBUG=INFO {(table.command or program)[:120]}",
            confidence="inferred",
        )
    )
