"""Units of bandwidth as people write them, into 1e9 bytes/s.

In: "GB/s", "GBps", "Gb/s", "Gbit/s", "MB/s", "GiB/s" or the name of a CSV column that ends in one.
Out: the factor. A capital B is bytes, a small b bits. All in small letters ("gbps") says neither:
that is bits, but for busbw and algbw, which nccl-tests prints in GB/s only.
"""

from __future__ import annotations

import re

_UNIT = re.compile(
    r"(?<![A-Za-z])(?P<scale>[KMGTkmgt])(?P<binary>i?)(?P<what>[Bb])(?P<bits>its?)?"
    r"(?:/s|ps|_?per_?s|_s|yte/s|/sec)(?![A-Za-z])"
)
_SCALES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}


def unit_in(text: str) -> str | None:
    """The unit that a heading names, such as "GB/s"."""
    match = _UNIT.search(text.replace("_", " "))
    return match[0] if match else None


def factor_to_gbs(unit: str | None, *, column: str = "") -> float:
    """What to multiply with; 1 where no unit is told, as nccl-tests prints GB/s."""
    match = _UNIT.search((unit or "").replace("_", " "))
    if match is None:
        return 1.0
    scale, small = match["scale"].lower(), match["what"] == "b"
    if small and match[0].islower() and not match["bits"]:
        small = "busbw" not in column.lower() and "algbw" not in column.lower()
    size = (_BINARY if match["binary"] else _SCALES)[scale]
    return size / 1e9 / (8 if small else 1)
