"""All rank logs of a job into findings: the first fault, or who waited for whom.

In: RankLogs, a docket on which NCCL's own lines were judged already (judge/foreign/logs), and the
dossier those came from. Out: findings on the docket, and sentences that say what was read: phase,
who waited, whose logs are missing, which settings cost evidence. Causes before consequences: one
job has one first fault, so what NCCL's warnings say of it is put behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from bench.hang import (
    call_findings,
    fault_findings,
    first_fault,
    phases,
    recorder_settings,
    second_thoughts,
    wait_findings,
)
from bench.hang.crew import Crew
from bench.hang.first_fault import Choice
from bench.hang.host_clocks import Clocks
from bench.hang.scene import rank_words
from bench.hang.second_thoughts import HANGS
from bench.hang.time_outs import TimeOuts
from bench.judge.docket import Docket
from bench.records import Dossier, Evidence, Finding, Phase, RankLog

OF_RANKS = ("duplicate-gpu", "hca-set-differs")  # what NCCL's lines say of certain ranks
MEASURED_OFFSET_S = 2.0  # of clocks, told from here on


class View:
    """A job's logs, put together once: who is who, when, who waited, what is chosen as first."""

    def __init__(self, logs: Sequence[RankLog], dossier: Dossier | None = None) -> None:
        self.dossier = dossier or Dossier()
        self.crew = Crew(logs)
        self.clocks = Clocks(self.crew)
        self.waits = TimeOuts(self.crew)
        self.choice = first_fault.choose(self.crew, self.clocks, self.waits)
        self.lost = recorder_settings.lost(self.crew, self.dossier.variables)
        self.hung = _hung(self.crew, self.waits)

    def phase(self, docket: Docket) -> Phase | None:
        """Where it stopped, if it did."""
        clues = phases.clues(self.crew, self.waits, docket.findings)
        stopped = self.hung or self.choice is not None
        stopped = stopped or any(f.code in HANGS and _is_serious(f) for f in docket.findings)
        return phases.decide(clues) if stopped else None


def judge(
    logs: Sequence[RankLog], docket: Docket, dossier: Dossier | None = None
) -> tuple[tuple[str, str], ...]:
    """Everything, where logs are all there is; returns the facts, each with its label."""
    view = View(logs, dossier)
    faults(view, docket)
    hangs(view, docket)
    return facts(view, docket)


def faults(view: View, docket: Docket) -> None:
    """Causes: the first fault; else ranks whose calls differ."""
    choice = view.choice
    if choice is not None and all(sign.kind == "nccl-warning" for sign in choice.signs):
        if _is_told(choice, docket):
            return
        choice = None if _is_known(choice, docket) else choice
    if choice is not None:
        _behind(docket, choice)
        docket.add(fault_findings.finding(choice, view.crew, view.clocks, view.waits))
        if choice.how != "level":
            return
    for finding in call_findings.mismatches(view.waits, view.crew):
        _explain_aborts(docket)
        docket.add(_with(finding, view.lost))


def hangs(view: View, docket: Docket, checked: Sequence[Evidence] = ()) -> None:
    """What no cause explains: the phase, who waited, who did not come. Other evidence has been
    heard: what it says of a rank that the first fault names follows from that. `checked`: what
    the job's launch files say, for a job that stopped at launch."""
    second_thoughts.together(view.crew, docket)
    chosen = _first_of(docket)
    if chosen is not None:
        second_thoughts.follow(docket, chosen)
        return
    if any(f.code in (*HANGS, "collective-mismatch") and _is_serious(f) for f in docket.findings):
        return
    phase = view.phase(docket)
    if phase is not None and view.hung and not _is_explained(phase, docket):
        told = wait_findings.stopped(phase, view.crew, view.clocks, view.waits, view.dossier.logs)
        if view.choice is not None and view.choice.how == "level":
            told = told[:1]  # the abstention on who was first stands there already
        if phase == "rendezvous" and checked:
            evidence = (*told[0].evidence, *checked)
            told = [msgspec.structs.replace(told[0], evidence=evidence), *told[1:]]
        _explain_aborts(docket)
        for finding in told:
            docket.add(_with(finding, view.lost))
    elif not view.hung and (sign := first_fault.outside(view.crew)) is not None:
        docket.add(fault_findings.ended_from_outside(sign, view.crew))


