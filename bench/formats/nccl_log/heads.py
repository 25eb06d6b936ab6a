"""Who speaks: the `host:pid:tid [device]` before "NCCL INFO", and what a launcher put before that.

In: the bytes of a line up to "NCCL". Out: a Speaker; for warnings also source place and function.
The form has been the same since NCCL 2.3; 2.26 puts a time before it, 2.30 the function behind.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.formats.prefix import Stripper

# `hostA:5109:5177 [0] misc/socket.cc:502 (ncclSocketAccept) `; hand-trimmed ones lack the thread.
_HEAD = re.compile(
    rb"(?:^|[^\w.-])([\w.-]{1,255}):(\d{1,10})(?::(\d{1,10}))? \[(-?\d{1,4})\] ?(.{0,600})$",
    re.DOTALL,
)
# "<cluster_name>:924:1152 [5]", "***:924:1152 [5]": a name that was taken out.
_TAKEN_OUT = re.compile(rb"(?:^|\s)([<\[({*][^\s:]{0,60}):$")
_DEVICE = re.compile(rb"\[(\d{1,4})\] ?(.{0,600})$")
MOST_PID = 1 << 22  # Linux's
_PLACE = re.compile(
    rb"(?:^|\s)([^\s:]{1,400}\.(?:cc|cpp|cu|h|hpp|c):\d{1,6})(?: \(([^()\s]{1,200})\))? ?$"
)
_FUNCTION = re.compile(rb"(?:^|[ *&])([A-Za-z_]\w{0,120})\([^()]{0,300}\):(\d{1,6}) ?$")
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_TIME = re.compile(rf"(\d{{4}}-\d\d-\d\d[ T]{_CLOCK})|(?:^|[\s\[(])({_CLOCK})(?=[\s\])])")


class Speaker(NamedTuple):
    """One thread of one process, as a prefix names it; host "" and pid 0 where it does not."""

    host: str = ""
    pid: int = 0
    tid: int = 0
    device: int | None = None
    rank: int | None = None  # by the launcher's word


class Head(NamedTuple):
    """All that stands before "NCCL WARN"."""

    speaker: Speaker
    place: str | None = None
    function: str | None = None
    time: str | None = None


def parse(head: bytes, stripper: Stripper) -> Head:
    """The head of a line."""
    text = head.decode("utf-8", "replace")
    prefix, _ = stripper.strip(text)
    match = _HEAD.search(head)
    if match and len(match[1]) <= 2 and match[1].isdigit():
        match = None  # 16:04:25 [0]: a time, not a host
    if match:
        host, pid, tid = match[1].decode(), int(match[2]), int(match[3] or match[2])
        if match[3] is None and host.isdigit() and len(host) <= len(str(MOST_PID)):
            taken = _TAKEN_OUT.search(head, 0, match.start(1))
            if taken and not taken[1].startswith(b"<std"):
                host, pid = taken[1].decode("utf-8", "replace"), int(host)
        speaker = Speaker(host, pid, tid, int(match[4]), prefix.rank)
        rest = match[5]
    else:
        bare = _DEVICE.search(head)
        device = int(bare[1]) if bare else None
        speaker = Speaker(prefix.host or "", 0, 0, device, prefix.rank)
        rest = bare[2] if bare else head[-700:]
    place = function = None
    if rest:
        if found := _PLACE.search(rest):
            place = short(found[1].decode("utf-8", "replace"))
            function = found[2].decode() if found[2] else None
        elif found := _FUNCTION.search(rest):  # aws-ofi-nccl names a function instead of a file
            function = found[1].decode()
            place = f"{function}:{found[2].decode()}"
    return Head(speaker, place, function, _time(text) or prefix.time)


def short(place: str) -> str:
    """RCCL prints the path of its build machine; the part below src/ is what a reader knows."""
    return place.rpartition("/src/")[2] if place.startswith("/") else place


def _time(text: str) -> str | None:
    found = _TIME.search(text[:200])
    return (found[1] or found[2]) if found else None
