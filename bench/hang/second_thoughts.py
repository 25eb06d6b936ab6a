"""What dumps and logs say of one hang, put together: neither alone tells all.

In: the Crew of the logs and a docket on which the dumps were judged. Out: the docket amended: one
difference is told once; a rank that dumps let end early, but whose log stops before its last
step, is held up; a rank that gloo aborted over a message of the wrong size was there, and is no
culprit, whatever its older dump lacks; a hang of the very ranks of the first fault follows from
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from bench.hang.crew import Crew, Member
from bench.hang.scene import rank_words, sentence
from bench.judge.docket import Docket
from bench.records import Evidence, Finding, RankSign, RankStep, Where

LOGS_QUOTED = 2  # lines of logs beside what dumps tell of the same
HANGS = ("hang-rendezvous", "hang-init", "hang-first-collective", "hang-midrun", "hang-end")
RECEIVED = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d{1,15}) vs (\d{1,15})")
HELD_UP = (
    "its log from the last step on, `py-spy dump` on it, `ps -o stat,wchan` (T: somebody stopped "
    "it, D: a file system), its host's kernel log"
)
UNEQUAL = (
    "shapes and element types of that call on all ranks: data of different lengths, a branch that "
    "depends on the rank; Flight Recorder dumps of all would name the odd one"
)


def together(crew: Crew, docket: Docket) -> None:
    """Everything but the first fault."""
    _one_difference(docket)
    _not_at_its_end(crew, docket)
    _was_there(crew, docket)


def follow(docket: Docket, first: Finding) -> None:
    """A hang that others' evidence finds for the very ranks of the first fault is its
    consequence."""
    for old in docket.findings:
        absent = _ranks_of(old)
        if old.code in HANGS and _is_serious(old) and absent and absent <= _ranks_of(first):
            text = f"follows from the first fault: {first.summary}"
            _amend(docket, old, text, severity="info")


def _one_difference(docket: Docket) -> None:
    """What dumps and logs both tell of one difference is told once, by the dumps, which have
    shapes and stacks; only logs have lines."""
    differing = [f for f in docket.findings if f.code == "collective-mismatch"]
    by_dumps = {(f.kind, _ranks_of(f)): f for f in differing if f.where.line is None}
    for old in differing:
        if old.where.line is None or (told := by_dumps.get((old.kind, _ranks_of(old)))) is None:
            continue
        docket.withdraw(old)
        new = msgspec.structs.replace(told, evidence=(*told.evidence, *old.evidence[:LOGS_QUOTED]))
        docket.amend(told, new)
        by_dumps[old.kind, _ranks_of(old)] = new
        for open_ in docket.findings:
            if open_.code == "not-determinable" and open_.kind == "mismatch":
                docket.withdraw(open_)


def _not_at_its_end(crew: Crew, docket: Docket) -> None:
    """A whole number of steps is the end of the data, or a rank that is held up between two: where
    its log says "step 5/12" and nothing of an end, it is the latter."""
    for old in docket.findings:
        if old.code != "hang-end" or not _is_serious(old) or not _ranks_of(old):
            continue
        steps = {rank: _unfinished(crew.known.get(rank)) for rank in sorted(_ranks_of(old))}
        if None in steps.values():
            continue
        told = "; ".join(
            f"rank {rank} was at {step.word} {step.number:,g} of {step.of:,}"
            for rank, step in list(steps.items())[:LOGS_QUOTED]
            if step is not None
        )
        text = f"not the end of its data: by its log {told}"
        _amend(docket, old, text, code="hang-midrun", remedy=HELD_UP)


def _unfinished(member: Member | None) -> RankStep | None:
    """The last step, where the log tells how many there are and it is not the last of them."""
    stream = member.own if member else None
    if stream is None or stream.ended is not None:
        return None
    marks = [step for step in stream.steps if step.word != "epoch"]
    last = marks[-1] if marks else None
    return last if last is not None and last.of is not None and last.number < last.of else None


def _was_there(crew: Crew, docket: Docket) -> None:
    """gloo aborts who receives more than it expects: that one made its call, and somebody else's,
    or its own, is of another size."""
    received = list(_received(crew))
    if not received:
        return
    ranks = {sign.rank for sign, _, _ in received if sign.rank is not None}
    serious = [old for old in docket.findings if _is_serious(old)]
    for old in serious:
        if old.code in HANGS and _ranks_of(old) and _ranks_of(old) <= ranks:
            text = "its log says that it was in the call, and was aborted there by gloo"
            _amend(docket, old, text, severity="info")
    if any(old.code in ("collective-mismatch", "first-fault") for old in serious):
        return
    docket.add(_unequal(received))


def _received(crew: Crew) -> Iterable[tuple[RankSign, int, int]]:
    for sign in (*crew.launcher, *(s for m in crew.members.values() for s in m.signs)):
        if sign.kind == "mismatch" and (found := RECEIVED.search(sign.text)):
            yield sign, int(found[1]), int(found[2])


def _unequal(received: list[tuple[RankSign, int, int]]) -> Finding:
    sign, got, expected = received[0]
    ranks = tuple(sorted({s.rank for s, _, _ in received if s.rank is not None}))
    who = sentence(rank_words(ranks)) if ranks else "A rank"
    return Finding(
        code="collective-mismatch",
        kind="size",
        severity="broken",
        summary=f"{who} received more than its own call expected ({got:,} instead of "
        f"{expected:,} bytes of a part), and gloo aborted it: ranks called collectives of "
        "different size or type. Which of them is odd these logs do not tell; who was aborted is "
        "not thereby at fault.",
        where=Where(file=sign.file, line=sign.line),
        evidence=tuple(
            Evidence(basis="asked", text=f"{s.file}:{s.line}: {s.text[:240]}")
            for s, _, _ in received[:LOGS_QUOTED]
        ),
        remedy=UNEQUAL,
        confidence="asked",
    )


def _ranks_of(finding: Finding) -> frozenset[int]:
    own = () if finding.where.rank is None else (finding.where.rank,)
    return frozenset((*own, *finding.where.ranks))


def _is_serious(finding: Finding) -> bool:
    return finding.severity == "broken"


def _amend(docket: Docket, old: Finding, text: str, **changed: str) -> None:
    evidence = (*old.evidence, Evidence(basis="inferred", text=text))
    docket.amend(old, msgspec.structs.replace(old, evidence=evidence, **changed))
