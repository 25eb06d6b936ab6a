"""NCCL's own lines of a rank's log, as an NcclLog: the reader of nccl_log on what matters of it.

In: a Source, its passages and its RankLog. Out: an NcclLog, or None where NCCL says nothing that
could explain an end. Of a large log only the beginning, where communicators form, and the
surroundings of warnings are given to the reader, with their true line numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.formats import nccl_log
from bench.formats.rank_log.passages import Passage, Passages
from bench.formats.source import CHUNK_BYTES, Source
from bench.records import BadInput, NcclLog, RankLog

WHOLE_BYTES = 8 << 20  # up to here the whole file is read: a tenth of a second
HEAD_BYTES = 2 << 20  # eight ranks' initialisation with NCCL_DEBUG=INFO is 1 MiB


def of(source: Source, kept: Passages, log: RankLog) -> NcclLog | None:
    """What NCCL said. A job that made progress without a warning needs no look at its start."""
    warned = any(sign.kind == "nccl-warning" for sign in log.signs)
    if not (warned or log.has_nccl):
        return None
    small = source.size_bytes <= WHOLE_BYTES
    if not small and not warned and any(stream.steps for stream in log.streams):
        return None
    try:
        return nccl_log.read(source if small else _Excerpt(source, kept))
    except BadInput:  # the words only stood in somebody else's line
        return None


class _Excerpt(Source):
    """A Source that gives its beginning and some passages."""

    def __init__(self, whole: Source, kept: Passages) -> None:
        self.__dict__.update(whole.__dict__)
        self._kept = kept

    def chunks(self, bytes_per_chunk: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        reached = given = 0
        for first, chunk in super().chunks(bytes_per_chunk):
            yield first, chunk
            reached = first + chunk.count(b"\n") - 1
            given += len(chunk)
            if given >= HEAD_BYTES:
                break
        for passage in self._kept.passages:
            yield from _chunk(passage, reached)


def _chunk(passage: Passage, reached: int) -> Iterator[tuple[int, bytes]]:
    """A passage's lines behind those that were given; parts of one line are put together."""
    lines: dict[int, str] = {}
    for line in passage.lines:
        if line.number > reached:
            lines[line.number] = (
                f"{lines[line.number]} {line.text}" if line.number in lines else (line.text)
            )
    if not lines:
        return
    first, last = min(lines), max(lines)
    text = "\n".join(lines.get(number, "") for number in range(first, last + 1))
    yield first, text.encode("utf-8", "replace") + b"\n"
