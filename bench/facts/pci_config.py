"""What a PCI function's configuration space says: which kind of port it is, its ACS control.

In: a reader of /sys/bus/pci/devices/X/config. Out: words. Only registers that capabilities point
to are read: some devices crash when others are (man lspci, -xxx). The kernel shows the first 64
bytes to everybody and the rest to CAP_SYS_ADMIN only; a virtual machine may end at 256, before the
extended capabilities. After the PCI Express Base Specification 6.0, sections 7.5.3 and 7.7.11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

Reader = Callable[[int, int], bytes]  # (offset, number of bytes) -> as many as there are
Port = Literal["endpoint", "root", "upstream", "downstream", "bridge"]

HEADER_BYTES, PLAIN_BYTES = 64, 256
_PCIE_CAPABILITY, _ACS_CAPABILITY = 0x10, 0x000D
_ACS_CONTROL = 6  # bytes from the capability's header
_MOST_CAPABILITIES = 64  # a list of capabilities that loops ends here

# Bits of the ACS control register as lspci names them.
_ACS_FLAGS = (
    "SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans",
)  # fmt: skip
_PORTS: dict[int, Port] = {
    0: "endpoint", 1: "endpoint", 4: "root", 5: "upstream", 6: "downstream", 7: "bridge",
    8: "bridge", 9: "endpoint",
}  # fmt: skip


def port(read: Reader) -> Port | None:
    """Which end of a link the function is; None where the capabilities are hidden or none says."""
    for identity, offset in _capabilities(read):
        if identity == _PCIE_CAPABILITY:
            flags = read(offset + 2, 2)
            return _PORTS.get(flags[0] >> 4) if len(flags) == 2 else None
    return None


def acs(read: Reader) -> tuple[str, ...] | str:
    """Flags that are on in the ACS control register; empty where there is no such register. A
    string is the reason why it cannot be told."""
    if read(0, 4) in (b"", b"\xff\xff\xff\xff"):
        return "the device does not answer"
    if not read(HEADER_BYTES, 4):
        return "the kernel shows its configuration space to root only"
    if not read(PLAIN_BYTES, 4):
        if port(read) is None:
            return ()  # conventional PCI has no ACS
        return "its extended configuration space is hidden (a virtual machine?)"
    for identity, offset in _extended_capabilities(read):
        if identity == _ACS_CAPABILITY:
            control = int.from_bytes(read(offset + _ACS_CONTROL, 2), "little")
            return tuple(name for bit, name in enumerate(_ACS_FLAGS) if control >> bit & 1)
    return ()


def _capabilities(read: Reader) -> Iterator[tuple[int, int]]:
    status, first = read(6, 1), read(0x34, 1)
    if not first or not status or not status[0] & 0x10:
        return
    offset = first[0] & 0xFC
    for _ in range(_MOST_CAPABILITIES):
        if not HEADER_BYTES <= offset < PLAIN_BYTES:
            return
        header = read(offset, 2)
        if len(header) < 2:
            return
        yield header[0], offset
        offset = header[1] & 0xFC


def _extended_capabilities(read: Reader) -> Iterator[tuple[int, int]]:
    offset = PLAIN_BYTES
    for _ in range(_MOST_CAPABILITIES):
        if offset < PLAIN_BYTES:
            return
        header = int.from_bytes(read(offset, 4), "little")
        if header in (0, 0xFFFFFFFF):
            return
        yield header & 0xFFFF, offset
        offset = header >> 20 & 0xFFC
