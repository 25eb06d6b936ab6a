"""The first fault in words: who, what, when against the others' time-outs, and what to do.

In: a Choice with the Crew, the Clocks and the TimeOuts. Out: a first-fault finding; where evidence
does not order several faults, a not-determinable that lists them and accuses nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from bench.formats.rank_log import stamps
from bench.hang import fault_words
from bench.hang.crew import LOCAL_NAMES, Crew, distinct
from bench.hang.first_fault import Choice
from bench.hang.given_up import GivenUp
from bench.hang.host_clocks import Clocks, moment
from bench.hang.scene import rank_words, sentence
from bench.hang.time_outs import TimeOuts
from bench.judge.words import listed
from bench.records import Evidence, Finding, RankSign, Where

SHOWN = 4
LONGEST = 240
MINUTE_S = 120.0  # beyond, a gap is told in minutes
BARRIER_ELEMENTS = 1  # an all_reduce of one element: a barrier, a flag, a loss
HIDDEN_BY = "exception"
DETAIL = 140  # characters of its message in the sentence


def finding(choice: Choice, crew: Crew, clocks: Clocks, waits: TimeOuts) -> Finding:
    """One finding for the first fault or the faults that are level."""
    if choice.how == "level":
        return _level(choice, crew)
    sign = choice.signs[0]
    words = fault_words.of(sign)
    ranks = tuple(s.rank for s in choice.signs if s.rank is not None)
    evidence = [_quote(each) for each in choice.signs[:SHOWN]]
    if sign.chain:
        evidence.append(Evidence(basis="asked", text=f"its stack: {' → '.join(sign.chain)}"))
    evidence += [_quote(each) for each in choice.quotes[:SHOWN]]
    evidence += consequences(crew, waits, ranks)
    evidence += _others(choice, crew)
    if choice.unordered:
        text = (
            "within the difference that the hosts' clocks may have it is level with the time-outs"
        )
        evidence.append(Evidence(basis="inferred", text=text))
    summary = f"{_who(choice, crew)} {words.deed(sign)}{_when(sign, clocks, waits)}"
    summary += f"{_detail(sign)}."
    if meaning := fault_words.means(sign):
        summary += f" {meaning}"
    if choice.how == "joint":
        summary += " None of them was first by the evidence: look for what they have in common."
    return Finding(
        code="first-fault",
        kind=fault_words.kind_of(sign),
        severity="broken",
        summary=summary,
        where=Where(
            host=_host(crew, sign) if len(choice.signs) == 1 else None,
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=ranks if len(ranks) > 1 else (),
            file=sign.file,
            line=sign.line,
        ),
        evidence=tuple(evidence),
        remedy=words.mend,
        confidence="inferred" if choice.unordered else "asked",
    )


def ended_from_outside(sign: RankSign, crew: Crew) -> Finding:
    """Nobody failed: a scheduler, an operator or the agent's own end."""
    words = fault_words.of(sign)
    return Finding(
        code="first-fault",
        kind=sign.kind,
        severity="warning",
        summary=f"No rank has a fault of its own: the job {words.deed(sign)}.",
        where=Where(host=sign.host, file=sign.file, line=sign.line),
        evidence=(_quote(sign),),
        remedy=words.mend,
        confidence="asked",
    )


def consequences(crew: Crew, waits: TimeOuts, but: Sequence[int] = ()) -> list[Evidence]:
    """One line on those who waited, and one on those who lost a peer."""
    evidence = []
    waiting = [rank for rank in waits.waiting if rank not in but]
    if waiting:
        places, one = waits.shown(waiting)
        count = (
            f"{len(waiting)} other ranks" if len(waiting) > SHOWN and but else rank_words(waiting)
        )
        called = what(one) if places == 1 else f"{places} different collectives"
        text = f"a consequence: {count} gave up {called}" if but else f"{count} gave up {called}"
        evidence.append(Evidence(basis="asked", text=f"{text} ({one.file}:{one.line})"))
    lost = [
        rank
        for rank, member in crew.known.items()
        if rank not in but
        and rank not in waiting
        and any(s.kind == "peer-lost" and not s.survived for s in member.signs)
    ]
    if lost:
        text = f"{rank_words(lost)} lost the connection to a peer"
        text = f"a consequence: {text}" if but else text
        evidence.append(Evidence(basis="asked", text=text))
    return evidence


def what(one: GivenUp) -> str:
    """ "ALLREDUCE #48,211 of default_pg, begun at 10:31:07"."""
    words = one.operation or "a collective"
    if one.sequence is not None:
        words += f" #{one.sequence:,}"
    if one.group_name:
        words += f" of {one.group_name}"
    elif one.group not in (None, "fingerprint"):
        words += f" of group {one.group}"
    if one.elements_in == BARRIER_ELEMENTS:
        words += " (1 element: a barrier or a flag)"
    if one.began_s is not None:
        words += f", begun at {stamps.shown(one.began_s)}"
    return words


