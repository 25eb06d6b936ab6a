"""Sessions that stopped instead of ending.

In: how each rank's worker ended, per session. Out: hang-rendezvous, hang-init,
hang-first-collective, hang-midrun, hang-end, and measurement-failed where every rank ended with an
error. A rank is accused on its own evidence only; what a known network fault explains is attached
to that fault; later sessions that the same rank spoils are counted, not accused again.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.words import carrier, in_force, listed, quote, single
from bench.records import (
    PHASES,
    Candidate,
    Evidence,
    Finding,
    Phase,
    RankOutcome,
    Session,
    Where,
)

CODES: dict[Phase, str] = {
    "rendezvous": "hang-rendezvous",
    "init": "hang-init",
    "first": "hang-first-collective",
    "midrun": "hang-midrun",
    "end": "hang-end",
}
# Errors that a rank gets because another one, or the network, failed: no evidence against it.
CONSEQUENCE = re.compile(
    r"connect|connection|reset|closed|refused|time(d)? ?out|unreachable|no route|peer|broken pipe"
    r"|abort|barrier|store|rendezvous",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Guilt:
    """The ranks that a session's evidence singles out, and how surely."""

    ranks: tuple[RankOutcome, ...]
    why: tuple[str, ...]
    inferred: bool = False


def judge(net: Networks, docket: Docket) -> None:
    """One finding per guilty rank, or per candidate that hangs without one."""
    seen: dict[object, str] = {}
    for session in net.report.sessions:
        if session.outcome not in ("hung", "failed"):
            continue
        candidate = next(
            (c for c in net.report.candidates if c.name == session.case.candidate), None
        )
        guilt = guilty(session.ranks)
        name = session.case.candidate
        sure = guilt is not None and not guilt.inferred
        key: object = tuple(r.rank for r in guilt.ranks) if guilt and sure else name
        if key in seen:
            number = session.case.session + 1
            text = f"again in session {number} of {name}, {_phase(session, guilt)}"
            docket.attach(seen[key], Evidence(basis="measured", text=text))
        elif not sure and docket.explains(name):
            docket.attach(name, Evidence(basis="measured", text=_told(session, name)))
        elif not sure and (over := _below(net, docket, candidate)):
            docket.attach(over, Evidence(basis="measured", text=_told(session, name)))
        else:
            finding = _accuse(net, session, candidate, guilt)
            seen[key] = f"session of {key}"
            docket.add(finding, explains=[seen[key], name])


def guilty(ranks: Sequence[RankOutcome]) -> Guilt | None:
    """Who is to blame, by the strongest evidence there is; None where nothing singles out a rank.

    In order: died by a signal or silently, stopped (T), agent lost, an error of its own while
    others waited, alone in an earlier phase than all who wait (inferred).
    """
    died = [r for r in ranks if r.outcome == "died"]
    # gloo aborts the process when a peer's connection breaks: no evidence beside another death
    died = [r for r in died if r.signal != signal.SIGABRT] or died
    if died and len(died) < len(ranks):
        return Guilt(tuple(died), tuple(f"{_rank(r)} {_death(r)} in {r.phase}" for r in died))
    stopped = [r for r in ranks if r.state == "T"]
    if stopped and len(stopped) < len(ranks):
        told = tuple(f"{_rank(r)} is stopped (state T) in {r.phase}" for r in stopped)
        return Guilt(tuple(stopped), told)
    lost = [r for r in ranks if r.outcome == "lost"]
    if lost:  # rank 0 tells, so never all of them
        told = tuple(f"the agent of {_rank(r)} no longer answers" for r in lost)
        return Guilt(tuple(lost), told)
    own = [
        r for r in ranks if r.outcome == "failed" and r.error and not CONSEQUENCE.search(r.error)
    ]
    if own and len(own) < len(ranks):
        return Guilt(tuple(own), tuple(f"{_rank(r)} raised {quote(r.error)}" for r in own))
    waiting = [r for r in ranks if r.outcome in ("hung", "aborted", "failed")]
    earliest = min((PHASES.index(r.phase) for r in waiting), default=0)
    late = [r for r in waiting if PHASES.index(r.phase) == earliest]
    if len(late) == 1 and len(waiting) > 2:
        others = next(r.phase for r in waiting if r is not late[0])
        text = f"{_rank(late[0])} is still in {late[0].phase}, where the others reached {others}"
        return Guilt((late[0],), (text,), inferred=True)
    return None


def _below(net: Networks, docket: Docket, candidate: Candidate | None) -> str | None:
    """For the default case: a network it runs over that already has a finding for not working."""
    if candidate is None or candidate.kind != "default":
        return None
    return next((c.name for c in net.networks if net.chosen(c) and docket.explains(c.name)), None)


