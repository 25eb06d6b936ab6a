"""A Timeline packed for a page: tables as JSON, cells as columns of numbers, gzip in base64.

In: a Timeline. Out: text that holds nothing but letters, digits, + / =. Layout, as the page's
script reads it: four bytes with the length of the JSON, the JSON filled up to a multiple of eight,
then the columns that the JSON lists with their types, each filled up likewise. Foreign names are
shown with their hidden characters visible; the script puts them on the page as text only.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.hang.timeline import Timeline
from bench.report.text import printable

LEVEL = 6  # of gzip; ranks that do the same lie within its window
ALIGNED = 8
TIMED_CELLS = 100_000  # times do not compress: beyond, a page would be made of them
LABEL, TEXT = 64, 200  # characters of a label and of other foreign words
MICROSECOND_NS = 1000
LARGEST = {"u1": 0xFF, "u2": 0xFFFF, "u4": 0xFFFFFFFF}


def packed(timeline: Timeline) -> str:
    """The page's data. About 1 MB for 1,024 ranks of 2,000 entries."""
    timed = len(timeline.seq) <= TIMED_CELLS
    first_ns = int(timeline.created_ns.min()) if timed and len(timeline.seq) else 0
    low_seq, low_record = _least(timeline.seq), _least(timeline.record)
    columns = {
        "counts": _as("u4", timeline.counts),
        "seq": _as("u4", timeline.seq - low_seq),
        "record": _as("u4", timeline.record - low_record),
        "group": _as("u4", timeline.group),
        "call": _as("u2", timeline.call),
        "stack": _as("u2", timeline.stack + 1),
        "state": _as("u1", timeline.state),
    }
    if timed:
        columns["time"] = ((timeline.created_ns - first_ns) / MICROSECOND_NS).astype("<f8")
    head = _head(timeline) | {
        "columns": [[name, column.dtype.str[1:], len(column)] for name, column in columns.items()],
        "least": {"seq": low_seq, "record": low_record},
        "first_ms": first_ns / 1e6 if timed else None,
    }
    text = msgspec.json.encode(head)
    parts = [len(text).to_bytes(4, "little") + text, *(c.tobytes() for c in columns.values())]
    data = b"".join(part + bytes(-len(part) % ALIGNED) for part in parts)
    return base64.b64encode(gzip.compress(data, LEVEL, mtime=0)).decode("ascii")


def _head(timeline: Timeline) -> dict[str, Any]:
    return {
        "rows": [[_cut(row.label, LABEL), row.has_dump, row.named] for row in timeline.rows],
        "groups": [
            [_cut(group.label, LABEL), group.tells, _runs(group.rows)] for group in timeline.groups
        ],
        "calls": [[_cut(name, LABEL), _cut(message, TEXT)] for name, message in timeline.calls],
        "stacks": [[_cut(frame, TEXT) for frame in stack] for stack in timeline.stacks],
        "marks": [
            {
                "group": mark.group,
                "seq": mark.seq,
                "rows": _runs(mark.rows),
                "words": _cut(mark.words, TEXT),
                "absent": mark.absent,
            }
            for mark in timeline.marks
        ],
        "left_out": timeline.left_out,
    }


def _runs(rows: tuple[int, ...]) -> list[list[int]]:
    """First and last of neighbours: a thousand ranks are one pair."""
    runs: list[list[int]] = []
    for row in sorted(rows):
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    return runs


def _least(column: NDArray[np.int64]) -> int:
    return int(column.min()) if len(column) else 0


def _as(kind: str, column: NDArray[np.int64]) -> NDArray[Any]:
    """Numbers beyond the kind are its largest: a forged dump's, not a job's."""
    return np.clip(column, 0, LARGEST[kind]).astype(f"<{kind}")


def _cut(text: str, length: int) -> str:
    shown = printable(text[: 2 * length])
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"
