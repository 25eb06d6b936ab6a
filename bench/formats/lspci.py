"""`lspci -vvv`: bridges, GPUs and NICs with their ACS control and their PCIe links.

In: the command's output, whole, an excerpt, or only the lines that grep left of it; or what
`setpci -v` prints of ECAP_ACS+0x6.w. Out: one PciBridge per device that bears on a GPU's way to
its peers; what setpci wrote last is what a register holds. Flags of ACSCtl by their bits in the
control register (PCI_ACS_* of linux/pci_regs.h): 0x001d is SrcValid+ ReqRedir+ CmpltRedir+
UpstreamFwd+.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, PciBridge

KIND = "lspci -vvv"

MAX_DEVICES = 8192  # a host with 8 GPUs, its switches and 256 virtual functions has below 1000

ACS_BITS = {
    "SrcValid": 0x01, "TransBlk": 0x02, "ReqRedir": 0x04, "CmpltRedir": 0x08,
    "UpstreamFwd": 0x10, "EgressCtrl": 0x20, "DirectTrans": 0x40,
}  # fmt: skip
_ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_DEVICE = re.compile(
    rf"(?P<address>{_ADDRESS}) (?P<class>[A-Z0-9][\w /()-]{{2,60}}?)(?: \[[0-9a-f]{{4}}\])?: "
    r"(?P<name>.*)"
)
_CONTROL = re.compile(r"ACSCtl\s{0,4}:\s{0,8}(?P<flags>[A-Z][\w+ -]{4,160}|0x[0-9a-fA-F]{1,4})")
_FLAG = re.compile(r"([A-Z][A-Za-z]{3,15})([+-])")
_LINK = re.compile(
    r"Lnk(?P<which>Cap|Sta):\s{0,8}(?:Port #\d{1,3}, )?Speed (?P<speed>[\d.]{1,5}|unknown)"
    r"(?: ?GT/s)?(?: \([\w ]{1,20}\))?, Width x(?P<width>\d{1,2})"
)
_BUSES = re.compile(
    r"Bus: primary=[0-9a-fA-F]{2}, secondary=(?P<secondary>[0-9a-fA-F]{2}), "
    r"subordinate=(?P<subordinate>[0-9a-fA-F]{2})"
)
_PORT = re.compile(r"Express \(v\d\) (?P<port>Root|Upstream|Downstream) Port")
_DRIVER = re.compile(r"Kernel driver in use: (?P<driver>[\w-]{1,40})")
_HEX_REGISTER = re.compile(r"ACS_?C(?:TRL|tl)\W{1,4}(?P<value>0x[0-9a-fA-F]{1,4})")
_SETPCI = re.compile(
    rf"(?P<address>{_ADDRESS}) \(e?cap 0{{0,2}}0d @[0-9a-f]{{2,3}}\) @[0-9a-f]{{2,3}}"
    r"(?: =)? (?:[0-9a-f]{4}-?>)?(?P<value>[0-9a-f]{4})"
)

_Kind = Literal["bridge", "gpu", "nic", "other"]
_GPU_MAKERS = ("NVIDIA", "Advanced Micro Devices", "AMD/ATI", "Data Center GPU", "Habana")
_KINDS: dict[str, _Kind] = {
    "PCI bridge": "bridge",
    "3D controller": "gpu",
    "VGA compatible controller": "gpu",
    "Display controller": "gpu",
    "Processing accelerators": "gpu",
    "Infiniband controller": "nic",
    "InfiniBand controller": "nic",
    "Ethernet controller": "nic",
    "Network controller": "nic",
    "Fabric controller": "nic",
}


def likeness(head: str, name: str) -> float:
    """1 where ACS control or a link's state is shown; less for a bare list of devices."""
    if "ACSCtl:" in head and _CONTROL.search(head):
        return 1.0
    if "LnkSta:" in head and _LINK.search(head):
        return 1.0
    if _SETPCI.search(head):
        return 1.0
    devices = sum(1 for line in head.split("\n")[:200] if _DEVICE.match(line))
    return 0.6 if devices > 2 else 0.0


def read(source: Source) -> tuple[PciBridge, ...]:
    """Devices in order of the file; BadInput where none is shown."""
    readers = by_process(source, lambda host: _Reader(source.file, host))
    found = [device for reader in readers for device in reader.devices()]
    if not found:
        raise BadInput("holds no bridge, GPU or NIC of lspci -vvv", file=source.file)
    return tuple(found)


