"""Lists of hosts that stand beside launch files: DeepSpeed's and MPI's host files, /etc/hosts.

In: the file. Out: HostLines with GPUs ("hostA slots=8", "hostA 2 GPUs", "hostA:8") or addresses
("10.0.0.1 hostA", "hostA 10.0.0.1"), or names alone where the file's name says what it is.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import PurePath

from bench.formats.source import Source
from bench.records import BadInput, HostLine

KIND = "list of hosts"

MOST_HOSTS = 20_000
_NAME = r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]{0,252})"
_COUNTED = (
    re.compile(rf"{_NAME}\s+(?:max_)?slots\s?=\s?(?P<gpus>\d{{1,4}})\b.*", re.IGNORECASE),
    re.compile(
        rf"{_NAME}[\s:,]+(?P<gpus>\d{{1,4}})\s?(?:x\s?)?(?:GPUs?|slots?)\b.*", re.IGNORECASE
    ),
    re.compile(rf"{_NAME}:(?P<gpus>\d{{1,4}})"),
)
_MAPPED = re.compile(
    r"(?P<address>[0-9A-Fa-f.:]{3,45})\s+(?P<names>[A-Za-z][\w.-]*(?:\s+[\w.-]+)*)"
)
_ALONE = re.compile(_NAME)
_TITLE = re.compile(r"host|node|machine", re.IGNORECASE)


def likeness(head: str, name: str) -> float:
    """Every line a host; with nothing but names only where the file is called so."""
    lines = [text for line in head.split("\n") if (text := _bare(line))]
    if not lines:
        return 0.0
    lines = lines[:-1] if len(lines) > 40 else lines  # the head may end within a line
    counted = sum(_counted(line) is not None for line in lines)
    mapped = sum(_mapped(line) is not None for line in lines)
    titled = bool(_TITLE.search(PurePath(name).stem))
    if max(counted, mapped) == len(lines):
        return 0.95 if titled or counted == len(lines) else 0.0
    alone = all(_ALONE.fullmatch(line) for line in lines)
    return 0.9 if alone and titled and PurePath(name).suffix in ("", ".txt", ".list") else 0.0


def read(source: Source) -> tuple[HostLine, ...]:
    """All hosts, in order; BadInput where there is none."""
    found: list[HostLine] = []
    for number, line in source.lines():
        text = _bare(line)
        if not text:
            continue
        if len(found) == MOST_HOSTS:
            raise BadInput(f"names more than {MOST_HOSTS:,} hosts", file=source.file, line=number)
        if counted := _counted(text):
            host, gpus = counted
            found.append(HostLine(file=source.file, line=number, host=host, gpus=gpus))
        elif mapped := _mapped(text):
            address, names = mapped
            found += [
                HostLine(file=source.file, line=number, host=name, addresses=(address,))
                for name in names[:8]
            ]
        elif match := _ALONE.fullmatch(text):
            found.append(HostLine(file=source.file, line=number, host=match["host"]))
    if not found:
        raise BadInput("names no host", file=source.file)
    return tuple(found)


def _bare(line: str) -> str:
    return line.partition("#")[0].strip()[:512]


def _counted(text: str) -> tuple[str, int] | None:
    for form in _COUNTED:
        if match := form.fullmatch(text):
            return match["host"], int(match["gpus"])
    return None


def _mapped(text: str) -> tuple[str, tuple[str, ...]] | None:
    match = _MAPPED.fullmatch(text) or _MAPPED.fullmatch(" ".join(reversed(text.split()[:2])))
    if match is None:
        return None
    try:
        ipaddress.ip_address(match["address"])
    except ValueError:
        return None
    return match["address"], tuple(match["names"].split())
