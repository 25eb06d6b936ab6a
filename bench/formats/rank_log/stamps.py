"""The time that stands in a log line, whichever program printed it.

In: a line without its launcher's prefix. Out: a Stamp in seconds of a year of 366 days: glog names
no year, and logs of one job never need it. Known: ISO and Python's logging, glog (padded or not),
syslog and `dmesg -T`, American dates of Hugging Face, a bare clock. A kernel's seconds since boot
and a progress bar's elapsed time are no clock.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.records.ranklog import Clock

DAY_S = 86_400
YEAR_S = 366 * DAY_S
LOOKED_AT = 160  # characters: a stamp stands at the beginning, behind a level or a name

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)  # days of a leap year

_CLOCK = r"(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d):(?P<s>[0-5]\d|60)(?:[.,](?P<f>\d{1,9}))?(?!\d)"
# "[E1130 10:53:25.450476707 ProcessGroupNCCL.cpp:757]", "W1130 17:27:49.472000 21951 torch/…";
# the month is not padded, the day is: E901 is the first of September.
_GLOG = re.compile(rf"(?:^|[\s\[:])[IWEFCD](?P<mon>\d{{1,2}})(?P<day>\d\d) {_CLOCK}")
_ISO = re.compile(
    rf"(?<!\d)(?:20|19)\d\d[-/](?P<mon>\d\d)[-/](?P<day>\d\d)[T_ ]{{1,2}}{_CLOCK}"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_SYSLOG = re.compile(rf"(?<![a-z])(?P<name>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}")
_AMERICAN = re.compile(
    rf"(?<!\d)(?P<mon>\d\d)/(?P<day>\d\d)/(?:20)?\d\d,? {_CLOCK}(?: (?P<half>[AP]M))?"
)
# A clock alone, "[10:31:07]" or "10:31:07 -"; a progress bar writes [25:36<39:50:56, 10.4s/it].
_BARE = re.compile(
    rf"(?:^|[\s\[(|]){_CLOCK}(?=[\s\]),|]|$)(?!, ? {{0,4}}[\d.?]{{1,9}} ?(?:s/|it/))"
)
_DIGITS_AND_COLON = re.compile(r"\d:\d\d")


class Stamp(NamedTuple):
    """`text` as printed. Of clock "day" the seconds are those of a day."""

    seconds: float
    clock: Clock
    text: str


def of(line: str) -> Stamp | None:
    """The first time in a line's beginning."""
    beginning = line[:LOOKED_AT]
    if not _DIGITS_AND_COLON.search(beginning):
        return None
    if found := _ISO.search(beginning):
        zone = found["zone"]
        seconds = _seconds(found, int(found["mon"]), int(found["day"]))
        if seconds is None:
            return None
        if zone is None:
            return Stamp(seconds, "local", found.group())
        return Stamp((seconds - _offset_s(zone)) % YEAR_S, "utc", found.group())
    if found := _GLOG.search(beginning):
        seconds = _seconds(found, int(found["mon"]), int(found["day"]))
        text = found.group().strip(" [:")
        return None if seconds is None else Stamp(seconds, "local", text)
    if found := _AMERICAN.search(beginning):
        seconds = _seconds(found, int(found["mon"]), int(found["day"]), found["half"])
        return None if seconds is None else Stamp(seconds, "local", found.group())
    if found := _SYSLOG.search(beginning):
        name = found["name"].lower()
        if name in _MONTHS:
            seconds = _seconds(found, _MONTHS.index(name) + 1, int(found["day"]))
            if seconds is not None:
                return Stamp(seconds, "local", found.group())
    if "%|" not in beginning and (found := _BARE.search(beginning)):
        seconds = _seconds(found, 1, 1)
        text = found.group().strip(" [(|")
        return None if seconds is None else Stamp(seconds, "day", text)
    return None


def of_prefix(text: str | None) -> Stamp | None:
    """The time that a launcher's prefix holds (`Prefix.time`)."""
    return of(text) if text else None


def of_epoch(seconds: float) -> Stamp:
    """Seconds since 1970, as torchrun's error.json has them: UTC."""
    days, rest = divmod(seconds, DAY_S)
    year, left = 1970, int(days)
    while left >= (length := 366 if _is_leap(year) else 365):
        year, left = year + 1, left - length
    if not _is_leap(year) and left >= _BEFORE[2] - 1:  # day 59 is the first of March
        left += 1
    return Stamp(left * DAY_S + rest, "utc", f"{seconds:.0f}")


def shown(seconds: float) -> str:
    """ "10:31:07" for people."""
    whole = int(seconds) % DAY_S
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _seconds(found: re.Match[str], month: int, day: int, half: str | None = None) -> float | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    hour = int(found["h"])
    if half is not None:
        hour = hour % 12 + (12 if half == "PM" else 0)
    fraction = float(f"0.{found['f']}") if found["f"] else 0.0
    days = _BEFORE[month - 1] + day - 1
    return days * DAY_S + hour * 3600 + int(found["m"]) * 60 + int(found["s"]) + fraction


def _offset_s(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -offset if zone[0] == "-" else offset


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
