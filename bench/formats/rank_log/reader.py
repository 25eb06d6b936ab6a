"""A rank's log, or many ranks' console, as a RankLog: read once, parsed where it matters.

In: a Source. Out: a RankLog. The file is sieved at the speed of memory; what the sieve keeps is
taken apart into processes, and each is followed by itself, however their lines are mixed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bench.formats.rank_log import identity, passages, srun_tasks
from bench.formats.rank_log.follower import Follower, Ledger
from bench.formats.rank_log.passages import Passages
from bench.formats.rank_log.streams import Voices
from bench.formats.source import Source
from bench.records import RankLog, RankSign

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
    lines = (line for passage in kept.passages for line in passage.lines)
    exits, sent = srun_tasks.settled(ledger.exits, lines)
    found = sorted(ledger.signs, key=lambda sign: sign.line)
    found = [_consequence(sign) if sign.line in sent else sign for sign in found]
    return RankLog(
        file=source.file,
        bytes=source.size_bytes,
        lines=kept.line_count,
        streams=tuple(ledger.streams),
        signs=tuple(found[:MOST_SIGNS]),
        waits=tuple(ledger.waits),
        exits=exits,
        world_size=ledger.world_size,
        settings=ledger.settings,
        restarts=tuple(sorted(set(ledger.restarts))),
        has_nccl=ledger.has_nccl,
        left_out=kept.left_out + max(len(found) - MOST_SIGNS, 0),
        notes=tuple(_notes(source)),
    )


def _consequence(sign: RankSign) -> RankSign:
    return msgspec.structs.replace(sign, role="consequence")


def _notes(source: Source) -> Iterator[str]:
    """What of the file was not read, and why."""
    if source.cut_bytes is not None:
        yield f"only the first {source.cut_bytes >> 20:,} MiB were read"
    if source.damaged:
        yield f"the packed file ends early or is damaged: {source.damaged}"
