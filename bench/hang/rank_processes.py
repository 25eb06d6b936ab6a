"""What the state of the ranks' processes adds to dumps and logs.

In: WatchedJobs (and what `diagnose --live` saw), the docket with what dumps and logs said. Out: a
finding for a rank whose process is stopped or died of a signal that no log tells of; words on
findings that the dumps left open. A rank that lives has not run out of data, nor has one with a
fault of its own: then a hang at a whole number of steps is one mid-run.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.hang import loops
from bench.hang.scene import rank_words, sentence
from bench.judge.docket import Docket
from bench.records import (
    Evidence,
    Finding,
    FlightFrame,
    FlightPicture,
    Phase,
    RankProcess,
    WatchedJob,
    Where,
)

STOPPED = ("T", "t")
# By the kernel's state: what it is, and what to do about it on its host.
HELD = {
    "T": (
        "stopped by a signal",
        "kill -CONT {pids}   # and find who stopped it: a shell's job control, a debugger",
    ),
    "t": ("held by a debugger", "ps -o pid,stat,cmd -p {pids}   # and let the debugger go on"),
    "D": (
        "held in the kernel",
        "cat /proc/{pids}/stack; journalctl -k --since -1h   # a disk, a mount, a driver",
    ),
}
# What a launcher sends to all when one has failed; the last one follows a peer's end in gloo.
SENT = (signal.SIGTERM, signal.SIGINT, signal.SIGCONT, signal.SIGABRT)
HANGS = ("hang-first-collective", "hang-midrun", "hang-end")  # that dumps tell of
CODES: dict[Phase, str] = {"first": "hang-first-collective", "midrun": "hang-midrun"}


def judge(
    jobs: Sequence[WatchedJob],
    docket: Docket,
    parts: Mapping[str, Any],
    stacks: Mapping[int, Sequence[FlightFrame]],
) -> dict[str, Any]:
    """`parts`: of the Diagnosis, as the dumps have it; `stacks`: where ranks stood when asked.
    Returns the parts that change."""
    picture: FlightPicture | None = parts.get("flight")
    changed: dict[str, Any] = {}
    processes = [process for job in jobs for process in job.processes]
    stopped = [each for each in processes if _is_held(each)]
    if stopped and len(stopped) < len(processes):
        _explain(docket, {each.rank for each in stopped})
        phase: Phase | None = None  # without dumps nobody knows how far it had come
        if picture is not None:
            phase = "midrun" if picture.collectives else "first"
            changed["phase"] = phase
        docket.add(_stopped(stopped, phase, picture))
        changed |= {"ranks": tuple(each.rank for each in stopped), "suspects": ()}
    elif (first := _first_death(processes)) is not None and not _first_faults(docket):
        _explain(docket, {first.rank})
        docket.add(_died(first))
        changed |= {"ranks": (first.rank,), "suspects": ()}
    for finding in docket.findings:
        if finding.code == "hang-end" and (why := _not_ended(finding, docket, picture, stacks)):
            docket.amend(finding, _midrun(finding, why))
            changed["phase"] = "midrun"
        elif finding.code == "hang-end" and (ended := _ended(finding, processes)):
            docket.amend(finding, _with(finding, ended))
        elif finding.code == "collective-mismatch" and loops.calls_in_loop(picture):
            docket.amend(finding, _without_end(finding))
            changed.setdefault("phase", "midrun")
    if picture is not None and any(not job.stood for job in jobs):
        changed |= _withdraw_of_moving(docket, picture, _gone_first(processes))
    if faulty := _first_faults(docket):
        _explain(docket, faulty)
        changed["suspects"] = ()
        if picture is not None and not (changed.get("phase") or parts.get("phase")):
            changed["phase"] = "midrun" if picture.collectives else "first"
    return changed


def _is_held(process: RankProcess) -> bool:
    """Stopped; or in a wait that nothing interrupts, so long that it answered nothing."""
    return process.state in STOPPED or (process.state == "D" and process.silent_s is not None)


def _gone_first(processes: Sequence[RankProcess]) -> set[int]:
    """Ranks that had ended when the first one failed: those that come later follow from it."""
    failed = [
        each.ended_s
        for each in processes
        if each.ended_s is not None and (each.signal or each.exit_code or not each.farewell)
    ]
    until = min(failed, default=0.0)
    return {e.rank for e in processes if e.ended_s is not None and e.ended_s <= until}


def _withdraw_of_moving(docket: Docket, picture: FlightPicture, gone: set[int]) -> dict[str, Any]:
    """Dumps of ranks that moved when one died show who was late that moment, which proves nothing;
    who had ended does not come any more."""
    proven = any(finding.code == "collective-mismatch" for finding in docket.findings)
    for finding in docket.findings:
        if finding.code in HANGS:
            if _ranks(finding) and _ranks(finding) <= gone:
                proven = True
            else:
                docket.withdraw(finding)
    if proven:
        return {}
    return {
        "flight": msgspec.structs.replace(picture, stops=(), named=(), suspects=()),
        "ranks": tuple(rank for rank in picture.named if rank in gone),
        "suspects": (),
        "phase": "midrun" if picture.collectives else "first",
    }


def _stopped(
    stopped: Sequence[RankProcess], phase: Phase | None, picture: FlightPicture | None
) -> Finding:
    ranks = tuple(each.rank for each in stopped)
    how, mend = HELD.get(stopped[0].state or "", HELD["T"])
    verb = "is" if len(ranks) == 1 else "are"
    stops = [stop for stop in picture.stops if stop.waiting] if picture is not None else []
    waits = ""
    if stops:
        stop = max(stops, key=lambda each: len(each.waiting))
        wait = "wait" if len(stop.waiting) > 1 else "waits"
        waits = (
            f"; {rank_words(stop.waiting)} {wait} in {stop.call.name} #{stop.seq:,} of "
            f"{stop.group}"
        )
    first = stopped[0]
    return Finding(
        code=CODES[phase] if phase is not None else "first-fault",
        kind="stopped",
        severity="broken",
        summary=f"{sentence(rank_words(ranks))} {verb} {how}{waits}.",
        where=Where(
            rank=first.rank if len(ranks) == 1 else None,
            ranks=ranks if len(ranks) > 1 else (),
            host=first.host or None,
        ),
        evidence=tuple(Evidence(basis="measured", text=_state_words(each)) for each in stopped),
        remedy=mend.format(pids=" ".join(str(each.pid) for each in stopped)),
        confidence="measured",
    )


def _state_words(process: RankProcess) -> str:
    at = f" on {process.host}" if process.host else ""
    tracer = f", traced by process {process.stopped_by}" if process.stopped_by else ""
    where = f" ({process.waits_in})" if process.state == "D" and process.waits_in else ""
    silent = f"; it did not answer for {process.silent_s:.0f} s" if process.silent_s else ""
    who = f"rank {process.rank}: process {process.pid}{at}"
    return f"{who} in state {process.state}{where}{tracer}{silent}"


def _first_death(processes: Sequence[RankProcess]) -> RankProcess | None:
    """Who died first, if it was of a signal of its own."""
    ended = [each for each in processes if each.ended_s is not None]
    first = min(ended, key=lambda each: each.ended_s or 0.0, default=None)
    if first is None or first.signal is None or first.signal in SENT:
        return None
    return first


def _died(process: RankProcess) -> Finding:
    assert process.signal is not None
    name = _name(process.signal)
    return Finding(
        code="first-fault",
        kind="killed" if process.signal == signal.SIGKILL else "crashed",
        severity="broken",
        summary=f"Rank {process.rank} died of {name}, before any other rank ended.",
        where=Where(rank=process.rank, host=process.host or None),
        evidence=(
            Evidence(
                basis="measured",
                text=f"process {process.pid} ended {process.ended_s or 0.0:,.1f} s after the "
                f"job's start, by {name}",
            ),
        ),
        remedy="sudo journalctl -k --since -2h --grep 'out of memory|killed process|xid'",
        confidence="measured",
    )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first_faults(docket: Docket) -> set[int]:
    found: set[int] = set()
    for finding in docket.findings:
        if finding.code == "first-fault" and finding.severity == "broken":
            found |= _ranks(finding)
    return found


def _ranks(finding: Finding) -> set[int]:
    own = {finding.where.rank} if finding.where.rank is not None else set()
    return own | set(finding.where.ranks)


def _explain(docket: Docket, ranks: set[int]) -> None:
    """Take back abstentions that only ask what is known now of these ranks."""
    for finding in docket.findings:
        open_ = _ranks(finding)
        if finding.code == "not-determinable" and open_ and open_ <= ranks:
            docket.withdraw(finding)


def _not_ended(
    finding: Finding,
    docket: Docket,
    picture: FlightPicture | None,
    stacks: Mapping[int, Sequence[FlightFrame]],
) -> str | None:
    """Why the ranks that never joined did not run out of data; None where they may have."""
    ranks = _ranks(finding)
    if not ranks or picture is None:
        return None
    if ranks <= _first_faults(docket):
        return "it had a fault of its own: it did not end because its data did"
    calls = {each.rank: picture.stacks[each.stack] for each in picture.ranks if each.stack >= 0}
    if all(loops.in_loop(stacks.get(rank, ()), calls.get(rank, ())) for rank in ranks):
        return (
            "it stood before its newest call's line when asked, in the same function: its loop "
            "had begun anew, so its data had not run out"
        )
    return None


def _ended(finding: Finding, processes: Sequence[RankProcess]) -> list[Evidence]:
    """Ranks that came to their own end, which is what data that runs out looks like."""
    own = [p for p in processes if p.rank in _ranks(finding) and p.farewell and not p.exit_code]
    return [
        Evidence(
            basis="measured",
            text=f"rank {each.rank} came to its own end {each.ended_s:,.1f} s after the start",
        )
        for each in own
        if each.ended_s is not None
    ]


def _with(finding: Finding, more: Sequence[Evidence]) -> Finding:
    return msgspec.structs.replace(finding, evidence=(*finding.evidence, *more))


def _midrun(finding: Finding, why: str) -> Finding:
    """Without what only speaks of an end: who tells that also names what would look the same."""
    finding = _with(_without_end(finding), [Evidence(basis="inferred", text=why)])
    return msgspec.structs.replace(
        finding,
        code="hang-midrun",
        remedy="that rank's stack and log; what it does between two steps: its data, a "
        "checkpoint, an evaluation",
    )


def _without_end(finding: Finding) -> Finding:
    kept = tuple(each for each in finding.evidence if "data ran out" not in each.text)
    return msgspec.structs.replace(finding, evidence=kept)
