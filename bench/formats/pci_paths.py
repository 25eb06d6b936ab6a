"""How NCCL classes the PCI path between a GPU and a NIC: PIX, PXB, PHB or SYS.

In: the chain of PCI switches above each device and the NUMA node that they hang from. Out: the
class. NCCL's ncclTopoComputePaths (src/graph/paths.cc): one switch is PIX, several are PXB,
through the CPU PHB, over the CPUs' interconnect SYS; two-level Broadcom switches count as one
(ncclTopoFlattenBcmSwitches in topo.cc).
"""

from __future__ import annotations

from dataclasses import dataclass

# Gigabit per second and lane as NCCL has them, in tenths (topo.h); unknown is Gen 3.
_TENTHS = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}
UNKNOWN_TENTHS = 60
UNKNOWN_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Switch:
    """One PCI switch; `identity` is vendor, device, subsystem vendor and device, 16 bits each."""

    key: int
    identity: int
    link_gts: float | None
    link_width: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device hangs: its NUMA node (the number of its <cpu>), and the switches above it,
    outermost first."""

    cpu: int
    switches: tuple[Switch, ...]


def path_class(one: Place, other: Place) -> str:
    """PIX, PXB, PHB or SYS."""
    if one.cpu != other.cpu:
        return "SYS"
    above, beside = _flattened(one.switches), _flattened(other.switches)
    common = 0
    while common < min(len(above), len(beside)) and above[common] == beside[common]:
        common += 1
    if not common:
        return "PHB"
    # The last common switch, and on each side the switches below it.
    crossed = 1 + (len(above) - common) + (len(beside) - common)
    return "PIX" if crossed == 1 else "PXB"


def link_gbs(gts: float | None, width: int | None) -> float:
    """What NCCL makes of a link: width x tenths / 80, in 1e9 bytes/s."""
    tenths = _TENTHS.get(gts, UNKNOWN_TENTHS) if gts is not None else UNKNOWN_TENTHS
    return (width or UNKNOWN_WIDTH) * tenths / 80


def _flattened(switches: tuple[Switch, ...]) -> tuple[int, ...]:
    """Keys of the switches as NCCL counts them: a Broadcom sub-switch is part of its parent."""
    keys: list[int] = []
    generation = 0  # of the parent that may swallow the next one
    for switch in switches:
        if generation and _broadcom(switch.identity, level=1) == generation:
            generation = 0  # NCCL merges one level
            continue
        generation = _broadcom(switch.identity, level=0)
        keys.append(switch.key)
    return tuple(keys)


def _broadcom(identity: int, *, level: int) -> int:
    """PCIe generation of a Broadcom switch in base mode that NCCL flattens, else 0."""
    masked = identity & 0xFFFFFFFFFFFFF000
    if masked == 0x1000C0101000A000:
        return 4
    return 5 if masked == 0x1000C03010000000 | level << 12 else 0
