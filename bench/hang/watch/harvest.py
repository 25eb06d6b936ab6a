"""What the ranks of a watched job have told so far, as files that `diagnose` reads.

In: dumps, stacks and states of processes as they come. Out: files in the run's folder, written
under a temporary name first. A dump that was taken while ranks stood still is worth more than a
later one: gloo marks a call as over when it has failed. So what was taken then is kept until the
ranks move again, or until a rank's own last dump shows that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from bench.formats import flight_dump
from bench.formats.source import Source
from bench.hang.lanes import rows_of
from bench.hang.watch.recorder import DUMPS
from bench.records import BadInput, RankProcess, WatchedJob

# A rank's own last dump with so many more calls: it has moved since, faster than it was looked at.
# One more may be a barrier in a `finally`, after what it stood in has failed.
MOVED_ON = 2
RECORD = "watch.json"
STACKS = "stacks.txt"
FORMS = ("json", "pickle")  # the later one has stacks


class Harvest:
    """Per rank and recorder the dump that tells most; per rank its stacks and its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dumps: dict[tuple[int, str], tuple[int, str, bytes]] = {}
        self._stacks: dict[int, str] = {}
        self.processes: dict[int, RankProcess] = {}
        self._kept: int | None = None

    def keep(self, number: int) -> None:
        """What this question brings was asked while nothing moved: nothing later replaces it."""
        self._kept = number

    def thaw(self) -> None:
        """The ranks move again."""
        self._kept = None

    @property
    def keeps(self) -> bool:
        return self._kept is not None

    def dump(self, rank: int, recorder: str, form: str, number: int, data: bytes) -> None:
        """`number` of the question; 0 for a rank's own last one."""
        if form not in FORMS or not _has_entries(data):
            return
        have = self._dumps.get((rank, recorder))
        if have is not None and have[0] == self._kept and number != self._kept:
            if number != 0 or _entries(data) < _entries(have[2]) + MOVED_ON:
                return
            self.thaw()
        if have is not None and have[0] == number and FORMS.index(form) < FORMS.index(have[1]):
            return
        self._dumps[rank, recorder] = number, form, data

    def stacks(self, rank: int, text: str, number: int) -> None:
        if self._kept in (None, number):
            self._stacks[rank] = text

    def told(self) -> dict[tuple[int, str], bytes]:
        """The dumps by rank and recorder, as they are now."""
        return {key: data for key, (_, _, data) in self._dumps.items()}

    def restart(self, ranks: Iterable[int]) -> None:
        """The launcher starts these anew: what they left belongs to another attempt."""
        for rank in ranks:
            self._stacks.pop(rank, None)
            for key in [key for key in self._dumps if key[0] == rank]:
                del self._dumps[key]

    def write(self, job: WatchedJob) -> None:
        """All of it into the folder, over what an earlier call wrote."""
        dumps = self._folder / DUMPS
        for (rank, recorder), (_, form, data) in sorted(self._dumps.items()):
            replace(dumps / f"asked_{recorder}_rank_{rank}.{form}", data)
            for other in FORMS:
                if other != form:
                    (dumps / f"asked_{recorder}_rank_{rank}.{other}").unlink(missing_ok=True)
        if self._stacks:
            text = "".join(
                f"=== Rank {rank} ===\n{text.rstrip()}\n\n"
                for rank, text in sorted(self._stacks.items())
            )
            replace(self._folder / STACKS, text.encode())
        processes = tuple(process for _, process in sorted(self.processes.items()))
        record = msgspec.structs.replace(
            job, processes=processes, stood=self.keeps or not self._dumps
        )
        replace(self._folder / RECORD, msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def replace(path: Path, data: bytes) -> None:
    """The file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    temporary.replace(path)


def _has_entries(data: bytes) -> bool:
    """NCCL's recorder is there, and empty, in every job that speaks gloo alone."""
    return b"collective_seq_id" in data


def _entries(data: bytes) -> int:
    """How many calls its rank had made; 0 where it cannot be read."""
    try:
        rows = rows_of(flight_dump.read(Source.of_text(data)))
    except BadInput:
        return 0
    return int(rows["record_id"][-1]) + 1 if len(rows) else 0
