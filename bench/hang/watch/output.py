"""The job's output on its way to the user's screen, unchanged, with a copy in the run's folder.

In: pipes of the launcher, files that torchrun lets its ranks write (they grow while they are read,
and a restart makes new ones). Out: the same bytes on stdout and stderr, as they come.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

CHUNK_BYTES = 1 << 16
NEW_EVERY = 5  # turns: torchrun makes a file when it starts a rank, and seldom again
CHUNKS = 64  # at a time, per source: one loud rank must not keep the others from being heard
Writer = Callable[[bytes], None]

_RANK_FILE = re.compile(r"(stdout|stderr)\.log")


class Copy:
    """A file of what has passed. A disk that takes no more ends the copy and nothing else; `lost`
    hears of it once."""

    def __init__(self, path: Path, lost: Callable[[OSError], None]) -> None:
        self._lost = lost
        self._file: IO[bytes] | None = None
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            lost(error)

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and self._file is not None:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._close()
            self._lost(error)

    def _close(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as error:  # a network's disk may say only now that it was full
            self._lost(error)


class Pipe:
    """One stream of the launcher: what it carries, it also writes to `copy`."""

    def __init__(self, source: IO[bytes], copy: Copy, write: Writer) -> None:
        self.descriptor = source.fileno()
        os.set_blocking(self.descriptor, False)
        self._copy, self._write = copy, write
        self.open = True

    def pump(self) -> None:
        for _ in range(CHUNKS):
            try:
                data = os.read(self.descriptor, CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.open = False
                return
            self._copy.write(data)
            self._write(data)


class Tails:
    """The logs of all ranks under torchrun's log folder, from their beginnings on."""

    def __init__(
        self, folder: Path, shown: frozenset[int] | None, writers: dict[str, Writer]
    ) -> None:
        self._folder, self._shown, self._writers = folder, shown, writers
        self._streams: dict[Path, IO[bytes]] = {}
        self._turns = 0

    def pump(self, *, last: bool = False) -> None:
        """What is new; `last`: nothing comes any more, so look everywhere."""
        self._turns += 1
        for path in self._new() if last or self._turns % NEW_EVERY == 1 else ():
            try:
                self._streams[path] = path.open("rb")
            except OSError:
                continue
        for path, stream in self._streams.items():
            for _ in range(CHUNKS):
                try:
                    data = stream.read(CHUNK_BYTES)
                except OSError:
                    break  # a network's disk that is away
                if not data:
                    break
                self._writers[path.stem](data)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()

    def _new(self) -> Iterator[Path]:
        """<run id>_<random>/attempt_<n>/<local rank>/stdout.log"""
        for run in _folders(self._folder):
            for attempt in _folders(run):
                for rank in _folders(attempt):
                    if self._shown is not None and int(rank.name or -1) not in self._shown:
                        continue
                    for name in ("stdout", "stderr"):
                        path = rank / f"{name}.log"
                        if path not in self._streams:
                            yield path


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(each for each in path.iterdir() if each.is_dir())
    except OSError:
        return []


def writer(descriptor: int) -> Writer:
    """Writes all of it; a reader that has left (`| head`) stops nothing."""

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                continue
            except OSError:
                return

    return write
