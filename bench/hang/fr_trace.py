"""Findings from torchfrtrace's own output, where the dumps themselves are not at hand.

In: TraceNotes. Out: findings, each with confidence inferred. Who did not join is taken as it is
told. Its culprits are whoever differs from the dump it read first: the smaller side is odd, and of
two equal sides neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.hang.scene import rank_words, sentence
from bench.judge.docket import Docket
from bench.records import Evidence, Finding, TraceNote, Where

NOTES = 6  # the first complaints; the rest follow from them


@dataclass(frozen=True)
class Named:
    ranks: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()


def judge(notes: Sequence[TraceNote], docket: Docket) -> Named:
    """Findings on the docket; whom they name."""
    named: set[int] = set()
    suspects: set[int] = set()
    seen: set[tuple[str, int | None]] = set()
    for note in notes[: 10 * NOTES]:
        if (note.group, note.seq) in seen or len(seen) >= NOTES:
            continue
        seen.add((note.group, note.seq))
        if note.missing:
            docket.add(_never_joined(note))
            named.update(note.missing)
        elif note.culprits:
            odd = _odd(note)
            docket.add(_mismatch(note, odd))
            named.update(odd)
        elif note.unread:
            docket.add(_unread(note))
            suspects.update(note.unread)
    return Named(tuple(sorted(named)), tuple(sorted(suspects)))


def _call(note: TraceNote) -> str:
    name = note.collective.rpartition(":")[2] or "a collective"
    place = f" #{note.seq:,}" if note.seq is not None else ""
    group = f" of {note.group}" if note.group else ""
    return f"{name}{place}{group}"


def _where(ranks: Sequence[int], note: TraceNote) -> Where:
    return Where(
        rank=ranks[0] if len(ranks) == 1 else None,
        ranks=tuple(ranks) if len(ranks) > 1 else (),
        collective=note.collective.rpartition(":")[2] or None,
        file=note.file,
        line=note.line,
    )


def _never_joined(note: TraceNote) -> Finding:
    waiting = tuple(rank for rank in note.expected if rank not in note.missing)
    rest = ""
    if waiting:
        rest = f"; {rank_words(waiting)} {'wait' if len(waiting) > 1 else 'waits'} in it"
    sizes = f" ({note.input_sizes})" if note.input_sizes else ""
    return Finding(
        code="hang-midrun",
        severity="broken",
        summary=f"{sentence(rank_words(note.missing))} never joined {_call(note)}{sizes}{rest}.",
        where=_where(note.missing, note),
        evidence=(Evidence(basis="claimed", text="torchfrtrace: not all ranks joined it"),),
        remedy=f"on {rank_words(note.missing)}: its log from the first error, its stack; the "
        "dumps themselves tell more: fabric-bench diagnose DIR",
        confidence="inferred",
    )


def _odd(note: TraceNote) -> tuple[int, ...]:
    """The smaller of the two sides; none where they are equal or the members are not told."""
    others = tuple(rank for rank in note.expected if rank not in note.culprits)
    if not others or len(others) == len(note.culprits):
        return ()
    return min((note.culprits, others), key=len)


def _mismatch(note: TraceNote, odd: tuple[int, ...]) -> Finding:
    everyone = odd or note.expected or note.culprits
    verb = "disagrees" if len(everyone) == 1 else "disagree"
    who = sentence(rank_words(everyone))
    tail = "" if odd else "; which side is wrong it does not tell"
    evidence = [Evidence(basis="claimed", text=f"torchfrtrace: {why}") for why in note.errors[:3]]
    evidence.append(
        Evidence(
            basis="inferred",
            text="torchfrtrace calls culprit whoever differs from the dump that it read first; "
            "counted instead is which side is smaller",
        )
    )
    return Finding(
        code="collective-mismatch",
        severity="broken",
        kind=_kind(note),
        summary=f"{who} {verb} at {_call(note)}{tail}.",
        where=_where(everyone, note),
        evidence=tuple(evidence),
        remedy="the dumps themselves tell both calls and their stacks: fabric-bench diagnose DIR",
        confidence="inferred",
    )


def _kind(note: TraceNote) -> str | None:
    told = " ".join(note.errors)
    for mark, kind in (("COLLECTIVE_TYPE", "type"), ("SIZE_OR", "size"), ("DTYPE", "dtype")):
        if mark in told:
            return kind
    return None


def _unread(note: TraceNote) -> Finding:
    return Finding(
        code="not-determinable",
        severity="info",
        summary=f"torchfrtrace had no dump of {rank_words(note.unread)}: start there.",
        where=_where(note.unread, note),
        evidence=(Evidence(basis="claimed", text="torchfrtrace: missed FR dumps"),),
        remedy=f"the log of {rank_words(note.unread)}, and its host's kernel log",
        confidence="inferred",
    )
