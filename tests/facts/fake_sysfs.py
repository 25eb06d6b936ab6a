"""Makes folders that stand in for the /sys and /proc of hosts with GPUs. Nothing real is read.

The shape follows the kernel's: a PCI function lies below its bridge under sys/devices, and
sys/bus/pci/devices links to it. A configuration space is made of its first header, one PCI Express
capability and, for ports that have it, one ACS capability.
"""

from __future__ import annotations

from pathlib import Path

ACS_REDIRECTED = 0b0011101  # SrcValid, ReqRedir, CmpltRedir, UpstreamFwd: what the kernel sets
ROOT, UPSTREAM, DOWNSTREAM, ENDPOINT = 4, 5, 6, 0
GENERATIONS = {1: "2.5", 3: "8.0", 4: "16.0", 5: "32.0"}


def config(port: int, acs: int | None = None) -> bytes:
    """4096 bytes of configuration space."""
    space = bytearray(4096)
    space[0:4] = b"\xde\x10\x30\x23"
    space[6] = 0x10  # has a list of capabilities
    space[0x34] = 0x60
    space[0x60:0x64] = bytes([0x10, 0x00, port << 4 | 2, 0x00])
    if acs is not None:
        space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")  # AER first
        space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        space[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(space)


def function(
    root: Path,
    way: str,
    *,
    kind: str,
    ids: str,
    numa: int,
    generation: int = 5,
    width: int = 16,
    port: int = ENDPOINT,
    acs: int | None = None,
    driver: str | None = None,
    group: int | None = None,
    group_type: str = "identity",
) -> str:
    """One PCI function at `way` ("pci0000:15/0000:15:01.0"); its address."""
    folder = root / "sys/devices" / way
    folder.mkdir(parents=True, exist_ok=True)
    vendor, device = ids.split(":")
    for name, text in {
        "class": kind, "vendor": f"0x{vendor}", "device": f"0x{device}", "numa_node": str(numa),
        "current_link_speed": f"{GENERATIONS[generation]} GT/s PCIe",
        "max_link_speed": f"{GENERATIONS[generation]} GT/s PCIe",
        "current_link_width": str(width), "max_link_width": str(width), "power_state": "D0",
        "aer_dev_correctable": "RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 0",
        "aer_dev_nonfatal": "DLP 0\nTOTAL_ERR_NONFATAL 0",
        "aer_dev_fatal": "DLP 0\nTOTAL_ERR_FATAL 0",
    }.items():  # fmt: skip
        (folder / name).write_text(text + "\n")
    (folder / "config").write_bytes(config(port, acs))
    _link(root / "sys/bus/pci/devices" / folder.name, folder)
    if driver:
        place = root / "sys/bus/pci/drivers" / driver
        place.mkdir(parents=True, exist_ok=True)
        _link(folder / "driver", place)
    if group is not None:
        place = root / "sys/kernel/iommu_groups" / str(group)
        place.mkdir(parents=True, exist_ok=True)
        (place / "type").write_text(group_type + "\n")
        _link(folder / "iommu_group", place)
    return folder.name


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)


def switch(
    root: Path,
    bus: int,
    *,
    numa: int,
    below: int,
    generation: int = 5,
    acs: int | None = 0,
    group_type: str = "identity",
) -> list[str]:
    """A root port and a switch with `below` downstream ports; the ways to these ports."""
    bridge = {"kind": "0x060400", "numa": numa, "generation": generation, "group_type": group_type}
    way = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0"
    function(
        root, way, ids="8086:352a", port=ROOT, acs=acs, driver="pcieport", group=bus, **bridge
    )
    way += f"/0000:{bus + 1:02x}:00.0"
    function(root, way, ids="1000:c030", port=UPSTREAM, driver="pcieport", group=bus + 1, **bridge)
    ports = []
    for number in range(below):
        port = f"{way}/0000:{bus + 2:02x}:{number:02x}.0"
        function(
            root, port, ids="1000:c030", port=DOWNSTREAM, acs=acs, driver="pcieport",
            group=bus + 2 + number, **bridge,
        )  # fmt: skip
        ports.append(port)
    return ports


