"""One foreign file, opened safely: its beginning, its lines, large pieces of it, or all its bytes.

In: a path, a stream (stdin, a named pipe) or text. Out: text without NUL bytes, colours and
carriage returns, with the line numbers that `grep -n` shows; gzip is unpacked on the way. Memory
is bounded: lines are cut at MAX_LINE, files at a limit, and both are told.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from bench.records import BadInput

# The longest line of a real log or table is NCCL's list of networks, below 2 KiB.
MAX_LINE = 64 << 10
# Line by line a file costs no memory, only time: a few minutes for this much.
MAX_BYTES = 4 << 30
# What a pipe brings lies on disk meanwhile.
MAX_PIPE_BYTES = 1 << 30
# What must be held as a whole (JSON, XML); nccl-tests' JSON of 40 sizes per iteration is 2 MB.
MAX_WHOLE_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20
HEAD_BYTES = 64 << 10

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # of UTF-16 the NULs go as well
# Colours and cursor moves (CSI), titles and links (OSC), character sets: ECMA-48. A line end stops
# every one of them, so that a cut sequence costs no more than its line.
_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\][^\x07\x1b\n]{0,1024}(?:\x07|\x1b\\)?"
    rb"|[ -/][0-~]?|[0-Z\\^-~])?"
)
_CARRIAGE = re.compile(rb"\r+(\n)?")


class Source:
    """One file. `cut_lines`, `cut_bytes`, `unfinished` and `line_count` hold for the last pass.

    `cut_lines`: lines longer than MAX_LINE; `cut_bytes`: where reading ended because of the limit
    (None: at the end); `damaged`: why a packed file could not be read to its end; `unfinished`:
    the last line has no line end, so it may be half a line.
    """

    def __init__(
        self, file: str, opener: Callable[[], BinaryIO], size_bytes: int, limit_bytes: int
    ) -> None:
        self.file = file
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.cut_lines = 0
        self.cut_bytes: int | None = None
        self.damaged: str | None = None
        self.unfinished = False
        self.line_count = 0
        self._opener = opener
        self._packed = False
        self._head = self._beginning()

    @classmethod
    def open(cls, path: Path, *, limit_bytes: int = MAX_BYTES, file: str | None = None) -> Source:
        """The file at `path`; BadInput where it cannot be read. A pipe is read to its end."""
        name = file or str(path)
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                raise BadInput("is a folder; expected a file", file=name)
            if stat.S_ISREG(status.st_mode):
                return cls(name, lambda: path.open("rb"), status.st_size, limit_bytes)
            if not stat.S_ISFIFO(status.st_mode):  # /dev/zero has no end
                raise BadInput("is a device or a socket; expected a file", file=name)
            with path.open("rb") as stream:
                return cls.of_stream(stream, file=name)
        except FileNotFoundError:
            raise BadInput("no such file", file=name) from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise _unreadable(error, name) from None

    @classmethod
    def of_stream(
        cls, stream: BinaryIO, *, file: str = "<stdin>", limit_bytes: int = MAX_PIPE_BYTES
    ) -> Source:
        """What a pipe brings, kept in a file without a name: it is read several times."""
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the source
        size = 0
        while block := stream.read(min(CHUNK_BYTES, limit_bytes + 1 - size)):
            size += kept.write(block)
        kept.flush()
        again = Path(f"/proc/self/fd/{kept.fileno()}")  # an offset of its own for every reader

        def opener(_keep: object = kept) -> BinaryIO:
            return again.open("rb")

        return cls(file, opener, size, limit_bytes)

    @classmethod
    def of_text(cls, text: str | bytes, file: str = "<text>") -> Source:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        return cls(file, lambda: io.BytesIO(raw), len(raw), MAX_BYTES)

    def head(self, limit_bytes: int = HEAD_BYTES) -> str:
        """The beginning as text (at most HEAD_BYTES), cleaned as lines() are."""
        return _clean(self._head[:limit_bytes]).decode("utf-8", "replace")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line with its 1-based number, cleaned, without its line end."""
        for first, chunk in self.chunks():
            text = chunk.decode("utf-8", "replace")
            yield from enumerate(text[:-1].split("\n"), first)

    def chunks(self, bytes_per_chunk: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """The number of the first line and whole lines, cleaned, the last ending with b"\\n" too.

        The fast way through a large log: decode and split a chunk at a time.
        """
        self.cut_lines, self.unfinished = 0, False
        number, carry, skipping = 1, b"", False
        for block in self._blocks(bytes_per_chunk):
            if skipping:  # the rest of a line that was too long
                end = block.find(b"\n")
                if end < 0:
                    continue
                block, skipping = block[end:], False
            block = carry + block
            end = block.rfind(b"\n") + 1
            whole, carry = block[:end], block[end:]
            if len(carry) > MAX_LINE:
                carry, skipping = carry[:MAX_LINE], True
                self.cut_lines += 1
            if whole:
                lines = whole.count(b"\n")
                yield number, _clean(self._cut(whole))
                number += lines
        if carry:
            self.unfinished = True
            yield number, _clean(carry + b"\n")
            number += 1
        self.line_count = number - 1

    def bytes_(self) -> bytes:
        """The whole content as it is (unpacked); BadInput above MAX_WHOLE_BYTES."""
        limit = min(self.limit_bytes, MAX_WHOLE_BYTES)
        content = bytearray()
        for block in self._blocks(CHUNK_BYTES, as_it_is=True):
            content += block
            if len(content) > limit or self.cut_bytes is not None:
                sentence = f"is larger than {limit >> 20} MiB, too large for a file of its kind"
                raise BadInput(sentence, file=self.file)
        return bytes(content)

    def seekable(self) -> BinaryIO:
        """The raw content from its beginning, for reading at places; a packed file is unpacked
        into one without a name, up to the limit of a pipe. `cut_bytes` and `damaged` hold then."""
        if not self._packed:
            self.cut_bytes = self.limit_bytes if self.size_bytes > self.limit_bytes else None
            return self._opener()
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        size = 0
        for block in self._blocks(CHUNK_BYTES, as_it_is=True):
            kept.write(block[: MAX_PIPE_BYTES - size])
            size += len(block)
            if size > MAX_PIPE_BYTES:
                self.cut_bytes = MAX_PIPE_BYTES
                break
        kept.seek(0)
        return kept

    @property
    def is_sampled_whole(self) -> bool:
        """Whether the file is so short that its beginning is all of it."""
        return len(self._head) < HEAD_BYTES

    def samples(self, bytes_each: int = 32 << 10) -> list[str]:
        """Some whole lines from the beginning, the middle and the end, to learn how lines look."""
        pieces = [self._head[: 2 * bytes_each]]
        if not self._packed and self.size_bytes > 4 * bytes_each:
            try:
                with self._opener() as stream:
                    for at in (self.size_bytes // 2, self.size_bytes - bytes_each):
                        stream.seek(at)
                        pieces.append(stream.read(bytes_each).partition(b"\n")[2])
            except OSError as error:
                raise _unreadable(error, self.file) from None
        if not self.is_sampled_whole:  # else the last line counts, whether it has an end or not
            pieces = [piece[: piece.rfind(b"\n") + 1] or piece for piece in pieces]
        text = _clean(b"".join(pieces).replace(b"\0", b"")).decode("utf-8", "replace")
        return text.removesuffix("\n").split("\n")

    def _beginning(self) -> bytes:
        """The first bytes, unpacked; finds out whether the file is packed."""
        try:
            with self._opener() as stream:
                self._packed = stream.read(2) == _GZIP
        except OSError as error:
            raise _unreadable(error, self.file) from None
        beginning = b""
        for block in self._blocks(HEAD_BYTES):
            beginning += block
            if len(beginning) >= HEAD_BYTES:
                break
        if self.damaged and not beginning:
            raise BadInput(f"cannot be unpacked: {self.damaged}", file=self.file)
        return beginning[:HEAD_BYTES]

    def _blocks(self, size: int, *, as_it_is: bool = False) -> Iterator[bytes]:
        """Raw pieces up to the limit; without NUL bytes and byte-order mark unless `as_it_is`."""
        total, self.cut_bytes, self.damaged = 0, None, None
        try:
            with self._opener() as raw:
                # read1: of a packed file that ends early it gives what there is
                read = gzip.GzipFile(fileobj=raw, mode="rb").read1 if self._packed else raw.read
                while block := read(min(size, self.limit_bytes - total + 1)):
                    first, total = total == 0, total + len(block)
                    if total > self.limit_bytes:
                        self.cut_bytes = self.limit_bytes
                        block = block[: len(block) - 1]
                    if not as_it_is:
                        if first and block.startswith(_BYTE_ORDER_MARKS):
                            block = block[3 if block[:1] == b"\xef" else 2 :]
                        if b"\0" in block:  # of a disk that filled, or UTF-16
                            block = block.translate(None, b"\0")
                    yield block
                    if self.cut_bytes is not None:
                        return
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.damaged = str(error) or "the packed data is damaged"
        except OSError as error:
            raise _unreadable(error, self.file) from None

    def _cut(self, whole: bytes) -> bytes:
        """Lines longer than MAX_LINE cut; where none is, a find every 64 KiB is all it costs."""
        at, last, pieces = 0, len(whole), []
        begun = 0
        while last - at > MAX_LINE:
            end = whole.rfind(b"\n", at, at + MAX_LINE + 1)
            if end >= 0:
                at = end + 1
                continue
            pieces.append(whole[begun : at + MAX_LINE])
            self.cut_lines += 1
            begun = at = whole.index(b"\n", at + MAX_LINE)
            at += 1
        return b"".join((*pieces, whole[begun:])) if pieces else whole


def without_colours(chunk: bytes) -> bytes:
    """Without sequences for a terminal; most files have none."""
    return _ANSI.sub(b"", chunk) if b"\x1b" in chunk else chunk


def _clean(chunk: bytes) -> bytes:
    """Without colours and carriage returns: each is looked for first, most files have neither."""
    chunk = without_colours(chunk)
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", b"\n")
        if b"\r" in chunk:  # a progress bar that wrote over itself
            chunk = _CARRIAGE.sub(lambda found: found[1] or b" ", chunk)
    return chunk


def _unreadable(error: OSError | ValueError, file: str) -> BadInput:
    reason = getattr(error, "strerror", None) or str(error)
    return BadInput(f"cannot be read: {reason}", file=file)
