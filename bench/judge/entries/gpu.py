"""Texts of the room "GPU path": how GPUs of one host reach each other."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="gpu-path-unexpected",
        room="GPU path",
        title="GPUs talk by a slower way than expected",
        meaning="NCCL uses shared host memory or the network between GPUs that should reach each "
        "other directly.",
        established="Channel lines of the unset case (P2P, SHM, NET) against the expected path "
        "and the topology.",
        remedy="Look for NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, containers that hide GPUs from each "
        "other, ACS and IOMMU.",
    ),
    Entry(
        code="nvlink-inactive",
        room="GPU path",
        title="NVLinks are down",
        meaning="Fewer links than the GPU has are active; NCCL counts only active ones and loses "
        "their share of the bandwidth.",
        established="NVML's state of each link, against the fabric file or the other GPUs.",
        remedy="Fabric Manager running and of the driver's version; reset the GPU; bridge or "
        "baseboard.",
    ),
    Entry(
        code="pcie-downgraded",
        room="GPU path",
        title="a PCIe link is narrower or slower than it can be",
        meaning="Width or generation is below the device's maximum. NCCL's topology may hide it, "
        "as it reads the capability for NICs and switches.",
        established="Current against maximal width and generation under load (idle links lower "
        "their speed to save power), and a copy measured between host and device.",
        remedy="Reseat the card or riser, firmware, slot configuration.",
    ),
    Entry(
        code="p2p-blocked",
        room="GPU path",
        title="direct access between GPUs is blocked",
        meaning="Peer access fails or is redirected through the root complex: slow, or hanging.",
        established="P2P status of the driver, ACS control bits, IOMMU mode.",
        remedy="On bare metal clear ACS on the switch ports and boot with iommu=pt or off; in "
        "virtual machines ATS. NCCL_P2P_DISABLE=1 works around it.",
    ),
    Entry(
        code="topology-unknown",
        room="GPU path",
        title="the GPU topology could not be read",
        meaning="Paths between GPUs and NICs are unknown here, so none is judged.",
        established="NVML or sysfs refused or lacks the entries; the report says why.",
        remedy="Run with the devices visible (container options), or give a topology file.",
    ),
    Entry(
        code="duplicate-gpu",
        room="GPU path",
        title="two ranks use the same GPU",
        meaning="NCCL refuses this, or both ranks share the GPU's time.",
        established="Ranks of one host report the same bus id or UUID, or NCCL said so.",
        remedy="One GPU per rank: set the device from LOCAL_RANK, and check "
        "CUDA_VISIBLE_DEVICES and the launcher's processes per node.",
    ),
)
