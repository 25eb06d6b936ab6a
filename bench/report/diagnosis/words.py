"""A diagnosis in labelled sentences, the same on the terminal and on its page.

In: a Diagnosis. Out: (label, sentence) pairs: what was read and what was left aside; phase, who
waits, who is absent; the words of the verdict. Nothing here judges or wraps; files are named
without the folder that all share.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from bench.hang import calls
from bench.hang.scene import rank_words
from bench.records import Diagnosis, Finding, FlightPicture
from bench.report import digest, units
from bench.report.text import abbreviated, printable

FILES_SHOWN = 4  # files that were left aside or not read, each with its reason
STOPS_SHOWN = 3
SECOND = "a second dump"  # how bench/hang/lanes.py begins to say so
PHASES = {
    "rendezvous": "launch and rendezvous",
    "init": "the communicator's start",
    "first": "the first collective",
    "midrun": "mid-run",
    "end": "the end: ranks had different amounts of data",
}
COUNTED = {
    "Flight Recorder dump": ("Flight Recorder dump", "Flight Recorder dumps"),
    "rank log": ("rank log", "rank logs"),
    "Accelerate config": ("Accelerate config", "Accelerate configs"),
    "DeepSpeed config": ("DeepSpeed config", "DeepSpeed configs"),
    "launch script": ("launch script", "launch scripts"),
    "list of hosts": ("list of hosts", "lists of hosts"),
}
Pair = tuple[str, str]


def findings(diagnosis: Diagnosis) -> list[Finding]:
    """With files named without the folder that all files share, in their evidence as well."""
    folders = {os.path.dirname(each.file) for each in diagnosis.files}  # noqa: PTH120 - "-" is no path
    if not folders or not all(folders) or len({each.startswith("/") for each in folders}) > 1:
        return list(diagnosis.findings)
    common = os.path.commonpath(folders)
    return [_without(common, finding) for finding in diagnosis.findings]


def _without(folder: str, finding: Finding) -> Finding:
    file = finding.where.file
    where = msgspec.structs.replace(
        finding.where, file=os.path.relpath(file, folder) if file else file
    )
    evidence = tuple(
        msgspec.structs.replace(each, text=each.text.replace(f"{folder}/", ""))
        for each in finding.evidence
    )
    return msgspec.structs.replace(finding, where=where, evidence=evidence)


def read(diagnosis: Diagnosis) -> Iterator[Pair]:
    """How many of each kind; ranks without; what was left aside, and why."""
    flight = diagnosis.flight
    unread = [each for each in diagnosis.files if each.kind in ("unknown", "unreadable")]
    kinds = Counter(each.kind for each in diagnosis.files if each not in unread)
    parts = [_count(number, kind) for kind, number in kinds.items()]
    if flight and flight.schemas:
        versions = ", ".join(version or "unknown" for version in flight.schemas)
        parts[0] += f" (schema {versions})"
    yield "read", ", ".join(parts)
    if flight and flight.missing:
        noun = "dump" if len(flight.missing) == 1 else "dumps"
        yield "missing", f"{rank_words(flight.missing)}'s {noun}"
    if flight:
        yield from _aside(flight)
    for each in unread[:FILES_SHOWN]:
        yield "not read", f"{name_of(each.file)}: {each.summary}"
    if len(unread) > FILES_SHOWN:
        yield "not read", f"… {len(unread) - FILES_SHOWN:,} more"


def _count(number: int, kind: str) -> str:
    if kind in COUNTED:
        return f"{number:,} {COUNTED[kind][number > 1]}"
    return f"{units.count(number, 'file')} of {kind}"


def _aside(flight: FlightPicture) -> Iterator[Pair]:
    """Dumps that were not used: second ones of a rank counted, the others with their reason."""
    second = [name_of(file) for file, why in flight.left_out if why.startswith(SECOND)]
    told = [(name_of(file), why) for file, why in flight.left_out if not why.startswith(SECOND)]
    if second:
        noun = f"{units.count(len(second), 'file')}: second dumps of the same ranks"
        yield "aside", f"{noun} ({abbreviated(second)})"
    for name, why in told[:FILES_SHOWN]:
        yield "aside", f"{name}: {why}"
    if len(told) > FILES_SHOWN:
        yield "aside", f"… {len(told) - FILES_SHOWN:,} more in --json"


def state(diagnosis: Diagnosis) -> Iterator[Pair]:
    """Phase, who waits in what, who is absent."""
    if diagnosis.phase:
        yield "phase", PHASES[diagnosis.phase]
    flight = diagnosis.flight
    for label, text in diagnosis.facts:
        if not (label == "waiting" and flight and flight.stops):  # the dumps say it better
            yield label, text
    if flight is None:
        return
    stops = sorted(flight.stops, key=lambda stop: -len(stop.waiting))[:STOPS_SHOWN]
    for stop in stops:
        what = f"{stop.call.name} #{stop.seq:,} of {stop.group} ({calls.shape(stop.call)})"
        yield "waiting", f"{_who(stop.waiting, stop.waiting_files)} in {what}"
    for stop in stops:
        if stop.absent or stop.absent_files:
            who = _who(stop.absent, stop.absent_files)
            yield "absent", f"{who} never joined #{stop.seq:,} of {stop.group}"
    if not stops and flight.collectives and not flight.mismatches:
        text = (
            f"{flight.collectives:,} collectives in {units.count(flight.groups, 'group')} of "
            f"{units.count(len(flight.ranks), 'rank')}: all called alike"
        )
        if not flight.undecided:
            text += ", none stands still"
        yield "shows", text
    for label in flight.incomparable:
        text = f"{label}: its sequence numbers do not belong together and were not compared"
        yield "left out", text


def _who(ranks: Sequence[int], files: Sequence[str]) -> str:
    parts = [rank_words(ranks)] if ranks else []
    parts += [name_of(file) for file in files[:FILES_SHOWN]]
    if len(files) > FILES_SHOWN:
        parts.append(f"{len(files) - FILES_SHOWN} more files")
    return ", ".join(parts)


def name_of(file: str) -> str:
    return printable(file.rpartition("/")[2])


def verdict(diagnosis: Diagnosis) -> list[str]:
    """ "broken", "rank 5", "1 finding"."""
    words: list[str] = [diagnosis.verdict]
    if diagnosis.ranks and diagnosis.ranks == diagnosis.suspects:
        words.append(f"start at {rank_words(diagnosis.ranks)}")
    elif diagnosis.ranks:
        words.append(rank_words(diagnosis.ranks))
    number = sum(not digest.is_note(finding) for finding in diagnosis.findings)
    nothing = "nothing stands still" if diagnosis.flight else "no fault found"
    words.append(units.count(number, "finding") if number else nothing)
    return words
