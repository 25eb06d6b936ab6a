"""What torchfrtrace printed, for those who kept its output and not the dumps.

In: its text, plain, with a logger's prefix, or in the debug server's dump folder. Out: a TraceNote
per collective that it complains of; nothing where it found no fault.
Source: torch/distributed/flight_recorder/components/types.py and utils.py.
"""

from __future__ import annotations

import re
from typing import Any

from bench.formats.source import Source
from bench.records import BadInput, TraceNote

KIND = "output of torchfrtrace"

MAX_NOTES = 1000
MAX_TEXT = 400

_START = re.compile(
    r"(?P<what>Not all ranks joining collective, sequence number|Collective sequence number"
    r"|Input/output mismatch in the collective sequence number): (?P<seq>\d{1,18})"
)
_UNREAD = re.compile(r"missed FR dumps from ranks \(\{(?P<ranks>[\d, ]{0,4000})\}\)")
_FIELD = re.compile(
    r"(?P<key>group info|collective|missing ranks|input sizes|expected ranks|error msg): "
    r"(?P<value>.{0,8000})"
)
_CULPRIT = re.compile(r"Culprit rank (?P<rank>\d{1,7}); (?P<why>.{0,300}?)(?=, Culprit rank |\Z)")
_TABLE = ("group_id", "pass_check", "collective_seq_id", "missing_ranks")
_ROW = re.compile(
    r"\s{0,8}\d{1,9}\s+(?P<group>\S{1,200})\s.{0,400}?(?P<seq>\d{1,18})\s+"
    r"(?P<name>\w{1,20}:\w{1,60})\s.{0,4000}?\{(?P<missing>[\d, ]{1,4000})\}"
)


def likeness(head: str, name: str) -> float:
    """1 with one of its sentences, or the header of its table of collectives."""
    if _START.search(head) or _UNREAD.search(head):
        return 0.9
    return 0.9 if any(all(word in line for word in _TABLE) for line in head.split("\n")) else 0.0


def read(source: Source) -> tuple[TraceNote, ...]:
    """The complaints, in order. BadInput where the text holds neither one nor a table."""
    notes: list[dict[str, Any]] = []
    tabled = False
    for number, text in source.lines():
        if len(notes) >= MAX_NOTES:
            break
        if found := _START.search(text):
            notes.append({"line": number, "seq": int(found["seq"])})
        elif found := _UNREAD.search(text):
            notes.append({"line": number, "unread": _ranks(found["ranks"])})
        elif all(word in text for word in _TABLE):
            tabled = True
        elif tabled and text.startswith("---"):
            tabled = False
        elif tabled and (found := _ROW.match(text)):
            notes.append(
                {
                    "line": number,
                    "seq": int(found["seq"]),
                    "group": found["group"],
                    "collective": found["name"],
                    "missing": _ranks(found["missing"]),
                }
            )
        elif notes and (found := _FIELD.search(text)):
            _fill(notes[-1], found["key"], found["value"].strip())
    told = tuple(TraceNote(file=source.file, **note) for note in notes)
    if not told:
        raise BadInput("holds no complaint of torchfrtrace", file=source.file)
    return told


def _fill(note: dict[str, Any], key: str, value: str) -> None:
    if key == "group info":
        note["group"] = value.split(":")[0][:MAX_TEXT]
    elif key == "collective":
        note["collective"] = value[:MAX_TEXT]
    elif key == "input sizes":
        note["input_sizes"] = value[:MAX_TEXT]
    elif key == "missing ranks":
        note["missing"] = _ranks(value)
    elif key == "expected ranks":
        note["expected"] = _ranks(value)
    else:
        culprits = list(_CULPRIT.finditer(value))
        note["culprits"] = tuple(sorted({int(found["rank"]) for found in culprits}))
        note["errors"] = tuple(dict.fromkeys(found["why"] for found in culprits))


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(number) for number in re.findall(r"\d{1,7}", text)}))
