"""The tables of one file: a paste, a job's log, or a file that a test wrote itself.

In: a Source. Out: its tables in the order of their first lines, each with the command that started
it where the file shows one, and with the program that was started after it and printed no table.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from pathlib import PurePath

from msgspec.structs import replace

from bench.formats.nccl_tests import commands, json_file, lines, result_file, runs, tables
from bench.formats.nccl_tests.commands import MAX_COMMAND, Command
from bench.formats.nccl_tests.drafts import NCCL_MARK, Draft, Stream
from bench.formats.nccl_tests.lines import NcclVersion
from bench.formats.nccl_tests.rows import DTYPE_BYTES, is_beginning, is_continuation
from bench.formats.prefix import NONE, Stripper
from bench.formats.source import Source
from bench.records import BadInput, CollectiveTable

KIND = "nccl-tests"

_HEADER = re.compile(r"(?:time|cputime)[ \t]{1,12}(?:hipevt[ \t]{1,8})?algbw[ \t]{1,8}busbw")
_MAX_STREAMS = 1 << 16
_MAX_VERSIONS = 1000
_MAX_COMMANDS = 10_000
_SHORTEST = 12  # of a line that says something: no row, header or closing line is shorter


def likeness(head: str, name: str) -> float:
    """How surely a file that begins with `head` holds a table, 0 to 1."""
    beginning = head.lstrip()[:1]
    if beginning in ("{", "[") and (json_file.likely(head) or result_file.likely(head)):
        return 0.97
    if result_file.likely_csv(head) or _HEADER.search(head):
        return 0.95
    if "nThread" in head and "minBytes" in head:
        return 0.9
    if "Avg bus bandwidth" in head:
        return 0.85
    if any(_holds_row(line[:300]) for line in head.split("\n")[:400]):
        return 0.7
    return 0.3 if "_perf" in PurePath(name).name else 0.0


def read(source: Source) -> tuple[CollectiveTable, ...]:
    """All tables of the file. BadInput where it holds none."""
    head = source.head()
    beginning = head.lstrip()[:1]
    if beginning == "{" and json_file.likely(head):
        return json_file.read(source)
    if beginning in ("{", "[") and result_file.likely(head):
        return result_file.read_json(source)
    if result_file.likely_csv(head):
        return result_file.read_csv(source)
    found = _Text(source).tables()
    if not found:
        raise BadInput(
            "holds no table of nccl-tests; expected its header, rows or closing lines",
            file=source.file,
        )
    return found


class _Text:
    """One pass over a text file: every line goes to the stream of the process that wrote it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.streams: dict[tuple[object, ...], Stream] = {}
        self.commands: list[Command] = []
        self.versions: list[tuple[int, NcclVersion]] = []
        self._continued: tuple[int, str] | None = None  # a command that goes on after "\"

    def tables(self) -> tuple[CollectiveTable, ...]:
        for line, stream, text in self._lines():
            if "CCL version" in text and len(self.versions) < _MAX_VERSIONS:
                version = lines.nccl_version(text)
                if version:
                    self.versions.append((line, version))
            if self._continued or commands.may_be_command(text) or text.endswith("\\"):
                self._command(text, line)
            stream.read(text, line)
        drafts = runs.resolve([stream.finish() for stream in self.streams.values()])
        return self._records(drafts)

    def _lines(self) -> Iterator[tuple[int, Stream, str]]:
        strip = Stripper.of(self.source).strip
        stream = None
        last = None
        for first, chunk in self.source.chunks():
            for line, raw in enumerate(chunk.decode("utf-8", "replace")[:-1].split("\n"), first):
                if len(raw) < _SHORTEST and not (stream and stream.waits):
                    continue
                mark = raw.find(NCCL_MARK)
                if mark >= 0 and _says_nothing_here(raw, mark):
                    waits = stream is not None and stream.waits
                    if not waits:
                        continue
                prefix, text = strip(raw)
                if text[:1] == " " and text.lstrip()[:1] == "[":  # indented in a report
                    inner, rest = strip(text.lstrip())
                    if inner is not NONE:
                        prefix, text = inner, rest
                key = prefix.stream
                if key != last or stream is None:
                    if key not in self.streams and len(self.streams) >= _MAX_STREAMS:
                        continue
                    stream, last = self.streams.setdefault(key, Stream(key)), key
                yield line, stream, text

    def _command(self, text: str, line: int) -> None:
        """A command, on one line or on several that end in a backslash."""
        begun = self._continued
        if NCCL_MARK in text:
            return
        if begun:
            line, text = begun[0], f"{begun[1]} {text.strip().removeprefix('> ')}"
        self._continued = None
        if text.endswith("\\") and len(text) < MAX_COMMAND:
            self._continued = line, text[:-1].rstrip()
            return
        found = commands.command(text.lstrip("# \t") if text[:1] == "#" else text, line)
        if found and len(self.commands) < _MAX_COMMANDS:
            self.commands.append(found)

    def _records(self, drafts: list[Draft]) -> tuple[CollectiveTable, ...]:
        found: list[CollectiveTable] = []
        open_end = self.source.line_count if self.source.unfinished else None
        places = [each.line for each in self.commands]
        open_ends: list[int] = []  # where tables end that began before the one at hand
        ended = 0
        for draft in drafts:
            while open_ends and open_ends[0] < draft.line:
                ended = heapq.heappop(open_ends)
            at = bisect_right(places, draft.line) - 1
            command = self.commands[at] if at >= 0 and places[at] > ended else None
            name = draft.program or (command.program if command else None)
            if found and not draft.has_table:
                found[-1] = _followed(found[-1], name, command, draft.line, bool(draft.starts))
            if draft.has_table or draft.devices or draft.headers or not (found and name):
                version = self._version(draft)
                found.append(tables.table(draft, self.source.file, command, version, open_end))
                heapq.heappush(open_ends, draft.last_line)
        later = [each for each in self.commands if found and each.line > found[-1].last_line]
        if later:
            found[-1] = _followed(found[-1], later[0].program, later[0], later[0].line, False)
        return tuple(found)

    def _version(self, draft: Draft) -> NcclVersion | None:
        """What NCCL said of itself within the table, else the last time before it."""
        at = bisect_left(self.versions, draft.line, key=itemgetter(0))
        if at < len(self.versions) and self.versions[at][0] <= draft.last_line:
            return self.versions[at][1]
        return self.versions[at - 1][1] if at else None


def _says_nothing_here(raw: str, mark: int) -> bool:
    """A line of NCCL's before which no part of a row can stand, and that tells no version."""
    return "  " not in raw[:mark] and "CCL version" not in raw and raw[mark - 4 : mark] != "Test"


def _followed(
    table: CollectiveTable, program: str | None, command: Command | None, line: int, started: bool
) -> CollectiveTable:
    if table.following or not program:
        return table
    return replace(
        table,
        following=program,
        following_started=started,
        following_command=command.text if command else None,
        following_line=command.line if command else line,
    )


def _holds_row(text: str) -> bool:
    """Whether size, count, a type and numbers stand on the line, after a prefix of few words."""
    words = text.replace("#", " ").split()
    for at in range(min(len(words) - 5, 5)):
        if words[at + 2] in DTYPE_BYTES and is_beginning(" ".join(words[at:])):
            return is_continuation(" ".join(words[-3:]).replace("N/A", "0"))
    return False
