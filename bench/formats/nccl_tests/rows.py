"""One row of a printed table: from its text and the table's Layout to a TableRow, digit for digit.

A number is never read from a token that may be cut: a half that lacks tokens is left out as a
whole, and so is a row that ends before its type.
"""

from __future__ import annotations

from msgspec.structs import replace

from bench.formats.nccl_tests.cells import ERROR, half_of, is_count, is_integer, is_number
from bench.formats.nccl_tests.columns import ITERATIONS, Layout
from bench.records import TableRow, TableTime

# Bytes of an element. nccl-tests names them in src/common.cu; the names of its first version and
# of rccl-tests' float8 builds are there as well.
DTYPE_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "int32": 4, "uint32": 4, "int": 4, "int64": 8, "uint64": 8,
    "half": 2, "float16": 2, "fp16": 2, "float": 4, "float32": 4, "fp32": 4,
    "double": 8, "float64": 8, "fp64": 8, "bfloat16": 2, "bf16": 2,
    "float8": 1, "fp8": 1, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "float8e4m3": 1, "float8e5m2": 1, "float8_e4m3": 1, "float8_e5m2": 1, "bfloat8": 1,
}  # fmt: skip

# An empty out-of-place half is 32 blanks wide (33 before 2.17); two columns stand 2 to 8 apart.
_EMPTY_HALF = " " * 24
_FEWEST_NUMBERS = 8  # in a row of two halves


def is_beginning(text: str, known: Layout | None = None) -> bool:
    """Whether a row begins here: size, count, and a type (any word where a header was seen)."""
    tokens = text.split(None, 3)
    if len(tokens) < 2 or not (is_count(tokens[0]) and is_count(tokens[1])):
        return False
    if len(tokens) == 2:
        return False
    if tokens[2] in DTYPE_BYTES:
        return True
    if known is None or not known.told:
        return False
    return "type" not in known.lead or tokens[2][:1].isalpha()


def is_continuation(text: str) -> bool:
    """Whether the line holds numbers only, as the rest of a row that something interrupted; a
    row's labels may follow them."""
    words = text.split()
    if _is_timestamp(words):
        words = words[:-2]
    if len(words) > 3 and words[-3].isalpha() and words[-2].isalnum() and words[-1].isdigit():
        words = words[:-3]
    return 0 < len(words) <= 24 and all(is_number(word) or word == "N/A" for word in words)


def is_whole(text: str, layout: Layout | None) -> bool:
    """Whether nothing of the row is to come: both halves are there, or the second alone."""
    words = len(text.split())
    if layout is None:
        return words - 3 >= _FEWEST_NUMBERS
    if words - len(layout.lead) >= layout.numbers:
        return True
    # Fewer words: a column is left empty, or a half.
    _, _, values, _ = _split(text.split(), layout)
    return len(values) >= layout.numbers or (
        len(values) >= len(layout.half) and _EMPTY_HALF in text.strip()
    )


def parse(text: str, line: int, layout: Layout) -> TableRow | None:
    """The row, or None where the text is none: cut before its type, or of other columns."""
    tokens = text.split()
    if len(tokens) < 2 or not (is_count(tokens[0]) and is_count(tokens[1])):
        return None
    named, root, values, labels = _split(tokens, layout)
    if named is None:
        return None
    dtype, redop = named
    width, wanted = len(layout.half), layout.numbers
    first = second = None
    if len(values) >= wanted:
        extra = any(is_number(token) for token in values[wanted:])
        if extra and "timestamp" not in layout.tail:  # else the beginning of a day
            return None  # more columns than the header names: whose number is whose is not known
        first = half_of(values[:width], layout)
        if layout.halves == 2:
            second = half_of(values[width:wanted], layout)
        cut = False
    else:
        if layout.halves == 2 and len(values) >= width:
            first = half_of(values[:width], layout)
            if _EMPTY_HALF in text.strip():
                first, second, cut = None, first, False
            else:
                cut = True
        else:
            cut = True
    if layout.first == "in_place":
        first, second = second, first
    return TableRow(
        size_bytes=int(tokens[0]),
        count=int(tokens[1]),
        dtype=dtype,
        redop=redop,
        root=root,
        out_of_place=first,
        in_place=second,
        cut=cut,
        labels=labels,
        line=line,
    )


