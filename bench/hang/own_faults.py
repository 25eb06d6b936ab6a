"""Faults of ranks' own, sorted by what they can be: causes, or what followed, or was survived.

In: a Crew, Clocks and TimeOuts. Out: OwnFaults. A fault behind its own rank's wait, behind the
others' time-outs, or long before a collective in which its rank still took part, is no cause. How
a process ended counts where nobody of the job ended it. What the network or NCCL report counts
only where nothing else does, or nothing was before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from bench.hang import fault_words
from bench.hang.crew import Crew, Member, distinct
from bench.hang.host_clocks import Clocks, Moment, moment
from bench.hang.time_outs import TimeOuts
from bench.judge.foreign import log_faults
from bench.records import RankExit, RankSign

# After a rank's death the others run on until their next collective: through a validation or a
# checkpoint at most. Whoever failed longer before the others' waits began has survived it.
LONGEST_STEP_S = 900.0
# A lost peer this long before a fault belongs to another story (a store's client that came back).
SAME_STORY_S = 900.0
WEAK = ("nccl", "nccl-warning", "unreachable", "store", "name-resolution")
SIGKILL, SIGTERM, SIGABRT = -9, -15, -6
CRASHES = {-11: "SIGSEGV", -7: "SIGBUS", -4: "SIGILL", -8: "SIGFPE", -6: "SIGABRT"}


@dataclass
class OwnFaults:
    """What may be the first: by strength, with those that are not and why."""

    strong: list[RankSign] = field(default_factory=list)
    weak: list[RankSign] = field(default_factory=list)
    late: list[RankSign] = field(default_factory=list)
    survived: list[RankSign] = field(default_factory=list)


def sorted_out(crew: Crew, clocks: Clocks, waits: TimeOuts) -> OwnFaults:
    faults = OwnFaults()
    for member in crew.members.values():
        signs = [*member.signs, *_exits(member, crew)]
        for sign in distinct(signs):
            if sign.role in ("fault", "weak"):
                _place(faults, sign, member, clocks, waits)
            elif sign.role == "mention" and sign.kind in fault_words.KINDS:
                faults.survived.append(sign)
    for sign in distinct(crew.launcher):
        if sign.role in ("fault", "weak"):
            rank = crew.rank_of_pid(sign.pid)
            sign = msgspec.structs.replace(sign, rank=rank)
            _place(faults, sign, None, clocks, waits)
    if faults.strong:
        before = [
            sign
            for sign in faults.weak
            if sign.kind != "nccl-warning"
            and all(clocks.before(moment(sign), moment(other)) for other in faults.strong)
        ]
        if before:  # whoever dies later is not why the network failed
            faults.late += faults.strong
            faults.strong, faults.weak = before, []
        faults.late += faults.weak
        faults.weak = []
    return faults


def _place(
    faults: OwnFaults, sign: RankSign, member: Member | None, clocks: Clocks, waits: TimeOuts
) -> None:
    when = moment(sign)
    if sign.survived or _took_part_later(when, clocks, waits):
        faults.survived.append(sign)
    elif (
        (member is not None and _behind_own_wait(sign, member))
        or _behind_all(when, clocks, waits)
        or (_is_of_teardown(sign) and not _before_all(when, clocks, waits))
    ):
        faults.late.append(sign)
    elif sign.role == "weak" and not _is_fatal_warning(sign):
        faults.weak.append(sign)
    else:
        faults.strong.append(sign)


def _is_fatal_warning(sign: RankSign) -> bool:
    """NCCL's warnings that end a job wherever they are said, and are about this host alone."""
    if sign.kind != "nccl-warning":
        return False
    kind = fault_words.nccl_kind(sign)
    return kind is not None and kind.name in log_faults.FATAL and kind.name not in FROM_PEERS


# May be another's doing.
FROM_PEERS = ("connection", "proxy", "rdma-connection", "rdma-error", "settings-differ")


def _took_part_later(when: Moment, clocks: Clocks, waits: TimeOuts) -> bool:
    """Whether all others finished collectives with this rank long after."""
    began = waits.began
    if began is None or when.high_s is None:
        return False
    gap = clocks.seconds_between(when, began)
    late = gap is not None and when.low_s is not None and gap - (when.high_s - when.low_s)
    return late is not False and late is not None and late > LONGEST_STEP_S


