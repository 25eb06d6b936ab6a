"""Is this file an NCCL log? Cheap, from its beginning.

In: the first text of a file and its name. Out: 0 to 1. A benchmark's table may stand in the same
file; then this format does not claim the file for itself alone.
"""

from __future__ import annotations

import re

KIND = "nccl-log"

_LINE = re.compile(
    r"NCCL (?:INFO|WARN|ATTN|TRACE) "
    # NCCL up to 2.2 did not name itself.
    r"|^.{0,80}?[\w.-]{1,80}:\d{1,10}:\d{1,10} \[\d{1,3}\] (?:[\w/.-]{1,80}:\d{1,6} )?"
    r"(?:INFO|WARN) "
    r"|^\s{0,8}[\w/.-]{1,80}\.(?:h|cc|cu):\d{1,6} WARN ",
    re.MULTILINE,
)
# What other programs quote of NCCL: PyTorch's exceptions, the end of a test.
_QUOTED = re.compile(
    r"^.{0,80}?nccl\w{4,40}(?:Error|Usage|Mismatch|Argument): .{0,400}\n.{0,80}?Last error:"
    r"|Test NCCL failure \S{1,200} '.{1,200}? / ",
    re.MULTILINE,
)
# What people paste without the prefix of each line.
_BARE = re.compile(
    r"^\s{0,8}(?:(?:Channel|Ring) \d\d(?:/\d{1,2})? : .{1,80} via |Bootstrap ?: Using "
    r"|NET/\w{2,9} ?: )",
    re.MULTILINE,
)
_TABLE = re.compile(r"^.{0,80}#.{0,200}\balgbw\s+busbw\b", re.MULTILINE)


def likeness(head: str, name: str) -> float:
    """How sure it is that a file with this beginning is a log; 0.5 where a table is in it too."""
    lines = len(_LINE.findall(head))
    bare = len(_BARE.findall(head))
    quoted = bool(_QUOTED.search(head))
    if not (lines or bare or quoted):
        return 0.0
    if _TABLE.search(head):
        return 0.5
    if not lines:
        return 0.6 if bare > 1 or quoted else 0.4
    written = sum(1 for line in head.splitlines() if line.strip()) or 1
    return 0.95 if lines / written > 0.2 or lines > 5 else 0.7
