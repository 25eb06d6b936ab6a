"""Runs by path: a report, a run's folder, or a folder of such folders, each run once.

In: what the user named. Out: Reports in the order named, those of a folder by name. BadInput where
a path holds no run, so that a mistyped one is not taken for nothing found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.records import BadInput, Report
from bench.report.stored import REPORT_NAME, read_report

MOST_RUNS = 1000  # of one folder: years of nights; a mistaken "/" would be read for hours


def read_runs(paths: Sequence[Path]) -> tuple[Report, ...]:
    """All runs under `paths`. A link such as reports/latest leads to a run that counts once."""
    files = dict.fromkeys(file.resolve() for path in paths for file in _files(path))
    return tuple(read_report(file) for file in files)


def _files(path: Path) -> Iterable[Path]:
    if path.is_file() or not path.exists():
        return [path]  # what is not there is told of when it is read
    if (path / REPORT_NAME).is_file():
        return [path / REPORT_NAME]
    found = sorted(path.glob(f"*/{REPORT_NAME}"))
    if not found:
        raise BadInput(f"holds no run: no {REPORT_NAME} in it or in its folders", file=str(path))
    if len(found) > MOST_RUNS:
        raise BadInput(f"holds {len(found)} runs, more than {MOST_RUNS}", file=str(path))
    return found
