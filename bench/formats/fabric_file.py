"""A Fabric as the text of a fabric file: TOML that reads back as the same record, with comments.

In: the record and sentences for its head. Out: text. Only what is set is written; names come from
machines, so every string is escaped and no comment can end its line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bench.records import Fabric, FabricBusbw, FabricGpus, FabricNetwork, Record, Tolerance

COLUMN = 32  # where comments begin, if the value leaves room
WIDTH = 97  # of a comment line at the head

ALWAYS = {(FabricNetwork, "role")}  # guessed by whoever writes the file: to be seen and mended

COMMENTS: Mapping[type[Record], Mapping[str, str]] = {
    Fabric: {},
    FabricNetwork: {
        "role": "data, management or storage",
        "interfaces": "globs",
        "claimed": "the ports' own word; delete this line once it is yours",
        "ports_per_host": "together",
    },
    FabricGpus: {
        "path": "between GPUs of a host: nvlink, xgmi, pcie or none",
        "nvlinks": "active, of each GPU",
        "nvlink_gbs": "all of them, one direction",
        "pcie": "generation x lanes",
    },
    FabricBusbw: {
        "candidate": "the way of the sweep that it holds for",
        "busbw_gbs": "the level of good runs",
        "from_bytes": "the largest size that all of them reached",
        "tolerance": "below by so much is a finding",
        "latency_us": "of small messages",
        "latency_tolerance": "above by so much is a finding",
        "runs": "good runs",
    },
    Tolerance: {
        "bandwidth": "where an entry has none of its own",
        "latency": "likewise",
    },
}


def render(fabric: Fabric, *, head: Sequence[str] = ()) -> str:
    """The file's text; `head` are sentences for comments at its top."""
    lines = [line for sentence in head for line in _comment(sentence)]
    lines += _fields(fabric, skip=("network", "gpus", "busbw", "tolerance"))
    for network in fabric.network:
        lines += ["", "[[network]]", *_fields(network)]
    if fabric.gpus != FabricGpus():
        lines += ["", "[gpus]", *_fields(fabric.gpus)]
    for entry in fabric.busbw:
        lines += ["", "[[busbw]]", *_fields(entry)]
    lines += ["", "[tolerance]", *_fields(fabric.tolerance, all_of_them=True)]
    return "\n".join(lines) + "\n"


def _fields(record: Record, *, skip: Sequence[str] = (), all_of_them: bool = False) -> list[str]:
    kind = type(record)
    fields, last = kind.__struct_fields__, kind.__struct_defaults__  # of the last so many fields
    defaults = dict(zip(fields[len(fields) - len(last) :], last, strict=True))
    lines = []
    for name in kind.__struct_fields__:
        value = getattr(record, name)
        always = all_of_them or (kind, name) in ALWAYS
        unset = not always and name in defaults and value == defaults[name]
        if name in skip or value is None or unset:
            continue
        text = f"{name} = {_value(value)}"
        comment = COMMENTS[kind].get(name)
        lines.append(f"{text.ljust(COLUMN)} # {comment}" if comment else text)
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return repr(value) if not value.is_integer() or abs(value) >= 1e15 else str(int(value))
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_value(item) for item in value)}]"
    assert isinstance(value, int), f"no field of a fabric is a {type(value).__name__}"
    return str(value)


def _string(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL, and no lone surrogates."""
    whole = text.encode("utf-8", "replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(sentence: str) -> list[str]:
    """A sentence as comment lines of readable width; what does not print becomes "?"."""
    printable = "".join(c if c.isprintable() else "?" for c in sentence)
    lines, line = [], "#"
    for word in printable.split(" "):
        if len(line) + 1 + len(word) > WIDTH and line != "#":
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]
