"""All files of a job at once: which are rank logs, and what they tell.

In: files. Out: RankLogs in their order. Files are read side by side: the sieve lets go of the
interpreter's lock, so two cores read twice as fast, and the page cache gives what it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from bench.formats.file_walk import Found
from bench.formats.rank_log import (
    exceptions,
    failure_page,
    identity,
    nccl_part,
    passages,
    reader,
    signs,
    stamps,
)
from bench.formats.rank_log.passages import Line
from bench.formats.source import Source
from bench.records import NcclLog, RankLog, RankSign, RankStream

T = TypeVar("T")
R = TypeVar("R")
MAX_READERS = 4  # beyond, the memory's speed is the limit, and each takes a buffer
MAX_JSON_BYTES = 4 << 20


def read_all(found: Iterable[Found]) -> list[RankLog]:
    """The logs of all files; BadInput where one cannot be read."""
    return side_by_side(lambda each: of(Source.open(Path(each.path), file=each.file)), found)


def side_by_side(read_one: Callable[[T], R], given: Iterable[T]) -> list[R]:
    """read_one of each, in order, as many at a time as pays."""
    listed = list(given)
    readers = min(MAX_READERS, os.cpu_count() or 1, max(len(listed), 1))
    with ThreadPoolExecutor(readers) as pool:
        return list(pool.map(read_one, listed))


def of(source: Source) -> RankLog:
    """One file, torchrun's error.json among them."""
    return error_file(source) or reader.read(source)


def both(source: Source) -> tuple[RankLog, NcclLog | None]:
    """One file, and what NCCL itself says in it."""
    if (told := error_file(source)) is not None:
        return told, None
    kept = passages.of(source)
    log = reader.of(source, kept)
    return log, nccl_part.of(source, kept, log)


def is_told(log: RankLog) -> bool:
    """Whether a file says anything of a job at all."""
    return bool(
        log.signs or log.waits or log.exits or log.settings or log.world_size or log.has_nccl
    ) or any(s.rank is not None or s.begun_s is not None or s.steps for s in log.streams)


def error_file(source: Source) -> RankLog | None:
    """torchrun's error.json as the log of one exception; None for another file."""
    if source.size_bytes > MAX_JSON_BYTES or not source.head(64).lstrip().startswith("{"):
        return None
    told = failure_page.error_json(source.bytes_())
    if told is None:
        return None
    message, stack, seconds = told
    place = identity.of(source.file)
    begin = next((at for at, line in enumerate(stack) if exceptions.HEADER in line), None)
    raised = exceptions.Raised(text=message)
    if begin is not None:
        raised, _ = exceptions.parse([Line(1, line) for line in stack], begin)
    words = raised.words if raised.type else message
    sign = signs.first(words)
    stamp = stamps.of_epoch(seconds) if seconds else None
    return RankLog(
        file=source.file,
        bytes=source.size_bytes,
        lines=1,
        streams=(
            RankStream(
                name="",
                file=source.file,
                rank=place.rank,
                rank_basis="file" if place.rank is not None else None,
                local_rank=place.local_rank,
                host=place.host,
                attempt=place.attempt,
                node=place.node,
                first_line=1,
                last_line=1,
            ),
        ),
        signs=(
            RankSign(
                kind=sign.kind if sign else "exception",
                role=sign.role if sign else "fault",
                text=words.strip()[:400],
                file=source.file,
                line=1,
                rank=place.rank,
                host=place.host,
                time=stamp.text if stamp else None,
                time_s=stamp.seconds if stamp else None,
                until_s=stamp.seconds + 1 if stamp else None,  # whole seconds
                clock=stamp.clock if stamp else None,
                uncaught=True,
                place=raised.place,
                chain=raised.chain,
                phase=sign.phase if sign else None,
            ),
        ),
    )
