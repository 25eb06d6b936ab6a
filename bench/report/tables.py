"""The terminal: what a sweep will do, and the one screen that says what it found.

In: a Report (or a Plan before the start). Out: text of at most `width` columns, verdict last.
Layout and wording follow the sketches the project was drawn from; colour marks severity and is
never the only mark. Every foreign string is made harmless on its way here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len

from bench.records import Candidate, Fabric, Finding, HostFacts, Plan, Report
from bench.report import columns, digest, paste, units
from bench.report.progress import Progress
from bench.report.text import abbreviated, encodable, printable, wrapped

__all__ = ["Progress", "before", "encodable", "screen"]

LABEL = 8  # columns of the labels at the left edge: "fabric  "
BASIS = 13  # two blanks, the longest basis ("predicted"), two blanks
EVIDENCE_SHOWN = 8  # lines of proof per finding; the page has all of them
ALIKE_SHOWN = 3  # findings of one code; a thousand hosts make a thousand of them
MISSING_SHOWN = 6
RED, YELLOW, GREEN, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
COLOURS = {"broken": RED, "degraded": RED, "warning": YELLOW, "info": ""}
VERDICTS = {"healthy": GREEN, "inconclusive": YELLOW}


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
        *_labelled("fabric", digest.fabric_words(hosts, plan, fabric, plan.backend), width),
        *_labelled("plan", digest.plan_words(plan, candidates), width),
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
    return "\n".join([*lines, *_labelled("budget", cost, width)])


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
        blocks.append(_labelled("fabric", head, width))
        if report.plan:
            words = digest.plan_words(report.plan, report.candidates)
            blocks[0] += _labelled("plan", words, width)
    if report.candidates:
        blocks.append(columns.candidates(report, width))
    blocks += _findings(report, width, colour)
    if report.missing:
        blocks.append(_missing(report.missing, width))
    verdict = _labelled("verdict:", digest.verdict_words(report), width, hang=len("verdict: "))
    if colour:
        shade = VERDICTS.get(report.verdict, RED)
        verdict[0] = verdict[0].replace(report.verdict, f"{shade}{report.verdict}{PLAIN}", 1)
    blocks.append(verdict + (_paths(report, folder, width) if folder else []))
    return "\n\n".join("\n".join(block) for block in blocks).removeprefix("\n")


def _labelled(label: str, words: Sequence[str], width: int, hang: int = LABEL) -> list[str]:
    """Words joined by ` · `, a new line only between two of them where that is possible."""
    lines: list[str] = []
    line = ""
    for word in words:
        longer = f"{line} · {word}" if line else word
        if line and cell_len(longer) > width - hang:
            lines += wrapped(line, label="" if lines else label, hang=hang, width=width)
            longer = word
        line = longer
    return lines + wrapped(line, label="" if lines else label, hang=hang, width=width)


def _findings(report: Report, width: int, colour: bool) -> list[list[str]]:
    blocks, notes, seen = [], [], Counter[str]()
    for finding in digest.in_order(report.findings):
        if digest.is_note(finding):
            notes.append(finding)
            continue
        seen[finding.code] += 1
        if seen[finding.code] <= ALIKE_SHOWN:
            blocks.append(_finding(finding, width, colour))
    rest = [
        f"{number - ALIKE_SHOWN:,} more of {printable(code)}"
        for code, number in seen.items()
        if number > ALIKE_SHOWN
    ]
    if rest:
        blocks.append(wrapped(f"… {', '.join(rest)}: all in report.json", hang=2, width=width))
    if notes:
        blocks.append(wrapped(_notes(notes), label="notes", hang=LABEL, width=width))
    return blocks


def _finding(finding: Finding, width: int, colour: bool) -> list[str]:
    head = f"{digest.mark(finding)} {printable(digest.title(finding))}"
    word = digest.severity_word(finding)
    gap = max(width - len(head) - len(word), 2)
    if colour and (shade := COLOURS[finding.severity]):
        head = f"{shade}{head}{PLAIN}"
    lines = [head + " " * gap + word, *wrapped(finding.summary, hang=2, width=width)]
    hosts = finding.where.hosts
    if hosts and not all(host in finding.summary for host in hosts):
        lines += _proof("hosts", abbreviated(hosts), width)
    for evidence in finding.evidence[:EVIDENCE_SHOWN]:
        lines += _proof(evidence.basis, evidence.text, width)
    if len(finding.evidence) > EVIDENCE_SHOWN:
        more = units.count(len(finding.evidence) - EVIDENCE_SHOWN, "more line")
        lines += _proof("", f"… {more} in report.html", width)
    if finding.remedy:
        lines += _remedy(finding.remedy, width)
    return lines


def _proof(label: str, text: str, width: int) -> list[str]:
    return wrapped(text, label=f"  {label}".ljust(BASIS), hang=BASIS, width=width)


def _remedy(remedy: str, width: int) -> list[str]:
    lines: list[str] = []
    for line in remedy.strip().splitlines():
        label = "" if lines else "fix"
        if paste.is_command(line) or paste.is_command(remedy):
            parts = paste.pasteable(printable(line), first=BASIS, hang=BASIS, width=width)
            lines += [f"  {label}".ljust(BASIS) + parts[0], *parts[1:]]
        else:
            lines += _proof(label, line, width)
    return lines


def _notes(notes: Sequence[Finding]) -> str:
    """`interface-unreachable (docker) · noisy × 3`: remarks in one line, details on the page."""
    words = []
    for code, number in Counter(digest.title(note) for note in notes).items():
        about = [note.where for note in notes if digest.title(note) == code]
        place = about[0].candidate or about[0].interface or about[0].host or ""
        if number > 1:
            words.append(f"{printable(code)} × {number}")
        else:
            words.append(f"{printable(code)} ({printable(place)})" if place else printable(code))
    return " · ".join(words)


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
