"""The page of a diagnosis: verdict, findings, the timeline of the dumps, who is where, the files.

In: a Diagnosis, and the Timeline where there are dumps. Out: one HTML file that loads nothing and
escapes everything, with the style of a run's page. The timeline is drawn on a canvas by a script
of its own; without JavaScript the findings and tables say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.hang.scene import rank_words, stack_words
from bench.hang.timeline import Timeline
from bench.records import Diagnosis, FlightPicture
from bench.report import digest, template, units
from bench.report.diagnosis import timeline as timeline_data
from bench.report.diagnosis import words

PLACES_SHOWN = 60
FILES_SHOWN = 200


@dataclass(frozen=True)
class Place:
    """Ranks that stand in the same call, from the same line. `late`: of one that is late."""

    who: str
    waits_in: str
    last: str
    stack: str
    late: str = ""


def render(diagnosis: Diagnosis, timeline: Timeline | None = None) -> str:
    """A few ten kB, and the timeline's data."""
    places = _places(diagnosis.flight) if diagnosis.flight else []
    return template.named("diagnosis/page.html").render(
        diagnosis=diagnosis,
        verdict=words.verdict(diagnosis),
        facts=[*words.read(diagnosis), *words.state(diagnosis)],
        findings=[f for f in digest.in_order(words.findings(diagnosis)) if not digest.is_note(f)],
        notes=[f for f in words.findings(diagnosis) if digest.is_note(f)],
        timeline=timeline,
        timed=timeline is not None and len(timeline.seq) <= timeline_data.TIMED_CELLS,
        data=timeline_data.packed(timeline) if timeline is not None else "",
        places=places[:PLACES_SHOWN],
        places_more=max(len(places) - PLACES_SHOWN, 0),
        files=diagnosis.files[:FILES_SHOWN],
        files_more=max(len(diagnosis.files) - FILES_SHOWN, 0),
        figures={},
        plotly="",
    )


def _places(flight: FlightPicture) -> list[Place]:
    """Fewest ranks first: the odd ones are what a person looks for."""
    groups: dict[tuple[str, str, int, float | None], list[int]] = {}
    files: dict[tuple[str, str, int, float | None], list[str]] = {}
    for one in flight.ranks:
        key = (one.waits_in, "" if one.waits_in else one.last, one.stack, one.late_s)
        if one.rank is None:
            files.setdefault(key, []).append(words.name_of(one.file))
            groups.setdefault(key, [])
        else:
            groups.setdefault(key, []).append(one.rank)
    found = []
    for key, ranks in groups.items():
        waits_in, last, stack, late_s = key
        frames = flight.stacks[stack] if stack >= 0 else ()
        found.append(
            Place(
                who=_who(ranks, files.get(key, ())),
                waits_in=waits_in,
                last=last,
                stack=stack_words(frames),
                late=f"{units.time(late_s)} late" if late_s is not None else "",
            )
        )
    sizes = {place.who: len(ranks) for place, ranks in zip(found, groups.values(), strict=True)}
    return sorted(found, key=lambda place: sizes[place.who])


def _who(ranks: Sequence[int], files: Sequence[str]) -> str:
    parts = [rank_words(ranks)] if ranks else []
    return ", ".join([*parts, *files[: words.FILES_SHOWN]])
