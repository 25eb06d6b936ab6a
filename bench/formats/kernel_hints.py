"""What the kernel says of the IOMMU: its command line (/proc/cmdline, GRUB) and lines of dmesg.

In: either, or both in one file. Out: one KernelHints. Words are the kernel's own:
"iommu: Default domain type: Translated" (drivers/iommu/iommu.c), "DMAR: IOMMU enabled", and the
parameters of Documentation/admin-guide/kernel-parameters.txt.
"""

from __future__ import annotations

import re
from typing import Literal

from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, KernelHints

KIND = "kernel hints"

MAX_KEPT_LINES = 40

# Parameters that bear on who may reach whom over PCI; all others may hold anything, secrets too.
_KEPT = re.compile(
    r"(?:intel_iommu|amd_iommu|iommu|iommu\.passthrough|iommu\.strict|pci|pcie_\w+|pcie_acs_override"
    r"|intel_idle\.max_cstate|numa_balancing|hugepages|default_hugepagesz|nvidia[\w.-]*)(?:=.*)?\Z"
)
_IMAGE = re.compile(r"BOOT_IMAGE=(?:\([\w,]{1,32}\))?(?P<path>[\w./+~-]{1,200})")
_COMMAND_LINE = re.compile(
    r"(?:^|[\s:\"'])(?P<line>(?:BOOT_IMAGE=|root=|initrd=|ro |quiet |(?:intel_|amd_)?iommu=|"
    r"iommu\.|pci=|pcie_acs_override=)"
    r".{0,8000})"
)
_GRUB = re.compile(r"\s{0,4}GRUB_CMDLINE_LINUX(?:_DEFAULT)?=(?P<quoted>.{0,8000})")
_IOMMU = re.compile(r"iommu|DMAR|AMD-Vi|IVRS|\bACS\b", re.IGNORECASE)
_DMESG = re.compile(
    r"(?:\[\s{0,8}\d{1,9}\.\d{3,9}\]|kernel:|\biommu: |DMAR: |AMD-Vi: |DMAR-IR: |PCI-DMA: )"
)
_DOMAIN = re.compile(r"[Dd]efault domain type: (?P<type>\w{4,20})")

_State = Literal["translated", "passthrough", "off", "on"]


def likeness(head: str, name: str) -> float:
    """1 for a command line or the kernel's own IOMMU lines; other kernel logs are not meant."""
    lines = [line for line in head.split("\n") if line.strip()]
    if not lines:
        return 0.0
    if len(lines) <= 3 and any("BOOT_IMAGE=" in line for line in lines):
        return 1.0
    if any(_DOMAIN.search(line) and "ommu" in line for line in lines):
        return 1.0 if len(lines) < 200 else 0.6
    told = sum(1 for line in lines if _DMESG.search(line) and _IOMMU.search(line))
    if told and told * 2 >= len(lines):
        return 0.9
    parameters = [line for line in lines if _from_command_line(line) or _GRUB.match(line)]
    return 0.8 if parameters and len(lines) <= 3 else 0.0


def read(source: Source) -> tuple[KernelHints, ...]:
    """One record a host; BadInput where nothing of the kind is said."""
    readers = by_process(source, lambda host: _Reader(source.file, host))
    found = [hints for reader in readers if (hints := reader.hints()) is not None]
    if not found:
        raise BadInput("holds no kernel command line and no line on the IOMMU", file=source.file)
    return tuple(found)


def _from_command_line(text: str) -> _State | None:
    """What the parameters ask for; the last of a kind counts, as in the kernel."""
    state: _State | None = None
    for word in text.split():
        name, _, value = word.strip("\"'").partition("=")
        if name in ("intel_iommu", "amd_iommu") and value:
            settings = value.split(",")
            if "off" in settings:
                state = "off"
            elif state != "passthrough" and (set(settings) & {"on", "force_enable", "sm_on"}):
                state = "on"
        elif name == "iommu":
            if value in ("pt", "nopt"):
                state = "passthrough" if value == "pt" else "on"
            elif value == "off":
                state = "off"
        elif name == "iommu.passthrough" and value in ("0", "1"):
            state = "passthrough" if value == "1" else "on"
    return state


class _Reader:
    """The lines of one host."""

    def __init__(self, file: str, host: str | None) -> None:
        self.file, self.host = file, host
        self.line = 0
        self.command_line: str | None = None
        self.asked: _State | None = None
        self.told: _State | None = None
        self.lines: list[str] = []

    def feed(self, number: int, text: str) -> None:
        grub = _GRUB.match(text)
        match = None if grub else _COMMAND_LINE.search(text)
        if grub or match:
            told = (grub["quoted"] if grub else match["line"] if match else "").strip("\"' ")
            # A line that names its kernel is of a boot; the last of them is the present one.
            if "=" in told and (not self.command_line or _IMAGE.search(told)):
                self.command_line = _kept(told)
                self.asked = _from_command_line(told)
                self.line = self.line or number
            return
        if not _IOMMU.search(text) or not _DMESG.search(text):
            return
        self.line = self.line or number
        if len(self.lines) < MAX_KEPT_LINES:
            self.lines.append(" ".join(text.split())[:400])
        domain = _DOMAIN.search(text)
        if domain:
            kind = domain["type"].lower()
            self.told = "passthrough" if kind in ("passthrough", "identity") else "translated"
        elif self.told is None and re.search(r"(?:DMAR: IOMMU|AMD-Vi: .{0,40})enabled", text):
            self.told = "on"
        elif re.search(r"IOMMU disabled|DMAR: Disable|AMD-Vi: .{0,20}disabled", text):
            self.told = self.told or "off"

    def hints(self) -> KernelHints | None:
        if self.command_line is None and not self.lines:
            return None
        told = self.told if self.told not in (None, "on") else self.asked or self.told
        return KernelHints(
            file=self.file,
            line=self.line or 1,
            host=self.host,
            command_line=self.command_line,
            iommu=told,
            lines=tuple(self.lines),
        )


def _kept(text: str) -> str:
    """The kernel's name and the parameters that bear on PCI; the rest is left out."""
    image = _IMAGE.search(text)
    words = [f"BOOT_IMAGE={image['path'].rpartition('/')[2]}"] if image else []
    words += [w for word in text.split() if _KEPT.match(w := word.strip("\"'"))]
    return " ".join(words)
