"""Foreign files as one side of a comparison: tables, logs, ports, whatever `read` takes.

In: the Dossier of one file or folder. Out: a Part, that is the session that it shows, if any, and
what it tells of the surroundings; and what all foreign files of a side say is wrong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.formats import file_walk
from bench.judge.sides import faults, foreign_topics
from bench.model import side_curves
from bench.records import CollectiveTable, Dossier, Finding, Side, SideSession, Topic

OF_FIGURES = ("tables", "figures")  # kinds of records that the comparison itself judges
# What a Side calls kinds of records that others look for by name; the rest by their field's.
KINDS = {"tables": "table", "logs": "log", "starts": "start"}
Part = tuple[tuple[SideSession, ...], tuple[Topic, ...], tuple[str, ...]]


def part(path: Path, dossier: Dossier) -> Part:
    """Everything of one file, or of a folder: one session."""
    told = [
        KINDS.get(f, f) for f in Dossier.__struct_fields__ if f != "files" and getattr(dossier, f)
    ]
    session = _tables(path, dossier)
    found = foreign_topics.of_dossier(dossier)
    return (session,) if session is not None else (), found, tuple(told)


def _tables(path: Path, dossier: Dossier) -> SideSession | None:
    tables = dossier.tables
    curves = tuple(curve for table in tables for curve in side_curves.of_table(table, ""))
    averages = [t.average_busbw_gbs for t in tables if t.average_busbw_gbs and not t.rows]
    failures = [t.failure for t in tables if t.failure]
    if not curves and not averages and not failures:
        return None
    counts = {len(table.hosts) for table in tables if table.hosts}
    return SideSession(
        name=file_walk.shown(str(path)),
        run=file_walk.shown(str(path)),
        curves=curves,
        hosts=tuple(sorted({host for table in tables for host in table.hosts})),
        host_count=counts.pop() if len(counts) == 1 else None,
        ranks=next((t.ranks for t in tables if t.ranks), None),
        backend="nccl",
        timing="mean",
        wrong=_wrong(tables),
        failure=failures[0] if failures else None,
        average_busbw_gbs=averages[0] if averages and not curves else None,
    )


def _wrong(tables: Sequence[CollectiveTable]) -> int:
    return sum(
        half.wrong or 0
        for table in tables
        for row in table.rows
        for half in (row.out_of_place, row.in_place)
        if half is not None
    )


def two_tables(named: str, dossier: Dossier) -> tuple[Side, Side] | None:
    """One file in which both sides stand, as people post them: two tables of one collective, the
    first of which is BEFORE. None where it holds anything else."""
    tables = [table for table in dossier.tables if table.rows]
    alike = len({table.collective for table in tables}) == 1
    if len(tables) != 2 or not alike or any(table.runs > 1 for table in tables):
        return None
    first, second = (
        _one(f"{file_walk.shown(named)}:{table.line}", part(Path(named), Dossier(tables=(table,))))
        for table in tables
    )
    return first, second


def _one(named: str, told: Part) -> Side:
    sessions, topics, kinds = told
    return Side(path=named, sessions=sessions, topics=topics, told=kinds)


def wrong_by_themselves(dossiers: Sequence[Dossier]) -> tuple[Finding, ...]:
    """What all foreign files of a side say together: ports of two hosts may lie in two files."""
    fields = Dossier.__struct_fields__
    whole = Dossier(**{f: tuple(r for one in dossiers for r in getattr(one, f)) for f in fields})
    if not any(getattr(whole, f) for f in fields if f not in ("files", *OF_FIGURES)):
        return ()
    from bench.judge.foreign import verdict  # as heavy as all else here, and reports need none

    return faults.own(verdict.judge(whole).findings)
