"""A pickle of plain data (dict, list, pairs of strings, numbers, strings), read without trust.

In: bytes from anywhere. Out: builtin containers only; BadInput in one sentence for anything else.
Every opcode is checked before one is carried out: none that resolves a global, calls, builds or
copies is allowed, and lengths, containers and memo slots have limits. A tuple may hold nothing but
strings, because the hash of tuples in tuples costs exponential time and unguarded C stack.
Opcodes: Lib/pickletools.py; torch writes protocol 2 (torch/csrc/jit/serialization/pickler.cpp).
"""

from __future__ import annotations

import io
import pickle  # the only module that may: see the house rules
import re
from typing import Literal, NoReturn

from bench.records import BadInput

# A ring of 20,000 entries with deep stacks has a few hundred thousand; an empty list of one byte
# costs 56, so this is what bounds the memory: about ten times the file.
MAX_CONTAINERS = 4 << 20
# Slots are numbered in order, so no honest file of 64 MiB needs more than this; the unpickler
# allocates sixteen bytes for every slot up to the highest.
MAX_SLOT = 1 << 22
READ_BYTES = 64 << 10
RUN_TOKENS = 4096  # bounds what the matcher keeps of one run

_STOP, _PAIR, _MEMOIZE, _FRAME = ord("."), 0x86, 0x94, 0x95
_GETS, _PUT, _LONG_PUT = b"hj", ord("q"), ord("r")
_PUT_BYTES = ({_PUT: 2, _LONG_PUT: 5}, {_MEMOIZE: 1})  # without frames, with
_STRINGS = {ord("X"): 4, 0x8C: 1, 0x8D: 8}  # opcode: bytes of the length
_LENGTHS = {  # with their argument
    b"K": 2,
    b"M": 3,
    b"J": 5,
    b"G": 9,
    b"h": 2,
    b"j": 5,
    b"q": 2,
    b"r": 5,
    b"X": 5,
    b"\x8a": 10,
    b"\x8c": 2,
    b"\x8d": 9,
    b"\x95": 9,
}
# Each alternative begins with a literal or a set, which the matcher skips at a glance; the
# frequent ones come first.
_PLAIN = (
    rb"[hK].",
    rb"[}\])(ueas\x88\x89N]",
    rb"M..",
    rb"J....",
    rb"\x8a\x08.{8}",
    rb"j...\0",
    rb"G.{8}",
    *(rb"\x8a\x%02x.{%d}" % (length, length) for length in (0, 1, 2, 3, 4, 5, 6, 7, 9)),
)
_PUTS = (rb"q.", rb"r..[\0-\x3f]\0")
_TOKEN = re.compile(b"(?s)" + b"|".join((*_PLAIN, *_PUTS)))
# A pair of two gets, as torch writes group names. One that the memo keeps could be put into
# another one, so runs stop before those, and before every pair of anything else.
_TWO_GETS = rb"h.h.\x86(?![qr\x94])"


def _runs(*puts: bytes) -> re.Pattern[bytes]:
    return re.compile(b"(?s)(?:%b){1,%d}" % (b"|".join((_TWO_GETS, *_PLAIN, *puts)), RUN_TOKENS))


_RUN, _RUN_FRAMED = _runs(*_PUTS), _runs()


def load(data: bytes, file: str, *, check: bool = True) -> object:
    """The object; the caller limits len(data). Raises BadInput.

    Without `check` still nothing is resolved or run, but time, memory and stack are not bounded:
    only for a process that may be killed for it.
    """
    checked = _Check(data, file)
    checked.begin()
    if check:
        checked.walk()
    stream = io.BufferedReader(io.BytesIO(data), READ_BYTES)
    try:
        return _Bare(stream).load()
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
    ) as error:  # what the unpickler raises for opcodes in an order that makes no sense
        raise BadInput(f"is a damaged pickle: {error}", file=file) from None


