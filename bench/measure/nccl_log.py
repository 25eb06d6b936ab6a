"""The few lines of a worker's NCCL log that tell which network it took.

The whole grammar of NCCL's logs, versions and launchers is another room's work; a session keeps
only what witnesses its own candidate: bootstrap, devices, the network chosen, channels, warnings.
"""

from __future__ import annotations

_TELLING = (
    "Bootstrap", "NET/", "Using network", " via ", "NCCL WARN", "NCCL version",
    "set by environment",
)  # fmt: skip
_MOST_LINES = 60  # a rank of an eight-rail host prints hundreds of channel lines; the kinds repeat
_MOST_CHARACTERS = 300


def telling(text: str) -> tuple[str, ...]:
    """The telling lines in order, each kind of channel edge once, at most 60 of 300 characters."""
    kept: dict[str, str] = {}
    for line in text.splitlines():
        if not any(word in line for word in _TELLING):
            continue
        message = line.split("NCCL INFO ", 1)[-1].strip()[:_MOST_CHARACTERS]
        kind = message.rpartition(" via ")[2] if " via " in message else message
        kept.setdefault(kind, message)
        if len(kept) == _MOST_LINES:
            break
    return tuple(kept.values())
