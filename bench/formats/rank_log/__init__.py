"""Logs of a job's ranks, whichever launcher and version of torch wrote them, as RankLogs.

In: a Source, or all files of a job. Out: what each process said of the job's end: faults of its
own, collectives that it waited in, peers it lost, how it left; with file, line, rank and time.
"""

from __future__ import annotations

from bench.formats.rank_log.files import both, is_told, of, read_all, side_by_side
from bench.formats.rank_log.reader import read

__all__ = ["both", "is_told", "of", "read", "read_all", "side_by_side"]
