"""Which algorithm and protocol NCCL took for which size (TUNING lines).

In: "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}" (2.24), the same
with numbers and a time (2.21), without the collective (before), symmetric kernels (2.27). Out:
LogTuning, each combination once with its count, per process.
"""

from __future__ import annotations

import re

from bench.formats.nccl_log.processes import Process
from bench.records import LogTuning

MOST_TUNINGS = 4096  # different lines of a file; a training step has dozens of sizes

# ncclAlgo and ncclProto as numbers, src/include/nccl_common.h.
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")

_CHOICE = re.compile(
    r"(?:(\w{1,30})(?: \[([\w ]{1,30})\])?: {1,12})?(\d{1,16}) Bytes -> "
    r"(?:Algo (\w{1,20}) proto (\w{1,20})|Kernel (\S{1,80}))(.{0,80})"
)
_CHANNELS = re.compile(r"=\{(\d{1,4})\.\.(\d{1,4})\}|nchannels (\d{1,4})")


class Tunings:
    """The choices of all processes of a file."""

    def __init__(self) -> None:
        self.counts: dict[tuple[Process, bytes], int] = {}
        self.left_out = 0

    def add(self, process: Process, text: bytes) -> None:
        """A message that may be a choice: most are "AllReduce: opCount …" and cost a look."""
        arrow = text.find(b" Bytes -> ", 0, 60)
        if arrow < 0:
            return
        end = text.find(b" time ", arrow)
        key = process, text if end < 0 else text[:end]
        count = self.counts.get(key)
        if count is not None:
            self.counts[key] = count + 1
        elif len(self.counts) < MOST_TUNINGS:
            self.counts[key] = 1
        else:
            self.left_out += 1

    def records(self) -> dict[Process, list[LogTuning]]:
        """Per process, in the order of the file."""
        found: dict[Process, list[LogTuning]] = {}
        for (process, text), count in self.counts.items():
            choice = parse(text.decode("utf-8", "replace"), count)
            if choice is not None:
                found.setdefault(process, []).append(choice)
        return found


def parse(text: str, count: int = 1) -> LogTuning | None:
    """One choice; None for another message."""
    match = _CHOICE.match(text)
    if match is None:
        return None
    collective, variant, size, algorithm, protocol, kernel, rest = match.groups()
    channels = _CHANNELS.search(rest)
    number = None
    if channels:
        number = int(channels[3]) if channels[3] else int(channels[2]) - int(channels[1]) + 1
    return LogTuning(
        collective=collective or "",
        size_bytes=int(size),
        algorithm=(variant or "symmetric") if kernel else _name(algorithm, ALGORITHMS),
        protocol=kernel if kernel else _name(protocol, PROTOCOLS),
        channels=number,
        count=count,
    )


def _name(word: str, names: tuple[str, ...]) -> str:
    """A number as its name; names as they stand, in capitals."""
    if word.isdecimal():
        return names[int(word)] if int(word) < len(names) else word
    return word.upper()
