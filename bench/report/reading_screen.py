"""The terminal view of a reading: what each file is, what it shows, what is wrong with it.

In: a Reading. Out: text of at most `width` columns, the verdict last. Findings look as on the
sweep's screen. File names lose the folder that all of them share, which the first line names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import msgspec
from tabulate import tabulate

from bench.records import CostLine, Finding, ForeignFile, Reading, TableAnswer
from bench.report import digest, units
from bench.report.findings import LABEL, blocks_of, coloured_verdict
from bench.report.text import abbreviated, cell, printable, wrapped

UNREAD = ("unknown", "unreadable")
FILES_SHOWN = 8  # of one kind; a job has a log per rank
TABLES_SHOWN = 12
NAME_COLUMNS, COLLECTIVE_COLUMNS = 28, 14
NARROWEST_NAME = 12  # columns a name keeps when the table must shrink
FACTS_SHOWN = 24
REASONS_SHOWN = 4
LIKELIEST = "likeliest: "
# Notes on a table that say how a figure was taken, or again what its line says: in --json.
UNTOLD = ("plateau: ", "small messages take about ", "the curve is not a line: ")
NO_LINE = "not a line: "


def screen(reading: Reading, *, width: int = 80, colour: bool = False) -> str:
    """The whole view, one block per subject that the files have something of."""
    names = _Names([each.file for each in reading.dossier.files])
    reasons = any(answer.reasons for answer in _told(reading.answers))
    findings = [_renamed(finding, names, reasons) for finding in reading.findings]
    blocks = [
        _files(reading.dossier.files, names, width),
        _tables(reading, names, width),
        *(_answer(answer, reading.lines, names, width) for answer in _told(reading.answers)),
        _facts(reading.facts, width),
        *blocks_of(
            findings,
            width=width,
            colour=colour,
            all_in="--json",
            proof_in="--json",
            paged=False,
        ),
        coloured_verdict(reading.verdict, _verdict_words(reading), width, colour),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _renamed(finding: Finding, names: _Names, reasons: bool) -> Finding:
    """The finding with file names as this screen has them, wherever it tells one; without the
    likeliest reason where all `reasons` are told with the table."""
    where = finding.where
    if where.file is not None:
        where = msgspec.structs.replace(where, file=names.of(where.file))
    return msgspec.structs.replace(
        finding,
        where=where,
        summary=names.within(finding.summary),
        evidence=tuple(
            msgspec.structs.replace(proof, text=names.within(proof.text))
            for proof in finding.evidence
            if not (reasons and proof.text.startswith(LIKELIEST))
        ),
    )


class _Names:
    """File names without the folder that all share; `folder` is that folder, "" for none."""

    def __init__(self, files: Sequence[str]) -> None:
        folders = {os.path.dirname(file) for file in files}  # noqa: PTH120 - "-" is no path
        alike = bool(files) and all(folders)
        shared = os.path.commonpath(folders) if alike and _are_alike(folders) else ""
        self.folder = "" if shared == "/" else shared

    def of(self, file: str) -> str:
        return os.path.relpath(file, self.folder) if self.folder else file

    def within(self, text: str) -> str:
        return text.replace(f"{self.folder}/", "") if self.folder else text


def _are_alike(folders: set[str]) -> bool:
    return len({folder.startswith("/") for folder in folders}) == 1


def _files(files: Sequence[ForeignFile], names: _Names, width: int) -> list[str]:
    """A line per file and kind; many of one kind in one line."""
    read = [each for each in files if each.kind not in UNREAD]
    number = units.count(len({each.file for each in files}), "file")
    folder = f" in {names.folder}" if names.folder else ""
    lines = wrapped(f"{number}{folder}", label="read", hang=LABEL, width=width)
    for kind in dict.fromkeys(each.kind for each in read):
        own = [each for each in read if each.kind == kind]
        if len(own) > FILES_SHOWN:
            listed = abbreviated([names.of(each.file) for each in own])
            lines += _entry(f"{units.count(len(own), 'file')} of {kind}: {listed}", width)
            own = [each for each in own if each.notes]
        for each in own[:FILES_SHOWN]:
            notes = "".join(f"; {note}" for note in each.notes)
            lines += _entry(f"{names.of(each.file)} · {kind} · {each.summary}{notes}", width)
    unread = [each for each in files if each.kind in UNREAD]
    for each in unread[:FILES_SHOWN]:
        lines += _entry(f"{names.of(each.file)} · not read: {each.summary}", width)
    if len(unread) > FILES_SHOWN:
        lines += _entry(f"… {len(unread) - FILES_SHOWN:,} more not read", width)
    return lines


def _entry(text: str, width: int) -> list[str]:
    return wrapped(text, label="  ", hang=4, width=width)


def _told(answers: Sequence[TableAnswer]) -> Sequence[TableAnswer]:
    return answers[:TABLES_SHOWN]


HEAD = ("table", "collective", "ranks", "plateau", "peak", "at", "average")


def _tables(reading: Reading, names: _Names, width: int) -> list[str]:
    rows = [_row(answer, names) for answer in _told(reading.answers)]
    if not rows:
        return []
    columns = [list(column) for column in zip(HEAD, *rows, strict=True)]
    columns = [column for column in columns if set(column[1:]) != {units.UNKNOWN}]
    while (excess := _columns_wide(columns) - width) > 0 and len(columns) > 3:
        room = max(map(len, columns[0])) - excess
        if room < NARROWEST_NAME:
            columns.pop()  # the average goes first: it says the least
        else:
            columns[0] = [cell(name, room) for name in columns[0]]
    align = ["left"] * 2 + ["right"] * (len(columns) - 2)
    table = list(zip(*columns, strict=True))
    text = tabulate(table, tablefmt="plain", disable_numparse=True, colalign=align)
    lines = ["  " + line.rstrip() for line in text.splitlines()]
    hidden = len(reading.answers) - len(rows)
    return lines + ([f"  … {hidden:,} more tables in --json"] if hidden > 0 else [])


def _columns_wide(columns: list[list[str]]) -> int:
    return sum(2 + max(map(len, column)) for column in columns)


def _row(answer: TableAnswer, names: _Names) -> tuple[str, ...]:
    ranks = units.UNKNOWN if answer.ranks is None else f"{answer.ranks}"
    if answer.ranks is not None and answer.hosts:
        ranks += f" on {answer.hosts}"
    return (
        cell(f"{names.of(answer.file)}:{answer.line}", NAME_COLUMNS),
        cell(answer.collective or units.UNKNOWN, COLLECTIVE_COLUMNS),
        ranks,
        units.busbw(answer.plateau_busbw_gbs),
        _printed(answer.peak_busbw_gbs),
        units.UNKNOWN if answer.peak_size_bytes is None else units.size(answer.peak_size_bytes),
        _printed(answer.average_busbw_gbs),
    )


def _printed(value: float | None) -> str:
    """A figure that the file itself prints keeps its digits: people look for it there."""
    return units.UNKNOWN if value is None or not math.isfinite(value) else f"{value:g}"


def _answer(
    answer: TableAnswer, lines: Sequence[CostLine], names: _Names, width: int
) -> list[str]:
    """The fitted line, the expectation and the share reached, why it may be low."""
    label = f"{names.of(answer.file)}:{answer.line}"
    told: list[str] = []
    for text in _halves(answer, lines):
        told += _proof("" if told else "line", text, width)
    notes = [note for note in answer.notes if not note.startswith(UNTOLD)]
    if answer.expected_busbw_gbs is not None:
        said = [note for note in notes if (answer.basis_text or "-") in note][:1]
        told += _proof("expected", said[0] if said else _expected(answer), width)
        notes = [note for note in notes if note not in said]
    for at, note in enumerate(notes):
        told += _proof("" if at else "notes", note, width)
    for number, reason in enumerate(answer.reasons[:REASONS_SHOWN], 1):
        told += _proof("perhaps" if number == 1 else "", f"{number}. {reason}", width)
    return wrapped(label, hang=2, width=width) + told if told else []


def _halves(answer: TableAnswer, lines: Sequence[CostLine]) -> list[str]:
    """The line of each half of the rows; once where both have none for the same reason."""
    own = {
        line.candidate.rpartition(" ")[2].replace("_", " "): _line(line)
        for line in lines
        if line.candidate.startswith(f"{answer.file}:{answer.line} ")
    }
    if len(own) > 1 and all(text.startswith(NO_LINE) for text in own.values()):
        return [f"none: {next(iter(own.values())).removeprefix(NO_LINE)}"]
    return [f"{half}: {text}" for half, text in own.items()]


def _expected(answer: TableAnswer) -> str:
    share = units.percent(answer.plateau_busbw_gbs, answer.expected_busbw_gbs)
    system = answer.basis_text or answer.system
    words = f"{units.busbw(answer.expected_busbw_gbs)}, {share} of it reached"
    return f"{words}: {system}" if system else words


def _line(line: CostLine) -> str:
    """ "27.9 µs + size / 469 GB/s (busbw), foretold within 3 %", or why there is none."""
    if line.latency_s is None or line.busbw_gbs is None:
        # One that is no line needs no further reason, and only the first half of its sentence.
        worst = [note.partition(",")[0] for note in line.notes if note.startswith(NO_LINE)]
        return worst[0] if worst else "; ".join(line.notes) or "no line"
    error = ""
    if line.held_out_error is not None:
        error = f", a size left out is foretold {line.held_out_error * 100:.0f} % off (median)"
    latency, bandwidth = units.time(line.latency_s.value), units.busbw(line.busbw_gbs.value)
    pieces = f" in {len(line.pieces)} pieces" if len(line.pieces) > 1 else ""
    return f"latency {latency}, last piece {bandwidth} busbw{pieces}{error}"


def _proof(label: str, text: str, width: int) -> list[str]:
    return wrapped(text, label=f"  {label}".ljust(13), hang=13, width=width)


def _facts(facts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for sentence in facts[:FACTS_SHOWN]:
        lines += wrapped(sentence, label="" if lines else "shows", hang=LABEL, width=width)
    if len(facts) > FACTS_SHOWN:
        lines.append(" " * LABEL + f"… {len(facts) - FACTS_SHOWN:,} more in --json")
    return lines


def _verdict_words(reading: Reading) -> list[str]:
    number = sum(not digest.is_note(finding) for finding in reading.findings)
    if number:
        return [reading.verdict, units.count(number, "finding")]
    one = len({each.file for each in reading.dossier.files}) == 1
    closing = {
        "healthy": f"nothing wrong in what {'it shows' if one else 'they show'}",
        "inconclusive": f"nothing in {'it' if one else 'them'} decides",
    }.get(reading.verdict, "no findings")
    return [reading.verdict, printable(closing)]
