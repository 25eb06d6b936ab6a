"""Our own TOML files (labs, fabrics, plans) into records, or one sentence about what is wrong.

In: a path or text, and the record type that the file must fit. Out: that record. Every complaint
is a BadInput that names file, line and what was expected, and for an unknown key the nearest one.
msgspec checks types and gives the path of the offender; `toml_lines` finds the line of that path.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sys
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from bench.formats.toml_lines import KeyLines, KeyPath
from bench.records import BadInput

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

# A file written by a person is a few KiB; a megabyte is a wrong file, and costs seconds to parse.
MAX_BYTES = 1 << 20

# msgspec's type names in a reader's words; null cannot be written in TOML, so it is left out.
WORDS = {
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}

_PATH = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]*)`$")
_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`$")
_ENUM = re.compile(r"Invalid enum value ")
_SYNTAX = re.compile(r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


def load(path: Path, type_: type[T]) -> T:
    """The record in the TOML file at `path`; BadInput when it cannot be read or does not fit."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise BadInput("no such file", file=str(path)) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from None
    if len(raw) > MAX_BYTES:
        raise BadInput("is larger than 1 MiB; expected a TOML file", file=str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput("is not UTF-8 text", file=str(path), line=line) from None
    return load_text(text, type_, file=str(path))


def load_text(text: str, type_: type[T], *, file: str) -> T:
    """The record in `text`; `file` is the name that complaints carry. Raises BadInput."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise BadInput("is nested too deeply", file=file) from None
    except ValueError as error:  # TOMLDecodeError, and an integer of thousands of digits
        raise _syntax_error(str(error), text, file) from None
    lines = KeyLines(text)
    _refuse_unbounded(data, (), lines, file)
    try:
        return msgspec.convert(data, type_)
    except msgspec.ValidationError as error:
        message = str(error)
        at = _PATH.search(message)
        path = _parse_path(at["path"]) if at else ()
        reason = message[: at.start()] if at else message
        raise _misfit(reason, path, data, type_, lines, file) from None
    except BadInput as bad:  # from a record's own check, which cannot know the file
        raise BadInput(bad.sentence, file=bad.file or file, line=bad.line) from None


def _syntax_error(message: str, text: str, file: str) -> BadInput:
    found = _SYNTAX.match(message)
    if not found:
        return BadInput(f"is not TOML: {message}", file=file)
    line = int(found["line"]) if found["line"] else max(1, len(text.splitlines()))
    what = found["what"]
    return BadInput(f"is not TOML: {what[:1].lower()}{what[1:]}", file=file, line=line)


def _refuse_unbounded(value: object, path: KeyPath, lines: KeyLines, file: str) -> None:
    """tomllib takes inf, nan and integers of any length; no rate, size or time of ours is one."""
    endless = isinstance(value, float) and not math.isfinite(value)
    if endless or (isinstance(value, int) and abs(value) >= 1 << 63):
        sentence = f"{_spell(path)} is {_show(value)}; expected a finite number below 2**63"
        raise BadInput(sentence, file=file, line=lines.of(path))
    entries = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else ()
    for key, entry in (*entries, *items):
        _refuse_unbounded(entry, (*path, key), lines, file)


def _misfit(
    reason: str, path: KeyPath, data: object, type_: Any, lines: KeyLines, file: str
) -> BadInput:
    """msgspec's complaint about `path` in words that a person who edits the file can act on."""
    if unknown := _UNKNOWN.match(reason):
        key = unknown["key"]
        table = f" in {_spell(path)}" if path else ""
        hint = _nearest(key, _fields(type_, path))
        return BadInput(
            f'unknown key "{key}"{table}{hint}', file=file, line=lines.of((*path, key))
        )
    if missing := _MISSING.match(reason):
        table = _spell(path) if path else "the file"
        sentence = f'{table} lacks the key "{missing["key"]}"'
        return BadInput(sentence, file=file, line=lines.of(path))
    path = _resolve(path, data, reason)
    line = lines.of(path)
    value = _show(_value(data, path))
    if types := _TYPE.match(reason):
        expected = " or ".join(
            WORDS.get(name, name) for name in types["expected"].split(" | ") if name != "null"
        )
        return BadInput(f"{_spell(path)} is {value}; expected {expected}", file=file, line=line)
    if _ENUM.match(reason):
        choices = _choices(type_, path)
        hint = _nearest(str(_value(data, path)), choices)
        wanted = " or ".join(f'"{choice}"' for choice in choices) or "another value"
        sentence = f"{_spell(path)} is {value}; expected {wanted}{hint}"
        return BadInput(sentence, file=file, line=line)
    place = f"{_spell(path)}: " if path else ""
    return BadInput(f"{place}{reason[:1].lower()}{reason[1:]}", file=file, line=line)


def _nearest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if not near:  # "rate" for "rate_mbit": too short for a ratio, yet plain to a reader
        near = [name for name in known if len(key) > 2 and (name.startswith(key))]
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; known keys: {', '.join(known)}" if known else ""


def _parse_path(text: str) -> KeyPath:
    """msgspec's ".network[1].rate" as ("network", 1, "rate"); "[...]" (some key) as "..."."""
    steps: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", text):
        steps.append(name if name else int(index) if index.isdecimal() else "...")
    return tuple(steps)


def _resolve(path: KeyPath, data: object, reason: str) -> KeyPath:
    """The path with msgspec's "[...]" replaced by the key whose value has the type it found."""
    if "..." not in path:
        return path
    position = path.index("...")
    table = _value(data, path[:position])
    types = _TYPE.match(reason)
    names = {"str": str, "int": int, "float": float, "bool": bool, "array": list, "object": dict}
    wanted = names.get(types["found"]) if types else None
    for key, value in table.items() if isinstance(table, dict) else ():
        inner = _value(value, path[position + 1 :])
        if wanted is None or type(inner) is wanted:
            return _resolve((*path[:position], key, *path[position + 1 :]), data, reason)
    return path[:position]


def _value(data: object, path: KeyPath) -> object:
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _show(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, float):  # json would say Infinity
        return str(value)
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "…"


def _spell(path: KeyPath) -> str:
    """("network", 1, "rate") as "network[1].rate"; the line number beside it settles any doubt."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def _types_at(type_: Any, path: KeyPath) -> list[inspect.Type]:
    """All types that msgspec allows at `path` (a union gives several)."""
    here = [inspect.type_info(type_)]
    for step in (*path, None):
        flat: list[inspect.Type] = []
        for kind in here:
            flat.extend(kind.types if isinstance(kind, inspect.UnionType) else (kind,))
        here = flat if step is None else [n for kind in flat for n in _inside(kind, step)]
    return here


def _inside(kind: inspect.Type, step: str | int) -> list[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, inspect.DictType):
        return [kind.value_type]
    if isinstance(kind, inspect.TupleType):
        return [kind.item_types[step]] if isinstance(step, int) else []
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        return [kind.item_type]
    return []


def _fields(type_: Any, path: KeyPath) -> list[str]:
    return [
        field.encode_name
        for kind in _types_at(type_, path)
        if isinstance(kind, inspect.StructType)
        for field in kind.fields
    ]


def _choices(type_: Any, path: KeyPath) -> list[str]:
    return [
        str(value)
        for kind in _types_at(type_, path)
        if isinstance(kind, inspect.LiteralType)
        for value in kind.values
    ]
