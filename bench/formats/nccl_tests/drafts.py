"""What one process printed, line after line, cut into drafts of tables.

In: lines without their launcher's prefix, of one stream. Out: Drafts: rows still as text, devices,
settings, closing lines. A draft ends where another run's first lines begin; programs that printed
over each other stay in one draft, which bench.formats.nccl_tests.runs resolves later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bench.formats.nccl_tests import columns, lines, rows
from bench.formats.nccl_tests.columns import Layout
from bench.records import TableDevice

NCCL_MARK = " NCCL "
_FAILURE_MARK = " Test "  # "node3: Test CUDA failure …", on a row's line where it cuts one off
_MAX_FAILURES = 16
# Rows and devices of a file without an end; 1 MiB of text is some 8000 rows.
MAX_ROWS = 200_000
MAX_DEVICES = 100_000
_LONGEST_ROW = 2000  # both halves with all columns are 260 wide
# A row whose rest does not come within this many lines (of NCCL's, in between) was cut.
_MAX_WAIT = 5000
# A number, an operation or a type right before a host's name. A name that begins with a digit
# leaves open where the number ends, so then there is none.
_GLUED = re.compile(
    r"(?:N/A|-?\d{1,12}(?:\.\d{1,6})?(?:e[+-]\d\d)?\*?|sum|prod|max|min|avg|mulsum|none|"
    + "|".join(sorted(rows.DTYPE_BYTES, key=len, reverse=True))
    + r")(?=[A-Za-z])"
)


@dataclass
class Draft:
    """A table that is still growing. `starts`: lines of "# nThread …"; `headers` likewise.

    `overlaid`: so many programs print in this stream; `runs`: in all streams at once.
    """

    line: int
    last_line: int
    stream: tuple[object, ...] = ()
    starts: list[int] = field(default_factory=list)
    headers: list[int] = field(default_factory=list)
    devices: list[tuple[int, TableDevice]] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[int, str]] = field(default_factory=list)
    layout: Layout | None = None
    averages: list[lines.Closing] = field(default_factory=list)
    out_of_bounds: list[int] = field(default_factory=list)
    bitwise: int | None = None
    program: str | None = None
    tests_version: str | None = None
    library_version: str | None = None
    rccl: bool = False
    failures: list[tuple[int, str, str | None]] = field(default_factory=list)
    first_ranks: int = 0  # device lines of a rank 0
    overlaid: int = 1
    runs: int = 1
    dropped: int = 0

    @property
    def programs(self) -> int:
        """How many programs seem to print here: first lines, or lists of devices, of each."""
        return max(1, len(self.starts), self.first_ranks)

    @property
    def closed(self) -> bool:
        return bool(self.averages) and len(self.averages) >= self.programs

    @property
    def has_table(self) -> bool:
        return bool(self.rows or self.averages)


class Stream:
    """The drafts of one process's lines, in order."""

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.drafts: list[Draft] = []
        self._pending: tuple[int, str] | None = None  # a row that something interrupted
        self._waited = 0
        self._places: tuple[str, ...] = ()  # "out-of-place", "in-place", of the line before

    @property
    def waits(self) -> bool:
        """Whether a row's rest is to come, so that numbers alone on a line belong to it."""
        return self._pending is not None

    def read(self, text: str, line: int) -> None:
        """One line. What it is follows from its first character and a few words in it."""
        mark = text.find(NCCL_MARK)
        if mark >= 0 or (mark := text.find(_FAILURE_MARK)) >= 0:
            self._noise(text, mark, line)
            if "Test " in text:
                self._failure(text, line)
            return
        bare = text.lstrip(" \t#")
        if not bare:
            return
        if bare[0].isdigit():
            if rows.is_beginning(bare, self._layout()):
                self._flush()
                self._row(text.replace("#", " ", 1), line)
                return
            if self._pending and rows.is_continuation(bare):
                self._extend(bare, line)
                return
        self._other(bare, line)

    def finish(self) -> list[Draft]:
        self._flush()
        return self.drafts

    # Rows

    def _layout(self) -> Layout | None:
        return self.drafts[-1].layout if self.drafts else None

    def _row(self, text: str, line: int) -> None:
        text = text[:_LONGEST_ROW]
        if "[" in text:  # Intel MPI writes its "[0]" before every piece that was flushed
            text = _without_brackets(text)
        if rows.is_whole(text, self._layout()):
            self._keep(line, text)
        else:
            self._pending, self._waited = (line, text), 0

    def _extend(self, text: str, line: int) -> None:
        assert self._pending is not None
        first, begun = self._pending
        self._row(f"{begun.rstrip()}  {_without_brackets(text).strip()}", first)
        self._touch(line)

    def _noise(self, text: str, mark: int, line: int) -> None:
        """A line of NCCL's; a row (or a half of one) may stand before it on the same line."""
        if self._pending:
            self._waited += 1
            if self._waited > _MAX_WAIT:
                self._flush()
        head = text[:mark]
        begun = head.lstrip(" #")
        if "  " not in head or not begun[:1].isdigit():
            return
        # The last words before the mark are "host:pid:tid [0]", or "host:" before a failure,
        # perhaps glued to the row's last number: "-1node3:497:498".
        kept: list[str] = []
        torn = False
        for word in _without_brackets(begun).split():
            if ":" in word or word.startswith("["):
                glued = _GLUED.match(word)
                kept += [glued[0]] if glued else []
                torn = not glued and word[0] in "-0123456789" and not self._at_a_seam(kept)
                break
            kept.append(word)
        piece = "  ".join(kept)
        if rows.is_beginning(piece, self._layout()):
            self._flush()
            self._row(piece, line)
        elif self._pending and rows.is_continuation(piece):
            self._extend(piece, line)
        if torn:  # a number is lost: what comes later would stand in its place
            self._flush()

    def _at_a_seam(self, words: list[str]) -> bool:
        """Whether a row is flushed after these words: after its lead, or a half."""
        layout = self._layout()
        if layout is None:
            return False
        lead = len(layout.lead) if rows.is_beginning("  ".join(words), layout) else 0
        return (len(words) - lead) % len(layout.half) == 0

    def _flush(self) -> None:
        """The waiting row will not be completed: it was cut."""
        if self._pending:
            line, text = self._pending
            self._pending = None
            self._keep(line, text)

    def _keep(self, line: int, text: str) -> None:
        self._pending = None
        draft = self._current()
        if draft is None or draft.closed:
            draft = self._new(line)
        if len(draft.rows) < MAX_ROWS:
            draft.rows.append((line, text))
        else:
            draft.dropped += 1
        self._touch(line)

    # Everything else

    def _failure(self, text: str, line: int) -> None:
        failure = lines.failure(text)
        if failure is None:
            return
        self._flush()
        if self.drafts and len(self.drafts[-1].failures) < _MAX_FAILURES:
            self.drafts[-1].failures.append((line, *failure))
            self._touch(line)

    def _current(self) -> Draft | None:
        return self.drafts[-1] if self.drafts else None

    def _new(self, line: int) -> Draft:
        draft = Draft(line=line, last_line=line, stream=self.key)
        self.drafts.append(draft)
        self._places = ()
        return draft

    def _touch(self, line: int) -> None:
        if self.drafts:
            self.drafts[-1].last_line = max(self.drafts[-1].last_line, line)

    def _open(self, line: int) -> Draft:
        """The draft that a first line of a run belongs to."""
        self._flush()
        draft = self._current()
        given_up = draft is not None and draft.failures and (draft.devices or draft.headers)
        if draft is None or draft.has_table or given_up:
            draft = self._new(line)
        self._touch(line)
        return draft

    def _other(self, bare: str, line: int) -> None:
        if columns.is_header(bare):
            self._header(bare, line)
        elif bare.startswith(("out-of-place", "in-place")):
            self._places = tuple(word for word in bare.split() if word.endswith("-place"))
        elif (device := lines.device(bare)) is not None:
            self._device(device, line)
        elif " failure " in bare:
            self._failure(bare, line)
        elif (found := lines.settings(bare)) is not None:
            draft = self._open(line)
            draft.starts.append(line)
            draft.settings = {**draft.settings, **found}
        elif (closing := lines.closing(bare)) is not None:
            self._closing(closing, line)
        elif (version := lines.tests_version(bare)) is not None:
            draft = self._named(line) if version[1] else self._open(line)
            draft.tests_version, draft.rccl = version
            draft.library_version = lines.library_version(bare) or draft.library_version
        elif bare.startswith("Collective test starting:"):
            self._open(line).program = bare.split(":", 1)[1].strip() or None
        elif bare.startswith("Collective test concluded:"):
            if self.drafts and self.drafts[-1].program is None:
                self.drafts[-1].program = bare.split(":", 1)[1].strip() or None
            self._touch(line)
        elif bare.startswith("Errors with asterisks"):  # rccl-tests alone explains them
            if self.drafts:
                self.drafts[-1].rccl = True
        elif (setting := lines.switch(bare)) is not None:
            if self.drafts and not self.drafts[-1].has_table:
                self.drafts[-1].settings[setting[0]] = setting[1]
                self._touch(line)
        elif bare.startswith("Test "):
            self._failure(bare, line)

    def _named(self, line: int) -> Draft:
        """rccl-tests tells its version after its settings: the same run's."""
        draft = self._current()
        if draft is None or draft.has_table:
            return self._open(line)
        return draft

    def _header(self, bare: str, line: int) -> None:
        self._flush()
        draft = self._current()
        repeated = draft is not None and draft.rows and len(draft.headers) >= draft.programs
        if draft is None or draft.closed or repeated:
            draft = self._new_after(line)
        draft.headers.append(line)
        if draft.layout is None:
            draft.layout = columns.of_header(bare, self._places)
        self._touch(line)

    def _new_after(self, line: int) -> Draft:
        places, draft = self._places, self._new(line)
        self._places = places
        return draft

    def _device(self, device: TableDevice, line: int) -> None:
        self._flush()
        draft = self._current()
        if draft is None or draft.has_table:
            draft = self._new(line)
        if len(draft.devices) < MAX_DEVICES:
            draft.devices.append((line, device))
            draft.first_ranks += device.rank == 0
        self._touch(line)

    def _closing(self, closing: lines.Closing, line: int) -> None:
        self._flush()
        draft = self._current()
        if draft is None or draft.closed:
            draft = self._new(line)
        if closing.name.startswith("Avg"):
            draft.averages.append(closing)
        elif closing.value == closing.value and abs(closing.value) < 1e18:
            if closing.name.startswith("Out"):
                draft.out_of_bounds.append(int(closing.value))
            else:
                draft.bitwise = int(closing.value)
        self._touch(line)


def _without_brackets(text: str) -> str:
    """Without "[0]" (a launcher's number) between the numbers of a row."""
    if "[" not in text:
        return text
    words = text.replace("[", " [").replace("]", "] ").split(" ")
    return " ".join("" if word[:1] == "[" and word[1:-1].isdigit() else word for word in words)