class _Bare(pickle.Unpickler):
    """Resolves nothing. The opcodes that would ask have been refused already."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise pickle.UnpicklingError("a global is no plain data")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("a persistent id is no plain data")


class _Check:
    """One pass over the opcodes, in runs of those that need no look at their argument."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file = data, file
        self.end = len(data)
        self.framed = False  # protocols 4 and 5: slots are numbered by themselves
        self.slots = 0
        self.texts: set[int] = set()  # slots that surely hold strings
        # Where the last three runs or strings began: the last two opcodes lie behind the first.
        self.begun = (2, 2, 2)

    def begin(self) -> None:
        """What a glance tells."""
        data = self.data
        if data[:1] != b"\x80":
            raise self._bad("is no pickle of protocol 2 or newer", 0)
        if self.end < 2 or not 2 <= data[1] <= 5:
            raise self._bad("is a pickle of an unknown protocol", 0)
        if data.count(b"]") + data.count(b"}") > MAX_CONTAINERS:
            raise self._bad(f"holds more than {MAX_CONTAINERS:,} containers", 0)
        self.framed = data[1] >= 4

    def walk(self) -> None:
        """Every opcode."""
        data = self.data
        run, end = (_RUN_FRAMED if self.framed else _RUN).match, self.end
        at = 2
        while True:
            if found := run(data, at):
                _, first, second = self.begun
                self.begun = (first, second, at)
                at = found.end()
                if at - self.begun[2] >= RUN_TOKENS:
                    continue  # perhaps it ended because of its own bound
            if at >= end:
                raise self._bad("ends in the middle: it was cut short", at)
            opcode = data[at]
            if opcode == _STOP:
                break
            at = self._past(at, opcode)
        if self.slots > MAX_SLOT:
            raise self._bad(f"keeps more than {MAX_SLOT:,} objects in its memo", at)

    def _past(self, at: int, opcode: int) -> int:
        """Past one opcode that runs leave out."""
        if opcode in _STRINGS:
            _, first, second = self.begun
            self.begun = (first, second, at)
            after, slot = self._kept(self._string_end(at, opcode))
            if slot is not None:
                self.texts.add(slot)
            return after
        if opcode == _PAIR:
            return self._pair(at)
        if not self.framed:
            raise self._unknown(at)
        if opcode == _MEMOIZE:  # of a container: a string's is passed with it
            self.slots += 1
            after = at + 1
        elif opcode == _FRAME:
            after = at + 9
            if after + int.from_bytes(self.data[at + 1 : after], "little") > self.end:
                raise self._bad("ends in the middle: it was cut short", at)
        else:
            raise self._unknown(at)
        self.begun = (after, after, after)
        return after

    def _string_end(self, at: int, opcode: int) -> int:
        begin = at + 1 + _STRINGS[opcode]
        end = begin + int.from_bytes(self.data[at + 1 : begin], "little")
        if end > self.end:
            raise self._bad("ends in the middle: it was cut short", at)
        return end

    def _kept(self, at: int) -> tuple[int, int | None]:
        """Past the put that follows, if one does, and its slot."""
        data = self.data
        put = data[at] if at < self.end else None
        if self.framed:
            if put != _MEMOIZE:
                return at, None
            self.slots += 1
            return at + 1, self.slots - 1
        if put == _PUT and at + 1 < self.end:
            return at + 2, data[at + 1]
        if put == _LONG_PUT and at + 4 < self.end:
            slot = int.from_bytes(data[at + 1 : at + 5], "little")
            if slot >= MAX_SLOT:
                raise self._unknown(at)
            return at + 5, slot
        return at, None

    def _pair(self, at: int) -> int:
        after, slot = self._kept(at + 1)
        operands = self._before(at)
        if len(operands) < 2 or not all(operands):
            raise self._bad("holds a tuple of something else than two strings", at)
        if slot is not None:
            if "any" in operands:
                raise self._bad("keeps a tuple of something else than two strings", at)
            self.texts.discard(slot)
        self.begun = (after, after, after)
        return after

    def _before(self, at: int) -> list[Literal["", "text", "any"]]:
        """What the last two opcodes before `at` push: "" for anything but a string or a get."""
        pushed: list[Literal["", "text", "any"]] = []
        here, data = self.begun[0], self.data
        while here < at:
            opcode = data[here]
            if opcode in _STRINGS:
                here = self._string_end(here, opcode)
                here += _PUT_BYTES[self.framed].get(data[here], 0) if here < at else 0
                pushed = [*pushed[-1:], "text"]
                continue
            found = _TOKEN.match(data, here)
            assert found, "the run has matched these tokens before"
            here = found.end()
            if opcode not in _GETS:
                pushed = [*pushed[-1:], ""]
            else:
                slot = int.from_bytes(found[0][1:], "little")
                pushed = [*pushed[-1:], "text" if slot in self.texts else "any"]
                if data[here : here + 1] == b"\x86" and here < at:  # a pair of two gets in a run
                    here, pushed = here + 1, []
        return pushed

    def _unknown(self, at: int) -> BadInput:
        """What stands at `at` is not allowed, or its argument is cut off or out of range."""
        opcode = self.data[at : at + 1]
        told = {
            b"c": "asks for a global",
            b"\x93": "asks for a global",
            b"R": "calls something",
            b"i": "asks for a global",
            b"o": "builds an object",
            b"b": "builds an object",
            b"\x81": "builds an object",
            b"\x92": "builds an object",
            b"P": "asks for a persistent object",
            b"Q": "asks for a persistent object",
        }
        if opcode in told:
            return self._bad(f"{told[opcode]}, which no Flight Recorder dump does", at)
        if self.end - at < _LENGTHS.get(opcode, 1):
            return self._bad("ends in the middle: it was cut short", at)
        if opcode in (b"r", b"j"):
            return self._bad("numbers an object beyond any that a dump has", at)
        return self._bad(f"holds opcode {opcode!r}, which no Flight Recorder dump does", at)

    def _bad(self, sentence: str, at: int) -> BadInput:
        place = f" (byte {at:,})" if at else ""
        return BadInput(sentence + place, file=self.file)
