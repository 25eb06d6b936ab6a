"""Which collectives a list shows: by name, group, rank and range of sequence numbers.

In: what the user asked for, and the Table. Out: rows for a list, the newest ones where there are
too many. A selection never changes what is judged: a finding rests on all the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.hang import calls as fitting
from bench.hang.frontier import Front
from bench.hang.matching import Bools, Table
from bench.hang.mismatch import Mismatch
from bench.records import BadInput, FlightCollective
from bench.records.flight import FLIGHT_STATES

LISTED = 200  # rows of a list; the rest is counted
_RANGE = re.compile(r"(\d{1,18})?\s*(-)?\s*(\d{1,18})?")


@dataclass(frozen=True)
class Selection:
    """None or empty: all. `seq`: first and last number, both included."""

    collectives: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    seq: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.collectives or self.groups or self.ranks or self.seq)


def seq_range(text: str) -> tuple[int, int] | None:
    """ "100-200", "100-", "-200", "100"; "" for all. Raises BadInput."""
    if not text.strip():
        return None
    found = _RANGE.fullmatch(text.strip())
    if not found or not (found[1] or found[3]) or (found[1] and found[3] and not found[2]):
        raise BadInput(f"--seq is {text}; expected a range such as 100-200, 100- or 100")
    low = int(found[1] or 0)
    high = int(found[3]) if found[3] else (1 << 62) if found[2] else low
    if high < low:
        raise BadInput(f"--seq is {text}; its end is before its beginning")
    return low, high


def listed(
    table: Table,
    fronts: Sequence[Front],
    mismatches: Sequence[Mismatch],
    selection: Selection,
) -> tuple[tuple[FlightCollective, ...], int]:
    """The newest LISTED of the selected collectives, and how many there are."""
    if not len(table.seq):
        return (), 0
    new = (table.group[1:] != table.group[:-1]) | (table.seq[1:] != table.seq[:-1])
    begin = np.flatnonzero(np.append(True, new))
    end = np.append(begin[1:], len(table.seq))
    chosen = begin[_chosen(table, begin, end, selection)]
    _check(table, selection, len(chosen))
    order = np.lexsort((table.group[chosen], table.seq[chosen]))
    wrong = {(each.group.number, each.seq) for each in mismatches}
    ends = dict(zip(begin.tolist(), end.tolist(), strict=True))
    lanes = {front.group.number: front.lanes.tolist() for front in fronts}
    rows = [_row(table, int(at), ends[int(at)], lanes, wrong) for at in chosen[order][-LISTED:]]
    return tuple(rows), len(chosen)


def _chosen(table: Table, begin: np.ndarray, end: np.ndarray, selection: Selection) -> Bools:
    group, seq = table.group[begin], table.seq[begin]
    chosen: Bools = np.ones(len(begin), dtype=bool)
    if selection.seq:
        chosen &= (seq >= selection.seq[0]) & (seq <= selection.seq[1])
    if selection.groups:
        wanted = {text.lower() for text in selection.groups}
        fits = [
            bool(wanted & {each.name.lower(), each.desc.lower(), each.label.lower()})
            for each in table.groups.groups
        ]
        chosen &= np.array(fits)[group]
    if selection.collectives:
        wanted = {fitting.normal(text) for text in selection.collectives}
        fits = [any(want in fitting.normal(call.name) for want in wanted) for call in table.calls]
        of_unit = np.array(fits)[table.row_call[table.first]]
        chosen &= np.logical_or.reduceat(of_unit, begin)
    if selection.ranks:
        own = [lane.rank in selection.ranks for lane in table.lanes]
        chosen &= np.logical_or.reduceat(np.array(own)[table.lane], begin)
    return chosen


def _check(table: Table, selection: Selection, found: int) -> None:
    """BadInput for a filter that nothing can pass, with what there is."""
    if found or selection.is_empty:
        return
    groups = ", ".join(dict.fromkeys(each.label for each in table.groups.groups))
    names = ", ".join(dict.fromkeys(call.name for call in table.calls))
    raise BadInput(
        f"no collective passes the filters; the dumps have the groups {groups[:200]} and the "
        f"calls {names[:200]}"
    )


def _row(
    table: Table,
    begin: int,
    end: int,
    lanes: dict[int, list[int]],
    wrong: set[tuple[int, int]],
) -> FlightCollective:
    group, seq = int(table.group[begin]), int(table.seq[begin])
    joined = table.lane[begin:end].tolist()
    ranks = {lane: table.lanes[lane].rank for lane in lanes[group]}
    called = set(joined)
    own = table.groups.groups[group]
    return FlightCollective(
        group=own.label,
        seq=seq,
        call=table.call_of(begin),
        joined=len(joined),
        missing=tuple(
            sorted(rank for at, rank in ranks.items() if at not in called and rank is not None)
        ),
        finished=int(table.done[begin:end].sum()),
        state=FLIGHT_STATES[int(table.state[begin:end].min())],
        mismatch=(group, seq) in wrong,
    )
