"""A rank's log, or many ranks' console, as a RankLog: read once, parsed where it matters.

In: a Source. Out: a RankLog. The file is sieved at the speed of memory; what the sieve keeps is
taken apart into processes, and each is followed by itself, however their lines are mixed.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.formats.rank_log import identity, passages
from bench.formats.rank_log.follower import Follower, Ledger
from bench.formats.rank_log.passages import Passages
from bench.formats.rank_log.streams import Voices
from bench.formats.source import Source
from bench.records import RankLog

MOST_SIGNS = 2000  # of a file


def read(source: Source) -> RankLog:
    """Everything that a file tells of a job's end. A file of another kind tells nothing."""
    return of(source, passages.of(source))


def of(source: Source, kept: Passages) -> RankLog:
    """The same, of passages that were read before."""
    place = identity.of(source.file)
    ledger = Ledger(source.file, Voices(kept.passages, place), kept.hit_lines)
    for voice in ledger.voices.voices.values():
        follower = Follower(ledger, voice)
        for part in voice.parts:
            follower.part(part)
        ledger.streams.append(follower.stream())
    found = sorted(ledger.signs, key=lambda sign: sign.line)
    return RankLog(
        file=source.file,
        bytes=source.size_bytes,
        lines=kept.line_count,
        streams=tuple(ledger.streams),
        signs=tuple(found[:MOST_SIGNS]),
        waits=tuple(ledger.waits),
        exits=tuple(ledger.exits),
        world_size=ledger.world_size,
        settings=ledger.settings,
        restarts=tuple(sorted(set(ledger.restarts))),
        has_nccl=ledger.has_nccl,
        left_out=kept.left_out + max(len(found) - MOST_SIGNS, 0),
        notes=tuple(_notes(source)),
    )


def _notes(source: Source) -> Iterator[str]:
    """What of the file was not read, and why."""
    if source.cut_bytes is not None:
        yield f"only the first {source.cut_bytes >> 20:,} MiB were read"
    if source.damaged:
        yield f"the packed file ends early or is damaged: {source.damaged}"
