"""The few lines of a worker's NCCL log that tell which network and which paths it took.

The whole grammar of NCCL's logs, versions and launchers is another room's work; a session keeps
only what witnesses its own candidate: bootstrap, devices, the network chosen, channels, warnings.
Lines keep NCCL's own prefix, which says whose they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_TELLING = (
    "Bootstrap", "NET/", "Using network", " via ", "NCCL WARN", "NCCL version",
    "set by environment", "Init START", "Duplicate GPU", "same GPU",
)  # fmt: skip
_MOST_LINES = 60  # a rank of an eight-rail host prints hundreds of channel lines; they repeat
_MOST_ALIKE = 8  # edges of one kind: a rank's neighbours in rings and trees are fewer
_MOST_CHARACTERS = 300
_MOST_OF_OTHERS = 6  # edges of a rank that does not speak for its host
_CHANNEL = re.compile(r"(?:Channel|Ring) \d{1,3}(?:/\d{1,3})? ?: ")


def telling(text: str) -> tuple[str, ...]:
    """The telling lines in order, each message once, each edge between two ranks once whatever
    its channel; at most 60 of 300 characters."""
    kept: dict[str, str] = {}
    alike: Counter[str] = Counter()
    for line in text.splitlines():
        if not any(word in line for word in _TELLING):
            continue
        message = _message(line)
        if message in kept:
            continue
        if " via " in message:
            kind = message.rpartition(" via ")[2]
            alike[kind] += 1
            if alike[kind] > _MOST_ALIKE:
                continue
        kept[message] = line.strip()[:_MOST_CHARACTERS]
        if len(kept) == _MOST_LINES:
            break
    return tuple(kept.values())


def local_edges(lines: Iterable[str]) -> tuple[str, ...]:
    """Of a rank that does not speak for its host: its edges to GPUs of the same host. Only the
    sender prints those, so the host's speaker has none of them."""
    edges = [line for line in lines if " via P2P" in line or " via SHM" in line]
    edges += [line for line in lines if "[send] via NET" in line][:1]
    return tuple(edges[:_MOST_OF_OTHERS])


def united(lines: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """`lines`, and of `more` those whose message is not there."""
    found: dict[str, str] = {}
    for line in (*lines, *more):
        found.setdefault(_message(line), line)
    return tuple(found.values())


def _message(line: str) -> str:
    """Behind NCCL's prefix, without a channel's number."""
    return _CHANNEL.sub("", line.split("NCCL INFO ", 1)[-1].strip(), count=1)[:_MOST_CHARACTERS]
