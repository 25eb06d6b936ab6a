"""Serial numbers, UUIDs, GUIDs and firmware of a run's hardware, as a table for a vendor.

In: HostFacts. Out: CSV, a line per machine, GPU and RDMA port; empty cells where nothing was told.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from bench.records import HostFacts

HEAD = (
    "host", "what", "index", "model", "serial", "identifier", "part_number", "firmware",
    "pci_address",
)  # fmt: skip


def table(hosts: Iterable[HostFacts]) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(HEAD)
    for host in hosts:
        if host.machine is not None:
            made = host.machine
            model = " ".join(part for part in (made.vendor, made.product) if part)
            parts = (made.serial, "", made.board, made.bios, "")
            rows.writerow((host.host, "machine", "", model, *parts))
        for gpu in host.gpus:
            rows.writerow(
                (
                    host.host, "gpu", gpu.index, gpu.name, gpu.serial, gpu.uuid,
                    gpu.board_part_number, gpu.vbios, gpu.pci_address,
                )
            )  # fmt: skip
        for port in host.rdma_ports:
            rows.writerow(
                (
                    host.host, "rdma", f"{port.device}:{port.port}", port.driver, "",
                    port.port_guid or port.node_guid, port.board_id, port.firmware,
                    port.pci_address,
                )
            )  # fmt: skip
    return out.getvalue()
