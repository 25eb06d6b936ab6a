"""junit.xml: a run as a CI server shows it, a case per line and a case per finding.

In: a Report, and what a nightly job adds. Out: JUnit XML. A line fails where a finding that is
degraded or broken is of its candidate (and collective), is skipped where it was not measured, and
carries its figures as output either way. JUnit knows no warnings: those pass and say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from bench.judge.history.words import SIZES, signed
from bench.records import Candidate, CostLine, Finding, Nightly, NightlySeries, Report
from bench.report import digest, units
from bench.report.text import printable

SERIOUS = ("degraded", "broken")
TEXT_LIMIT = 4000  # characters of one case: CI servers cut longer ones, or choke


def render(report: Report, nightly: Nightly | None = None) -> str:
    """The whole file."""
    findings = (*report.findings, *(nightly.findings if nightly else ()))
    suites: Any = JUnitXml("fabric-bench")  # its methods have no types
    suites.add_testsuite(_suite("lines", report, _lines(report, findings)))
    if nightly is not None and nightly.series:
        suites.add_testsuite(_suite("nights", report, _series(nightly)))
    suites.add_testsuite(_suite("findings", report, map(_finding_case, findings)))
    suites.update_statistics()
    text: bytes = suites.tostring()
    return text.decode() + "\n"


def _suite(name: str, report: Report, cases: Iterator[TestCase]) -> Any:
    suite: Any = TestSuite(f"fabric-bench.{name}")
    about = {
        "run": report.run,
        "verdict": report.verdict,
        "backend": report.backend,
        "hosts": str(len(report.hosts)),
        "plan": report.plan.settings.name if report.plan else "",
        **{f"label {key}": value for key, value in report.labels.items()},
    }
    for key, value in about.items():
        suite.add_property(printable(key), printable(value))
    suite.add_testcases(list(cases))  # behind the properties, as the schema has it
    return suite


def _lines(report: Report, findings: Sequence[Finding]) -> Iterator[TestCase]:
    collectives = digest.collectives(report) or (digest.main_collective(report),)
    for candidate in report.candidates:
        for collective in collectives:
            line = digest.line_of(report, candidate.name, collective)
            yield _line_case(candidate, collective, line, findings)


def _line_case(
    candidate: Candidate, collective: str, line: CostLine | None, findings: Sequence[Finding]
) -> TestCase:
    case = TestCase(printable(collective), classname=f"lines.{printable(candidate.name)}")
    own = [f for f in findings if f.severity in SERIOUS and _is_of(f, candidate, collective)]
    if own:
        case.result = [_failure(*own)]
    elif line is None or not line.points:
        why = candidate.reason or candidate.outcome
        case.result = [Skipped(printable(why))]
    if line is not None and line.points:
        case.time = max((point.time_s for point in line.points), default=0.0)
        case.system_out = (
            f"busbw {units.busbw_interval(line.busbw_gbs)}\n"
            f"latency {units.time(line.latency_s.value if line.latency_s else None)}\n"
            f"sizes {len(line.points)}"
        )
    return case


def _is_of(finding: Finding, candidate: Candidate, collective: str) -> bool:
    where = finding.where
    return where.candidate == candidate.name and where.collective in (None, collective)


def _series(nightly: Nightly) -> Iterator[TestCase]:
    """A case per series: what a trend of a CI server then shows night by night."""
    for one in nightly.series:
        case = TestCase(
            printable(f"{one.collective}, {SIZES[one.part]}"),
            classname=f"nights.{printable(one.candidate)}",
        )
        if one.last is None or one.state == "unjudged":
            case.result = [Skipped(printable(one.note or "not measured"))]
        else:
            if one.state == "regressed":
                case.result = [Failure(_series_words(one), "regressed")]
            case.system_out = _series_words(one)
        yield case


def _series_words(one: NightlySeries) -> str:
    since = f", {one.state} since {one.since}" if one.since else ""
    note = f"; {one.note}" if one.note else ""
    return printable(f"{signed(one.last)} against the baseline{since}{note}")


def _finding_case(finding: Finding) -> TestCase:
    where = finding.where
    place = where.host or where.candidate or where.interface or where.collective or ""
    name = digest.title(finding) + (f" ({place})" if place else "")
    case = TestCase(printable(name), classname=f"findings.{finding.code}")
    if finding.severity in SERIOUS:
        case.result = [_failure(finding)]
    else:
        case.system_out = _cut(f"{finding.severity}: {printable(finding.summary)}")
    return case


def _failure(*findings: Finding) -> Failure:
    """One failure: some servers count each, and a case fails once."""
    summaries = " ".join(printable(finding.summary) for finding in findings)
    failure = Failure(_cut(summaries), digest.title(findings[0]))
    proof = []
    for finding in findings:
        proof += [f"{one.basis}: {printable(one.text)}" for one in finding.evidence]
        if finding.remedy:
            proof.append(f"fix: {printable(finding.remedy)}")
    failure.text = _cut("\n".join(proof))
    return failure


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
