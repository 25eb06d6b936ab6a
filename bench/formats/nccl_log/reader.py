"""Through a log of any size, line by line in bytes; only lines that matter cost more than a look.

In: a Source. Out: an NcclLog. The first word behind "NCCL INFO" decides who takes a line; what a
line repeats (edges, tuning) is recognised before it is parsed.
"""

from __future__ import annotations

import re

from bench.formats.nccl_log import heads
from bench.formats.nccl_log.notes import Notes, Stream
from bench.formats.nccl_log.processes import VERSION
from bench.formats.nccl_log.summary import summary
from bench.formats.nccl_log.topics import HANDLERS, Handler, learn
from bench.formats.prefix import Stripper
from bench.formats.source import Source
from bench.records import BadInput, NcclLog

MOST_WORDS = 1 << 13  # first words remembered; those of a damaged file never come again
MOST_KEYS = 1 << 17  # prefixes remembered

LEVELS = (b"WARN ", b"ATTN ")

# The beginning of a second message where two processes wrote into one line.
_SECOND = re.compile(
    rb"(?:\[\d{1,4},\d{1,7}\]<\w{6}>:)?([A-Za-z][\w.-]{0,254}):(\d{1,10}):\d{1,10} \[-?\d{1,4}\] "
    rb"(?:[^\s\[\]]{1,300} )?NCCL [A-Z]{4} "
)
# What people paste without the prefix of each line.
_BARE = re.compile(
    rb"(?:\[\w{1,12}\] )?\s{0,8}((?:(?:Channel|Ring) \d{1,3}[/ :]|CollNet \d|Bootstrap ?: |NET/\w"
    rb"|Using network |Trees \[|MNNVL busId ).{0,2000})",
    re.DOTALL,
)
# NCCL up to 2.2: "host:pid:tid [0] INFO NET : Using interface eth0:…", its name not yet in it.
_UNNAMED = re.compile(
    rb"(.{0,200}?[\w.-]{1,255}:\d{1,10}:\d{1,10} \[\d{1,3}\] (?:[\w/.-]{1,200}:\d{1,6} )?)"
    rb"((?:INFO|WARN) .{0,4000})",
    re.DOTALL,
)
# A warning without its speaker: "include/socket.h:344 WARN Socket creation failed : …".
_PLACED = re.compile(rb"\s{0,8}[\w/.-]{1,200}\.(?:h|cc|cu):\d{1,6} (?:NCCL )?WARN (.{1,2000})")
# nccl-tests' last words where NCCL has an own: "hostA: Test NCCL failure common.cu:1057
# 'unhandled system error (run with …) / socketStartConnect: Connect to … failed'".
_TESTED = re.compile(
    rb"(?:([\w.-]{1,255}): )?Test NCCL failure \S{1,200} '.{1,400}? / (.{3,1000})'"
)
# The line behind it is ncclGetLastError's, as PyTorch's exceptions quote it.
_LAST_ERROR = b"Last error:"
# What stands there where NCCL had nothing to say: the exception's own end.
_NO_ERROR = ("Traceback", "Exception", "File ", "frame #")
# "[ 10330 ] world_size = 2, rank = 1, backend=nccl": the print of PyTorch's DDP tutorial.
PROGRAM = re.compile(rb"\[ ?(\d{1,9}) ?\] world_size = (\d{1,7}), rank = (\d{1,7})")


def read(source: Source) -> NcclLog:
    """The log in a file. Raises BadInput where no line of it is NCCL's."""
    reader = Reader(source)
    for first, chunk in source.chunks():
        reader.feed(first, chunk)
    return reader.finish()


