"""Texts of the rooms "link" and "GPU path": what works, but not as it should."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="link-degraded",
        room="link",
        title="a network carries less than it should",
        meaning="A ring over this network is slower than the fabric file, or the ports' own "
        "claim, lets expect. A ring is as fast as its slowest member: one slow host, cable or "
        "switch port gives the same figure as a slow fabric.",
        established="The fitted bus bandwidth's 95 % interval lies wholly below expectation less "
        "tolerance. Expectation is the rate times the payload's share of a frame (94.1 % at MTU "
        "1500). Above 25 Gbit/s, or 10 over gloo, a port's claim alone accuses nobody, because "
        "one TCP flow rarely fills it. A host is named only when counters, negotiated speeds or "
        "pair measurements single one out; otherwise the finding says that the part is not "
        "located. Where packet loss, a lower negotiated speed or a smaller MTU explains the "
        "figure, that is reported instead.",
        remedy="Measure pairs of hosts (locate): the slow one is slow with every partner. Then "
        "its negotiated speed, error counters, cable, PCIe width and the switch port; other "
        "traffic at the same time shows as a wide interval.",
    ),
    Entry(
        code="latency-degraded",
        room="link",
        title="small messages take longer than they should",
        meaning="The first piece of the cost line starts higher than expected: small all-reduces "
        "pay on every call.",
        established="Fitted latency against an expectation learned from good runs, with the "
        "tolerance of the fabric file. Without such an expectation there is no finding.",
        remedy="CPU frequency and sleep states, interrupt placement, NUMA node of the process "
        "against that of the NIC, a longer path through the switches.",
    ),
    Entry(
        code="host-slow",
        room="link",
        title="one host is slow with every partner",
        meaning="All pairs with this host are slower than pairs without it, so the fault is in or "
        "at the host, not in the fabric.",
        established="Two screening rounds over all hosts, then three confirming rounds of each "
        "suspect against different good hosts.",
        remedy="Drain it, then look at its NIC, cable, PCIe width, clocks, thermal throttling and "
        "what else runs there.",
    ),
    Entry(
        code="rail-slow",
        room="link",
        title="one rail is slow",
        meaning="Pairs of GPUs on one rail are slower than those on the other rails, over many "
        "hosts.",
        established="All rails timed at once between hosts, GPU g with GPU g.",
        remedy="The rail's leaf switch, its uplinks and its configuration.",
    ),
    Entry(
        code="link-negotiated-down",
        room="link",
        title="a port runs below the speed it should have",
        meaning="The port agreed on a lower speed than the fabric file or its peers have. The "
        "whole ring runs at that speed. A port that merely could do more, like all its peers, "
        "is only noted.",
        established="Negotiated and maximal speed from sysfs (the hardware's claim), physical "
        "interfaces only, compared over all hosts of the network and with the fabric file.",
        remedy="Reseat or replace cable and transceiver, compare the switch port's "
        "configuration, check auto-negotiation and forward error correction: ethtool NAME.",
    ),
    Entry(
        code="link-lossy",
        room="link",
        title="packets get lost on a network",
        meaning="TCP had to send a share of its segments again. Bandwidth falls with the square "
        "root of the loss and single calls stall for 200 ms and more.",
        established="Retransmitted over sent segments on each host, during the sessions of this "
        "network only. It is judged as a rate: a healthy run retransmits a few segments (up "
        "to 29 a session were seen), so 30 a session are forgiven. Beyond them 0.5 % is "
        "degraded; from 0.2 % on if the network is also below expectation, else a warning. "
        "Retransmissions happen at the sender; which end loses is told only when an interface's "
        "own drop or error counters stand out on one host.",
        remedy="Error counters of both ends and of the switch port (ethtool -S), cable and "
        "transceiver, duplex mismatch, overrunning buffers, a policer.",
    ),
    Entry(
        code="mtu-mismatch",
        room="link",
        title="hosts of one network have different MTUs",
        meaning="TCP adapts to the smaller MTU and loses payload share; RoCE and UDP do not "
        "adapt, and large messages break. It is also the first step to a black hole.",
        established="The MTUs of the interfaces of one network, and the fabric file's. A warning "
        "by itself; degraded where a network in use is not as the fabric file says, or is also "
        "slower than expected.",
        remedy="Set the same MTU on all hosts and switch ports, now and in the persistent "
        "configuration: ip link set dev NAME mtu 9000.",
    ),
    Entry(
        code="mtu-blackhole",
        room="link",
        title="small packets pass, large ones vanish",
        meaning="A switch port or tunnel has a smaller MTU than the hosts and drops what is too "
        "large without telling. Connections open, small collectives pass, the first large one "
        "hangs until the time-out.",
        established="A probe connects and exchanges bytes, then full-sized segments get no "
        "answer within the deadline, between named pairs. The host common to all failing pairs "
        "is named where pairs without it succeed.",
        remedy="Raise the MTU of the switch port, or lower it on all hosts. Check with ping -M "
        "do -s SIZE, SIZE being the MTU less 28. net.ipv4.tcp_mtu_probing=1 works around it.",
    ),
    Entry(
        code="bandwidth-collapse",
        room="link",
        title="a range of sizes falls off the line",
        meaning="Bandwidth drops for certain sizes although smaller and larger ones, or smaller "
        "ones alone, do well.",
        established="Points that lie below the fitted line by more than their interval and the "
        "noise of their neighbours, in every session.",
        remedy="Compare with one algorithm and protocol forced (NCCL_ALGO, NCCL_PROTO), another "
        "congestion control, fewer sockets; then buffers of NIC and switch.",
    ),
    Entry(
        code="below-expectation",
        room="link",
        title="everything is slower than expected, and no single part is to blame",
        meaning="Every pair of hosts is equally slow: a switch, a setting or the expectation "
        "itself is wrong, not a host.",
        established="Pair measurements that show no host, link or rail standing out while the "
        "line is below expectation. A ring alone never decides this.",
        remedy="MTU, congestion control, switch configuration, CPU limits common to all hosts; "
        "or correct the fabric file.",
    ),
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
