"""From a draft to a record: rows read, ranks counted, collective named, what is missing told.

In: a Draft and the command that started it. Out: a CollectiveTable. Nothing is judged here: a
`missing` sentence says what the file lacks or what in it does not agree with itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from bench.formats.nccl_tests import columns, rows
from bench.formats.nccl_tests.cells import is_count
from bench.formats.nccl_tests.columns import Layout
from bench.formats.nccl_tests.commands import Command
from bench.formats.nccl_tests.drafts import Draft
from bench.formats.nccl_tests.lines import NcclVersion
from bench.formats.nccl_tests.naming import Naming
from bench.formats.nccl_tests.ranks import listed, settled
from bench.records import CollectiveTable, TableRow

_Check = Literal["wrong", "error"] | None

# busbw is printed with two decimals, the average with six digits.
_PRINTED_STEP = 0.005
_NARROWEST_CHECK = 5
_LEAST_GAP = 0.02  # of the average: smaller ones come from rows that were measured again


def table(
    draft: Draft,
    file: str,
    command: Command | None,
    version: NcclVersion | None,
    open_end: int | None,
) -> CollectiveTable:
    """The table of a draft; `version` is what NCCL printed of itself near it.

    `open_end`: the file's last line, where it has no line end.
    """
    layout = draft.layout or columns.of_rows([text for _, text in draft.rows[:2000]])
    read, texts, unread = _read(draft, layout, open_end)
    if unread:  # the last row ends where the file does: "flo" of float
        draft.last_line = max(draft.last_line, draft.rows[-1][0])
    program = draft.program or (command.program if command else None)
    devices = tuple(device for _, device in draft.devices)
    counted, members, gap = listed(devices, draft.overlaid)
    named = Naming(program, file, read, texts, layout)
    collective, basis = named.collective(counted)
    fit = named.fit(collective=collective)
    missing = []
    if layout and not layout.told:
        missing.append("the header line: columns were told from the rows")
    if gap:
        missing.append(gap)
    elif not devices:
        missing.append("the list of devices")
    if draft.settings == {}:
        missing.append("the settings line (# nThread …)")
    ranks, ranks_basis, told = settled(devices, draft.overlaid, counted, fit.ranks)
    missing += told
    missing += _rows_missing(draft, read, unread, layout)
    averages = [closing.value for closing in draft.averages if math.isfinite(closing.value)]
    mean = mean_busbw(read)
    missing += _average_missing(draft, averages, mean)
    return CollectiveTable(
        file=file,
        line=draft.line,
        last_line=draft.last_line,
        flavour="rccl" if draft.rccl or (version and version.rccl) else "nccl",
        check=_check(layout),
        program=program,
        command=command.text if command else None,
        collective=collective,
        collective_basis=basis,
        ranks=ranks,
        ranks_basis=ranks_basis,
        runs=draft.runs,
        hosts=tuple(dict.fromkeys(device.host for device in members if device.host)),
        devices=devices,
        nccl_version=draft.library_version or (version.version if version else None),
        tests_version=draft.tests_version,
        cuda_version=version.cuda if version else None,
        settings=_settings(draft, layout),
        rows=tuple(read),
        average_busbw_gbs=averages[0] if averages else None,
        average_ok=draft.averages[0].verdict if draft.averages else None,
        other_averages_gbs=tuple(averages[1:]),
        mean_busbw_gbs=mean,
        out_of_bounds=sum(draft.out_of_bounds) if draft.out_of_bounds else None,
        bitwise_mismatches=draft.bitwise,
        complete=len(draft.averages) >= draft.overlaid,
        failure=draft.failures[0][1] if draft.failures else None,
        failure_line=draft.failures[0][0] if draft.failures else None,
        failure_host=draft.failures[0][2] if draft.failures else None,
        missing=tuple(missing),
    )


def mean_busbw(read: Sequence[TableRow]) -> float | None:
    """The mean over both halves of all rows, which the tests print as the average."""
    halves = [half.busbw_gbs for row in read for half in (row.out_of_place, row.in_place) if half]
    return math.fsum(halves) / len(halves) if halves else None


def _read(
    draft: Draft, layout: Layout | None, open_end: int | None
) -> tuple[list[TableRow], list[str], list[int]]:
    """Rows, their texts, and the lines that were none after all."""
    read: list[TableRow] = []
    texts: list[str] = []
    unread: list[int] = []
    if layout is None:
        return read, texts, [line for line, _ in draft.rows]
    for line, text in draft.rows:
        row = rows.parse(text, line, layout)
        if row is None:
            unread.append(line)
            continue
        read.append(row)
        texts.append(text)
    if read and read[-1].line == open_end and not _looks_whole(texts):
        read[-1] = rows.distrusted(read[-1], texts[-1], layout)
    return read, texts, unread


def _looks_whole(texts: Sequence[str]) -> bool:
    """Whether the last row, without a line end, ends where those above it do, and with a number
    that does not fill its column (of five at least)."""
    last = texts[-1].rstrip()
    lengths = {len(text.rstrip()) for text in texts[-12:-1]}
    return lengths == {len(last)} and len(last.rpartition(" ")[2]) < _NARROWEST_CHECK


def _rows_missing(
    draft: Draft, read: Sequence[TableRow], unread: Sequence[int], layout: Layout | None
) -> list[str]:
    missing = []
    if not read:
        missing.append("all rows" if draft.headers or draft.averages else "header and rows")
    if unread:
        lines = ", ".join(map(str, unread[:4])) + (" …" if len(unread) > 4 else "")
        missing.append(f"what stands on line {lines}: not a whole row of these columns")
    if draft.dropped:
        missing.append(f"{draft.dropped} rows beyond the first {len(read)}")
    cut = [row for row in read if row.cut]
    if cut:
        missing.append(f"the rest of the row of {cut[-1].size_bytes} B on line {cut[-1].line}")
    if not draft.averages:
        missing.append("the closing lines: the table ends before its average")
        if read and (wanted := _next_size(draft.settings, read)):
            missing.append(f"rows from {wanted} B on: the settings say more were to come")
    return missing


def _next_size(settings: dict[str, str], read: Sequence[TableRow]) -> int | None:
    """The size that should have come next, where the settings tell a step and an end."""
    step, unit = settings.get("step", "").partition("(")[::2]
    most = settings.get("maxBytes reduced to", settings.get("maxBytes", ""))
    if not (is_count(step) and is_count(most)):
        return None
    last = max(row.size_bytes for row in read)
    following = last * int(step) if unit.startswith("factor") else last + int(step)
    return following if last < following <= int(most) else None


def _average_missing(draft: Draft, averages: Sequence[float], mean: float | None) -> list[str]:
    if draft.averages and not averages:
        return ["a number for the average: no row was measured"]
    if draft.overlaid > 1 or not averages or mean is None:
        return []
    gap = abs(averages[0] - mean)
    if gap <= _PRINTED_STEP + _LEAST_GAP * abs(averages[0]):
        return []
    return [f"rows: the printed average of {averages[0]:g} is not that of these rows, {mean:.4g}"]


def _settings(draft: Draft, layout: Layout | None) -> dict[str, str]:
    return {**draft.settings, "time": "cputime"} if layout and layout.cputime else draft.settings


def _check(layout: Layout | None) -> _Check:
    check = layout.check if layout else None
    return "wrong" if check == "wrong" else "error" if check == "error" else None
