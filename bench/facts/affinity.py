"""Which NIC is nearest to which GPU, by the PCI tree as NCCL reads it.

In: GPUs, RDMA ports and interfaces with their PCI addresses. Out: the same GPUs and ports with
the class of every path and the nearest of the other kind. Who shares a switch with a GPU serves it
without a detour through the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.facts import pci, sysfs
from bench.records import Gpu, Interface, RdmaPort

HARDWARE_KINDS = ("physical", "wifi")  # interfaces that are a PCI function of their own


def nics(ports: Sequence[RdmaPort], interfaces: Sequence[Interface]) -> dict[str, str]:
    """NIC name -> PCI address: RDMA devices, then interfaces whose function has none."""
    found = {p.device: p.pci_address for p in ports if p.pci_address}
    taken = set(found.values())
    found |= {
        i.name: i.pci_address
        for i in interfaces
        if i.pci_address and i.kind in HARDWARE_KINDS and i.pci_address not in taken
    }
    return found


def joined(
    gpus: Sequence[Gpu],
    ports: Sequence[RdmaPort],
    interfaces: Sequence[Interface] = (),
    devices: Path = pci.DEVICES,
) -> tuple[tuple[Gpu, ...], tuple[RdmaPort, ...]]:
    """GPUs with `nic_paths` and `nearest_nics`, ports with `nearest_gpus` and `gpu_path`."""
    addresses = nics(ports, interfaces)
    chains = {name: pci.chain(address, devices) for name, address in addresses.items()}
    nodes = {name: sysfs.numa_node(devices / address) for name, address in addresses.items()}
    paths = {
        gpu.index: {
            name: path
            for name in addresses
            if (path := pci.path_class(gpu.pci_path, chains[name], (gpu.numa_node, nodes[name])))
            is not None
        }
        for gpu in gpus
    }
    found = tuple(
        msgspec.structs.replace(
            gpu, nic_paths=paths[gpu.index], nearest_nics=pci.nearest(paths[gpu.index])
        )
        for gpu in gpus
    )
    return found, tuple(_port(port, paths) for port in ports)


def _port(port: RdmaPort, paths: dict[int, dict[str, str]]) -> RdmaPort:
    to = {str(gpu): ways[port.device] for gpu, ways in paths.items() if port.device in ways}
    near = pci.nearest(to)
    return msgspec.structs.replace(
        port,
        nearest_gpus=tuple(int(gpu) for gpu in near),
        gpu_path=to[near[0]] if near else None,
    )
