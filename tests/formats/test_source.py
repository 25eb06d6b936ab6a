"""Foreign files as text: what is taken off, what is counted, what is cut, what is refused."""

from __future__ import annotations

import gzip
import io
import os
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats.source import MAX_LINE, Source
from bench.records import BadInput


def texts(source: Source) -> list[str]:
    return [text for _, text in source.lines()]


def written(folder: Path, content: bytes, name: str = "file.log") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_lines_are_numbered_as_grep_numbers_them(tmp_path: Path) -> None:
    source = Source.open(written(tmp_path, b"one\n\nthree\n"))
    assert list(source.lines()) == [(1, "one"), (2, ""), (3, "three")]
    assert source.line_count == 3
    assert not source.unfinished


def test_a_last_line_without_an_end_is_read_and_told() -> None:
    source = Source.of_text("one\ntwo")
    assert texts(source) == ["one", "two"]
    assert source.unfinished


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\n", ["a", "b"]),
        (b" 50%\r100%\nhost:1:2\n", [" 50% 100%", "host:1:2"]),
        (b"\x1b[1;31mred\x1b[0m\n", ["red"]),
        (b"\x1b]0;title\x07text\x1b[K\n", ["text"]),
        (b"cut \x1b[3\nnext\n", ["cut ", "next"]),
        (b"a\0\0b\n", ["ab"]),
        (b"\xef\xbb\xbf# nThread 1\n", ["# nThread 1"]),
        ("\ufeff# size µs\r\n".encode("utf-16-le"), ["# size \ufffds"]),
        (b"caf\xe9\n", ["caf\ufffd"]),
        ("a\u2028b\x0cc\n".encode(), ["a\u2028b\x0cc"]),
        (b"", []),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, bytes) else "",
)
def test_text_is_cleaned_and_no_line_is_lost(raw: bytes, expected: list[str]) -> None:
    source = Source.of_text(raw)
    assert texts(source) == expected
    assert source.head().removesuffix("\n") == "\n".join(expected)


@given(
    st.lists(st.text(st.characters(blacklist_characters="\n\r\0\x1b\ufeff"), max_size=30)),
    st.integers(1, 50),
)
def test_pieces_of_any_size_hold_the_same_lines(lines: list[str], bytes_per_chunk: int) -> None:
    raw = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    source = Source.of_text(raw)
    expected = raw.decode().split("\n")[:-1]
    assert texts(source) == expected
    number = 1
    whole = b""
    for first, chunk in source.chunks(bytes_per_chunk):
        assert first == number
        assert chunk.endswith(b"\n")
        number += chunk.count(b"\n")
        whole += chunk
    assert whole == raw


@pytest.mark.parametrize("bytes_per_chunk", [1000, MAX_LINE, 1 << 20])
def test_a_huge_line_is_cut_and_the_lines_around_it_stay(bytes_per_chunk: int) -> None:
    raw = b"first\n" + b"x" * (3 * MAX_LINE + 7) + b"\nthird\n" + b"y" * (MAX_LINE + 1)
    source = Source.of_text(raw)
    lines: list[bytes] = []
    for _, chunk in source.chunks(bytes_per_chunk):
        lines += chunk.split(b"\n")[:-1]
    assert [line[:1] + line[-1:] for line in lines] == [b"ft", b"xx", b"td", b"yy"]
    assert [len(line) for line in lines] == [5, MAX_LINE, 5, MAX_LINE]
    assert source.cut_lines == 2


def test_a_line_at_the_limit_is_whole() -> None:
    source = Source.of_text(b"z" * MAX_LINE + b"\nnext\n")
    assert [len(text) for text in texts(source)] == [MAX_LINE, 4]
    assert source.cut_lines == 0


def test_a_file_of_one_endless_line_costs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "endless"
    with path.open("wb") as stream:
        stream.truncate(200 << 20)  # NULs
        stream.seek(100 << 20)
        stream.write(b"x" * (50 << 20))
    tracemalloc.start()
    try:
        source = Source.open(path)
        assert [len(text) for text in texts(source)] == [MAX_LINE]
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_reading_ends_at_the_limit_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, b"12345\n" * 100)
    source = Source.open(path, limit_bytes=60)
    assert len(texts(source)) == 10
    assert source.cut_bytes == 60
    assert Source.open(path, limit_bytes=600).bytes_() == path.read_bytes()
    with pytest.raises(BadInput, match="too large"):
        source.bytes_()


def test_gzip_is_unpacked_whatever_its_name(tmp_path: Path) -> None:
    for name in ("rank0.log.gz", "rank0.log"):
        source = Source.open(written(tmp_path, gzip.compress(b"one\ntwo\n"), name))
        assert texts(source) == ["one", "two"]
        assert source.bytes_() == b"one\ntwo\n"
        assert source.samples() == ["one", "two"]


def test_a_cut_off_gzip_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(400_000).hex().encode())
    source = Source.open(written(tmp_path, packed[: len(packed) // 2]))
    assert source.head()
    assert len(texts(source)) == 1
    assert source.damaged


def test_gzip_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"file\.log: cannot be unpacked"):
        Source.open(written(tmp_path, b"\x1f\x8bnot packed at all"))


def test_a_zip_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(b"\n" * (20 << 20)))
    source = Source.open(path, limit_bytes=1 << 20)
    assert sum(len(chunk) for _, chunk in source.chunks()) == 1 << 20
    assert source.cut_bytes == 1 << 20


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "no such file"),
        (".", "is a folder"),
        ("a\0b", "cannot be read"),
        ("/dev/zero", "is a device"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Source.open(tmp_path / name)


def test_a_pipe_can_be_read_again_and_again(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(gzip.compress(b"one\ntwo\n"),))
    writer.start()
    source = Source.open(fifo)
    writer.join()
    assert texts(source) == texts(source) == ["one", "two"]
    assert source.head() == "one\ntwo\n"


def test_stdin_ends_at_the_limit() -> None:
    source = Source.of_stream(io.BytesIO(b"1234567890\n" * 10), limit_bytes=22)
    assert source.file == "<stdin>"
    assert texts(source) == ["1234567890"] * 2
    assert source.cut_bytes == 22


def test_samples_show_beginning_middle_and_end(tmp_path: Path) -> None:
    raw = b"".join(b"%07d\n" % number for number in range(100_000))
    sample = Source.open(written(tmp_path, raw)).samples(1000)
    numbers = [int(line) for line in sample]
    assert numbers[0] == 0
    assert any(40_000 < number < 60_000 for number in numbers)
    assert numbers[-1] == 99_999
    assert all(len(line) == 7 for line in sample)


def test_a_hundred_megabytes_pass_in_a_fraction_of_the_parsers_time(tmp_path: Path) -> None:
    line = b"hostA:29881:30401 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    path = written(tmp_path, line * (25_000_000 // len(line)))
    begun = time.process_time()
    total = sum(chunk.count(b"\n") for _, chunk in Source.open(path).chunks())
    # A quarter of the 100 MB for which the log parser has 3 s; 0.02 s where nothing else runs.
    assert time.process_time() - begun < 4
    assert total == 25_000_000 // len(line)
