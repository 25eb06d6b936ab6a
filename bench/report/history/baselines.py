"""baseline.json of a history: which run the others are held against, since when and why.

In: a history's folder and a report. Out: the baseline of a shape, or the first good night where
nobody has set one. A baseline that was replaced stays listed, without its figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.judge.history import nights
from bench.records import BadInput, Baseline, Baselines, CostLine, Night, Report
from bench.report import folder as run_folder
from bench.report.history.archive import History, content_of

BASELINE_NAME = "baseline.json"
LATEST = 4e9  # seconds since the epoch: the year 2096
LIMIT_BYTES = 64 * 2**20
LONGEST_REASON = 500  # characters; a reason is a sentence, not a report
MOST_TRIED = 5  # nights whose report is opened in search of a first good one


@dataclass(frozen=True)
class Held:
    """What tonight is held against: a run, its lines, since when it was set (measured where
    nobody set it), and the reason; None: nobody set it. Not `good`: there is no better one yet."""

    run: str
    lines: tuple[CostLine, ...]
    at: float
    reason: str | None = None
    good: bool = True


def load(history: Path) -> Baselines:
    """The baselines of a history; none where no file is there. BadInput for a damaged one: to
    go on without would hold the nights against another run and say nothing."""
    file = history / BASELINE_NAME
    if not file.exists():
        return Baselines()
    content = content_of(file, LIMIT_BYTES)
    if content is None:
        raise BadInput("cannot be read", file=str(file))
    try:
        found = msgspec.json.decode(content, type=Baselines)
        if not all(0 <= one.set_at <= LATEST for one in (*found.current, *found.former)):
            raise msgspec.DecodeError("a baseline was set at no time there is")
        return found
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(
            f"is no baseline file ({error}); set one anew: fabric-bench baseline set RUN",
            file=str(file),
        ) from None


def set_baseline(
    history: Path, report: Report, reason: str, *, accept_findings: bool = False
) -> Baseline:
    """Make `report` the baseline of its shape. BadInput for a run that is none to be held
    against."""
    reason = " ".join(reason.split())
    if not reason:
        raise BadInput('a baseline needs a reason, such as --reason "new switch"')
    if len(reason) > LONGEST_REASON:
        raise BadInput(f"the reason has {len(reason)} characters; at most {LONGEST_REASON}")
    if not any(line.points for line in report.lines):
        raise BadInput(f"run {report.run} measured nothing to be held against")
    troubles = nights.troubles_of(report)
    if (troubles or not report.complete) and not accept_findings:
        why = ", ".join(troubles) or "it was cut short"
        raise BadInput(
            f"run {report.run} is no good run ({why}): what is wrong in it would count as good; "
            "--accept-findings sets it all the same"
        )
    shape = nights.shape_of(report)
    made = Baseline(
        run=report.run,
        reason=reason,
        set_at=round(time.time(), 1),
        shape=shape,
        measured_at=nights.started_at(report),
        hosts=tuple(facts.host for facts in report.hosts),
        lines=report.lines,
    )
    before = load(history)
    former = tuple(
        msgspec.structs.replace(old, lines=()) for old in before.current if old.shape == shape
    )
    after = Baselines(
        current=(*(old for old in before.current if old.shape != shape), made),
        former=(*before.former, *former),
    )
    content = msgspec.json.format(msgspec.json.encode(after), indent=1)
    trouble = run_folder.put(history / BASELINE_NAME, content + b"\n")
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))
    return made


def held_against(history: History, known: Sequence[Night]) -> Held | None:
    """What the last of the `known` nights is held against: the baseline of its shape; else the
    first good night of them, else the first whole one; None where there is none."""
    shape = known[-1].shape
    for one in load(history.folder).current:
        if one.shape == shape:
            return Held(one.run, one.lines, one.set_at, one.reason)
    for night in _first(known, shape)[:MOST_TRIED]:
        try:
            report = history.report(night.run)
        except BadInput:
            continue  # named already, or gone since the folder was listed
        good = night.complete and not night.troubles
        return Held(night.run, report.lines, night.started_at, good=good)
    return None


def _first(known: Sequence[Night], shape: str) -> list[Night]:
    """Nights of a shape that could be a baseline, the likeliest first."""
    own = [night for night in known if night.shape == shape and night.lines]
    return sorted(own, key=lambda night: (not night.complete, bool(night.troubles)))