def named(docket: Docket) -> tuple[int, ...]:
    """The ranks that the first serious finding of these names."""
    for finding in docket.findings:
        where = finding.where
        if finding.code in OF_RANKS and finding.severity in ("broken", "degraded"):
            return where.ranks or (() if where.rank is None else (where.rank,))
        if finding.code in ("first-fault", "collective-mismatch", *HANGS) and _is_serious(finding):
            if where.rank is not None:
                return (where.rank,)
            if finding.code == "first-fault":
                return where.ranks
    return ()


def _first_of(docket: Docket) -> Finding | None:
    return next((f for f in docket.findings if f.code == "first-fault" and _is_serious(f)), None)


def _is_serious(finding: Finding) -> bool:
    return finding.severity == "broken"


def _hung(crew: Crew, waits: TimeOuts) -> bool:
    """Whether anybody waited in vain, or lost a peer."""
    signs = [*crew.launcher, *(s for m in crew.members.values() for s in m.signs)]
    return bool(waits.first) or any(
        (s.role == "wait" or s.kind == "peer-lost") and not s.survived for s in signs
    )


def _is_told(choice: Choice, docket: Docket) -> bool:
    """Whether the judges of NCCL's lines say that this ended the job."""
    files = {sign.file for sign in choice.signs}
    return any(f.where.file in files and f.severity == "broken" for f in docket.findings)


def _is_known(choice: Choice, docket: Docket) -> bool:
    """Whether they know the warning, and do not think that it did."""
    files = {sign.file for sign in choice.signs}
    return any(f.where.file in files for f in docket.findings)


def _behind(docket: Docket, choice: Choice) -> None:
    """NCCL's own first fault is a later one, now that an earlier is known."""
    for old in docket.findings:
        if old.code in ("first-fault", "hang-init") and old.severity != "info":
            text = f"an earlier fault: {choice.signs[0].file}:{choice.signs[0].line}"
            new = msgspec.structs.replace(
                old,
                severity="info",
                evidence=(*old.evidence, Evidence(basis="inferred", text=text)),
            )
            docket.amend(old, new)


def _explain_aborts(docket: Docket) -> None:
    """An abort that NCCL's lines do not explain is explained now: its abstention falls."""
    for old in docket.findings:
        if old.code == "not-determinable" and old.kind == "abort":
            docket.withdraw(old)


def _is_explained(phase: Phase, docket: Docket) -> bool:
    """Whether a finding of NCCL's lines already says where and why it hangs."""
    hang = phases.CODES[phase]
    return any(
        f.severity == "broken" and (f.code == hang or f.code in ("first-fault", "duplicate-gpu"))
        for f in docket.findings
    )


def _with(finding: Finding, lost: Sequence[str]) -> Finding:
    """What would have told more, beside an abstention and a hang nobody is named for."""
    if finding.code == "first-fault" or not lost:
        return finding
    evidence = tuple(Evidence(basis="asked", text=f"evidence lost: {text}") for text in lost)
    return msgspec.structs.replace(finding, evidence=(*finding.evidence, *evidence))


def facts(view: View, docket: Docket) -> tuple[tuple[str, str], ...]:
    """What was read, without judgement: a label and a sentence each."""
    return tuple(_facts(view, docket))


def _facts(view: View, docket: Docket) -> Iterator[tuple[str, str]]:
    crew, waits = view.crew, view.waits
    if crew.speaking:
        of = f" of {crew.world_size:,}" if crew.world_size else ""
        many = "" if not of and len(crew.speaking) == 1 else "s"
        yield "ranks", f"logs of {len(crew.speaking):,}{of} rank{many}"
    if crew.speaking and crew.missing:
        yield "missing", f"the logs of {rank_words(crew.missing)}"
    if waits.waiting:
        places, one = waits.shown(waits.waiting)
        what = fault_findings.what(one) if places == 1 else f"{places} different collectives"
        yield "waiting", f"{rank_words(waits.waiting)} in {what}"
    off = {rank: s for rank, s in view.clocks.offsets.items() if abs(s) >= MEASURED_OFFSET_S}
    if off:
        worst = max(abs(seconds) for seconds in off.values())
        text = (
            f"by the steps that ranks share, those of {rank_words(tuple(off))} differ by up to "
            f"{worst:.0f} s; times are compared without that"
        )
        yield "clocks", text
    for text in view.lost:
        yield "lost", text
