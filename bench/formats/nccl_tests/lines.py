"""What else the tests print: settings, devices, versions, closing lines, failures.

In: one line without its launcher's prefix (a leading "#" may be lost). Out: what it says, or None.
Source: src/common.cu of nccl-tests up to 2.16 and src/util.cu since 2.17; rccl-tests, which writes
`nThread: 1` in its oldest form and adds RCCL, HIP and ROCm versions.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.records import TableDevice

# [0x1b], [0000:1b:00], rccl's [0000:1b:00.0]; without a pid before 2.0.1 of nccl-tests.
_DEVICE = re.compile(
    r"Rank\s{1,8}(?P<rank>\d{1,7})\s{1,8}(?:Group\s{1,8}(?P<group>\d{1,7})\s{1,8})?"
    r"(?:Pid\s{1,8}(?P<pid>\d{1,10})\s{1,8})?on\s{1,40}(?P<host>\S{1,255})\s{1,8}"
    r"device\s{1,8}(?P<device>\d{1,5})\s{0,8}(?:\[(?P<bus>[^\]]{1,40})\]\s?(?P<name>.{0,200}))?"
)
# NCCL 1: "Device  0 ->  0 [0x0a] GeForce GTX TITAN X", "Rank  0 uses device  0 [0x73] …"
_LOCAL_DEVICE = re.compile(
    r"(?:Device|Rank)\s{1,8}(?P<rank>\d{1,5})\s{1,8}(?:->|uses device)\s{1,8}(?P<device>\d{1,5})"
    r"\s{1,8}\[(?P<bus>[^\]]{1,40})\]\s?(?P<name>.{0,200})"
)
_TESTS_VERSION = re.compile(r"[nr]ccl-tests(?: version|: Version) (\S{1,80})(?: \((\w{1,40})\))?")
_LIBRARY = re.compile(r"[nr]ccl-library=(\d{3,7})")
# NCCL prints its own once per job: "NCCL version 2.26.2+cuda12.8"; rccl "RCCL version
# 2.18.6+hip6.1 HEAD:…", later "RCCL version : 2.27.7-develop:29e1567".
_NCCL_VERSION = re.compile(
    r"([RN])CCL version (?:: )?(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)[^\s+]{0,60}"
    r"(?:\+cuda([\d.]{1,12}))?"
)
_CLOSING = re.compile(
    r"(Out of bounds values|Avg bus bandwidth|Bitwise mismatches)\s{0,8}[:=]\s{0,8}"
    r"(\S{1,24}?)(?:GB/s)?(?:\s{1,4}(OK|FAILED))?(?=\s|$)"
)
# Up to 2.4 of the tests without "Test": "Cuda failure common.cu:891 '…'".
_FAILURE = re.compile(
    r"Test (?:NCCL|CUDA|HIP) failure .{1,300}|Test timeout .{1,120}|Test failure \S{1,200}"
    r"|^(?:NCCL|Cuda|CUDA) failure \w{1,40}\.cu:\d{1,6} '.{1,300}"
)
_FAILING = re.compile(r"(?:^|[\s:>])([A-Za-z0-9][\w.-]{0,254}): $")
_SETTING_VALUE = re.compile(r"-?\d")


class NcclVersion(NamedTuple):
    version: str
    cuda: str | None = None
    rccl: bool = False


class Closing(NamedTuple):
    """`name` as printed; `value` is nan where the program divided by no rows at all."""

    name: str
    value: float
    verdict: bool | None


def device(text: str) -> TableDevice | None:
    found = _DEVICE.match(text) or _LOCAL_DEVICE.match(text)
    if not found:
        return None
    given = found.groupdict()
    pid, group = given.get("pid"), given.get("group")
    return TableDevice(
        rank=int(given["rank"]),
        host=given.get("host") or "",
        pid=int(pid) if pid else None,
        group=int(group) if group else None,
        device=int(given["device"]),
        bus_id=given["bus"],
        name=(given["name"] or "").strip() or None,
    )


def settings(text: str) -> dict[str, str] | None:
    """The words and values of "nThread 1 nGpus 8 minBytes 8 … warmup iters: 5 iters: 20 …"."""
    if not (text.startswith("nThread") and "minBytes" in text):
        return None
    found: dict[str, str] = {}
    name: list[str] = []
    for token in text.split()[:80]:
        if name and _SETTING_VALUE.match(token):
            found[" ".join(name)] = token
            name = []
        else:
            name.append(token.rstrip(":"))
    return found


def switch(text: str) -> tuple[str, str] | None:
    """A setting that the tests tell in a sentence of its own."""
    if text.startswith("Blocking Enabled"):
        return "blocking", "barrier" if "and barrier" in text else "wait"
    if text.startswith("Parallel Init Enabled"):
        return "parallel init", "1"
    if text.startswith("Reducing maxBytes to "):
        return "maxBytes reduced to", text.split()[3]
    if text.startswith("Per-Iteration Report"):
        return "per-iteration", "1"
    return None


def tests_version(text: str) -> tuple[str, bool] | None:
    """The tests' own version and whether they are rccl-tests."""
    found = _TESTS_VERSION.match(text)
    if not found:
        return None
    version = found[1] + (f" ({found[2]})" if found[2] else "")
    return version, text.startswith("rccl")


def library_version(text: str) -> str | None:
    """NCCL's version from its code in the first line: 22907 is 2.29.7, 2708 was 2.7.8."""
    found = _LIBRARY.search(text)
    return coded_version(int(found[1])) if found else None


def coded_version(code: int) -> str | None:
    """NCCL_VERSION_CODE as text: thousands and hundreds up to 2.8, ten thousands since 2.9."""
    if not 1000 <= code < 1_000_000:
        return None
    thousands, rest = divmod(code, 10_000 if code >= 10_000 else 1_000)
    return f"{thousands}.{rest // 100}.{rest % 100}"


def nccl_version(text: str) -> NcclVersion | None:
    found = _NCCL_VERSION.search(text)
    return NcclVersion(found[2], found[3], found[1] == "R") if found else None


def closing(text: str) -> Closing | None:
    found = _CLOSING.match(text)
    if not found:
        return None
    try:
        value = float(found[2])
    except ValueError:
        return None
    return Closing(found[1], value, {"OK": True, "FAILED": False}.get(found[3] or ""))


def failure(text: str) -> tuple[str, str | None] | None:
    """The sentence with which a test gives up, "Test NCCL failure common.cu:1057 '…'", and the
    host that says it."""
    found = _FAILURE.search(text)
    if found is None:
        return None
    host = _FAILING.search(text[: found.start()])
    return found[0].strip(), host[1] if host else None
