"""The page: one self-contained file with verdict, findings, curves, tables and environment.

In: a Report. Out: HTML that loads nothing, escapes everything and works offline, in light and
dark, on paper and at 400 px. Curves are drawn by plotly.js, which travels inside the page,
compressed (4.8 MB would otherwise be copied into every run's folder); without JavaScript the
tables have the same numbers. A page without curves carries no plotly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bench.records import Candidate, CostLine, Finding, Point, Report
from bench.report import copied, digest, figures, surroundings, template, units
from bench.report.pairs import heat_map as pair_map
from bench.report.pairs import located
from bench.report.text import printable

HOSTS_SHOWN = 8  # whose interfaces are listed; the others are in report.json
INTERFACES_SHOWN = 6  # per candidate in the bars of carried bytes; the rest is one segment
SESSIONS_SHOWN = 40  # that went wrong
PAIRS_SHOWN = 40
COPIES_SHOWN = 64  # GPUs: eight hosts of eight
SUSPECTS_SHOWN = 40
ALIKE_SHOWN = 3  # findings of one code in full; a thousand hosts make a thousand of them
LISTED = 200  # of those folded away, and of notes
LINES_SHOWN = 60  # tables of points: more make a page that no one scrolls
LEAST_SHARE = 0.001  # of a candidate's bytes: less is ARP and neighbours, one segment for all
SHADES = 6  # that the style sheet has for interfaces; one more, grey, is for all others
OTHERS = "/"  # no interface can be called that


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
    copies = copied.rows(report)
    ranks, ranks_more = surroundings.ranks(report.hosts)
    return template.named("page.html").render(
        report=report,
        digest=digest,
        units=units,
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
        plotly=template.packed_plotly() if drawings else "",
        located=located,
        location=report.location,
        whole_map=pair_map.whole(drawings.get("pairs-0")),
        suspects=located.rows(report.location)[:SUSPECTS_SHOWN] if report.location else [],
        carried=_carried(report.candidates),
        gpu_paths=any(c.kind == "gpu-path" for c in report.candidates),
        copies=copies[:COPIES_SHOWN],
        copies_more=_more(copies, COPIES_SHOWN, "GPU"),
        lines=report.lines[:LINES_SHOWN],
        lines_more=_more(report.lines, LINES_SHOWN, "line"),
        pairs=[pair for pair in report.preflight if pair.outcome != "ok"][:PAIRS_SHOWN],
        troubled=[s for s in report.sessions if s.outcome != "measured"][:SESSIONS_SHOWN],
        hardware=surroundings.hardware(report.hosts),
        ranks=ranks,
        ranks_more=ranks_more,
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


def log(text: str) -> Markup:
    """A stack or a log tail: its lines and their indent stay."""
    lines = text.strip("\n").splitlines()
    return Markup("\n").join(
        " " * (len(line) - len(line.lstrip())) + printable(line) for line in lines
    )


def _more(things: Sequence[object], shown: int, noun: str) -> str:
    more = len(things) - shown
    return f"{units.count(more, f'more {noun}')} in report.json." if more > 0 else ""


def _drawings(report: Report, collectives: Sequence[str]) -> dict[str, Any]:
    """Figures by the id of the element that they are drawn into."""
    drawn: dict[str, Any] = {}
    for at, collective in enumerate(collectives):
        figure = figures.busbw(report, collective)
        if figure["data"]:
            drawn[f"busbw-{at}"] = figure
            drawn[f"time-{at}"] = figures.times(report, collective)
    if report.location is not None:
        maps = pair_map.figure(report.location), pair_map.suspects_rows(report.location)
        drawn |= {f"pairs-{at}": one for at, one in enumerate(maps) if one is not None}
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
