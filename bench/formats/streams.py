"""Lines of a file given to one reader per process, so that what several hosts printed at the same
time (pdsh, mpirun, srun) does not mix.

In: a Source and how to make a reader. Out: the readers, each fed its own lines in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from bench.formats.prefix import Stripper
from bench.formats.source import Source
from bench.records import BadInput

MAX_STREAMS = 1 << 14  # more processes than that print no topology into one file


class Reader(Protocol):
    """What takes the lines of one process."""

    def feed(self, number: int, text: str) -> None: ...


R = TypeVar("R", bound=Reader)


def by_process(source: Source, make: Callable[[str | None], R]) -> list[R]:
    """One reader per process, in order of their first lines; `make` gets the name that the
    launcher put in front of them (a host, a pod, else "rank 3"), None where there is none."""
    stripper = Stripper.of(source)
    readers: dict[tuple[str | None, int | None, str | None], R] = {}
    for number, line in source.lines():
        prefix, text = stripper.strip(line)
        reader = readers.get(prefix.stream)
        if reader is None:
            if len(readers) >= MAX_STREAMS:
                raise BadInput("holds lines of too many processes", file=source.file, line=number)
            host, rank, label = prefix.stream
            name = host or label or (f"rank {rank}" if rank is not None else None)
            reader = readers[prefix.stream] = make(name)
        reader.feed(number, text)
    return list(readers.values())
