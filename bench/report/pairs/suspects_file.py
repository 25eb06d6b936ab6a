"""suspects.txt: hosts to look at or to drain, one a line with its reason; this tool never drains.

In: a Report, and what a nightly job adds. Out: text whose first word of each line is a host name
as a scheduler knows it, so that `while read -r host reason` drains them; empty where nobody is
suspected, without comment lines, for a script would take those for hosts. Only hosts that a
finding accuses: where the evidence names two and cannot tell which, none is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bench.records import Finding, Nightly, Report
from bench.report.text import printable

# Findings that are of a host itself; a misselected interface is no reason to drain anything.
OF_A_HOST = ("host-slow", "rail-slow", "link-degraded", "latency-degraded", "wrong-result")
SERIOUS = ("degraded", "broken")
# What a node can be called. Another name is none of a scheduler's, and might be read as two.
NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")


def render(report: Report, nightly: Nightly | None = None) -> str:
    """The list of a run, with what the night adds."""
    names = {host.host: host.hostname or host.host for host in report.hosts}
    return lines((*report.findings, *(nightly.findings if nightly else ())), names)


def lines(findings: Iterable[Finding], names: Mapping[str, str]) -> str:
    """`names`: what hosts are called outside, by the name that findings give them."""
    reasons: dict[str, dict[str, None]] = {}
    for finding in findings:
        host = finding.where.host
        if finding.code in OF_A_HOST and finding.severity in SERIOUS and host:
            name = names.get(host, host)
            if NODE.match(name):
                reason = f"{finding.code}: {printable(' '.join(finding.summary.split()))}"
                reasons.setdefault(name, {})[reason] = None
    return "".join(f"{name}  {'; '.join(told)}\n" for name, told in reasons.items())
