"""Findings as they accumulate, and what each one already explains.

One cause has many consequences: a firewalled network also makes the default case hang. The rule
that finds the cause says which candidates it explains; later rules attach what they see there as
evidence to that finding instead of accusing a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bench.records import Evidence, Finding


class Docket:
    """Findings in the order in which they were made."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._explained: dict[str, int] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._findings)

    def add(self, finding: Finding, *, explains: Iterable[str] = ()) -> None:
        """`explains`: candidates whose failure or slowness follows from this finding; the first
        finding to explain a candidate keeps it."""
        self._findings.append(finding)
        for candidate in explains:
            self._explained.setdefault(candidate, len(self._findings) - 1)

    def amend(self, old: Finding, new: Finding) -> None:
        """Put `new` in the place of a finding that was made before."""
        self._findings[self._findings.index(old)] = new

    def withdraw(self, old: Finding) -> None:
        """Take back a finding that another one has made groundless."""
        at = self._findings.index(old)
        del self._findings[at]
        self._explained = {
            candidate: number - (number > at)
            for candidate, number in self._explained.items()
            if number != at
        }

    def explains(self, candidate: str) -> bool:
        return candidate in self._explained

    def attach(self, candidate: str, evidence: Evidence) -> None:
        """Add evidence to the finding that explains a candidate, once."""
        at = self._explained[candidate]
        finding = self._findings[at]
        if evidence not in finding.evidence:
            self._findings[at] = msgspec.structs.replace(
                finding, evidence=(*finding.evidence, evidence)
            )
