"""Damaged files of every format: no parser crashes, hangs, or takes more than a second per MB.

Seeds are the real files under tests/data (or BENCH_FUZZ_DATA) and a few made ones; a seeded
mutator cuts, flips, repeats, nests and swells them. All that is read is also judged and shown.
BENCH_FUZZ_SECONDS sets how long (15 normally, 1800 before a release), BENCH_FUZZ_SEED where it
starts; a failure names its number and keeps the file.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import cast

import msgspec
import pytest

from bench.formats import recognition
from bench.formats.file_walk import Found
from bench.formats.source import MAX_LINE, Source
from bench.judge.foreign import verdict
from bench.records import BadInput, Dossier
from bench.report import reading_screen

DATA = Path(os.environ.get("BENCH_FUZZ_DATA", Path(__file__).resolve().parents[1] / "data"))
SECONDS = float(os.environ.get("BENCH_FUZZ_SECONDS", "15"))
SEED = int(os.environ.get("BENCH_FUZZ_SEED", "20261130"))
MAX_SEED_BYTES = 256 << 10
# One second per MB is promised on a quiet machine; a busy one is given twice that, and what it
# needs to start with.
SECONDS_PER_MB, LEAST_SECONDS = 2.0, 0.5
# Fitting lines to a damaged table costs ten times its parsing.
JUDGED_EVERY = 4
# A parser that has not ended by then hangs.
HANG_SECONDS = 60

MADE = {
    "table.json": b'{"version": 3, "config": {"nranks": 2}, "results": [{"size": 8, "count": 2}]}',
    "laughs.xml": b'<?xml version="1.0"?>\n<!DOCTYPE s [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;">]>\n<system version="1"><cpu numaid="&c;"/></system>\n',
    "deep.json": b"[" * 3000 + b"]" * 3000,
    "deep.xml": b'<system version="1">' + b'<cpu numaid="0"><pci busid="0000:00:00.0">' * 400,
    "endless": b"x" * (4 * MAX_LINE),
    "nul": b"\0" * 4096 + b"# nThread 1 nGpus 1\n",
    "numbers": b"1e309 -1 99999999999999999999999 nan inf 0x10 \xd9\xa1\xd9\xa2 1_000\n" * 50,
}
NUMBERS = (
    b"0",
    b"-1",
    b"99999999999999999999",
    b"1e309",
    b"nan",
    b"inf",
    b"4294967296",
    b"",
    b"\xd9\xa3",
)
WORDS = (
    b"\0",
    b"\r",
    b"\x1b[31m",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"<",
    b">",
    b"&a;",
    b'"',
    b"\\",
    b"[" * 60,
)


def seeds() -> list[tuple[str, bytes]]:
    files = sorted(path for path in DATA.rglob("*") if path.is_file() and path.suffix != ".md")
    real = [(path.name, path.read_bytes()[:MAX_SEED_BYTES]) for path in files]
    return [*real, *MADE.items()]


SEEDS = seeds()


def cut(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] if chance.random() < 0.7 else content[at:]


def flip(content: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 20)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(WORDS) * chance.randint(1, 9) + content[at:]


def repeat_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    number = chance.choice((2, 10, 10, 100, 1000))
    block = lines[at : at + chance.randint(1, 8)] * number
    return b"\n".join([*lines[:at], *block, *lines[at:]])[: 1 << 20]


def shuffle_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(chance.randint(1, 10)):
        one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def drop_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    return b"\n".join(line for line in lines if chance.random() > 0.2)


def swell_a_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    lines[at] = (lines[at] or b" ") * chance.choice((2, 50, 2000))
    return b"\n".join(lines)[: 1 << 20]


def replace_a_number(content: bytes, chance: random.Random) -> bytes:
    words = content.split(b" ")
    numbers = [at for at, word in enumerate(words) if word[:1].isdigit()]
    for _ in range(chance.randint(1, 5)):
        if numbers:
            words[chance.choice(numbers)] = chance.choice(NUMBERS)
    return b" ".join(words)


def join_another(content: bytes, chance: random.Random) -> bytes:
    other = chance.choice(SEEDS)[1]
    if chance.random() < 0.5:
        return content + b"\n" + other
    mine, others = content.split(b"\n"), other.split(b"\n")
    longest = max(len(mine), len(others))
    mixed = (line for at in range(longest) for line in (mine[at : at + 1] + others[at : at + 1]))
    return b"\n".join(mixed)


def prefix_lines(content: bytes, chance: random.Random) -> bytes:
    forms = (b"[1,%d]<stdout>:", b" %d: ", b"host%d: ", b"[rank%d]: ", b"> %d ")
    form = chance.choice(forms)
    return b"\n".join(form % chance.randrange(4) + line for line in content.split(b"\n"))


def nest(content: bytes, chance: random.Random) -> bytes:
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"<pci>", b"</pci>")))
    depth = chance.choice((10, 2000, 50_000))
    at = chance.randrange(len(content) + 1)
    return content[:at] + opening * depth + closing * depth + content[at:]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    cut, flip, insert, repeat_lines, shuffle_lines, drop_lines, swell_a_line, replace_a_number,
    join_another, prefix_lines, nest,
)  # fmt: skip


class Hangs(Exception):
    """Raised into a parser that does not end."""


@contextmanager
def ends() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def mutated(number: int) -> tuple[str, bytes]:
    """The file of that number: the same whenever it is asked for."""
    chance = random.Random(SEED + number)
    name, content = chance.choice(SEEDS)
    for _ in range(chance.randint(1, 4)):
        content = chance.choice(MUTATIONS)(content, chance)
    return name, content


def timed(content: bytes, call: Callable[[], object]) -> None:
    """Processor time: other processes of the machine are not what is measured."""
    begun = time.process_time()
    call()
    taken = time.process_time() - begun
    allowed = max(SECONDS_PER_MB * len(content) / 1e6, LEAST_SECONDS)
    assert taken <= allowed, f"{taken:.2f} s for {len(content)} bytes"


def parse(module: recognition.FormatModule, name: str, content: bytes) -> list[object]:
    """What the module makes of the file, whatever the file is; BadInput is a good answer."""
    source = Source.of_text(content, file=name)
    likeness = module.likeness(source.head(), name)
    assert 0 <= likeness <= 1
    sentence = ""
    told: object = ()
    try:
        told = module.read(source)
    except BadInput as bad:
        sentence = str(bad)
    assert "\n" not in sentence
    return [told] if type(told) in recognition.FIELDS else list(cast(Iterable[object], told))


def through(name: str, content: bytes, folder: Path) -> None:
    """All of `read`: recognised, read, judged, shown, written as JSON."""
    path = folder / name
    path.write_bytes(content)
    dossier = recognition.gather([Found(path, name, named=True)])
    reading = verdict.judge(dossier)
    assert msgspec.json.decode(msgspec.json.encode(reading))
    screen = reading_screen.screen(reading)
    assert all(letter.isprintable() or letter == "\n" for letter in screen)


def check(number: int, folder: Path) -> None:
    name, content = mutated(number)
    try:
        with ends():
            for entry in recognition.FORMATS:
                module = entry.load()
                timed(content, partial(parse, module, name, content))
            if number % JUDGED_EVERY == 0:
                through(name, content, folder)
    except BaseException:
        kept = folder / f"failed-{number}-{name}"  # what a person needs to see it again
        kept.write_bytes(content)
        print(f"seed {SEED}, file {number}: {kept}")
        raise


@pytest.mark.timeout(SECONDS + 120)
def test_damaged_files_end_in_records_or_in_one_sentence(tmp_path: Path) -> None:
    begun, number = time.monotonic(), 0
    while time.monotonic() - begun < SECONDS:
        check(number, tmp_path)
        number += 1
    assert number > SECONDS, "a file a second is no fuzzing"


@pytest.mark.parametrize("name", [name for name, _ in SEEDS])
def test_every_seed_is_read_without_damage(name: str, tmp_path: Path) -> None:
    content = dict(SEEDS)[name]
    for entry in recognition.FORMATS:
        module = entry.load()
        for record in parse(module, name, content):
            assert type(record) in recognition.FIELDS
    through(name, content, tmp_path)


def test_the_seeds_hold_every_format() -> None:
    told = {type(record) for _, content in SEEDS for record in everything(content)}
    assert told == set(recognition.FIELDS)


def everything(content: bytes) -> Iterator[object]:
    for entry in recognition.FORMATS:
        yield from parse(entry.load(), "x", content)


def test_an_empty_dossier_is_inconclusive() -> None:
    assert verdict.judge(Dossier()).verdict == "inconclusive"
