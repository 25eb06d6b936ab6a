"""A night judged against its baseline and its past: what drifted, since when, what has recovered.

In: a Past (nights in order, tonight last; the baseline; tonight's report and second look). Out: a
Nightly. Findings are few: one for each way that carries data, whatever number of its series
moved. Pure: who reads folders is report/history/archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bench.judge.history import alarm, fleet, series
from bench.judge.history import findings as drift_findings
from bench.judge.history.alarm import Around
from bench.judge.history.words import SIZES, signed
from bench.judge.networks import Networks
from bench.records import (
    CostLine,
    Difference,
    Finding,
    Night,
    Nightly,
    NightlySeries,
    Report,
    Tolerance,
    Verdict,
)

SECOND_LOOK_SERIES = 12  # more at once is no drift of a few, and a whole sweep would be repeated


@dataclass(frozen=True)
class Past:
    """All that is known on the night `report` was measured.

    `nights` are of all shapes, in order, tonight last; `lines` those of the baseline, which is the
    run `baseline`, set with `reason` (None: nobody set it) `age_s` ago; not `good`: nobody set it,
    and no night of this shape was without fault yet. `before` is what was said
    on the last night of this shape, `again` tonight's second look. `differences` are those to the
    night before; `changed` those that came with an earlier night from which on a series is slower.
    """

    report: Report
    nights: Sequence[Night]
    history: str = ""  # its folder, as the user would type it
    baseline: str | None = None
    lines: Sequence[CostLine] = ()
    reason: str | None = None
    age_s: float | None = None
    good: bool = True
    before: Nightly | None = None
    again: Night | None = None
    again_folder: str | None = None
    differences: tuple[Difference, ...] = ()
    changed: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


def judge(past: Past) -> Nightly:
    """What the nightly job says of tonight."""
    tonight = past.nights[-1]
    like = [night for night in past.nights if night.shape == tonight.shape]
    found = _series(past, like)
    told = Nightly(
        run=tonight.run,
        history=past.history,
        verdict=past.report.verdict,
        shape=tonight.shape,
        nights=len(like),
        nights_before=len(past.nights) - 1,
        other_shapes=len(past.nights) - len(like),
        skipped=past.skipped,
        baseline=past.baseline,
        baseline_reason=past.reason,
        baseline_age_s=past.age_s,
        baseline_good=past.good,
        previous=like[-2].run if len(like) > 1 else None,
        differences=past.differences,
        changed=dict(past.changed),
        missing_hosts=fleet.missing_hosts(past.nights),
        series=found,
        slow_hosts=fleet.slow_hosts(past.nights),
        troubles=_troubles(like),
        again=past.again_folder,
        notes=() if past.report.complete else (_cut_short(past.report),),
    )
    told = msgspec.structs.replace(told, recovered=_recovered(past, told, like))
    findings = drift_findings.of(told, Networks(past.report), past.before)
    return msgspec.structs.replace(
        told, findings=findings, verdict=_verdict(past.report.verdict, findings)
    )


def second_look(told: Nightly) -> tuple[NightlySeries, ...]:
    """The series that deserve further sessions at once; none where tonight had its second look."""
    if told.again is not None:
        return ()
    return tuple(one for one in told.series if alarm.looks_wrong(one))[:SECOND_LOOK_SERIES]


def changed_nights(told: Nightly) -> dict[str, str]:
    """The nights before tonight from which on a series is another, each with the night before it:
    what changed between them is worth a look."""
    found = {}
    for one in told.series:
        if one.since in one.runs[1:-1] and one.state in ("regressed", "improved"):
            found[one.since] = one.runs[one.runs.index(one.since) - 1]
    return found


def _series(past: Past, like: Sequence[Night]) -> tuple[NightlySeries, ...]:
    if past.baseline is None:
        return ()
    runs = [night.run for night in like]
    good = [night.complete and not night.troubles for night in like]
    at = runs.index(past.baseline) if past.baseline in runs else None
    tolerance = past.report.fabric.tolerance if past.report.fabric else Tolerance()
    before = {_key(one): one for one in past.before.series} if past.before else {}
    looks = series.series_of(past.lines, [past.again]) if past.again else ()
    again = {look.key: look.values[0] for look in looks}
    return tuple(
        alarm.judged(
            one,
            Around(
                runs=runs,
                good=good,
                baseline=at,
                baseline_set=past.reason is not None,
                tolerance=tolerance,
                again=again.get(one.key),
                before=before.get(one.key),
                crowded=like[-1].crowded,
            ),
        )
        for one in series.series_of(past.lines, like)
    )


def _key(one: NightlySeries) -> str:
    return f"{one.candidate}, {one.collective}, {one.part}"


def _troubles(like: Sequence[Night]) -> dict[str, str]:
    """What tonight's sweep found, each with the first of the nights in a row that found it."""
    found = {}
    for trouble in like[-1].troubles:
        since = like[-1].run
        for night in reversed(like[:-1]):
            if trouble not in night.troubles:
                break
            since = night.run
        found[trouble] = since
    return found


def _recovered(past: Past, told: Nightly, like: Sequence[Night]) -> tuple[str, ...]:
    """What was wrong on the night before and is not tonight. A night that was cut short, or did
    not measure the thing, recovers nothing."""
    if len(like) < 2 or not like[-1].complete:
        return ()
    previous = like[-2]
    measured = {line.candidate for line in like[-1].lines}
    lost = {line.candidate for line in previous.lines} - measured
    sentences = []
    for trouble in previous.troubles:
        if trouble in told.troubles or any(f"({name})" in trouble for name in lost):
            continue
        nights = _row(like[:-1], trouble)
        sentences.append(f"{trouble} is gone, after {_nights(nights)}")
    if past.before is not None:
        sentences += _series_back(past.before, told)
    return tuple(sentences)


def _row(nights: Sequence[Night], trouble: str) -> int:
    """On how many of the last nights in a row."""
    count = 0
    for night in reversed(nights):
        if trouble not in night.troubles:
            break
        count += 1
    return count


def _series_back(before: Nightly, told: Nightly) -> list[str]:
    """Ways of which a series was regressed last night and none is tonight."""
    now = {_key(one): one for one in told.series}
    back: dict[str, list[NightlySeries]] = {}
    for one in before.series:
        tonight = now.get(_key(one))
        if one.state == "regressed" and tonight is not None and tonight.last is not None:
            back.setdefault(one.candidate, []).append(tonight)
    sentences = []
    for candidate, ones in back.items():
        if any(one.state in ("regressed", "tonight", "hole") for one in ones):
            continue
        worst = max(ones, key=lambda one: one.last or 0.0)
        assert worst.last is not None, "kept only with a value"
        sentences.append(
            f"{candidate} is as its baseline again ({signed(worst.last)} in "
            f"{worst.collective}, {SIZES[worst.part]})"
        )
    return sentences


def _cut_short(report: Report) -> str:
    why = f": {report.missing[0].rstrip('.')}" if report.missing else ""
    return f"tonight was cut short{why}; what it did measure is judged"


def _nights(count: int) -> str:
    return f"{count} night{'s' * (count != 1)}"


def _verdict(own: Verdict, findings: Sequence[Finding]) -> Verdict:
    """The sweep's, unless the past says worse."""
    if own in ("broken", "misconfigured"):
        return own
    if any(finding.severity in ("degraded", "broken") for finding in findings):
        return "degraded"
    return own
