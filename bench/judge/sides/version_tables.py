"""Tables of many versions, one or more a version, as the list of figures that a step is sought in.

In: a Dossier of tables whose versions stand in their headers, in logs beside them in the same
file, or in the files' names. Out: a PlainFigure for each version and collective: the mean over
that version's tables of their average busbw. Where two things vary at once a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.judge.sides import foreign_topics
from bench.judge.words import listed
from bench.records import CollectiveTable, Dossier, PlainFigure

VERSIONED = ("NCCL", "driver", "CUDA", "torch")  # the first that varies is what the list is over
FEWEST = 3  # versions: two are BEFORE and AFTER


def figures(dossier: Dossier, named: str) -> tuple[tuple[PlainFigure, ...], tuple[str, ...]]:
    """Figures, and sentences on what else varies; nothing where no version does."""
    rows = [(table, _versions(table, dossier)) for table in dossier.tables]
    kept = [(table, told) for table, told in rows if _average(table) is not None]
    varying = [
        name for name in VERSIONED if len({told[name] for _, told in kept if name in told}) > 1
    ]
    if not varying:
        return (), ()
    name = varying[0]
    groups: dict[tuple[str, str, int | None], list[CollectiveTable]] = {}
    for table, told in kept:
        if name in told:
            key = (table.collective or "", told[name], table.ranks)
            groups.setdefault(key, []).append(table)
    if len({version for _, version, _ in groups}) < FEWEST:
        return (), ()
    found = tuple(
        PlainFigure(
            file=named,
            line=tables[0].line,
            busbw_gbs=round(_mean(tables), 4),
            labels={
                "driver_version" if name == "driver" else "version": version,
                "collective": collective,
                "ranks": str(ranks),
            },
            ranks=ranks,
        )
        for (collective, version, ranks), tables in groups.items()
    )
    notes: tuple[str, ...] = (f"versions are those of {name}, figures the tables' average busbw",)
    if len(varying) > 1:
        notes += (f"{listed(varying[1:])} vary as well, and may be what did it",)
    return found, notes


def _versions(table: CollectiveTable, dossier: Dossier) -> dict[str, str]:
    """What is known of one table's versions, from its own file."""
    own = Dossier(
        files=tuple(file for file in dossier.files if file.file == table.file),
        tables=(table,),
        logs=tuple(log for log in dossier.logs if log.file == table.file),
    )
    topics = {topic.name: topic for topic in foreign_topics.of_dossier(own)}
    values = {name: topics[name].values.get("", ()) for name in VERSIONED if name in topics}
    return {name: own[0] for name, own in values.items() if len(own) == 1}


def _average(table: CollectiveTable) -> float | None:
    return table.average_busbw_gbs or table.mean_busbw_gbs or None


def _mean(tables: Sequence[CollectiveTable]) -> float:
    return float(np.exp(np.mean([np.log(_average(table) or 1.0) for table in tables])))
