"""A sweep that never begins because a host is missing: only the launcher can see that.

torchrun starts no script before all hosts have met, so the agents cannot report it (facts/lab.md).
In: what is known of each host's torchrun and its connection to the meeting point. Out: whether to
give up, and a report with one finding, hang-rendezvous.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bench.lab.launch import MASTER_PORT, Torchrun
from bench.lab.victim import descendants, process_name
from bench.records import Evidence, Fabric, Finding, HostFacts, Report, Where

# Four torchruns meet within 7 s on 2 cores (facts/lab.md). With proof of a fault twice that is
# enough; without any, a slow machine importing torch four times must not be taken for a hang.
PROVEN_S = 15.0
UNPROVEN_S = 60.0

Link = Literal["connected", "knocking", "none"]
_STATES: dict[str, Link] = {"01": "connected", "02": "knocking"}  # ESTABLISHED, SYN_SENT


class Attendance(msgspec.Struct, frozen=True, kw_only=True):
    """One host as the launcher sees it: its torchrun, and its TCP link to the meeting point.

    `link` "knocking" means that its connection requests stay unanswered.
    """

    host: str
    ranks: tuple[int, ...]
    torchrun: Literal["not started", "running", "ended"]
    exit_status: int | None = None
    link: Link = "none"
    meets: bool = False  # this is the host where the others meet


def begun(torchrun: Torchrun) -> bool:
    """Whether rank 0's script runs: its agent has taken its name (`b0:agent`)."""
    if torchrun.process is None:
        return False
    names = map(process_name, descendants(torchrun.process.pid))
    return any(name is not None and name.startswith("b0:") for name in names)


def attendance(torchruns: Sequence[Torchrun], ranks_per_host: int) -> tuple[Attendance, ...]:
    """What can be seen of every host now."""
    seen = []
    for torchrun in torchruns:
        host, status = torchrun.host, torchrun.ended()
        alike = [other for other in torchruns if other.host.hostname == host.hostname]
        first = (host.host - 1) * ranks_per_host
        seen.append(
            Attendance(
                host=host.hostname if len(alike) == 1 else f"{host.hostname} (host {host.host})",
                ranks=tuple(range(first, first + ranks_per_host)),
                torchrun="not started"
                if not torchrun.started
                else "running"
                if status is None
                else "ended",
                exit_status=status,
                link=_link(host.pid),
                meets=host.host == 1,
            )
        )
    return tuple(seen)


def missing(seen: Sequence[Attendance], waited_s: float) -> tuple[Attendance, ...] | None:
    """The hosts to name after `waited_s` seconds without a sweep; None: wait on.

    An empty answer means that the time is up and nothing tells who is to blame.
    """
    if waited_s < PROVEN_S:
        return None
    proven = tuple(
        one
        for one in seen
        if one.torchrun != "running" or (not one.meets and one.link == "knocking")
    )
    if proven:
        return proven
    if waited_s < UNPROVEN_S:
        return None
    return tuple(one for one in seen if not one.meets and one.link != "connected")


def report(
    seen: Sequence[Attendance],
    named: Sequence[Attendance],
    *,
    run: str,
    meeting: str,
    waited_s: float,
    fabric: Fabric | None,
    labels: dict[str, str],
) -> Report:
    """A whole report of a run in which nothing could be measured."""
    finding = _finding(seen, named, meeting, waited_s)
    return Report(
        run=run,
        verdict="broken",
        duration_s=round(waited_s, 1),
        complete=False,
        missing=("Nothing was measured: the ranks never met.",),
        labels=labels,
        fabric=fabric,
        hosts=tuple(
            HostFacts(
                host=one.host,
                hostname=one.host,
                identity=one.host,
                node_rank=number,
                ranks=one.ranks,
                unreadable={"facts": "no rank ran on this host"},
            )
            for number, one in enumerate(seen)
        ),
        findings=(finding,),
    )


def _finding(
    seen: Sequence[Attendance], named: Sequence[Attendance], meeting: str, waited_s: float
) -> Finding:
    names = [one.host for one in named]
    others = len(seen) - len(named)
    who = ", ".join(names) or "Some host"
    summary = (
        f"{who} never joined: {_why(named)}. {others} of {len(seen)} hosts waited "
        f"{waited_s:.0f} s for it at {meeting}, and no rank began."
    )
    ranks = tuple(rank for one in named for rank in one.ranks)
    return Finding(
        code="hang-rendezvous",
        severity="broken",
        summary=summary,
        where=Where(
            host=names[0] if len(names) == 1 else None,
            hosts=tuple(names),
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=ranks,
        ),
        evidence=tuple(Evidence(basis="measured", text=_said(one, meeting)) for one in seen),
        remedy=None,
        confidence="measured" if named else "inferred",
    )


def _why(named: Sequence[Attendance]) -> str:
    if not named:
        return "all torchruns run and are connected, yet no script started"
    kinds = {one.torchrun for one in named}
    if kinds == {"not started"}:
        return "torchrun was not started there"
    if kinds == {"ended"}:
        return "torchrun has ended there"
    if kinds == {"running"}:
        return "torchrun runs there but does not get through to the meeting point"
    return "see each host below"


def _said(one: Attendance, meeting: str) -> str:
    if one.torchrun == "not started":
        return f"{one.host}: no torchrun was started"
    if one.torchrun == "ended":
        return f"{one.host}: torchrun ended with status {one.exit_status}"
    if one.meets:
        return f"{one.host}: torchrun runs and holds the meeting point {meeting}"
    state = {
        "connected": f"is connected to {meeting}",
        "knocking": f"gets no answer from {meeting} (TCP SYN sent)",
        "none": f"has no connection to {meeting}",
    }[one.link]
    return f"{one.host}: torchrun runs and {state}"


def _link(keeper: int) -> Link:
    """The host's connections to the master port, from its own /proc/net/tcp."""
    found: set[Link] = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{keeper}/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue  # the host is gone, or the kernel has no IPv6
        for line in lines:
            _, _, remote, state, *_ = line.split()
            if int(remote.rpartition(":")[2], 16) == MASTER_PORT and state in _STATES:
                found.add(_STATES[state])
    return "connected" if "connected" in found else "knocking" if "knocking" in found else "none"