def _accuse(
    net: Networks, session: Session, candidate: Candidate | None, guilt: Guilt | None
) -> Finding:
    name = session.case.candidate
    hung = any(r.outcome in ("hung", "lost") for r in session.ranks) or guilt is not None
    if session.outcome == "hung" or hung or not session.ranks:
        code, severity = CODES[_phase(session, guilt)], "broken"
    else:
        code, severity = "measurement-failed", "broken"
        if candidate is not None and candidate.outcome == "measured":
            severity = "warning"  # other sessions of it went well
    off = _switched_off(net) if candidate is not None and candidate.transport == "rdma" else None
    if off is not None:
        severity = "warning"  # nobody asked for it to work; that it may be faster is why it ran
    over = f"{name} ({carrier(candidate)})" if candidate and candidate.interfaces else name
    number = f"session {session.case.session + 1}"
    waiting = [r for r in session.ranks if guilt is None or r not in guilt.ranks]
    ranks: tuple[RankOutcome, ...] = guilt.ranks if guilt else tuple(session.ranks)
    if guilt is not None:
        others = f"; {len(waiting)} other rank{'s' if len(waiting) != 1 else ''} waited for it"
        summary = f"{guilt.why[0]}, {number} of {over}{others}."
    elif code == "measurement-failed":
        first = next((r for r in session.ranks if r.error), None)
        told = f": {quote(first.error)} (rank {first.rank})" if first else ""
        summary = f"All {len(session.ranks)} ranks failed in {number} of {over}{told}."
    else:
        summary = (
            f"{len(waiting)} ranks on {listed(r.host for r in waiting) or 'unknown hosts'} "
            f"stopped in {_phase(session, guilt)}, {number} of {over}; no rank stands out."
        )
    evidence = [Evidence(basis="measured", text=text) for text in (guilt.why if guilt else ())]
    evidence += _stuck(waiting)
    if off is not None:
        evidence.append(Evidence(basis="claimed", text=f"{off}: jobs here do without RDMA"))
    if session.reason and guilt is None:
        evidence.append(Evidence(basis="measured", text=quote(session.reason)))
    numbers, hosts = [r.rank for r in ranks], [r.host for r in ranks]
    return Finding(
        code=code,
        severity="broken" if severity == "broken" else "warning",
        summary=summary,
        where=Where(
            candidate=name,
            rank=numbers[0] if len(numbers) == 1 else None,
            ranks=tuple(numbers),
            host=single(hosts) if guilt else None,
            hosts=tuple(dict.fromkeys(hosts)),
        ),
        evidence=tuple(evidence),
        remedy=_look(guilt, code),
        confidence="inferred" if guilt is not None and guilt.inferred else "measured",
    )


def _switched_off(net: Networks) -> str | None:
    """The setting by which the operator does without RDMA, if there is one."""
    for facts in net.report.hosts:
        value = in_force(facts, "NCCL_IB_DISABLE")
        if value not in (None, "", "0"):
            return f"NCCL_IB_DISABLE={value} on {facts.host}"
    return None


def _phase(session: Session, guilt: Guilt | None) -> Phase:
    """Where it stopped: the guilty rank's phase, else the earliest of those who did not finish."""
    known = [r for r in session.ranks if r.outcome not in ("ok", "lost")]
    ranks = [r for r in guilt.ranks if r.outcome != "lost"] if guilt else known
    ranks = ranks or known  # nobody knows how far a lost one got; the others wait where it stopped
    return min((r.phase for r in ranks), key=PHASES.index, default=session.phase)


def _stuck(waiting: Sequence[RankOutcome]) -> list[Evidence]:
    """The others, grouped by how they ended."""
    groups: dict[str, list[int]] = {}
    for r in waiting:
        at = f" at {r.cell}" if r.cell else ""
        said = f": {quote(r.error)}" if r.error else ""
        groups.setdefault(f"{r.outcome} in {r.phase}{at}{said}", []).append(r.rank)
    return [
        Evidence(
            basis="measured",
            text=f"rank{'s' if len(ranks) > 1 else ''} {listed(str(n) for n in ranks)} {how}",
        )
        for how, ranks in list(groups.items())[:4]
    ]


def _told(session: Session, name: str) -> str:
    phase = _phase(session, None)
    seconds = f" within {session.duration_s:.1f} s" if session.duration_s else ""
    reason = f": {quote(session.reason)}" if session.reason else ""
    number = session.case.session + 1
    return f"session {number} of {name} {session.outcome} in {phase}{seconds}{reason}"


def _rank(rank: RankOutcome) -> str:
    return f"rank {rank.rank} ({rank.host})"


def _death(rank: RankOutcome) -> str:
    if rank.signal is None:
        return f"ended without a word ({quote(rank.error)})" if rank.error else "ended silently"
    try:
        return f"was killed by {signal.Signals(rank.signal).name}"
    except ValueError:
        return f"was killed by signal {rank.signal}"


def _look(guilt: Guilt | None, code: str) -> str:
    if guilt and any(r.signal == signal.SIGKILL for r in guilt.ranks):
        return "sudo journalctl -k --since -1h --grep 'out of memory|killed process|xid'"
    return f"python -m bench explain {code}"
