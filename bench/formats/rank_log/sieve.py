"""Where in a buffer any of many words stands, at the speed of memory.

In: words of at least seven bytes. Out: offsets of each. The buffer is read as 32-bit numbers, each
hashed into a table of 65,536 marks; a word has a four-byte piece at every alignment, the rarest is
marked, and what the marks let through is compared in full. One pass for all words: a search per
word, or a regular expression of them all, takes ten times as long in Python.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WORD = 4  # bytes looked at together
STRIDE = 1 << 17  # numbers looked at together: the scratch space of so many stays in the cache
HASH_BITS = 16  # a table of 64 KiB stays in the second-level cache
_FACTOR = np.uint32(2654435761)  # Knuth's, 2^32 over the golden ratio
_SHIFT = np.uint32(32 - HASH_BITS)
# How often a letter stands in a log, per mille: only the order matters. Unlisted bytes are rare.
_COMMON = dict(
    zip(b" 0e1at2o3ri4n5s=.d6l7c8p9u:m-_/gfh,kb[]vwRINOETASC", range(200, 0, -4), strict=False)
)

# Pieces of words that ordinary lines are full of pass for rare by their letters alone.
_ORDINARY = (
    b" INFO WARNING DEBUG NCCL INFO Channel : [send] via NET/IB/GDRDMA [recv] timeout= io_timeout"
    b" mem= memory= rank= step= epoch= loss= grad_norm= lr= tok/s= time= iter= data used unused"
    b" find batch worker dataloader after was not error=0 errors=0 connected train ok "
)
_AMONG_ORDINARY = 1000  # more than any four letters weigh


class Sieve:
    """The words, prepared once; scan() may be called from several threads, each with a Tray."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self.words = tuple(words)
        self.longest = max(map(len, words))
        self.marks = np.zeros(1 << HASH_BITS, dtype=bool)
        self._pieces: dict[int, list[tuple[int, int]]] = {}
        for number, word in enumerate(words):
            for alignment in range(WORD):
                offsets = range(alignment, len(word) - WORD + 1, WORD)
                assert offsets, f"{word!r} is too short for alignment {alignment}"
                offset = min(offsets, key=lambda at: _commonness(word[at : at + WORD]))
                piece = int.from_bytes(word[offset : offset + WORD], "little")
                self._pieces.setdefault(piece, []).append((number, offset))
        for piece in self._pieces:
            self.marks[(piece * int(_FACTOR) & 0xFFFFFFFF) >> int(_SHIFT)] = True
        self._known = np.array(sorted(self._pieces), dtype=np.uint32)

    def scan(self, tray: Tray, size: int, fresh: int) -> list[tuple[int, int]]:
        """(offset, word) in order, of the tray's first `size` bytes, that end behind `fresh`."""
        found: list[tuple[int, int]] = []
        for places, piece in tray.candidates(self.marks, self._known, size):
            for number, offset in self._pieces[piece]:
                word = self.words[number]
                starts = places - offset
                starts = starts[(starts + len(word) > fresh) & (starts + len(word) <= size)]
                starts = starts[starts >= 0]
                for at in (0, len(word) - 1, len(word) // 2):  # most differ at one of these
                    starts = starts[tray.bytes[starts + at] == word[at]]
                for start in starts.tolist():
                    if tray.buffer[start : start + len(word)] == word:
                        found.append((start, number))
        found.sort()
        return found


class Tray:
    """A buffer with all the scratch space of a scan, used again for every piece of every file."""

    def __init__(self, size_bytes: int) -> None:
        assert size_bytes % WORD == 0
        self.size_bytes = size_bytes
        self.buffer = bytearray(size_bytes)
        self.view = memoryview(self.buffer)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.buffer, dtype=np.uint8)
        self.words: NDArray[np.uint32] = self.bytes.view("<u4")
        self._hashes = np.empty(STRIDE, dtype=np.uint32)
        self._indices = np.empty(STRIDE, dtype=np.intp)
        self._marked = np.empty(STRIDE, dtype=bool)
        self._ends = np.empty(STRIDE, dtype=bool)

    def candidates(
        self, marks: NDArray[np.bool_], known: NDArray[np.uint32], size: int
    ) -> list[tuple[NDArray[np.intp], int]]:
        """Byte offsets of the known numbers (ascending), together with the number."""
        end = -(-size // WORD)
        self.buffer[size : end * WORD] = bytes(end * WORD - size)
        parts = [
            self._marked_words(marks, at, min(at + STRIDE, end)) for at in range(0, end, STRIDE)
        ]
        hits = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
        pieces = self.words[hits]
        which = np.searchsorted(known, pieces)
        which[which == len(known)] = 0
        same = known[which] == pieces  # the others have a known number's hash
        hits, which = hits[same], which[same]
        return [(hits[which == at] * WORD, int(known[at])) for at in np.unique(which).tolist()]

    def _marked_words(self, marks: NDArray[np.bool_], begin: int, end: int) -> NDArray[np.intp]:
        count = end - begin
        hashes, indices, marked = self._hashes[:count], self._indices[:count], self._marked[:count]
        np.multiply(self.words[begin:end], _FACTOR, out=hashes)
        np.right_shift(hashes, _SHIFT, out=hashes)
        np.copyto(indices, hashes, casting="unsafe")
        np.take(marks, indices, out=marked, mode="clip")
        return np.flatnonzero(marked) + begin

    def line_ends(self, begin: int, end: int) -> int:
        """How many lines end in this part."""
        count = 0
        for at in range(begin, end, STRIDE):
            ends = self._ends[: min(STRIDE, end - at)]
            np.equal(self.bytes[at : at + len(ends)], 10, out=ends)
            count += int(np.count_nonzero(ends))
        return count

    def lines_before(self, begin: int, places: Sequence[int]) -> list[int]:
        """For each place, in order, how many lines end between `begin` and it."""
        ends = np.flatnonzero(self.bytes[begin : places[-1]] == 10) if places else np.empty(0)
        return np.searchsorted(ends, np.asarray(places) - begin).tolist()  # type: ignore[no-any-return]


def _commonness(piece: bytes) -> int:
    ordinary = _AMONG_ORDINARY if piece in _ORDINARY else 0
    return ordinary + sum(_COMMON.get(letter, 0) for letter in piece)