def machine(root: Path, product: str, *, words: str = "", modules: tuple[str, ...] = ()) -> None:
    """DMI, two sockets, the kernel's words and modules."""
    dmi = root / "sys/class/dmi/id"
    dmi.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "sys_vendor": "NVIDIA", "product_name": product, "product_serial": "1660523000123",
        "bios_version": "1.6.7", "board_name": "Default string",
    }.items():  # fmt: skip
        (dmi / name).write_text(text + "\n")
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cmdline").write_text(f"BOOT_IMAGE=/vmlinuz root=UUID=1 token=secret {words}\n")
    cpus = "".join(
        f"processor\t: {n}\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\nphysical id\t: {n}\n"
        "flags\t\t: fpu vme\n\n"
        for n in range(2)
    )
    (root / "proc/cpuinfo").write_text(cpus)
    for node, mask in enumerate(("0-47", "48-95")):
        place = root / f"sys/devices/system/node/node{node}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "cpulist").write_text(mask + "\n")
    for name in ("nvidia", "nvidia_uvm", *modules):
        (root / "sys/module" / name).mkdir(parents=True, exist_ok=True)
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev/kmsg").write_text("6,1,1,-;nvidia: loading\n")


def rdma_port(root: Path, device: str, way: str, *, rate_gbit: int = 400) -> None:
    """An InfiniBand port of the function at `way`."""
    folder = root / "sys/class/infiniband" / device
    port = folder / "ports/1"
    for path, text in {
        folder / "fw_ver": "28.39.1002", folder / "board_id": "MT_0000000838",
        folder / "node_guid": f"a088:c203:00{device[5:]:0>2}:0001",
        port / "state": "4: ACTIVE", port / "phys_state": "5: LinkUp",
        port / "rate": f"{rate_gbit} Gb/sec (4X NDR)", port / "link_layer": "InfiniBand",
        port / "lid": "0x1f", port / "gids/0": "fe80:0000:0000:0000:a088:c203:0001:0001",
        port / "gid_attrs/types/0": "IB/RoCE v1",
        port / "counters/port_xmit_data": "1000", port / "counters/port_rcv_data": "1000",
        port / "counters/symbol_error": "0", port / "counters/link_downed": "0",
        port / "hw_counters/out_of_sequence": "0", port / "hw_counters/np_cnp_sent": "0",
    }.items():  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    _link(folder / "device", root / "sys/devices" / way)


def hgx(root: Path) -> list[str]:
    """An HGX H100: 8 switches, each with a GPU and a NIC; addresses of the GPUs."""
    gpus = []
    for index in range(8):
        bus, numa = 0x10 + 0x10 * index, index // 4
        to_gpu, to_nic = switch(root, bus, numa=numa, below=2)
        gpu, nic = f"{to_gpu}/0000:{bus + 8:02x}:00.0", f"{to_nic}/0000:{bus + 9:02x}:00.0"
        common = {"numa": numa, "group": bus + 8}
        gpus.append(
            function(root, gpu, kind="0x030200", ids="10de:2330", driver="nvidia", **common)
        )
        function(root, nic, kind="0x020700", ids="15b3:1021", driver="mlx5_core", **common)
        rdma_port(root, f"mlx5_{index}", nic)
    machine(root, "DGXH100", words="iommu=pt", modules=("nvidia_peermem", "mlx5_core", "mlx5_ib"))
    return gpus


def pcie_switch(root: Path, *, gpus: int) -> list[str]:
    """GPUs and one NIC below a single PCIe switch with ACS redirection; addresses of the GPUs."""
    ports = switch(
        root, 0x40, numa=0, below=gpus + 1, generation=4, acs=ACS_REDIRECTED, group_type="DMA-FQ"
    )
    addresses = []
    for index, port in enumerate(ports[:-1]):
        way = f"{port}/0000:{0x50 + index:02x}:00.0"
        address = function(
            root, way, kind="0x030200", ids="10de:26b9", numa=0, generation=4, driver="nvidia",
            group=0x50 + index, group_type="DMA-FQ",
        )  # fmt: skip
        (root / "sys/devices" / way / "current_link_speed").write_text("2.5 GT/s PCIe\n")
        addresses.append(address)
    nic = f"{ports[-1]}/0000:60:00.0"
    function(
        root, nic, kind="0x020000", ids="15b3:101d", numa=0, generation=4, driver="mlx5_core",
        group=0x60, group_type="DMA-FQ",
    )  # fmt: skip
    rdma_port(root, "mlx5_0", nic, rate_gbit=100)
    machine(root, "PowerEdge", words="intel_iommu=on", modules=("mlx5_core", "mlx5_ib"))
    for unit in ("dmar0", "dmar1"):
        (root / "sys/class/iommu" / unit).mkdir(parents=True, exist_ok=True)
    return addresses


def retrain(root: Path, address: str, *, width: int) -> None:
    """The link between the device and its port came up with fewer lanes: both ends show it."""
    device = (root / "sys/bus/pci/devices" / address).resolve()
    for end in (device, device.parent):
        (end / "current_link_width").write_text(f"{width}\n")
