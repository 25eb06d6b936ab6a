"""Words and bases that all records share: severities, phases, the two base classes, BadInput."""

from __future__ import annotations

from typing import Literal

import msgspec

Basis = Literal["asked", "predicted", "measured", "expected", "claimed", "inferred"]
Severity = Literal["info", "warning", "degraded", "broken"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "degraded", "broken")
Verdict = Literal["healthy", "misconfigured", "degraded", "broken", "inconclusive"]
Backend = Literal["gloo", "nccl"]
Phase = Literal["rendezvous", "init", "first", "midrun", "end"]
PHASES: tuple[Phase, ...] = ("rendezvous", "init", "first", "midrun", "end")
InterfaceKind = Literal[
    "physical", "bridge", "bond", "veth", "docker", "vpn", "wifi", "loopback", "virtual"
]


class BadInput(Exception):
    """What a user can mend: one sentence of file, line and what was expected (exit status 2)."""

    def __init__(self, sentence: str, *, file: str | None = None, line: int | None = None) -> None:
        self.sentence, self.file, self.line = sentence, file, line
        place = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(place + sentence)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that crosses rooms: immutable, keyword-only, JSON in and out."""


class Fact(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A record about a host; fields at their default (nothing read) are left out of the JSON."""
