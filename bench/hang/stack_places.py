"""Where ranks stood when asked, as far as their stacks and processes alone tell.

In: RankStacks and RankProcesses of a job of which there are no dumps. Out: an abstention that says
which ranks are in a collective and which are not: one moment's stacks are no proof of a hang, but
they tell where to look first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.hang.scene import rank_words, sentence
from bench.judge.docket import Docket
from bench.records import Evidence, Finding, FlightFrame, RankProcess, RankStack, Where

COLLECTIVE = "distributed_c10d.py"  # of torch: every collective of its Python API is in it
LIBRARIES = ("/site-packages/", "/torch/", "torch/", "/lib/python", "<frozen")
PLACES_SHOWN = 4


def judge(
    stacks: Sequence[RankStack], processes: Sequence[RankProcess], docket: Docket
) -> dict[str, Any]:
    """Suspects, where the fewer are not in a collective."""
    alive = [each.rank for each in processes if each.state is not None]
    if docket.findings or not (stacks or alive):
        return {}
    waiting = [each for each in stacks if _in_collective(each.frames)]
    others = [each for each in stacks if each not in waiting]
    places: dict[str, list[int]] = {}
    for each in stacks:
        places.setdefault(_place(each.frames), []).append(each.rank)
    evidence = [
        Evidence(basis="measured", text=f"{rank_words(ranks)} stood at {place}")
        for place, ranks in list(places.items())[:PLACES_SHOWN]
    ]
    suspects: tuple[int, ...] = ()
    if waiting and 0 < len(others) < len(waiting) + 1:
        suspects = tuple(sorted(each.rank for each in others))
        verb = "is" if len(suspects) == 1 else "are"
        ranks = rank_words([each.rank for each in waiting])
        are = "are" if len(waiting) > 1 else "is"
        summary = (
            f"{sentence(ranks)} {are} in a collective, {rank_words(suspects)} {verb} not: start "
            "there. Stacks of one moment do not tell a hang from a job that moves."
        )
    elif stacks:
        summary = "The stacks of one moment do not tell who waits for whom."
    else:
        live = "lives and is not" if len(alive) == 1 else "live and none is"
        summary = (
            f"{sentence(rank_words(alive))} {live} stopped; nobody tells what goes on in there."
        )
    docket.add(
        Finding(
            code="not-determinable",
            severity="info",
            summary=summary,
            where=Where(
                rank=suspects[0] if len(suspects) == 1 else None,
                ranks=suspects if len(suspects) > 1 else (),
            ),
            evidence=tuple(evidence),
            remedy="dumps tell more: start the job by `python -m bench watch -- …`, or with "
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE set; ask again to see whether stacks change",
            confidence="inferred",
        )
    )
    return {"ranks": suspects, "suspects": suspects} if suspects else {}


def _in_collective(frames: Sequence[FlightFrame]) -> bool:
    return any(frame.file.endswith(COLLECTIVE) for frame in frames)


def _place(frames: Sequence[FlightFrame]) -> str:
    """The user's own innermost line."""
    own = next((f for f in frames if not any(mark in f.file for mark in LIBRARIES)), None)
    frame = own or (frames[0] if frames else None)
    if frame is None:
        return "no Python line"
    return f"{frame.file.rpartition('/')[2]}:{frame.line} {frame.name}"