def distrusted(row: TableRow, text: str, layout: Layout) -> TableRow:
    """The row without its very last number, which may have lost digits where the file ends.

    "N/A" and an error such as 1e-06 are told whole by their look; they stay.
    """
    place = "in_place" if row.in_place else "out_of_place"
    half: TableTime | None = getattr(row, place)
    if half is None or row.labels.get("timestamp"):
        return row if row.cut or row.labels else replace(row, cut=True)
    if row.labels:  # algo, proto: the number of channels is the last
        return replace(row, labels={}, cut=True)
    last = layout.half[-1]
    word = text.split()[-1]
    if word == "N/A" or (last == "error" and ERROR.fullmatch(word)):
        return row
    losses: dict[str, dict[str, object]] = {
        "wrong": {"wrong": None},
        "error": {"error": None},
        "#bitdiff": {"different_bits": None},
        ITERATIONS[-1]: {"iterations": None},
    }
    lost = losses.get(last, {"more": {}})
    return replace(row, **{place: replace(half, **lost)}, cut=True)


def printed(text: str, layout: Layout) -> list[tuple[str, str, str]]:
    """Time, algbw and busbw of each half that the row has, as they were printed."""
    _, _, values, _ = _split(text.split(), layout)
    at, to, width = layout.half.index("algbw"), layout.half.index("busbw"), len(layout.half)
    starts = range(0, min(len(values), layout.numbers) - width + 1, width)
    return [(values[start], values[start + at], values[start + to]) for start in starts]


def _split(
    tokens: list[str], layout: Layout
) -> tuple[tuple[str, str | None] | None, int | None, list[str], dict[str, str]]:
    """Type and operation (None: there is no type), root, the numbers after them, labels."""
    at = 2
    dtype = ""
    if "type" in layout.lead:
        if len(tokens) < 3 or not tokens[2][:1].isalpha() or tokens[2] == "N/A":
            return None, None, [], {}
        dtype, at = tokens[2], 3
        if dtype not in DTYPE_BYTES and (len(tokens) == 3 or not layout.told):
            return None, None, [], {}  # "flo": the end of what was left of the row
    redop = None
    if len(tokens) > at and tokens[at][:1].isalpha() and tokens[at] not in ("N/A", "nan", "inf"):
        redop, at = tokens[at], at + 1
    values = tokens[at:]
    labels: dict[str, str] = {}
    if _is_timestamp(values):
        labels["timestamp"] = f"{values[-2]} {values[-1]}"
        values = values[:-2]
    root = None
    # Whole microseconds are printed from 10000 on only, so a small whole number is no time: some
    # builds name the root column and leave it empty.
    if "root" in layout.lead and values and is_integer(values[0]) and len(values[0]) <= 4:
        root, values = int(values[0]), values[1:]
    names = [name for name in layout.tail if name != "timestamp"]
    words = [at for at, word in enumerate(values) if word[:1].isalpha() and word != "N/A"]
    if names and words:  # algo, proto, nchannels: where the first word stands the numbers end
        told = values[words[0] : words[0] + len(names)]
        labels.update(zip(names, told, strict=True) if len(told) == len(names) else ())
        values = values[: words[0]]
    return (dtype, redop), root, values, labels


def _is_timestamp(words: list[str]) -> bool:
    """Whether the last two words are a day and a time of day."""
    return (
        len(words) > 1
        and len(words[-1]) == 8
        and words[-1][2] == ":" == words[-1][5]
        and len(words[-2]) == 10
    )
