"""Ranks whose calls differ at one place, in words.

In: the Differences of TimeOuts. Out: collective-mismatch, naming the odd ranks where a majority
decides, surely if it is one of all members; else both sides and the abstention beside them. The
silent are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.hang.call_difference import Difference
from bench.hang.crew import Crew
from bench.hang.given_up import GivenUp
from bench.hang.scene import rank_words, sentence
from bench.hang.time_outs import TimeOuts
from bench.records import Evidence, Finding, Where

SHOWN = 4
GROUPLESS = (None, "fingerprint")


def mismatches(waits: TimeOuts, crew: Crew) -> list[Finding]:
    """One finding per group whose ranks called different things; beside a level one the
    abstention."""
    found = []
    for each in waits.differences:
        found.append(_mismatch(each, crew))
        if not each.odd:
            found.append(_level_sides(each, crew))
    return found


def _mismatch(each: Difference, crew: Crew) -> Finding:
    usual, odd = each.sides[0], each.sides[1]
    place = _place(each)
    everybody = tuple(sorted(g.rank for side in each.sides for g in side))
    if each.odd:
        many = "" if len(each.odd) > 1 else "s"
        summary = (
            f"{sentence(rank_words(each.odd))} disagree{many}{place}: {_call(odd[0], each)} "
            f"where {rank_words([g.rank for g in usual])} called {_call(usual[0], each)}."
        )
    else:
        sides = "; ".join(
            f"{rank_words([g.rank for g in side])} {_call(side[0], each)}"
            for side in each.sides[:SHOWN]
        )
        summary = f"{sentence(rank_words(everybody))} disagree{place}: {sides}."
    evidence = [
        Evidence(basis="asked", text=f"{g.file}:{g.line}: {_quote(g)}")
        for side in each.sides
        for g in side[:2]
    ][: 2 * SHOWN]
    if each.sequence is None:
        text = (
            "all ranks of the job wait, and not in the same operation: nobody is left to wait for"
        )
        evidence.append(Evidence(basis="inferred", text=text))
    elif not each.same_group:
        how = "counts process groups by rank" if each.group else "does not print the process group"
        text = f"this version of torch {how}: they may be in different ones"
        evidence.append(Evidence(basis="inferred", text=text))
    if silent := _silent(crew, everybody):
        text = f"{rank_words(silent)} printed nothing of it: unknown, not proven healthy"
        if each.odd and not each.majority:
            text += f"; {rank_words(each.odd)} stands out of those that did"
        evidence.append(Evidence(basis="inferred", text=text))
    sure = each.same_group and each.group is not None and (each.majority or not each.odd)
    return Finding(
        code="collective-mismatch",
        kind=each.kind,
        severity="broken",
        summary=summary + " Ranks took different paths through the program; no fault of the "
        "network.",
        where=Where(
            rank=each.odd[0] if len(each.odd) == 1 else None,
            ranks=each.odd if len(each.odd) > 1 else () if each.odd else everybody,
            collective=odd[0].operation,
            file=odd[0].file,
            line=odd[0].line,
        ),
        evidence=tuple(evidence),
        remedy="look for a branch, a loop length or a model part that depends on the rank: "
        "logging, metrics or a checkpoint on one rank only, data of different lengths",
        confidence="asked" if sure else "inferred",
    )


def _quote(one: GivenUp) -> str:
    """Its words; gloo's do not name the operation, which the traceback does."""
    named = one.sequence is not None or one.operation is None
    return one.text[:260] if named else f"in {one.operation}: {one.text[:200]}"


def _place(each: Difference) -> str:
    """ " at #4,084 of default_pg"."""
    group = _group(each.sides[0][0])
    of = f" of {group}" if group else ""
    return f" at #{each.sequence:,}{of}" if each.sequence is not None else ""


def _call(one: GivenUp, each: Difference) -> str:
    """ "BROADCAST of 56,623,104 elements"; of sizes both, where they differ."""
    if one.elements_in is None:
        return one.operation or "a collective"
    if each.kind == "size" and one.elements_out not in (None, one.elements_in):
        return f"{one.operation} of {one.elements_in:,} → {one.elements_out:,} elements"
    return f"{one.operation} of {one.elements_in:,} elements"


def _level_sides(each: Difference, crew: Crew) -> Finding:
    """Nobody is proven odd; who is so among those that were heard is where to start."""
    ranks = tuple(sorted(g.rank for side in each.sides for g in side))
    summary = f"Which of {rank_words(ranks)} is wrong{_place(each)} no majority tells."
    if few := each.fewer:
        silent, many = rank_words(_silent(crew, ranks)), "" if len(few) > 1 else "s"
        summary += f" {sentence(rank_words(few))} stand{many} against the others that were heard, "
        summary += f"but {silent} printed nothing of it: start there."
    return Finding(
        code="not-determinable",
        kind="mismatch",
        severity="info",
        summary=summary,
        where=Where(
            rank=few[0] if len(few) == 1 else None,
            ranks=() if len(few) == 1 else few or ranks,
        ),
        evidence=(),
        remedy="the logs of the other ranks of this group, or Flight Recorder dumps of all",
        confidence="inferred",
    )


def _silent(crew: Crew, speaking: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(range(crew.size)) - set(speaking)))


def _group(one: GivenUp) -> str | None:
    if one.group_name:
        return one.group_name
    return None if one.group in GROUPLESS else f"group {one.group}"
