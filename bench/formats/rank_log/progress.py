"""How far a program says it is: steps, epochs, the end.

In: the text of a line. Out: a RankStep, or whether it tells an end, or that the program goes on.
Known: "step 7/12", "step=48211", Megatron's "iteration 100/ 5000", tqdm's "224/13945 [25:36<…",
Hugging Face's {'epoch': 0.34}. Steps are compared only with steps of the same word.
"""

from __future__ import annotations

import re

from bench.records import RankStep

_STEP = re.compile(
    r"(?<![\w.])(?P<word>global[_ ]step|train[_ ]step|step|iteration|iter|batch|update)s?"
    r"[\"']?\]?\s{0,3}[=:#\[(]{0,2}\s{0,12}(?P<number>\d[\d,]{0,14})(?![\d.]|\s?(?:ms|s/|GB|MB|%))"
    r"(?:\s{0,8}(?:/|of)\s{0,8}(?P<of>\d[\d,]{0,14}))?",
    re.IGNORECASE,
)
_BAR = re.compile(r"\| ?(?P<number>\d{1,12})/(?P<of>\d{1,12}) \[[\d:?]{1,12}<")
_EPOCH = re.compile(
    r"(?<![\w.])[\"']?epoch[\"']?\s{0,3}[=:#\[(]{0,2}\s{0,12}(?P<number>\d{1,6}(?:\.\d{1,8})?)"
    r"(?:\s{0,8}(?:/|of)\s{0,8}(?P<of>\d{1,6}))?",
    re.IGNORECASE,
)
_ENDED = re.compile(
    r"(?:training|train|fit|epoch(?: \d{1,6})?|run)\W{1,3}(?:is |has )?"
    r"(?:complete|finish|done|ended)"
    r"|(?:finished|completed|done)\W{1,3}(?:training|epoch|all)|end of (?:training|epoch)",
    re.IGNORECASE,
)
# What comes behind an end and takes nothing of it back: a bare "done", cleaning up, a launcher.
_FAREWELL = re.compile(
    r"(?:^|[\s\]])done(?:[\s.!]|$)|\b(?:exit|destroy|clean|shut|clos(?:ing|ed))"
    r"|bye\b|wandb|resource_tracker|NCCL INFO|^(?:srun|slurmstepd|mpirun|prterun)\b",
    re.IGNORECASE,
)
MOST_STEPS = 64  # the last of a stream: enough to see how two hosts' clocks differ


def step(text: str, number: int, seconds: float | None) -> RankStep | None:
    """The mark of progress in a line: a step rather than an epoch."""
    found = _STEP.search(text)
    word = found["word"].lower().replace(" ", "_") if found else ""
    if found is None:
        found = _BAR.search(text)
        word = "bar"
    if found is None:
        found = _EPOCH.search(text)
        word = "epoch"
    if found is None:
        return None
    of = found["of"]
    return RankStep(
        word=word,
        number=float(found["number"].replace(",", "")),
        of=int(of.replace(",", "")) if of else None,
        line=number,
        time_s=seconds,
    )


def ended(text: str) -> bool:
    """Whether a line says that an epoch or the whole program came to its end."""
    return _ENDED.search(text) is not None


def goes_on(text: str) -> bool:
    """Whether a line behind an end shows that the program does something else by now."""
    return any(map(str.isalnum, text)) and _FAREWELL.search(text) is None
