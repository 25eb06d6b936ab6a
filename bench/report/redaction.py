"""Records and texts made fit for other people's eyes: no secrets, and no host names if so wished.

In: records or text. Out: the same with values behind secret names left out, variables outside the
allow-list dropped, and (by a `HostNames`) every host called host1, host2 … wherever it is named.
The allow-list is the safeguard; looking for secrets in foreign log lines is a second one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from bench.formats.allow_list import SECRET_WORDS, recorded
from bench.records import HostFacts, NcclConf

Something = TypeVar("Something")

LEFT_OUT = "[left out]"
# NAME=value and NAME: value; the value ends at white space or its quote. All repeats are bounded.
_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_-]{0,63})(['\"]?\s?[=:]\s?)"
    r"(\"[^\"\n]{0,999}\"|'[^'\n]{0,999}'|[^\s,;]{1,999})"
)
_NCCL_SET = re.compile(r"\b([A-Z][A-Z0-9_]{1,63}) set (by environment )?to [^\s]{1,999}")
_CREDENTIALS = re.compile(r"(://)[^/\s:@]{1,99}:[^/\s@]{1,199}@")
_BEARER = re.compile(r"\b([Bb]earer|[Bb]asic) [A-Za-z0-9._~+/=-]{8,999}")
_SECRET = frozenset(SECRET_WORDS | {"APIKEY", "AUTH", "AUTHORIZATION"})
_WORDS = re.compile(r"[_-]")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._#-]*")
_PIECES = re.compile(r"([._-])")
_MOST_PIECES = 12  # of a name: node-01.rack-7.cluster.example.org has ten
_HOME = re.compile(r"(/home/|/Users/)[^/\s'\":]{1,99}")
_NODE_LISTS = ("_NODELIST", "_TOPOLOGY_ADDR")  # node[001-064,099]: too many forms to be replaced


def scrubbed(text: str) -> str:
    """`text` without what stands behind names such as HF_TOKEN or in credentials of a URL."""
    if ":" not in text and "=" not in text and " to " not in text and "earer" not in text:
        return text
    text = _BEARER.sub(rf"\1 {LEFT_OUT}", text)
    text = _CREDENTIALS.sub(rf"\1{LEFT_OUT}@", text)
    text = _ASSIGNMENT.sub(_assignment, text)
    return _NCCL_SET.sub(_setting, text)


def _is_secret(name: str) -> bool:
    return bool(_SECRET.intersection(_WORDS.split(name.upper())))


def _assignment(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{LEFT_OUT}" if _is_secret(match[1]) else match[0]


def _setting(match: re.Match[str]) -> str:
    """NCCL prints every variable it reads: "NCCL_SOCKET_MAGIC set by environment to …"."""
    if recorded(match[1]) and not _is_secret(match[1]):
        return match[0]
    return f"{match[1]} set {match[2] or ''}to {LEFT_OUT}"


class HostNames:
    """Host names by what they are called instead: the same everywhere, whatever it is part of."""

    def __init__(self, names: Iterable[Iterable[str]]) -> None:
        """`names` are the names of each host, the one to be shown first."""
        self._known: dict[str, str] = {}
        for number, of_one in enumerate(names, 1):
            for name in of_one:
                first = name.lower().partition(".")[0]
                self._known.setdefault(name.lower(), f"host{number}")
                if not first.isdigit():  # of an address used as a name
                    self._known.setdefault(first, f"host{number}")  # as NCCL cuts it
        self._known.pop("", None)

    def replaced(self, text: str) -> str:
        """Also users' names in home folders, which name people."""
        return _HOME.sub(r"\1user", _NAME.sub(lambda match: self._name(match[0]), text))

    def _name(self, written: str) -> str:
        word = written.rstrip("._-")
        end = written[len(word) :]
        found = self._known.get(word.lower())
        if found is not None:
            return found + end
        pieces = _PIECES.split(word)
        if not 3 <= len(pieces) <= 2 * _MOST_PIECES:
            return written
        at, shown = 0, []
        while at < len(pieces):
            stop = next((e for e in range(len(pieces), at, -1) if self._has(pieces[at:e])), None)
            if stop is None:
                shown.append(pieces[at])
                at += 1
                continue
            shown.append(self._known["".join(pieces[at:stop]).lower()])
            at = stop
            if pieces[at : at + 1] == ["."]:
                break  # the domain says whose cluster it is
        return "".join(shown) + end

    def _has(self, pieces: list[str]) -> bool:
        return "".join(pieces).lower() in self._known


def names_of(hosts: Iterable[HostFacts]) -> list[list[str]]:
    """Names of each host, its label first."""
    return [[host.host, host.hostname] for host in hosts]


def redacted(value: Something, names: HostNames | None = None) -> Something:
    """A record (or a dict, a tuple of them) with all its texts scrubbed and its variables those of
    the allow-list; with `names`, host names replaced."""

    def text(written: str) -> str:
        clean = scrubbed(written)
        return names.replaced(clean) if names is not None else clean

    return cast("Something", _walked(value, text, anonymous=names is not None))


def _walked(value: Any, text: Callable[[str], str], *, anonymous: bool) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, HostFacts):
        kept = {k: v for k, v in value.environment.items() if recorded(k)}
        if anonymous:
            kept = {k: v for k, v in kept.items() if not k.endswith(_NODE_LISTS)}
        value = msgspec.structs.replace(value, environment=kept)
    if isinstance(value, NcclConf):
        settings = {k: v for k, v in value.settings.items() if recorded(k)}
        value = msgspec.structs.replace(value, settings=settings)
    if isinstance(value, msgspec.Struct):
        changes = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            new = _walked(old, text, anonymous=anonymous)
            if new is not old:
                changes[name] = new
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, dict):
        return {
            _walked(k, text, anonymous=anonymous): _walked(v, text, anonymous=anonymous)
            for k, v in value.items()
        }
    if isinstance(value, (tuple, list)):
        if value and isinstance(value[0], (int, float)):
            return value  # raw times, by the ten thousand
        return type(value)(_walked(item, text, anonymous=anonymous) for item in value)
    return value
