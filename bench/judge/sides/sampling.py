"""What is a repetition here: the session, the boot, the host.

In: the sessions of both sides. Out: a Sampling: which sessions belong to one repetition, and what
is weak about it. Sessions of one boot share its luck (memory placement, link training, which
cores serve interrupts), so where the sides lie on different boots it is boots that are compared;
Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM 2013: repeat at the level that
varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.records import SideSession

Unit = Literal["session", "boot", "host", "pairs of hosts"]

FEWEST_BOOTS = 2  # on each side; or three on one, which then tells how boots differ
ALONE_AGAINST = 3
FEWEST_PAIRS = 3
NIGHT_S = 18 * 3600  # a cohort is compared within one night


@dataclass(frozen=True)
class Sampling:
    """`before` and `after` name the repetition of each session; `weaker` is one sentence."""

    unit: Unit
    before: tuple[str, ...]
    after: tuple[str, ...]
    weaker: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def paired(self) -> bool:
        return self.unit == "pairs of hosts"


def sampling(
    before: Sequence[SideSession], after: Sequence[SideSession], *, cohort: bool = False
) -> Sampling:
    """The finest repetition whose luck both sides do not share unevenly."""
    each = _numbered(before), _numbered(after)
    if cohort:
        return _cohort(before, after)
    hosts = [{session.hosts for session in side if session.hosts} for side in (before, after)]
    if hosts[0] == hosts[1] and len(hosts[0]) >= FEWEST_PAIRS:
        names = tuple(tuple(_host(session) for session in side) for side in (before, after))
        return Sampling("pairs of hosts", names[0], names[1])
    boots = [[session.boot for session in side] for side in (before, after)]
    known = [{boot for boot in own if boot is not None} for own in boots]
    if not known[0] or not known[1] or None in (*boots[0], *boots[1]) or known[0] & known[1]:
        return Sampling("session", *each)
    counts = len(known[0]), len(known[1])
    if min(counts) >= FEWEST_BOOTS or max(counts) >= ALONE_AGAINST:
        first, second = (tuple(str(boot) for boot in own) for own in boots)
        weaker = None
        if min(counts) == 1:
            weaker = (
                "one side is a single boot: how boots differ is taken from the other side's "
                f"{max(counts)}"
            )
        return Sampling("boot", first, second, weaker)
    told = "one boot a side" if counts == (1, 1) else f"{counts[0]} and {counts[1]} boots"
    return Sampling(
        "session",
        *each,
        weaker=f"{told}: sessions of one boot share its luck, so this tells these boots apart, "
        "not what was changed between them; three boots a side, or --control, decide",
    )


def _numbered(side: Sequence[SideSession]) -> tuple[str, ...]:
    return tuple(str(at) for at in range(len(side)))


def _host(session: SideSession) -> str:
    return ", ".join(session.hosts) or session.name


def _cohort(before: Sequence[SideSession], after: Sequence[SideSession]) -> Sampling:
    """Hosts are what is sampled: updated ones against those not yet updated."""
    names = [tuple(f"{_host(s)} {s.boot or ''}" for s in side) for side in (before, after)]
    counts = [len(set(own)) for own in names]
    notes = []
    common = {h for s in before for h in s.hosts} & {h for s in after for h in s.hosts}
    if common:
        notes.append(f"in both cohorts: {', '.join(sorted(common)[:4])}")
    places = [s.place for s in (*before, *after) if s.place is not None]
    if places and max(places) - min(places) > NIGHT_S:
        hours = (max(places) - min(places)) / 3600
        notes.append(f"the cohorts were measured over {hours:.0f} hours, not within one night")
    weaker = None
    if min(counts) < FEWEST_BOOTS and max(counts) < ALONE_AGAINST:
        weaker = (
            f"{counts[0]} and {counts[1]} hosts (or groups of hosts): how hosts differ does not "
            "show, so a difference may be theirs"
        )
        return Sampling("session", _numbered(before), _numbered(after), weaker, tuple(notes))
    return Sampling("host", names[0], names[1], weaker, tuple(notes))


def interleaved(before: Sequence[SideSession], after: Sequence[SideSession]) -> bool | None:
    """Whether the sides took turns; None where the times are not known."""
    places = [[session.place for session in side] for side in (before, after)]
    flat = [place for own in places for place in own]
    if not flat or None in flat or min(map(len, places)) < 2:
        return None
    first, second = ([float(p) for p in own if p is not None] for own in places)
    return not (max(first) <= min(second) or max(second) <= min(first))
