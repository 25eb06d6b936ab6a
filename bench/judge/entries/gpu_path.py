"""Texts of the room "GPU path": the ways between GPUs of one host, and from them to it."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="gpu-path-unexpected",
        room="GPU path",
        title="GPUs talk by a slower way than expected",
        meaning="NCCL uses shared host memory (SHM) or the network (NET) between GPUs that should "
        "reach each other directly (P2P), or goes peer to peer and is no faster for it. As a "
        "note: a candidate p2p, shm or net was measured over another way than the one it is named "
        "after.",
        established="NCCL's own channel lines, of the unset case and of each candidate, between "
        "two GPUs that active NVLinks join, that lie below one root port with the driver's leave, "
        "or that the fabric file puts on NVLink or PCIe peer to peer; and p2p against shm, "
        "measured. Between other GPUs shared memory is right and nothing is said; nor where ranks "
        "share a GPU, nor of MIG instances. NCCL has no setting that forces PCIe peer to peer "
        "between GPUs with NVLink: its level is a threshold and CUDA takes the NVLinks.",
        remedy="Look for NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and NCCL_SHM_DISABLE in the environment "
        "and in nccl.conf, containers that hide GPUs from each other, then nvidia-smi topo -p2p r "
        "(driver), nvidia-smi nvlink -s, ACS and IOMMU.",
    ),
    Entry(
        code="nvlink-inactive",
        room="GPU path",
        title="NVLinks are down",
        meaning="A GPU has fewer active NVLinks than it should. NCCL counts only active ones: it "
        "plans with less, or leaves NVLink altogether, and every ring goes at the pace of this "
        "GPU.",
        established="NVML's (or nvidia-smi nvlink's) state of each link, against the fabric file "
        "or against most GPUs of the same model; and links that went down while the sweep ran. "
        "Where all GPUs are alike nobody is accused: a card without its bridge has only inactive "
        "links. A card without any among bridged ones is a warning.",
        remedy="Fabric Manager running and of the driver's version; error counters (nvidia-smi "
        "nvlink -e) and Xid 74 in the kernel's log; reset the GPU; reseat the bridge or module, "
        "then the baseboard's vendor.",
    ),
    Entry(
        code="pcie-downgraded",
        room="GPU path",
        title="a PCIe link is narrower or slower than it can be",
        meaning="A GPU, a switch above it or a NIC has fewer lanes or a lower generation than its "
        "like. Copies from the host, GPUDirect RDMA and GPUs without NVLink pay for it. NCCL's "
        "model hides it: of NICs and switches (and of GPUs up to 2.30.4) it reads the capability.",
        established="Current width and generation against the fabric file or most of the same "
        "model, and copies with pinned memory both ways; the link is read while copies run, for "
        "at rest it lowers its generation to save power (never its width). Three quarters or more "
        "of the raw rate is usual; below 0.6 of what its like reach is a finding, whatever the "
        "link claims. All of a model alike is a note: some boards are built so. Behind "
        "NVLink-C2C nothing is said.",
        remedy="Read sudo lspci -vv (LnkCap against LnkSta) from the card up to the root port; "
        "reseat card, riser or cable; slot bifurcation in the BIOS; firmware of the switch.",
    ),
    Entry(
        code="p2p-blocked",
        room="GPU path",
        title="direct access between GPUs is blocked",
        meaning="Peer access fails, hangs, or is sent around through the root complex: slow, or "
        "with a translating IOMMU wrong or never ending.",
        established="The driver's P2P status, held against NVLinks between the two, the fabric "
        "file or pairs as near; ACS flags that redirect (ReqRedir, CmpltRedir) on switch ports "
        "between GPUs that share the switch; the IOMMU's mode; peer to peer that hangs where "
        "shared memory works; copies between neighbours, which also acquit. Many cards have no "
        "peer access by design: that alone accuses nobody. A driver's yes is no proof that the "
        "bytes arrive.",
        remedy="On bare metal clear ACS on the switch ports (setpci, until the next boot; or the "
        "BIOS) and boot with iommu=pt; iommu=pt alone leaves ACS as it is. In virtual machines "
        "use ATS. NCCL_P2P_DISABLE=1 works around it.",
    ),
    Entry(
        code="topology-unknown",
        room="GPU path",
        title="the GPU topology could not be read, or lacks a GPU",
        meaning="Paths between GPUs and NICs are unknown here, so none is judged. Kind "
        "gpu-missing: a host shows fewer GPUs than the fabric file says.",
        established="The NVIDIA driver is loaded and NVML does not answer, or a file of the "
        "topology lacks what decides. Without an NVIDIA driver nothing is missing.",
        remedy="Run with the devices visible (container options); driver and library of one "
        "version; for a missing GPU nvidia-smi -L, lspci -d 10de: and Xid 79 (fallen off the "
        "bus) in the kernel's log.",
    ),
    Entry(
        code="duplicate-gpu",
        room="GPU path",
        title="two ranks use the same GPU",
        meaning="NCCL refuses such a job. A sweep lets ranks that share a GPU pass for hosts of "
        "their own, so that one GPU is enough to try the network; its figures are then of a "
        "shared GPU, and no path between GPUs is judged.",
        established="Ranks of one host report the same bus id or UUID, CUDA_VISIBLE_DEVICES gives "
        "them one, or NCCL said so.",
        remedy="One GPU per rank: set the device from LOCAL_RANK, and check "
        "CUDA_VISIBLE_DEVICES and the launcher's processes per node.",
    ),
)