def _behind_own_wait(sign: RankSign, member: Member) -> bool:
    """Whether the same log says before that the rank waited in vain or lost a peer."""
    for other in member.signs:
        if other.file != sign.file or other.line >= sign.line or other.survived:
            continue
        if other.role == "wait" and other.phase is None:
            return True
        if other.role == "consequence" and other.kind in ("peer-lost", "teardown"):
            apart = (sign.time_s or 0.0) - (other.time_s or 0.0)
            if sign.time_s is None or other.time_s is None or apart < SAME_STORY_S:
                return True
    return False


# CUDA errors of a program's own kernels and of hardware. Others ("unspecified launch failure",
# "driver shutting down") a process also gets when its communicators are aborted under it.
_OWN_CUDA = re.compile(
    r"illegal (?:memory|instruction)|device-side assert|ECC|misaligned|out.of.bounds|CUBLAS|CUDNN"
    r"|no kernel image|invalid device|out of memory|Assertion"
)


def may_follow(sign: RankSign) -> bool:
    """Whether it is an error that a process also gets when its communicators are aborted."""
    return sign.kind == "cuda" and not _OWN_CUDA.search(sign.text)


def _is_of_teardown(sign: RankSign) -> bool:
    """Whether the end of the others can look like this as well."""
    return sign.kind == "crash" or may_follow(sign)


def _before_all(when: Moment, clocks: Clocks, waits: TimeOuts) -> bool:
    """Whether nobody had given up by then, or nobody ever did."""
    if not any(one.timed_out for one in waits.first.values()):
        return True
    return waits.told is not None and clocks.before(when, waits.told)


def _behind_all(when: Moment, clocks: Clocks, waits: TimeOuts) -> bool:
    """Whether the others had given up before."""
    told = waits.told
    return told is not None and told.owner != when.owner and clocks.before(told, when)


def _exits(member: Member, crew: Crew) -> list[RankSign]:
    """How a process ended, where that is a fault of its own: a signal that nobody of the job
    sent, or a code without a word."""
    own = [left for left in member.exits if left.code not in (None, 0, SIGTERM, 128 - SIGTERM)]
    if not own:
        return []
    left = min(own, key=lambda each: (each.rank is None, not each.first, each.line))
    code = left.code or 0
    spoke = any(s.role in ("fault", "wait", "consequence", "weak") for s in member.signs)
    if code == SIGKILL and not _forced(left, crew):
        return [_exit_sign(left, "killed", "fault", left.message or "exitcode -9 (SIGKILL)")]
    if code in CRASHES and (code != SIGABRT or not spoke):
        return [
            _exit_sign(
                left, "crash", "fault", left.message or f"exitcode {code} ({CRASHES[code]})"
            )
        ]
    if code > 0 and not spoke and _was_first(left, crew):
        return [_exit_sign(left, "exit", "fault", f"exitcode {code}, without a word")]
    return []


def _forced(left: RankExit, crew: Crew) -> bool:
    """Whether the agent itself killed it, because it did not end when told to."""
    words = [s.text for s in crew.launcher if s.kind == "sigterm"]
    return any(f" {left.pid} " in f"{text} " for text in words)


def _was_first(left: RankExit, crew: Crew) -> bool:
    """By the launcher's word: its page's root cause, or the only one that failed."""
    failed = {
        e.rank for m in crew.members.values() for e in m.exits if e.code not in (None, 0, SIGTERM)
    }
    return left.first or len(failed) == 1


def _exit_sign(left: RankExit, kind: str, role: Literal["fault", "weak"], text: str) -> RankSign:
    return RankSign(
        kind=kind,
        role=role,
        text=text,
        file=left.file,
        line=left.line,
        stream="exit",
        rank=left.rank,
        host=left.host,
        pid=left.pid,
        # noticed by then; a moment before
        time_s=None,
        until_s=left.time_s + 1 if left.time_s is not None else None,
        clock=left.clock,
    )
