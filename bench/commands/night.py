"""A night from its report to its files: judged against the past, looked at twice, exported.

In: a history's folder and the name of a run in it. Out: a Nightly, and in the run's folder
nightly.json, nightly.md, junit.xml, metrics.prom, lines.csv and suspects.txt. The sweep, the
judge and the folder meet here; none of them knows the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from bench.judge.history import drift
from bench.judge.history.drift import Past
from bench.judge.history.nights import night_of
from bench.judge.sides import differences, topics
from bench.records import BadInput, Difference, Night, Nightly, NightlySeries, Report, Side
from bench.report import folder
from bench.report.history import archive as history
from bench.report.history import baselines
from bench.report.history.archive import History
from bench.report.stored import read_report
from bench.report.text import printable

AGAIN_NAME = "again"  # the second look's folder, inside the run's
KEPT_VALUES = 60  # nights of a series in nightly.json: the reports have them all


def judged(place: Path, run: str, *, shown: str, again: Path | None = None) -> Nightly:
    """The night of `run`, which lies in the history `place` (`shown`, as the user typed it);
    `again` is the folder of a second look. BadInput where its report cannot be read."""
    known = history.read(place)
    if run not in {night.run for night in known.nights}:
        read_report(place / run)  # says why
        raise BadInput(
            "is no night of this history: it is a copy of another", file=str(place / run)
        )
    told = _told(known, run, shown=shown, again=again)
    history.keep(known)
    if run == known.nights[-1].run:  # for programs that look at one place, such as node_exporter
        folder.point_latest(place / run, anywhere=True)
    return told


def retold(known: History, run: str, *, shown: str) -> Nightly:
    """The night of `run` once more, from what is there; nothing is written."""
    again = known.folder / run / AGAIN_NAME
    return _told(known, run, shown=shown, again=again if _is_run(again) else None)


def _is_run(place: Path) -> bool:
    try:
        read_report(place)
    except BadInput:
        return False
    return True


def _told(known: History, run: str, *, shown: str, again: Path | None) -> Nightly:
    told, past = _first_words(known, run, shown=shown, again=again)
    changed = drift.changed_nights(told)
    if not changed:
        return told
    found = {since: _between(known, before, since) for since, before in changed.items()}
    return drift.judge(replace(past, changed=found))


def _first_words(
    known: History, run: str, *, shown: str, again: Path | None
) -> tuple[Nightly, Past]:
    nights = known.up_to(run)
    like = [night for night in nights if night.shape == nights[-1].shape]
    held = baselines.held_against(known, nights)
    previous = like[-2].run if len(like) > 1 else None
    tonight = nights[-1].started_at
    past = Past(
        report=known.report(run),
        nights=nights,
        baseline=held.run if held else None,
        lines=held.lines if held else (),
        reason=held.reason if held else None,
        good=held.good if held else True,
        age_s=max(tonight - held.at, 0.0) if held and held.at and tonight else None,
        before=known.said(previous) if previous else None,
        again=_second(again),
        again_folder=str(again) if again else None,
        history=shown,
        differences=_between(known, previous, run) if previous else (),
        skipped=known.skipped,
    )
    return drift.judge(past), past


def _second(again: Path | None) -> Night | None:
    return night_of(read_report(again)) if again else None


def _between(known: History, before: str, after: str) -> tuple[Difference, ...]:
    """What differs in the surroundings of two nights; nothing where a report has gone."""
    try:
        sides = [_side(known.report(run)) for run in (before, after)]
    except BadInput:
        return ()
    return differences.contrast(*sides).differences


def _side(report: Report) -> Side:
    return Side(path=report.run, topics=tuple(topics.of_report(report)), told=("report",))


def second_look(
    told: Nightly, sweep: Callable[[Path, Sequence[str]], int], place: Path
) -> Path | None:
    """Three more sessions of what stands out, at once; their folder, None where there is nothing
    to look at, or the second look came to nothing."""
    wanted = drift.second_look(told)
    if not wanted:
        return None
    names = _named(wanted)
    print(
        f"fabric-bench: a second look at once at what stands out: {printable(names)}",
        file=sys.stderr,
    )
    again = place / told.run / AGAIN_NAME
    options = ["--quiet", "--locate", "never"]
    for collective in dict.fromkeys(one.collective for one in wanted):
        options += ["--collective", collective]
    for candidate in dict.fromkeys(one.candidate for one in wanted):
        if not candidate.startswith("("):  # the case with nothing set is measured always
            options += ["--interface", candidate]
    try:
        sweep(again, options)
        read_report(again)
    except BadInput as bad:
        print(f"fabric-bench: no second look: {printable(str(bad))}", file=sys.stderr)
        return None
    return again


def _named(wanted: Sequence[NightlySeries]) -> str:
    names = list(dict.fromkeys(f"{one.candidate} ({one.collective})" for one in wanted))
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def export(told: Nightly, place: Path) -> tuple[str, ...]:
    """Write the files of a night; a sentence for each that could not be written."""
    from bench.report import junit, metrics, points_csv
    from bench.report.history import nightly_markdown
    from bench.report.pairs import suspects_file

    run = place / told.run
    report = read_report(run)
    kept = msgspec.structs.replace(told, series=tuple(_shortened(one) for one in told.series))
    files = {
        history.NIGHTLY_NAME: msgspec.json.format(msgspec.json.encode(kept), indent=1).decode(),
        "nightly.md": nightly_markdown.render(told),
        "junit.xml": junit.render(report, told),
        "metrics.prom": metrics.render(report, told),
        "lines.csv": points_csv.lines(report),
        "suspects.txt": suspects_file.render(report, told),
    }
    trouble = [
        folder.put(run / name, text.encode("utf-8", "backslashreplace"))
        for name, text in files.items()
    ]
    return tuple(sentence for sentence in trouble if sentence)


def _shortened(one: NightlySeries) -> NightlySeries:
    return msgspec.structs.replace(
        one, runs=one.runs[-KEPT_VALUES:], values=one.values[-KEPT_VALUES:]
    )