class _Reader:
    """The lines of one host: a device's line, then its indented details."""

    def __init__(self, file: str, host: str | None) -> None:
        self.file, self.host = file, host
        self._fields: dict[str, Any] | None = None
        self._done: list[PciBridge] = []

    def feed(self, number: int, text: str) -> None:
        written = _SETPCI.search(text) if "cap 0" in text else None
        if written:
            self._close()
            control = _flags(int(written["value"], 16))
            self._fields = {"line": number, "address": _address(written), **control}
            return
        match = _DEVICE.match(text.lstrip()) if ": " in text else None
        if match:
            self._close()
            self._fields = {"line": number, **_device(match)}
            return
        for sign, take in _DETAILS:
            if sign in text:
                fields = take(text)
                if fields:
                    self._take(number, fields)
                return

    def devices(self) -> list[PciBridge]:
        self._close()
        last = {d.address: d.line for d in self._done if d.address and not d.name}
        return [d for d in self._done if d.name or last.get(d.address, d.line) == d.line]

    def _take(self, number: int, fields: dict[str, Any]) -> None:
        alone = self._fields is None or (
            self._fields["address"] == "" and not fields.keys().isdisjoint(self._fields)
        )
        if alone:  # grep took the device's line away: each value is a device of its own
            self._close()
            self._fields = {"line": number, "address": ""}
        assert self._fields is not None, "just made"
        self._fields.update(fields)

    def _close(self) -> None:
        fields, self._fields = self._fields, None
        if fields is None or len(self._done) >= MAX_DEVICES:
            return
        device = PciBridge(file=self.file, host=self.host, **fields)
        shows = device.control or device.link_width is not None
        if device.kind in ("bridge", "gpu", "nic") or shows:
            self._done.append(device)


def _device(match: re.Match[str]) -> dict[str, Any]:
    name = match["name"].strip()
    kind = _KINDS.get(match["class"], "other")
    if kind == "gpu" and not any(maker in name for maker in _GPU_MAKERS):
        kind = "other"  # a management controller's display
    return {
        "address": _address(match),
        "name": name[:160],
        "kind": kind,
    }


def _address(match: re.Match[str]) -> str:
    address = match["address"].lower()
    return address if address.count(":") == 2 else f"0000:{address}"


def _control(text: str) -> dict[str, Any]:
    match = _CONTROL.search(text) or _HEX_REGISTER.search(text)
    if not match:
        return {}
    told = match[1]
    if told.startswith("0x"):
        return _flags(int(told, 16))
    control = {name: sign == "+" for name, sign in _FLAG.findall(told) if name in ACS_BITS}
    register = sum(ACS_BITS[name] for name, on in control.items() if on)
    return {"control": control, "register": f"0x{register:04x}"} if control else {}


def _flags(register: int) -> dict[str, Any]:
    control = {name: bool(register & bit) for name, bit in ACS_BITS.items()}
    return {"control": control, "register": f"0x{register:04x}"}


def _link(text: str) -> dict[str, Any]:
    match = _LINK.search(text)
    if not match:
        return {}
    before = "max_link" if match["which"] == "Cap" else "link"
    speed = match["speed"]
    known = speed.replace(".", "", 1).isdigit()
    return {
        f"{before}_gts": float(speed) if known else None,
        f"{before}_width": int(match["width"]),
    }


def _buses(text: str) -> dict[str, Any]:
    match = _BUSES.search(text)
    return {name: int(match[name], 16) for name in ("secondary", "subordinate")} if match else {}


def _port(text: str) -> dict[str, Any]:
    match = _PORT.search(text)
    return {"port": match["port"].lower()} if match else {}


def _driver(text: str) -> dict[str, Any]:
    match = _DRIVER.search(text)
    return {"driver": match["driver"]} if match else {}


_DETAILS: tuple[tuple[str, Callable[[str], dict[str, Any]]], ...] = (
    ("ACSCtl", _control),
    ("ACS_CTRL", _control),
    ("LnkCap:", _link),
    ("LnkSta:", _link),
    ("Bus: primary", _buses),
    ("Express (v", _port),
    ("Kernel driver in use", _driver),
)
