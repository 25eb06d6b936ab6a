"""A comparison on a terminal: what changed, what is weak about it, the table, the verdict.

In: a Comparison. Out: text of at most `width` columns, the verdict last. Lines on which nothing
moved are named, not tabulated, where there are many. Every foreign string is made harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from tabulate import tabulate

from bench.judge.sides import accusations
from bench.judge.sides.differences import is_factor
from bench.records import Comparison, Difference, Finding
from bench.report import units
from bench.report.comparison.rows import Block, Row, blocks
from bench.report.findings import GREEN, PLAIN, RED, YELLOW, blocks_of, labelled
from bench.report.text import abbreviated, cell, printable, wrapped

LABEL = 10  # columns of "changed   "
INDENT, DEPTH = 2, 2
GAP = 2  # what tabulate's plain format puts between two columns
NARROWEST_NAME = 12
FILLER = "\x00"  # a blank that tabulate does not strip; no printable name can hold it
HEAD = Row("", "before", "after", "change", "verdict")
BLOCKS_SHOWN = 12  # in full; all of them in --json
QUIET_BLOCKS = 4  # so many lines are tabulated even where nothing moved
NAMES_SHOWN = 12
DIFFERENCES_SHOWN = 8
SHADES = {"regressed": RED, "improved": GREEN, "inconclusive": YELLOW, "not-comparable": YELLOW}
# Findings that the table already tells; a regression is told again, with its proof.
IN_TABLE = ("improved", "equivalent")


def screen(comparison: Comparison, *, status: int, width: int = 80, colour: bool = False) -> str:
    """The whole answer; `status` is what the command will exit with."""
    parts = [_head(comparison, width)]
    made = blocks(comparison)
    shown = [b for b in made if b.moved or len(made) <= QUIET_BLOCKS][:BLOCKS_SHOWN]
    if shown:
        parts.append(_tables(shown, width, colour))
    quiet = [block for block in made if block not in shown]
    if quiet:
        parts.append(_quiet(quiet, width))
    told = [beyond_head(f, comparison) for f in comparison.findings if is_told(f)]
    parts += blocks_of(told, width=width, colour=colour, all_in="--json", proof_in="--json")
    if comparison.notes:
        parts.append(_listed("notes", comparison.notes, width))
    parts.append(_verdict(comparison, status, width, colour))
    return "\n\n".join("\n".join(part) for part in parts if part)


def is_told(finding: Finding) -> bool:
    if finding.code == "inconclusive":
        return finding.severity == "warning" or finding.where.collective is None
    return finding.code not in IN_TABLE or finding.kind is not None


def beyond_head(finding: Finding, comparison: Comparison) -> Finding:
    """Without the proof that the head already tells for all findings."""
    said = {comparison.weaker, *comparison.confounders}
    kept = tuple(
        e
        for e in finding.evidence
        if e.text not in said and not e.text.startswith((accusations.CHANGED, accusations.AT_ONCE))
    )
    return msgspec.structs.replace(finding, evidence=kept)


def changed_words(comparison: Comparison) -> list[str]:
    """ "driver 550.54.15 → 570.86.10", …, "everything else equal"."""
    factors = [d for d in comparison.differences if is_factor(d)]
    told = [difference_words(each) for each in factors[:DIFFERENCES_SHOWN]]
    if len(factors) > DIFFERENCES_SHOWN:
        told.append(f"{len(factors) - DIFFERENCES_SHOWN} more in --json")
    return [*(told or []), comparison.equal]


def difference_words(one: Difference) -> str:
    where = f" on {abbreviated(one.hosts)}" if one.hosts else ""
    basis = " (by the files' names)" if one.basis == "inferred" else ""
    return f"{printable(one.name)} {printable(one.before)} → {printable(one.after)}{where}{basis}"


def other_words(comparison: Comparison) -> list[str]:
    """Settings, and what NCCL made of it all."""
    hidden = ("boot", "hosts")  # told as confounders, in words
    others = [d for d in comparison.differences if not is_factor(d) and d.name not in hidden]
    return [difference_words(each) for each in others[:DIFFERENCES_SHOWN]]


def sessions_words(comparison: Comparison) -> list[str]:
    """ "5 before, 5 after", "interleaved: no", what the tests count."""
    before, after = comparison.before, comparison.after
    if not before.sessions and not after.sessions:
        return ["no figures on either side"]
    words = [f"{before.sessions} before, {after.sessions} after"]
    if comparison.interleaved is not None:
        words.append(f"interleaved: {'yes' if comparison.interleaved else 'no'}")
    if before.boots and after.boots:
        words.append(f"{units.count(before.boots, 'boot')} before, {after.boots} after")
    if comparison.sample != "session":
        words.append(f"compared by {comparison.sample}")
    return words


def _head(comparison: Comparison, width: int) -> list[str]:
    if comparison.before.path == comparison.after.path and not comparison.lines:
        return []  # one list over versions
    lines = labelled("changed", changed_words(comparison), width, hang=LABEL)
    others = other_words(comparison)
    if others:
        lines += labelled("also", others, width, hang=LABEL)
    lines += labelled("sessions", sessions_words(comparison), width, hang=LABEL)
    if comparison.weaker:
        lines += wrapped(comparison.weaker, label="weaker", hang=LABEL, width=width)
    for at, doubt in enumerate(comparison.confounders):
        lines += wrapped(doubt, label="" if at else "beware", hang=LABEL, width=width)
    return lines


def _tables(shown: Sequence[Block], width: int, colour: bool) -> list[str]:
    """All blocks with the same columns, so that the eye can run down them."""
    rows = [row for block in shown for row in (HEAD, *block.rows)]
    width -= INDENT
    longest = max(len(printable(block.name)) for block in shown)
    laid, room = _laid_out(rows, width, longest)
    beside = longest <= room
    lines: list[str] = []
    for block in shown:
        if lines:
            lines.append("")
        head = laid.pop(0)
        name = cell(block.name, room if beside else width)
        lines += [name + head[len(name) :]] if beside else [name, head]
        for row in block.rows:
            line = laid.pop(0)
            lines.append(_shaded(line, row.verdict) if colour else line)
        for remark in block.remarks:
            lines += wrapped(remark, label=" " * DEPTH, hang=DEPTH, width=width)
    return [" " * INDENT + line if line else line for line in lines]


def _laid_out(rows: Sequence[Row], width: int, longest: int) -> tuple[list[str], int]:
    """One line a row, and how wide its first column is: `longest` where there is room. Names give
    way where the screen is narrow; figures are never cut."""
    columns = [[row.before, row.after, row.change, row.verdict] for row in rows]
    others = sum(GAP + max(len(line[at]) for line in columns) for at in range(4))
    room = max(width - others, NARROWEST_NAME)
    names = [_named(row.name, room) for row in rows]
    first = max(*map(len, names), longest if longest <= room else 0)
    text = tabulate(
        [[name.ljust(first, FILLER), *line] for name, line in zip(names, columns, strict=True)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["left", "right", "right", "left", "left"],
    )
    return [line.replace(FILLER, " ").rstrip() for line in text.splitlines()], first


def _named(name: str, room: int) -> str:
    """Shortened where it must be: "512 KiB-2 MiB", "other large", and only then cut."""
    if len(name) > room:
        name = name.replace(" to ", "-").removesuffix(" sizes")
    return cell(name, room)


def _shaded(line: str, verdict: str) -> str:
    shade = SHADES.get(verdict, "")
    if not shade or not line.endswith(verdict):
        return line
    return f"{line.removesuffix(verdict)}{shade}{verdict}{PLAIN}"


def _quiet(quiet: Sequence[Block], width: int) -> list[str]:
    lines: list[str] = []
    for verdict, label in (("equivalent", "equal"), ("inconclusive", "open"), ("", "more")):
        own = [
            block for block in quiet if block.verdict == verdict or (not verdict and block.moved)
        ]
        if not own:
            continue
        names = [printable(block.name) for block in own[:NAMES_SHOWN]]
        if len(own) > NAMES_SHOWN:
            names.append(f"{len(own) - NAMES_SHOWN} more in --json")
        lines += labelled(label, names, width, hang=LABEL)
        if verdict == "inconclusive":
            remarks = Counter(r.partition(": ")[2] or r for block in own for r in block.remarks)
            for text, _ in remarks.most_common(3):
                lines += wrapped(text, label="", hang=LABEL + 2, width=width)
    return lines


def _listed(label: str, sentences: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for sentence in sentences[:DIFFERENCES_SHOWN]:
        lines += wrapped(sentence, label="" if lines else label, hang=LABEL, width=width)
    if len(sentences) > DIFFERENCES_SHOWN:
        lines.append(" " * LABEL + f"… {len(sentences) - DIFFERENCES_SHOWN} more in --json")
    return lines


def verdict_words(comparison: Comparison) -> list[str]:
    """ "regressed", "1 regressed, 3 equivalent"."""
    counts = Counter(line.verdict for line in comparison.lines)
    told = [f"{counts[v]} {v}" for v in ("regressed", "improved", "equivalent", "inconclusive")
            if counts[v]]  # fmt: skip
    return [comparison.verdict, *([", ".join(told)] if len(comparison.lines) > 1 else [])]


def _verdict(comparison: Comparison, status: int, width: int, colour: bool) -> list[str]:
    words = [*verdict_words(comparison), f"exit {status}"]
    lines = labelled("verdict:", words, width, hang=len("verdict: "))
    if colour:
        shade = SHADES.get(comparison.verdict, GREEN)
        verdict = comparison.verdict
        lines[0] = lines[0].replace(verdict, f"{shade}{verdict}{PLAIN}", 1)
    return lines