class Reader:
    """The state of one pass."""

    def __init__(self, source: Source) -> None:
        self.file = source.file
        self.stripper = Stripper.of(source)
        self.notes = Notes()
        self.keys: dict[bytes, Stream] = {}
        self.words: dict[bytes, Handler | None] = dict(HANDLERS)
        self.lines = self.nccl_lines = 0
        # The line on which an exception's last error is to come, and what stands before it.
        self._quoted = (0, "")

    def feed(self, first: int, chunk: bytes) -> None:
        """The lines of one chunk."""
        keys, words, notes = self.keys, self.words, self.notes
        number, told = first - 1, 0
        for line in chunk.split(b"\n"):
            number += 1
            at = line.find(b"NCCL ")
            if at < 0:
                if line:
                    self._bare(line, number)
                continue
            if line[at + 5 : at + 10] != b"INFO " or line.find(b" NCCL ", at + 10) > 0:
                self._unusual(line, number, at)
                continue
            told += 1
            # The key is the head without what a launcher puts before it: stamps never repeat.
            stop = line.rfind(b" [", 0, at)
            key = line[line.rfind(b" ", 0, stop) + 1 : at] if stop > 0 else line[:at]
            stream = keys.get(key)
            if stream is None:
                stream = self._begin(key, line[:at], number)
            stream.last, stream.last_number = line, number
            end = line.find(b" ", at + 10)
            word = line[at + 10 : end] if end > 0 else line[at + 10 :]
            try:
                handler = words[word]
            except KeyError:
                handler = self._learn(word)
            if handler is not None:
                handler(notes, stream, line[at + 10 :], number)
        self.lines = number - 1  # behind the last line end there is nothing
        self.nccl_lines += told

    def finish(self) -> NcclLog:
        """All that was read; BadInput where nothing was NCCL's."""
        if not self.nccl_lines:
            raise BadInput("has no line of NCCL's debug log", file=self.file)
        return summary(self.notes, self.file, self.lines, self.nccl_lines)

    # --- seldom -------------------------------------------------------------------------------

    def _begin(self, key: bytes, head: bytes, number: int) -> Stream:
        stream = self.notes.stream(heads.parse(head, self.stripper).speaker, number)
        if len(self.keys) < MOST_KEYS:
            self.keys[key] = stream
        return stream

    def _learn(self, word: bytes) -> Handler | None:
        handler = learn(word)
        if len(self.words) < MOST_WORDS:
            self.words[word] = handler
        return handler

    def _message(self, stream: Stream, text: bytes, number: int) -> None:
        word = text.split(b" ", 1)[0]
        handler = self.words[word] if word in self.words else self._learn(word)
        if handler is not None:
            handler(self.notes, stream, text, number)

    def _unusual(self, line: bytes, number: int, at: int) -> None:
        """Warnings, version lines, and lines into which two processes wrote at once."""
        second = _SECOND.search(line, at + 10)
        if second is not None:
            begin = second.start() + self._glued(second)
            self._one(line[:begin], number)
            line = line[begin:]
        self._one(line, number)

    def _glued(self, second: re.Match[bytes]) -> int:
        """How much of "P2P/IPChostB" is the end of the first message: a known host tells."""
        name, pid = second[1].decode("utf-8", "replace"), int(second[2])
        known = self.notes.hosts.get(pid, ())
        ends = [len(name) - len(host) for host in known if name.endswith(host)]
        return min(ends, default=0)

    def _one(self, line: bytes, number: int) -> None:
        at = line.find(b"NCCL ")
        while at >= 0:
            level = line[at + 5 : at + 10]
            if level == b"INFO ":
                stream = self._begin(line[:at], line[:at], number)
                stream.last, stream.last_number = line, number
                self.nccl_lines += 1
                self._message(stream, line[at + 10 :], number)
                return
            if level in LEVELS:
                self._warned(line, number, at)
                return
            if line.startswith(b"version ", at + 5):
                self._version(line, number)
                return
            if line.startswith(b"failure ", at + 5):
                self._tested(line, number)
                return
            at = line.find(b"NCCL ", at + 5)

    def _warned(self, line: bytes, number: int, at: int) -> None:
        head = heads.parse(line[:at], self.stripper)
        stream = self.notes.stream(head.speaker, number)
        stream.last, stream.last_number = line, number
        self.nccl_lines += 1
        text = line[at + 10 :].decode("utf-8", "replace")
        self.notes.events.add(head, text, number, line[at + 5 : at + 9].decode())
        stream.process.warned(text, number)

    def _version(self, line: bytes, number: int) -> None:
        """ "NCCL version 2.5.6+cuda10.0": one process prints it for all, without its prefix."""
        if match := VERSION.search(line.decode("utf-8", "replace")):
            flavour = "rccl" if match[1] == "R" else "nccl"
            self.notes.versions.setdefault(match[2].strip(), flavour)
            self.nccl_lines += 1

    def _tested(self, line: bytes, number: int) -> None:
        if match := _TESTED.search(line):
            host = match[1].decode("utf-8", "replace") if match[1] else ""
            self._said(heads.Speaker(host), match[2], number)

    def _last_error(self, line: bytes, number: int) -> None:
        prefix, text = self.stripper.strip(line.decode("utf-8", "replace"))
        text = text.removeprefix(self._quoted[1])
        if len(text.strip()) > 2 and not text.lstrip().startswith(_NO_ERROR):
            speaker = heads.Speaker(prefix.host or "", rank=prefix.rank)
            self._said(speaker, text.encode(), number)

    def _said(self, speaker: heads.Speaker, text: bytes, number: int) -> None:
        """A warning that another program quotes."""
        self.nccl_lines += 1
        said = text.decode("utf-8", "replace")
        self.notes.events.add(heads.Head(speaker), said, number, "WARN")

    def _bare(self, line: bytes, number: int) -> None:
        """A line without NCCL's prefix: a version, or what somebody pasted without it."""
        if number == self._quoted[0]:
            self._last_error(line, number)
        if b"CCL version" in line:
            self._version(line, number)
        elif line.rstrip().endswith(_LAST_ERROR):
            _, rest = self.stripper.strip(line.decode("utf-8", "replace").rstrip())
            self._quoted = number + 1, rest.removesuffix(_LAST_ERROR.decode())
        elif (b"] " in line or b" WARN " in line) and (old := _UNNAMED.match(line)):
            self._one(old[1] + b"NCCL " + old[2], number)
        elif b" WARN " in line and (placed := _PLACED.match(line)):
            self._said(heads.Speaker(), placed[1], number)
        elif b"orld" in line and (said := PROGRAM.search(line)):
            self.notes.told_by_program(*(int(text) if text else None for text in said.groups()))
        elif match := _BARE.match(line):
            stream = self.notes.stream(heads.Speaker(), number)
            self.nccl_lines += 1
            self._message(stream, match[1], number)
