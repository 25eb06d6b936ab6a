"""What `watch` wrote of a job: watch.json in its run's folder.

In: a source. Out: a WatchedJob; BadInput where it is none.
"""

from __future__ import annotations

import msgspec

from bench.formats.source import Source
from bench.records import BadInput, WatchedJob

KIND = "what watch saw"


def likeness(head: str, name: str) -> float:
    return 1.0 if head.lstrip().startswith("{") and '"watched": ' in head[:64] else 0.0


def read(source: Source) -> tuple[WatchedJob, ...]:
    try:
        return (msgspec.json.decode(source.bytes_(), type=WatchedJob),)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"is no record of watch: {error}", file=source.file) from None
