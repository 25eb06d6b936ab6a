"""The terminal: what a sweep will do, and the one screen that says what it found.

In: a Report (or a Plan before the start). Out: text of at most `width` columns, verdict last.
Layout and wording follow the sketches the project was drawn from; colour marks severity and is
never the only mark. Every foreign string is made harmless on its way here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.records import Candidate, Fabric, HostFacts, Plan, Report
from bench.report import columns, digest, units
from bench.report.findings import LABEL, blocks_of, coloured_verdict, labelled
from bench.report.pairs import located
from bench.report.progress import Progress
from bench.report.text import encodable, printable, wrapped

__all__ = ["Progress", "before", "encodable", "screen"]

MISSING_SHOWN = 6


def before(
    plan: Plan,
    hosts: Sequence[HostFacts],
    candidates: Sequence[Candidate],
    *,
    fabric: Fabric | None = None,
    width: int = 80,
) -> str:
    """What will be done and what it may cost, printed before the start."""
    lines = [
        *labelled("fabric", digest.fabric_words(hosts, plan, fabric, plan.backend), width),
        *labelled("plan", digest.plan_words(plan, candidates), width),
    ]
    most = units.duration(plan.settings.budget_s)
    cost = [
        f"about {units.duration(plan.estimate_s)} of at most {most}",
        units.count(len(plan.cases), "case"),
    ]
    if plan.gpu_hours is not None:
        limit = plan.settings.gpu_hours
        cost.append(
            f"{units.significant(plan.gpu_hours)} GPU-hours"
            + (f" of at most {units.significant(limit)}" if limit is not None else "")
        )
    return "\n".join([*lines, *labelled("budget", cost, width)])


def screen(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    folder: Path | None = None,
    header: bool = True,
) -> str:
    """The whole result. `folder` is the run's folder as the user would type it; `header=False`
    leaves out the lines that `before` has already printed, but for the blank one after them."""
    blocks: list[list[str]] = [] if header else [[]]
    if header:
        head = digest.fabric_words(report.hosts, report.plan, report.fabric, report.backend)
        blocks.append(labelled("fabric", head, width))
        if report.plan:
            words = digest.plan_words(report.plan, report.candidates)
            blocks[0] += labelled("plan", words, width)
    if report.candidates:
        blocks.append(columns.candidates(report, width))
    if report.location is not None:
        blocks.append(located.block(report.location, width))
    blocks += blocks_of(report.findings, width=width, colour=colour)
    if report.missing:
        blocks.append(_missing(report.missing, width))
    verdict = coloured_verdict(report.verdict, digest.verdict_words(report), width, colour)
    blocks.append(verdict + (_paths(report, folder, width) if folder else []))
    return "\n\n".join("\n".join(block) for block in blocks).removeprefix("\n")


def _missing(sentences: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for sentence in sentences[:MISSING_SHOWN]:
        lines += wrapped(sentence, label="" if lines else "missing", hang=LABEL + 1, width=width)
    if len(sentences) > MISSING_SHOWN:
        lines.append(
            " " * (LABEL + 1) + f"… {len(sentences) - MISSING_SHOWN:,} more in report.json"
        )
    return lines


def _paths(report: Report, folder: Path, width: int) -> list[str]:
    page = f"report   {printable(str(folder / 'report.html'))}"
    advice = report.recommendation
    if not advice.environment and not advice.per_host:
        return wrapped(page, hang=0, width=width)
    settings = "settings  …/nccl.env"
    if len(page) + 3 + len(settings) <= width:
        return [f"{page}   {settings}"]
    return [*wrapped(page, hang=0, width=width), settings]
