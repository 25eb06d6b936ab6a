"""Programs that did not start: what was missing or too old, one finding a file.

In: a dossier. Out: first-fault, of the first failure of a file, others as evidence. What a table
or NCCL's own log of the same file tells of it is not told again.
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.judge.docket import Docket
from bench.judge.foreign import start_causes
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, StartFailure, Where

SHOWN = 3
OF_TESTS = ("cuda-failure", "nccl-failure")


def judge(dossier: Dossier, docket: Docket) -> None:
    """Heard last: a log or a table knows more of the same failure."""
    by_file: dict[str, list[StartFailure]] = {}
    for failure in dossier.starts:
        by_file.setdefault(failure.file, []).append(failure)
    for file, failures in by_file.items():
        told = _told(file, dossier, docket)
        left = [one for one in failures if not (told and one.kind in OF_TESTS)]
        if left:
            docket.add(_finding(left))


def _told(file: str, dossier: Dossier, docket: Docket) -> bool:
    if any(table.file == file and table.failure for table in dossier.tables):
        return True
    return any(
        finding.where.file == file and finding.severity in ("degraded", "broken")
        for finding in docket.findings
    )


def _finding(failures: list[StartFailure]) -> Finding:
    first = failures[0]
    if first.kind == "gloo-connect":  # some of its lines name no address
        first = next((one for one in failures if one.kind == first.kind and one.subject), first)
        failures = [first, *(one for one in failures if one is not first)]
    cause = start_causes.of(first)
    text = first.text.lstrip("*# ").rstrip(" .")
    driver = f" (driver {first.driver})" if first.driver else ""
    means = f" {start_causes.sentence(cause, driver)}" if cause.means else ""
    hosts = first.hosts
    return Finding(
        code="interface-loopback" if cause.kind == "loopback" else "first-fault",
        kind=None if cause.kind == "loopback" else cause.kind,
        severity="broken",
        summary=f"It did not {'build' if cause.kind == 'build' else 'start'}: {text}.{means}",
        where=Where(
            host=hosts[0] if len(hosts) == 1 else None,
            hosts=hosts if len(hosts) > 1 else (),
            file=first.file,
            line=first.line,
        ),
        evidence=(
            Evidence(
                basis="asked", text=f"{first.file}:{first.line}: {first.text}{_times(first)}"
            ),
            *_later(failures[1:]),
        ),
        remedy=cause.check,
        confidence="asked",
    )


def _times(failure: StartFailure) -> str:
    on = f" on {listed(failure.hosts)}" if len(failure.hosts) > 1 else ""
    return f" ({failure.count} times{on})" if failure.count > 1 else ""


def _later(failures: Iterable[StartFailure]) -> list[Evidence]:
    return [
        Evidence(basis="asked", text=f"later: {one.file}:{one.line}: {one.text}{_times(one)}")
        for one in list(failures)[:SHOWN]
    ]
