"""Findings as a terminal shows them: what is so, the proof line by line, the line to paste.

In: findings in any order. Out: blocks of lines of at most `width` columns, worst first; remarks in
one line at the end. Used by the sweep's screen and by every command that judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len

from bench.records import Finding, Verdict
from bench.report import digest, paste, units
from bench.report.text import abbreviated, printable, wrapped

LABEL = 8  # columns of the labels at the left edge: "fabric  "
BASIS = 13  # two blanks, the longest basis ("predicted"), two blanks
EVIDENCE_SHOWN = 8  # lines of proof per finding; the page has all of them
# Where there is no page: proofs of a finding, lines of one proof (a list of 32 devices has
# eleven), and remarks told in full.
PROOFS_UNPAGED, PROOF_LINES, NOTES_SPELLED = 6, 3, 4
ALIKE_SHOWN = 3  # findings of one code; a thousand hosts make a thousand of them
EXPLAINED = ("first-fault",)
RED, YELLOW, GREEN, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
COLOURS = {"broken": RED, "degraded": RED, "warning": YELLOW, "info": ""}
VERDICTS = {"healthy": GREEN, "inconclusive": YELLOW}


def blocks_of(
    findings: Sequence[Finding],
    *,
    width: int = 80,
    colour: bool = False,
    all_in: str = "report.json",
    proof_in: str = "report.html",
    paged: bool = True,
) -> list[list[str]]:
    """A block per finding, then the remarks. `all_in` and `proof_in` say where the rest is; where
    that is no page to read, proof is cut sooner and remarks are spelled out."""
    blocks, notes, seen = [], [], Counter[str]()
    for finding in digest.in_order(findings):
        if digest.is_note(finding):
            notes.append(finding)
            continue
        seen[finding.code] += 1
        if seen[finding.code] <= ALIKE_SHOWN:
            blocks.append(_finding(finding, width, colour, proof_in, paged))
    rest = [
        f"{number - ALIKE_SHOWN:,} more of {printable(code)}"
        for code, number in seen.items()
        if number > ALIKE_SHOWN
    ]
    if rest:
        blocks.append(wrapped(f"… {', '.join(rest)}: all in {all_in}", hang=2, width=width))
    if notes and not paged:
        blocks.append(_spelled(notes, bool(seen), all_in, width))
    elif notes:
        blocks.append(wrapped(_notes(notes), label="notes", hang=LABEL, width=width))
    return blocks


def labelled(label: str, words: Sequence[str], width: int, hang: int = LABEL) -> list[str]:
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


def coloured_verdict(
    verdict: Verdict, words: Sequence[str], width: int, colour: bool
) -> list[str]:
    """`verdict: misconfigured · 1 finding · 41 s`, the last thing on every screen."""
    lines = labelled("verdict:", words, width, hang=len("verdict: "))
    if colour:
        shade = VERDICTS.get(verdict, RED)
        lines[0] = lines[0].replace(verdict, f"{shade}{verdict}{PLAIN}", 1)
    return lines


def _finding(finding: Finding, width: int, colour: bool, proof_in: str, paged: bool) -> list[str]:
    head = f"{digest.mark(finding)} {printable(digest.title(finding))}"
    word = digest.severity_word(finding)
    gap = max(width - len(head) - len(word), 2)
    if colour and (shade := COLOURS[finding.severity]):
        head = f"{shade}{head}{PLAIN}"
    lines = [head + " " * gap + word, *wrapped(finding.summary, hang=2, width=width)]
    hosts = finding.where.hosts
    if hosts and not all(host in finding.summary for host in hosts):
        lines += _proof("hosts", abbreviated(hosts), width)
    if finding.where.file and not _is_told(finding.where.file, finding):
        line = f":{finding.where.line}" if finding.where.line else ""
        lines += _proof("at", f"{finding.where.file}{line}", width)
    proofs = EVIDENCE_SHOWN if paged else PROOFS_UNPAGED
    for evidence in finding.evidence[:proofs]:
        proof = _proof(evidence.basis, evidence.text, width)
        lines += proof if paged else _cut(proof)
    if len(finding.evidence) > proofs:
        more = units.count(len(finding.evidence) - proofs, "more line")
        lines += _proof("", f"… {more} in {proof_in}", width)
    if finding.remedy:
        lines += _remedy(finding.remedy, width)
    return lines


def _is_told(file: str, finding: Finding) -> bool:
    return file in finding.summary or any(file in proof.text for proof in finding.evidence)


def _proof(label: str, text: str, width: int) -> list[str]:
    return wrapped(text, label=f"  {label}".ljust(BASIS), hang=BASIS, width=width)


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= PROOF_LINES:
        return lines
    return [*lines[: PROOF_LINES - 1], f"{lines[PROOF_LINES - 1][:-2].rstrip()} …"]


def _remedy(remedy: str, width: int) -> list[str]:
    lines: list[str] = []
    for line in remedy.strip().splitlines():
        label = "" if lines else "fix"
        if paste.is_command(line) or paste.is_command(remedy):
            command, comment = paste.split_comment(printable(line))
            parts = paste.pasteable(command, first=BASIS, hang=BASIS, width=width)
            lines += [f"  {label}".ljust(BASIS) + parts[0], *parts[1:]]
            for words in wrapped(comment, hang=BASIS + 2, width=width) if comment else ():
                lines.append(" " * BASIS + "# " + words.strip())
        else:
            lines += _proof(label, line, width)
    return lines


def _spelled(notes: Sequence[Finding], explained: bool, all_in: str, width: int) -> list[str]:
    """Each remark in a sentence; one that a finding above explains by its name alone."""
    brief = [note for note in notes if explained and note.code in EXPLAINED]
    full = [note for note in notes if note not in brief]
    lines: list[str] = []
    for note in full[:NOTES_SPELLED]:
        text = f"{digest.title(note)}: {note.summary}"
        lines += wrapped(text, label="" if lines else "notes", hang=LABEL, width=width)
    if len(full) > NOTES_SPELLED:
        lines.append(" " * LABEL + f"… {len(full) - NOTES_SPELLED:,} more in {all_in}")
    if brief:
        lines += wrapped(_notes(brief), label="" if lines else "notes", hang=LABEL, width=width)
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
