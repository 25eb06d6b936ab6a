"""nightly.md: a night for a ticket, a chat or a CI summary, in GitHub's Markdown.

In: a Nightly. Out: text in which foreign names are never markup.
"""

from __future__ import annotations

from tabulate import tabulate

from bench.judge.sides.differences import is_factor
from bench.records import Nightly
from bench.report import digest, units
from bench.report.comparison.screen import difference_words
from bench.report.exports import escaped as md
from bench.report.exports import finding_md
from bench.report.history import sparks
from bench.report.history.nightly_rows import NIGHTS_SHOWN, rows
from bench.report.history.nightly_screen import baseline_words, history_words

HEAD = ("series", "small", "large", "nights", "state")


def render(told: Nightly) -> str:
    """The verdict, what moved, the table."""
    number = sum(not digest.is_note(f) for f in told.findings) + len(told.troubles)
    count = units.count(number, "finding") if number else "no findings"
    parts = [f"# {md(f'{told.verdict} · {count} · night of {sparks.day(told.run)}')}"]
    parts.append(md(" · ".join((told.run, told.shape))))
    facts = [
        f"- history: {md(' · '.join(history_words(told)))}",
        f"- baseline: {md(' '.join(baseline_words(told)))}",
    ]
    facts += [
        f"- changed since the night before: {md(difference_words(one))}"
        for one in told.differences
        if is_factor(one)
    ]
    facts += [
        f"- missing: {md(host)}, there on each of the last {nights} nights"
        for host, nights in told.missing_hosts.items()
    ]
    facts += [
        f"- the sweep found {md(trouble)}, "
        + ("new tonight" if since == told.run else f"since {md(sparks.day(since))}")
        for trouble, since in told.troubles.items()
    ]
    facts += [f"- note: {md(sentence)}" for sentence in told.notes]
    facts += [f"- recovered: {md(sentence)}" for sentence in told.recovered]
    facts += [f"- skipped: {md(sentence)}" for sentence in told.skipped]
    parts.append("\n".join(facts))
    parts += [finding_md(f) for f in digest.in_order(told.findings) if not digest.is_note(f)]
    shown, more = rows(told.series)
    if shown:
        table = [
            (md(r.name), r.small, r.large, sparks.sparks(r.curve, NIGHTS_SHOWN), md(r.state))
            for r in shown
        ]
        align = ("left", "right", "right", "left", "left")
        parts.append(
            tabulate(table, headers=HEAD, tablefmt="github", disable_numparse=True, colalign=align)
        )
        parts.append(
            "Times against the baseline, above zero is slower; small: below 64 KiB."
            + (f" {units.count(more, 'more line')} as ever." if more else "")
        )
    notes = [finding for finding in told.findings if digest.is_note(finding)]
    if notes:
        lines = [f"- {md(digest.title(note))}: {md(note.summary)}" for note in notes]
        parts.append("\n".join(["## Notes", "", *lines]))
    return "\n\n".join(parts) + "\n"
