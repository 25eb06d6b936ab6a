"""The name of a table's collective: by the program, by arithmetic, then by the file's name.

In: what is known of the program, the rows, the name of the file. Out: the collective and on what
it rests. A file's name only chooses between what the rows leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Literal

from bench.formats.nccl_tests.columns import Layout
from bench.formats.nccl_tests.commands import COLLECTIVES, collective_of
from bench.formats.nccl_tests.evidence import gather
from bench.formats.nccl_tests.inference import Fit, fit
from bench.records import TableRow

CollectiveBasis = Literal["program", "file-name", "inferred"] | None


class Naming:
    """Which collective the rows show: by the program, by arithmetic, then by the file's name."""

    def __init__(
        self,
        program: str | None,
        file: str,
        read: Sequence[TableRow],
        texts: Sequence[str],
        layout: Layout | None,
    ) -> None:
        self.program, self.file, self.has_rows = program, file, bool(read)
        # NCCL 1 and the first tests counted in other ways.
        known = layout is not None and layout.power == -6
        self._evidence = gather(read, texts, layout) if layout and known else None

    def fit(self, *, ranks: int | None = None, collective: str | None = None) -> Fit:
        if self._evidence is None:
            return Fit((), None)
        return fit(self._evidence, ranks=ranks, collective=collective)

    def collective(self, ranks: int | None) -> tuple[str | None, CollectiveBasis]:
        by_program = collective_of(self.program) if self.program else None
        if by_program:
            return by_program, "program"
        fits = self.fit(ranks=ranks).collectives or self.fit().collectives
        if len(fits) == 1:
            return fits[0], "inferred"
        by_name = _of_file_name(self.file)
        if by_name and (by_name in fits or not self.has_rows):
            return by_name, "file-name"
        return None, None


def _of_file_name(file: str) -> str | None:
    """The collective in a file's name: the longest spelling that stands in it."""
    letters = "".join(each for each in PurePath(file).name.lower() if each.isalpha())
    found = [name for name in COLLECTIVES if name in letters]
    return COLLECTIVES[max(found, key=len)] if found else None
