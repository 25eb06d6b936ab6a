"""What other programs and other people take away: summary.md for a ticket, nccl.env for a shell.

In: a Report. Out: text. Markdown shows foreign names as they are and never as markup; nccl.env is
read alike by sh, dash, bash and zsh, whatever is in a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tabulate import tabulate

from bench.records import Finding, Location, Report
from bench.report import digest, paste
from bench.report.pairs import located
from bench.report.text import printable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # what a shell accepts as a variable
# Underscores inside words (all_reduce) are no emphasis; behind escaped brackets no parenthesis is.
MARKUP = re.compile(r"([\\`*\[\]|~<&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
HOSTS_A_LINE = 6
SUSPECTS_SHOWN = 40


def summary_md(report: Report) -> str:
    """Verdict, findings with their proof and the tables, for a ticket or a pull request."""
    words = digest.fabric_words(report.hosts, report.plan, report.fabric, report.backend)
    parts = [f"# {escaped(' · '.join(digest.verdict_words(report)))}", escaped(" · ".join(words))]
    if report.plan:
        parts.append(escaped(" · ".join(digest.plan_words(report.plan, report.candidates))))
    parts += [
        finding_md(finding)
        for finding in digest.in_order(report.findings)
        if not digest.is_note(finding)
    ]
    if report.missing:
        parts.append("\n".join(["## Missing", "", *(f"- {escaped(s)}" for s in report.missing)]))
    for collective in digest.collectives(report) or (digest.main_collective(report),):
        if report.candidates:
            parts += [f"## {escaped(collective)}", _table(report, collective)]
    if report.location is not None:
        parts += ["## Pairs of hosts", *_pairs(report.location)]
    notes = [finding for finding in report.findings if digest.is_note(finding)]
    if notes:
        lines = [f"- {escaped(digest.title(note))}: {escaped(note.summary)}" for note in notes]
        parts.append("\n".join(["## Notes", "", *lines]))
    parts.append(f"Run {escaped(report.run)}. Figures: median over sessions, 95 % interval.")
    return "\n\n".join(parts) + "\n"


def _pairs(location: Location) -> list[str]:
    parts = [escaped(" · ".join(located.head_words(location)))]
    rows = located.rows(location)
    if rows:
        table = [
            [escaped(word) for word in (row.part, row.slower, row.what, row.decided_by)]
            for row in rows[:SUSPECTS_SHOWN]
        ]
        head = ["suspect", "slower", "way", "decided by"]
        said = [at for at in range(len(head)) if any(row[at] for row in table)]
        table = [[row[at] for at in said] for row in table]
        head = [head[at] for at in said]
        parts.append(tabulate(table, headers=head, tablefmt="github", disable_numparse=True))
    sentences = located.rest(location)
    if sentences:
        parts.append("\n".join(f"- {escaped(sentence)}" for sentence in sentences))
    return parts


def escaped(text: str) -> str:
    """Text as markdown shows it, whatever is in it."""
    return MARKUP.sub(r"\\\1", printable(text)).replace("\\<", "&lt;").replace("\\&", "&amp;")


def finding_md(finding: Finding) -> str:
    title = f"{digest.mark(finding)} {escaped(digest.title(finding))}"
    head = f"## {title} ({digest.severity_word(finding)})"
    lines = [head, "", escaped(finding.summary)]
    if finding.evidence:
        lines += ["", *(f"- *{proof.basis}*: {escaped(proof.text)}" for proof in finding.evidence)]
    if finding.remedy:
        remedy = finding.remedy.strip()
        if paste.is_command(remedy):
            text = "\n".join(printable(line) for line in remedy.splitlines())
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            lines += ["", f"{fence}sh", text, fence]
        else:
            lines += ["", f"Fix: {escaped(remedy)}"]
    return "\n".join(lines)


def _table(report: Report, collective: str) -> str:
    head = ["candidate", "interface", "outcome", "busbw", "latency", "of expected", "why"]
    rows = [
        [
            *(escaped(text) for text in (row.candidate, row.interface, row.outcome)),
            *("" if row.reason else text for text in (row.busbw, row.latency, row.of_expected)),
            escaped(row.reason),
        ]
        for row in digest.rows(report, collective)
    ]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    align = ["left"] * 3 + ["right"] * 3 + ["left"] * (len(head) - 6)
    return tabulate(rows, headers=head, tablefmt="github", disable_numparse=True, colalign=align)


def nccl_env(report: Report) -> str:
    """The recommended settings as a file to source: `. ./nccl.env`; per host where they differ."""
    advice = report.recommendation
    lines = [
        f"# Settings recommended by run {printable(report.run)} ({report.verdict}).",
        "# Use: . ./nccl.env   (sh, bash, zsh; on every host, before torchrun)",
    ]
    lines += [
        f"# {printable(digest.title(finding))}: {printable(finding.summary)}"
        for finding in digest.in_order(report.findings)
        if finding.remedy and not digest.is_note(finding)
    ]
    lines += _exports(advice.environment)
    if advice.per_host:
        lines += _by_host(report)
    if not advice.environment and not advice.per_host:
        lines.append("# Nothing to set.")
    return "\n".join(lines) + "\n"


def _by_host(report: Report) -> list[str]:
    """One branch per host name; hosts whose names are alike cannot be told apart by a shell."""
    hostnames = {host.host: host.hostname for host in report.hosts}
    branches: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for host, settings in report.recommendation.per_host.items():
        branches.setdefault(hostnames.get(host, host), []).append((host, settings))
    together: dict[tuple[str, ...], list[str]] = {}
    lines: list[str] = []
    for hostname, alike in branches.items():
        if any(settings != alike[0][1] for _, settings in alike):
            lines.append(f"# {printable(hostname)}: hosts of this name differ; set by hand:")
            for host, settings in alike:
                lines += [f"#   {printable(host)}: {printable(e)}" for e in _exports(settings)]
        else:
            together.setdefault(tuple(_exports(alike[0][1])), []).append(quoted(hostname))
    # uname -n is in every POSIX system; the hostname command is not in every container.
    lines.append('case "$(uname -n)" in')
    for exports, names in together.items():
        rows = [names[at : at + HOSTS_A_LINE] for at in range(0, len(names), HOSTS_A_LINE)]
        lines.append("  " + " | \\\n  ".join(" | ".join(row) for row in rows) + ")")
        lines += [*(f"    {export}" for export in exports), "    ;;"]
    return [
        *lines,
        "  *)",
        '    echo "nccl.env: no settings for the host $(uname -n)" >&2',
        "    ;;",
        "esac",
    ]


def _exports(settings: Mapping[str, str]) -> list[str]:
    return [
        f"export {name}={quoted(value)}"
        if NAME.fullmatch(name)
        else f"# not a variable name: {printable(name)}"
        for name, value in settings.items()
    ]


def quoted(value: str) -> str:
    """`value` in single quotes, always: an unquoted `==` dies in zsh. A NUL cannot be passed."""
    return "'" + value.replace("\0", "").replace("'", "'\\''") + "'"
