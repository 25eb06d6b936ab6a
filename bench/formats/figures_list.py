"""Bandwidths that people list by hand: "hostD,hostF 49.36 # crossing TOR", "v2.11.4-1: 7.05", a
CSV whose header names a bandwidth, or a table of hosts against hosts.

In: a small file of such lines. Out: one PlainFigure a line, in 1e9 bytes/s where a unit is told
(nccl-tests' GB/s where none is). Whether a label is a pair of hosts, a version or a size is told
by all lines together, not by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.formats import figure_label, figures_csv, figures_matrix
from bench.formats.bandwidth_unit import factor_to_gbs, unit_in
from bench.formats.source import Source
from bench.records import BadInput, PlainFigure

KIND = "list of figures"

MAX_FIGURES = 100_000
# Of a list that people write by hand nearly every line is a figure; of a log hardly any is.
LIST_SHARE = 0.8
FEWEST = 2

_NUMBER = re.compile(
    r"(?P<number>\d{1,7}(?:\.\d{1,9})?)(?P<unit>[KMGT]i?[Bb](?:/s|ps|yte/s|it/s)?)?\Z"
)
_UNIT = re.compile(r"[\[(]?[KMGT]i?[Bb](?:/s|ps|yte/s|yte|it/s|its/s|it)?[\])]?\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what stands before the number, the number, its unit, what stands behind."""

    line: int
    label: str
    number: float
    unit: str | None
    note: str | None


def likeness(head: str, name: str) -> float:
    """By the share of lines that are a label and a number, or by a CSV's header."""
    lines = head.split("\n")
    if figures_csv.header_of(lines) is not None or figures_matrix.columns_of(lines) is not None:
        return 0.9
    told = [line for line in head.split("\n") if line.strip() and not _is_comment(line)]
    if len(told) < FEWEST or len(told) > 5000:
        return 0.0
    entries = sum(1 for line in told if _entry(0, line) is not None)
    return 0.6 if entries >= FEWEST and entries >= LIST_SHARE * len(told) else 0.0


def read(source: Source) -> tuple[PlainFigure, ...]:
    """Figures in order of the file; BadInput where lines are neither a list nor such a CSV."""
    numbered = [(number, line) for number, line in _first_lines(source) if line.strip()]
    csv = figures_csv.read(source.file, numbered) or figures_matrix.read(source.file, numbered)
    if csv:
        return csv
    told = [(number, line) for number, line in numbered if not _is_comment(line)]
    entries = [entry for number, line in told if (entry := _entry(number, line)) is not None]
    if len(entries) < FEWEST or len(entries) < LIST_SHARE * len(told):
        raise BadInput("is no list of labels with a bandwidth each", file=source.file)
    default = next((unit for _, line in numbered if (unit := unit_in(line))), None)
    labels = figure_label.read([entry.label for entry in entries])
    return tuple(
        PlainFigure(
            file=source.file,
            line=entry.line,
            busbw_gbs=entry.number * factor_to_gbs(entry.unit or default),
            hosts=label.hosts,
            labels=label.labels,
            size_bytes=label.size_bytes,
            note=entry.note,
        )
        for entry, label in zip(entries, labels, strict=True)
    )


def _first_lines(source: Source) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    for number, line in source.lines():
        if len(lines) >= MAX_FIGURES:
            raise BadInput(f"holds more than {MAX_FIGURES:,} lines", file=source.file)
        lines.append((number, line))
    return lines


def _is_comment(line: str) -> bool:
    """A heading or a rule: "# pairs", "---|---"."""
    stripped = line.strip()
    return stripped.startswith(("#", "//")) or not stripped.strip("-=+| ")


def _entry(number: int, line: str) -> Entry | None:
    text, note = _noted(line.replace('"', ""))
    front, comma, last = text.rpartition(",")
    if comma and last.strip()[:1].isdigit():  # "hostA,hostB,49.36"
        text = f"{front} {last}"
    words = text.replace("|", " ").split()
    if len(words) < 2:
        return None
    unit = None
    if _UNIT.match(words[-1]):
        unit = words.pop().strip("[]()")
    match = _NUMBER.match(words[-1]) if words else None
    if match is None:
        return None
    label = " ".join(words[:-1]).rstrip(":= ").strip()
    if not label or len(label) > 200 or "=" in label:
        return None
    return Entry(number, label, float(match["number"]), match["unit"] or unit, note)


def _noted(line: str) -> tuple[str, str | None]:
    """The line and what is remarked behind it: "# crossing TOR", "(crossing TOR)"."""
    text, sign, note = line.partition("#")
    if not sign:
        text, sign, note = line.rstrip().removesuffix(")").rpartition("(")
        if not sign or not text.strip() or unit_in(note):
            return line, None
    return text, note.strip() or None
