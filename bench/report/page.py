"""The page: one self-contained file with verdict, findings, curves, tables and environment.

In: a Report. Out: HTML that loads nothing, escapes everything and works offline, in light and
dark, on paper and at 400 px. Curves are drawn by plotly.js, which travels inside the page,
compressed (4.8 MB would otherwise be copied into every run's folder); without JavaScript the
tables have the same numbers. A page without curves carries no plotly.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from bench.records import Candidate, CostLine, Finding, Point, Report
from bench.report import digest, figures, paste, surroundings, units
from bench.report.text import abbreviated, printable

HOSTS_SHOWN = 8  # whose interfaces are listed; the others are in report.json
INTERFACES_SHOWN = 6  # per candidate in the bars of carried bytes; the rest is one segment
SESSIONS_SHOWN = 40  # that went wrong
PAIRS_SHOWN = 40
ALIKE_SHOWN = 3  # findings of one code in full; a thousand hosts make a thousand of them
LISTED = 200  # of those folded away, and of notes
LINES_SHOWN = 60  # tables of points: more make a page that no one scrolls
# A line never breaks between a number and its unit.
NUMBER_AND_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|[mµ]?s|[KMGT]i?B(?:/s)?|[MG]bit/s)(?![\w]))")
LEAST_SHARE = 0.001  # of a candidate's bytes: less is ARP and neighbours, one segment for all
SHADES = 6  # that the style sheet has for interfaces; one more, grey, is for all others
OTHERS = "/"  # no interface can be called that
COMPRESSION = 9


@dataclass(frozen=True)
class Share:
    """One interface's part of what a candidate's sessions carried, over all hosts."""

    interface: str
    amount: str
    percent: str
    width: float
    shade: int


@dataclass(frozen=True)
class Carried:
    """Who carried a candidate's bytes."""

    candidate: str
    shares: tuple[Share, ...]


def render(report: Report) -> str:
    """The whole page. About 2 MB with curves, a few ten kB without."""
    collectives = digest.collectives(report)
    drawings = _drawings(report, collectives)
    findings, alike = _folded(report.findings)
    notes = [f for f in report.findings if digest.is_note(f)]
    return _template().render(
        report=report,
        digest=digest,
        paste=paste,
        units=units,
        abbreviated=abbreviated,
        shell=shell,
        log=log,
        pieces=pieces,
        remarks=remarks,
        findings=findings,
        alike_findings=alike,
        listed=LISTED,
        notes=notes[:LISTED],
        notes_more=_more(notes, LISTED, "note"),
        facts=_facts(report),
        collectives=collectives
        or ((digest.main_collective(report),) if report.candidates else ()),
        figures=drawings,
        plotly=packed_plotly() if drawings else "",
        carried=_carried(report.candidates),
        lines=report.lines[:LINES_SHOWN],
        lines_more=_more(report.lines, LINES_SHOWN, "line"),
        pairs=[pair for pair in report.preflight if pair.outcome != "ok"][:PAIRS_SHOWN],
        troubled=[s for s in report.sessions if s.outcome != "measured"][:SESSIONS_SHOWN],
        software=surroundings.software(report.hosts),
        settings=surroundings.settings(report.hosts),
        choices=surroundings.choices(report.hosts),
        unreadable=surroundings.unreadable(report.hosts),
        hosts=report.hosts[:HOSTS_SHOWN],
        hosts_more=max(len(report.hosts) - HOSTS_SHOWN, 0),
    )


def _folded(findings: Sequence[Finding]) -> tuple[list[Finding], dict[str, list[Finding]]]:
    """Findings to show in full, and by code those beyond the first few of their kind."""
    shown: list[Finding] = []
    folded: dict[str, list[Finding]] = {}
    seen: Counter[str] = Counter()
    for finding in digest.in_order(findings):
        if digest.is_note(finding):
            continue
        seen[finding.code] += 1
        if seen[finding.code] <= ALIKE_SHOWN:
            shown.append(finding)
        else:
            folded.setdefault(finding.code, []).append(finding)
    return shown, folded


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bench", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters.update(size=units.size, busbw=units.busbw, time=units.time)
    return environment.get_template("page.html")


