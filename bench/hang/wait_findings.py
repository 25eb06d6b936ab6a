"""A job in which everybody waited, in words: whose call differs, who never came, in which phase.

In: a Crew, its TimeOuts and the phase. Out: collective-mismatch, or a hang finding with the rank
that the evidence names, or one without a rank and a not-determinable that says where to look. A
rank is named only by a majority of calls, by its own count of collectives, by gloo's barrier, by
its own word that it was done, or as the only one of all that reported nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.formats.rank_log import stamps
from bench.hang import endpoints, phases
from bench.hang.crew import Crew, Member
from bench.hang.fault_findings import consequences, what
from bench.hang.host_clocks import Clocks
from bench.hang.scene import rank_words, sentence
from bench.hang.time_outs import TimeOuts
from bench.judge.words import listed
from bench.records import Evidence, Finding, NcclLog, Phase, RankSign, Where

SHOWN = 4


def stopped(
    phase: Phase, crew: Crew, clocks: Clocks, waits: TimeOuts, logs: Sequence[NcclLog]
) -> list[Finding]:
    """A hang without a fault: the phase, who waits, and who did not come if that is known."""
    suspects, why, sure = _suspects(phase, crew, waits)
    named = [rank for rank in suspects if rank >= 0]
    evidence = [Evidence(basis="inferred", text=text) for text in why]
    evidence += _launch_words(phase, crew)
    evidence += [
        e for e in consequences(crew, waits, named) if "lost" in e.text or phase != "rendezvous"
    ]
    if phase not in ("rendezvous", "init") and not waits.first:
        evidence += _quotes(crew)
    evidence += _lost_peers(crew)
    evidence += phases.check(phase, crew, waits, logs)
    if waits.reporters:
        text = (
            f"{rank_words(waits.reporters)} gave up first, by the others' word; who reports a "
            "time-out waited, and is no culprit for it"
        )
        evidence.append(Evidence(basis="asked", text=text))
    evidence.append(Evidence(basis="inferred", text=f"suspect: {phases.SUSPECTS[phase]}"))
    hang = Finding(
        code=phases.CODES[phase],
        severity="broken",
        summary=_summary(phase, crew, waits, named),
        where=Where(
            rank=named[0] if len(named) == 1 else None,
            ranks=tuple(named) if len(named) > 1 else () if named else waits.waiting,
            host=crew.known[named[0]].host if len(named) == 1 and named[0] in crew.known else None,
            collective=_operation(waits),
            file=_place(waits, crew, named)[0],
            line=_place(waits, crew, named)[1],
        ),
        evidence=tuple(evidence),
        remedy=(phase == "rendezvous" and endpoints.remedy(crew)) or phases.REMEDIES[phase],
        confidence="asked" if sure else "inferred",
    )
    if named:
        return [hang]
    return [hang, _undecided(phase, crew, waits)]


# --- who did not come -------------------------------------------------------------------------


def _suspects(
    phase: Phase, crew: Crew, waits: TimeOuts
) -> tuple[tuple[int, ...], list[str], bool]:
    """Ranks, why, and whether a log says it outright."""
    if waits.late:
        words = [
            f"rank {rank} itself says that its newest collective is "
            f"#{max(g.enqueued or 0 for g in waits.all[rank]):,}"
            for rank in waits.late[:SHOWN]
        ]
        return waits.late, words, True
    if absent := _absent_by_barrier(crew):
        text = f"gloo's barrier names {rank_words(absent)} as the ones that did not come"
        return absent, [text], True
    if ended := phases.ended_alone(crew):
        ranks = tuple(sorted(phases.rank_of(crew, stream) for stream in ended))
        words = [
            f"{stream.file}:{stream.ended_line}: rank {phases.rank_of(crew, stream)} said: "
            f"{stream.ended}"
            for stream in ended[:SHOWN]
        ]
        return ranks, words, False
    quiet = _only_quiet(crew, waits)
    if quiet is not None and phase not in ("rendezvous", "init"):
        stream = crew.known[quiet].own
        last = stream.last_text[:120] if stream else ""
        since = f" at {stamps.shown(stream.ended_s)}" if stream and stream.ended_s else ""
        text = (
            f"rank {quiet} alone reported neither a time-out nor a lost peer; its last words"
            f"{since}: {last}"
        )
        return (quiet,), [text], False
    return (), [], False


def _absent_by_barrier(crew: Crew) -> tuple[int, ...]:
    return tuple(sorted({rank for sign in _signs(crew) for rank in sign.peers}))


def _signs(crew: Crew) -> list[RankSign]:
    return [*crew.launcher, *(sign for m in crew.members.values() for sign in m.signs)]


def _only_quiet(crew: Crew, waits: TimeOuts) -> int | None:
    """The one rank of all that says nothing of the end, though its log is at hand. Two such, or
    a missing log, and none is named."""
    size = crew.world_size
    if size is None or crew.missing or size < 2:
        return None
    quiet = [rank for rank, member in crew.known.items() if _is_quiet(member, waits)]
    return quiet[0] if len(quiet) == 1 else None


def _is_quiet(member: Member, waits: TimeOuts) -> bool:
    if member.rank in waits.first:
        return False
    return not any(
        (sign.role in ("wait", "consequence", "fault", "weak") or sign.place is not None)
        and not sign.survived
        and sign.kind != "sigterm"
        for sign in member.signs
    )


AT_LAUNCH = "the consoles of torchrun on the other nodes: which of them started, and for where"
LATER = (
    "the missing logs; export TORCH_NCCL_DUMP_ON_TIMEOUT='1' TORCH_FR_BUFFER_SIZE='2000' "
    "TORCH_NCCL_TRACE_BUFFER_SIZE='2000' before the next run"
)


def _undecided(phase: Phase, crew: Crew, waits: TimeOuts) -> Finding:
    """Who did not come is open: where to look."""
    waiting = waits.waiting
    places, first = waits.shown(waiting) if waiting else (0, None)
    missing = [rank for rank in crew.missing if rank not in waits.reporters]
    if missing:
        many = "s" if len(missing) > 1 else ""
        are = "are" if many else "is"
        where = f" The log{many} of {rank_words(missing)} {are} missing: start there."
    elif quiet := [r for r, m in crew.known.items() if _is_quiet(m, waits)]:
        where = f" {sentence(rank_words(quiet))} reported nothing: start there."
    elif phase == "rendezvous":
        where = ""
    elif crew.world_size is None:
        where = " Whether these are all ranks the logs do not tell."
    elif len(waiting) == crew.world_size:
        where = " All ranks waited: a fault of the network or a mismatch would look like this."
    else:
        where = " Nobody reported a fault of its own."
    if first is not None:
        many = "" if len(waiting) > 1 else "s"
        called = what(first) if places == 1 else f"{places} different collectives"
        agree = " and agree in everything" if len(waiting) > 1 and places == 1 else ""
        summary = f"{_subject(waiting)} wait{many} in {called}{agree}.{where}"
    else:
        summary = f"Who held the others up in {phases.NAMES[phase]} is not in these logs.{where}"
    return Finding(
        code="not-determinable",
        kind="absent-rank",
        severity="info",
        summary=summary,
        where=Where(ranks=waiting),
        evidence=(),
        remedy=AT_LAUNCH if phase == "rendezvous" else LATER,
        confidence="inferred",
    )


def _subject(ranks: Sequence[int]) -> str:
    return sentence(rank_words(ranks))


# --- words ------------------------------------------------------------------------------------


def _summary(phase: Phase, crew: Crew, waits: TimeOuts, named: Sequence[int]) -> str:
    waiting = [rank for rank in waits.waiting if rank not in named]
    at = phases.PLACES[phase]
    if phase == "rendezvous":
        who = endpoints.unanswered(crew)
        return f"Ranks never found each other: the job stopped {at}.{who}"
    if not waiting:
        if phase == "end" and named:
            return (
                f"{sentence(rank_words(named))} had come to the end while the others went on and "
                "lost their connection."
            )
        who = f"; {rank_words(named)} is the one that was lost" if named else ""
        return f"The job stopped {at}{who}."
    places, one = waits.shown(waiting)
    for_s = f" for {one.ran_s:,.0f} s" if one.ran_s else ""
    place = what(one) if places == 1 else f"{places} different collectives"
    after = ""
    if places == 1 and one.completed is not None and one.completed >= 0:
        after = f", after #{one.completed:,} was complete"
    who = f"{sentence(rank_words(waiting))} waited{for_s} in {place}{after}"
    if phase == "end" and named:
        return (
            f"{sentence(rank_words(named))} had come to the end while {who[0].lower()}{who[1:]}."
        )
    if named:
        return f"{who}; {rank_words(named)} never came. The job stopped {at}."
    return f"{who}. The job stopped {at}."


def _launch_words(phase: Phase, crew: Crew) -> list[Evidence]:
    """The messages of launch, each text once."""
    if phase not in ("rendezvous", "init"):
        return []
    found: dict[str, Evidence] = {}
    for sign in _signs(crew):
        if sign.phase is not None:
            who = f"{crew.name(sign.rank)}: " if sign.rank is not None else ""
            text = f"{sign.file}:{sign.line}: {who}{sign.text[:260]}"
            found.setdefault(f"{sign.rank}{sign.text[:80]}", Evidence(basis="asked", text=text))
    return list(found.values())[: 2 * SHOWN]


def _quotes(crew: Crew) -> list[Evidence]:
    """The lines that say that somebody waited, where none of them names a collective."""
    found = [s for s in _signs(crew) if s.role == "wait" and not s.survived]
    return [
        Evidence(basis="asked", text=f"{sign.file}:{sign.line}: {sign.text[:260]}")
        for sign in found[:SHOWN]
    ]


# "Call to recv from 10.0.0.7<51234> failed", "Connection closed by peer [10.0.0.7]:57489"
PEER = re.compile(r"(?:from|to|peer) \[?([0-9a-fA-F.:]{7,45}?)(?:<\d{1,5}>|\]:\d{1,5})")


def _lost_peers(crew: Crew) -> list[Evidence]:
    """Whom the messages of lost connections name: there is where to look, if anywhere."""
    found: dict[str, str] = {}
    for sign in _signs(crew):
        if not sign.survived and sign.role in ("consequence", "weak", "wait"):
            for match in PEER.finditer(sign.text):
                if not match[1].startswith("127."):
                    found.setdefault(match[1], f"{sign.file}:{sign.line}")
    if not 0 < len(found) <= SHOWN:
        return []
    told = listed(f"{address} ({place})" for address, place in found.items())
    text = f"the connection that was lost was to {told}: the logs of that host tell more"
    return [Evidence(basis="asked", text=text)]


def _operation(waits: TimeOuts) -> str | None:
    names = {g.operation for g in waits.first.values() if g.operation}
    return names.pop() if len(names) == 1 else None


def _place(waits: TimeOuts, crew: Crew, named: Sequence[int]) -> tuple[str | None, int | None]:
    """The line that shows it best: the named rank's last, else the first time-out, else the
    first message."""
    if named and named[0] in crew.known and (stream := crew.known[named[0]].own) is not None:
        return stream.file, stream.ended_line or stream.last_line or None
    if waits.first:
        one = next(iter(waits.first.values()))
        return one.file, one.line
    for sign in _signs(crew):
        if sign.phase is not None or sign.role in ("wait", "consequence"):
            return sign.file, sign.line
    return None, None
