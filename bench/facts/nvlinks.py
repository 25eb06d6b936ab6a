"""The NVLinks of one GPU, asked of NVML: which work, how fast, to whom, with which errors.

In: the pynvml module and a device handle. Out: states, one `Nvlink` per link, error counts per
link. A link number that the device does not have is refused by NVML, and so is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from bench.records import Nvlink

MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS of the newest nvidia-ml-py; older ones know fewer

# nvmlNvlinkVersion_t
_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
_REMOTES: dict[int, Literal["gpu", "cpu", "switch"]] = {0: "gpu", 1: "cpu", 2: "switch"}

# nvmlNvLinkErrorCounter_t, which GPUs up to Hopper answer
_ERRORS = {
    "nvlink_replays": 0, "nvlink_recoveries": 1, "nvlink_crc_flit": 2, "nvlink_crc_data": 3,
    "nvlink_ecc_data": 4,
}  # fmt: skip
# NVML_FI_DEV_NVLINK_COUNT_*, which Blackwell answers; numbers, because older modules lack names
_ERROR_FIELDS = {
    "nvlink_receive_errors": 208, "nvlink_integrity_errors": 211, "nvlink_recovery_failed": 214,
    "nvlink_recovery_events": 215, "nvlink_effective_errors": 219,
}  # fmt: skip
_SPEED = 164  # NVML_FI_DEV_NVLINK_GET_SPEED in MB/s, scoped by link
_SPEED_OF_LINK = {**{n: 84 + n for n in range(6)}, **{n: 126 + n for n in range(6, 12)}}

# c_nvmlValue_t's members by nvmlValueType_t
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def states(nvml: Any, device: Any) -> dict[int, bool]:
    """State of every NVLink the device has, by link number."""
    found = {}
    for link in range(MOST_LINKS):
        try:
            found[link] = bool(nvml.nvmlDeviceGetNvLinkState(device, link))
        except nvml.NVMLError_NotSupported:
            continue
        except nvml.NVMLError_InvalidArgument:
            break
    return found


def details(nvml: Any, device: Any) -> list[Nvlink]:
    """One record per link; an inactive one tells no more than that."""
    found = []
    for link, active in states(nvml, device).items():
        counted = {name: n for name, n in errors(nvml, device, link).items() if n}
        if active:
            found.append(_active(nvml, device, link, counted))
        else:
            found.append(Nvlink(links=(link,), active=False, errors=counted))
    return found


def _active(nvml: Any, device: Any, link: int, counted: dict[str, int]) -> Nvlink:
    kind = _told(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, device, link)
    remote = _told(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, device, link)
    speed = fields(nvml, device, {"speed": _SPEED}, link).get("speed")
    if speed is None and link in _SPEED_OF_LINK:
        speed = fields(nvml, device, {"speed": _SPEED_OF_LINK[link]}).get("speed")
    return Nvlink(
        links=(link,),
        active=True,
        version=_VERSIONS.get(_told(nvml, nvml.nvmlDeviceGetNvLinkVersion, device, link)),
        speed_gbs=speed / 1000 if speed else None,
        remote=None if kind is None else _REMOTES.get(kind, "unknown"),
        remote_pci_address=None if remote is None else pci_address(remote),
        errors=counted,
    )


def _told(nvml: Any, ask: Any, device: Any, link: int) -> Any:
    try:
        return ask(device, link)
    except nvml.NVMLError:
        return None


def pci_address(info: Any) -> str:
    """NVML writes "00000000:17:00.0", the kernel "0000:17:00.0"."""
    told = info.busId
    text = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
    return text.lower().removeprefix("0000")


def errors(nvml: Any, device: Any, link: int) -> dict[str, int]:
    """Error counts of one link; kinds that the device does not count are left out."""
    counted = {}
    for name, kind in _ERRORS.items():
        try:
            counted[name] = int(nvml.nvmlDeviceGetNvLinkErrorCounter(device, link, kind))
        except nvml.NVMLError:
            pass  # left out: not counted here
    return {**counted, **fields(nvml, device, _ERROR_FIELDS, link)}


def fields(nvml: Any, device: Any, wanted: Mapping[str, int], scope: int = 0) -> dict[str, int]:
    """Those of NVML's field values that the device tells, asked for in one call."""
    try:
        values = nvml.nvmlDeviceGetFieldValues(device, [(n, scope) for n in wanted.values()])
    except (nvml.NVMLError, AttributeError):  # no such call in this driver or module
        return {}
    return {
        name: int(getattr(value.value, _MEMBERS[value.valueType]))
        for name, value in zip(wanted, values, strict=True)
        if value.nvmlReturn == 0 and value.valueType < len(_MEMBERS)
    }


def grouped(links: Iterable[Nvlink]) -> tuple[Nvlink, ...]:
    """Links that are alike in everything as one record: 18 links to 4 switches become 4. A link
    with errors stays alone, so that its counts are its own."""
    groups: dict[object, list[Nvlink]] = {}
    for link in links:
        key = msgspec.structs.replace(link, links=()) if not link.errors else link
        groups.setdefault(msgspec.json.encode(key), []).append(link)
    return tuple(
        msgspec.structs.replace(alike[0], links=tuple(n for link in alike for n in link.links))
        for alike in groups.values()
    )


def between(first: Sequence[Nvlink], second: Sequence[Nvlink], address: str | None) -> int:
    """Active links from the GPU that has `first` to the one at `address` that has `second`:
    straight ones, else as many as both have into switches."""
    straight = sum(
        len(link.links)
        for link in first
        if link.active and link.remote == "gpu" and link.remote_pci_address == address
    )
    return straight or min(_switched(first), _switched(second))


def _switched(links: Sequence[Nvlink]) -> int:
    return sum(len(link.links) for link in links if link.active and link.remote == "switch")
