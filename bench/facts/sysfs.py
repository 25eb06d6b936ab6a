"""Small files of /sys and /proc, read without surprises.

In: a path. Out: its stripped text, a number, or None where the file is absent, refused, empty or
over the limit. The kernel answers some of these reads with EINVAL or EIO (the speed of an
interface that is down), so every OSError means "claims nothing".
"""

from __future__ import annotations

import re
from pathlib import Path

# A sysfs attribute is at most one page; /proc/PID/maps of a torch process is about 1 MB.
ATTRIBUTE_LIMIT_BYTES = 4096

_PCI_ADDRESS = re.compile(r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def text(path: Path, limit_bytes: int = ATTRIBUTE_LIMIT_BYTES) -> str | None:
    """The file's content without surrounding white space, or None; longer files are cut."""
    found = content(path, limit_bytes)
    return found.decode(errors="replace").strip() or None if found else None


def content(path: Path, limit_bytes: int = ATTRIBUTE_LIMIT_BYTES) -> bytes | None:
    """The file's first bytes, or None where it is absent or refused."""
    try:
        with path.open("rb") as file:
            return file.read(limit_bytes)
    except (OSError, ValueError):  # ValueError: a NUL in a name that came from elsewhere
        return None


def number(path: Path) -> int | None:
    """The file's content as an integer (decimal, or hexadecimal with 0x), or None."""
    told = text(path)
    if told is None:
        return None
    try:
        return int(told, 0)
    except ValueError:
        return None


def names(path: Path) -> list[str]:
    """Names in a directory, sorted; empty where it is absent or refused."""
    try:
        return sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []


def link_name(link: Path) -> str | None:
    """The last part of what a link leads to: a driver's name, a group's number."""
    try:
        return link.resolve(strict=True).name
    except (OSError, RuntimeError):
        return None


def is_pci_address(name: str) -> bool:
    """Whether a folder of /sys/devices is a PCI function ("0000:17:00.0")."""
    return _PCI_ADDRESS.match(name) is not None


def pci_address(device: Path) -> str | None:
    """The PCI address a `device` link leads to (its last PCI part: virtio sits below one)."""
    try:
        parts = device.resolve(strict=True).parts
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return None
    return next((part for part in reversed(parts) if is_pci_address(part)), None)


def numa_node(device: Path) -> int | None:
    """NUMA node of a device; None where the firmware names none (the kernel then says -1)."""
    node = number(device / "numa_node")
    return node if node is not None and node >= 0 else None