def place(sign: RankSign) -> str:
    """ "rank_17.log:295489"."""
    return f"{PurePath(sign.file).name}:{sign.line}"


# --- parts ------------------------------------------------------------------------------------


def _who(choice: Choice, crew: Crew) -> str:
    ranks = [s.rank for s in choice.signs if s.rank is not None]
    if not ranks:
        sign = choice.signs[0]
        where = f"on {sign.host}" if sign.host else f"({PurePath(sign.file).name})"
        return f"A process {where}"
    if len(ranks) == 1:
        return sentence(crew.name(ranks[0]))
    return sentence(rank_words(ranks))


def _detail(sign: RankSign) -> str:
    """The message of an exception, which its kind does not tell."""
    if sign.kind != HIDDEN_BY:
        return ""
    text = sign.text.partition(":")[2].strip()
    return f": {text if len(text) <= DETAIL else text[: DETAIL - 1] + '…'}" if text else ""


def _host(crew: Crew, sign: RankSign) -> str | None:
    if sign.host is not None and sign.host not in LOCAL_NAMES:
        return sign.host
    return crew.known[sign.rank].host if sign.rank in crew.known else None


def _when(sign: RankSign, clocks: Clocks, waits: TimeOuts) -> str:
    """ " at 10:31:07, 600 s before the first time-out"."""
    when = moment(sign)
    words = f" at {stamps.shown(when.low_s)}" if when.low_s is not None else ""
    if waits.told is None:
        return words
    gap = clocks.seconds_between(when, waits.told)
    if gap is None or gap <= 0:
        return words
    told = f"{gap:,.0f} s" if gap < 10 * MINUTE_S else f"{gap / 60:,.0f} min"
    return f"{words}, {told} before the first time-out"


def _quote(sign: RankSign) -> Evidence:
    again = f" ({sign.count} times)" if sign.count > 1 else ""
    at = f" at {sign.place}" if sign.place else ""
    text = sign.text if len(sign.text) <= LONGEST else sign.text[: LONGEST - 1] + "…"
    return Evidence(basis="asked", text=f"{sign.file}:{sign.line}: {text}{at}{again}")


def _others(choice: Choice, crew: Crew) -> list[Evidence]:
    """Later faults, faults that were survived, earlier attempts, logs that are not at hand."""
    evidence = []
    later = [s for s in choice.others if s.role == "fault" or s.kind == "nccl"]
    for sign in later[:SHOWN]:
        who = crew.name(sign.rank)
        text = f"later, or not surely before: {who}, {place(sign)}: {sign.text[:100]}"
        evidence.append(Evidence(basis="asked", text=text))
    for sign in choice.survived[:2]:
        who = crew.name(sign.rank)
        text = f"survived, no cause: {who}, {place(sign)}: {sign.text[:100]}"
        evidence.append(Evidence(basis="asked", text=text))
    if earlier := distinct(s for s in crew.earlier if s.role == "fault"):
        kinds = listed(dict.fromkeys(f"{fault_words.kind_of(s)} ({place(s)})" for s in earlier))
        text = f"attempts before this one ended as well: {kinds}"
        evidence.append(Evidence(basis="asked", text=text))
    if crew.missing:
        text = f"no log of {rank_words(crew.missing)} is at hand: an earlier fault may be there"
        evidence.append(Evidence(basis="inferred", text=text))
    return evidence


def _level(choice: Choice, crew: Crew) -> Finding:
    ranks = tuple(dict.fromkeys(s.rank for s in choice.signs if s.rank is not None))
    kinds = listed(
        f"{crew.name(s.rank)} {fault_words.of(s).deed(s)}" for s in choice.signs[:SHOWN]
    )
    open_ = "Several ranks have faults of their own, and no time or order tells which came first"
    if len(choice.signs) == 1:
        open_ = "A fault is level with the others' time-outs, and no clock tells which came first"
    if choice.torn:
        open_ = (
            "What is told here a process also gets when its communicators are torn down, and the "
            f"logs of {rank_words(crew.missing)} are not at hand"
        )
    return Finding(
        code="not-determinable",
        kind="first-fault",
        severity="info",
        summary=f"{open_}: {kinds}.",
        where=Where(ranks=ranks, file=choice.signs[0].file, line=choice.signs[0].line),
        evidence=(*(_quote(s) for s in choice.signs[: 2 * SHOWN]), *_others(choice, crew)),
        remedy="read these lines; clocks set by NTP and a time in every line would decide",
        confidence="inferred",
    )
