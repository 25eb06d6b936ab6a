"""Which bridge of a PCI listing stands above which device.

In: devices of lspci. Out: listings by host, the bridge right above a device, and whether one is
below another; by the bus numbers that bridges show (secondary, subordinate), so nothing where they
do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records import PciBridge

MAX_BRIDGES = 1024


def listings(devices: Sequence[PciBridge]) -> list[list[PciBridge]]:
    """Devices of one file and host together."""
    groups: dict[tuple[str, str | None], list[PciBridge]] = {}
    for device in devices:
        groups.setdefault((device.file, device.host), []).append(device)
    return list(groups.values())


def with_buses(listing: Sequence[PciBridge]) -> list[PciBridge]:
    """Its bridges that show what is below them; a host has a few hundred at most."""
    return [device for device in listing if device.secondary is not None][:MAX_BRIDGES]


def parent(bridges: Sequence[PciBridge], device: PciBridge) -> PciBridge | None:
    """The bridge right above a device."""
    above = [bridge for bridge in bridges if is_below(bridge, device)]
    return max(above, key=lambda bridge: bridge.secondary or 0, default=None)


def is_below(bridge: PciBridge, device: PciBridge) -> bool:
    """Whether the device's bus is one of those behind the bridge."""
    if bridge.secondary is None or bridge.subordinate is None:
        return False
    domain, bus = _place(device.address)
    return domain == _place(bridge.address)[0] and bridge.secondary <= bus <= bridge.subordinate


def _place(address: str) -> tuple[str, int]:
    domain, _, rest = address.partition(":")
    bus = rest.partition(":")[0]
    return domain, int(bus, 16) if bus else -1