def _shown(value: Any) -> Any:
    """Foreign strings with their hidden characters visible; Markup (our own) passes as it is."""
    return NUMBER_AND_UNIT.sub("\u00a0", printable(value)) if type(value) is str else value


def shell(remedy: str) -> Markup:
    """A remedy to copy: its lines stay lines."""
    return Markup("\n").join(printable(line) for line in remedy.strip().splitlines())


def log(text: str) -> Markup:
    """A stack or a log tail: its lines and their indent stay."""
    lines = text.strip("\n").splitlines()
    return Markup("\n").join(
        " " * (len(line) - len(line.lstrip())) + printable(line) for line in lines
    )


def _more(things: Sequence[object], shown: int, noun: str) -> str:
    more = len(things) - shown
    return f"{units.count(more, f'more {noun}')} in report.json." if more > 0 else ""


@cache
def packed_plotly() -> str:
    """plotly.js, gzip in base64: what a browser's DecompressionStream unpacks."""
    packed = gzip.compress(get_plotlyjs().encode(), COMPRESSION, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _drawings(report: Report, collectives: Sequence[str]) -> dict[str, Any]:
    """Figures by the id of the element that they are drawn into."""
    drawn: dict[str, Any] = {}
    for at, collective in enumerate(collectives):
        figure = figures.busbw(report, collective)
        if figure["data"]:
            drawn[f"busbw-{at}"] = figure
            drawn[f"time-{at}"] = figures.times(report, collective)
    return drawn


def _facts(report: Report) -> list[str]:
    lines = [digest.fabric_words(report.hosts, report.plan, report.fabric, report.backend)]
    if report.plan:
        lines.append(digest.plan_words(report.plan, report.candidates))
    return [" · ".join(words) for words in lines]


def _carried(candidates: Sequence[Candidate]) -> list[Carried]:
    """Shares of every candidate; an interface has the same shade in all of them, the one that
    its candidate has in the curves."""
    bars: list[Carried] = []
    shades: dict[str, int] = {}
    for at, candidate in enumerate(candidates):
        for name in candidate.interfaces.values() if candidate.carried else ():
            shades.setdefault(name, at % SHADES)
    for candidate in candidates:
        amounts: Counter[str] = Counter()
        for interfaces in candidate.carried.values():
            amounts.update(interfaces)
        total = sum(amounts.values())
        shown = [
            (name, amount)
            for name, amount in amounts.most_common(INTERFACES_SHOWN)
            if amount >= LEAST_SHARE * total
        ]
        rest = len(amounts) - len(shown)
        if rest == 1:
            shown = amounts.most_common()
        elif rest:
            shown.append((OTHERS, total - sum(amount for _, amount in shown)))
        shares = [
            Share(
                interface=name if name is not OTHERS else f"{rest} others",
                amount=units.size(amount),
                percent=units.percent(amount, total),
                width=round(100 * amount / total, 2) if total else 0.0,
                shade=SHADES if name is OTHERS else shades.setdefault(name, len(shades) % SHADES),
            )
            for name, amount in shown
        ]
        if shares:
            bars.append(Carried(candidate.name, tuple(shares)))
    return bars


def pieces(line: CostLine) -> str:
    """The pieces of a line in words: from where to where, with which latency and bandwidth."""
    return "; ".join(
        f"{units.size(p.from_bytes)} to {units.size(p.to_bytes)}: {units.time(p.latency_s)} "
        f"+ size / {units.busbw(p.bandwidth_bytes_per_s / 1e9)}"
        for p in line.pieces
    )


def remarks(point: Point) -> str:
    """What a reader must know before trusting a point."""
    words = [
        "held out" if point.group == "held-out" else "",
        "noisy" if point.noisy else "",
        "" if point.settled else "unsettled",
        f"{point.wrong:,} wrong values" if point.wrong else "",
    ]
    return ", ".join(word for word in words if word)
