"""Texts of the room "link": networks that work, but not as they should."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="link-degraded",
        room="link",
        title="a network carries less than it should",
        meaning="A ring over this network is slower than the fabric file, or the ports' own "
        "claim, lets expect, and no host was found that explains it: a ring is as fast as its "
        "slowest member. Or, where it names two hosts: transfers between these two are slow, "
        "while both do well with others.",
        established="The fitted bus bandwidth's 95 % interval lies wholly below expectation less "
        "tolerance. Expectation is the rate times the payload's share of a frame (94.1 % at MTU "
        "1500). Above 25 Gbit/s, or 10 over gloo, a port's claim alone accuses nobody, because "
        "one TCP flow rarely fills it. Where packet loss, a lower negotiated speed, a smaller MTU "
        "or a host that pairs single out (host-slow) explains the figure, that is reported "
        "instead; otherwise the finding says what the pairs showed. Two hosts are named when "
        "their pair was slow in three measurements, each over fresh connections, and both ends "
        "are fast with others.",
        remedy="Between two hosts: the cables and switches on their way (traceroute, the "
        "switches' own counters), a path that a hash shares with another. For a network: every "
        "pair, with --locate always; negotiated speed, error counters, cable, PCIe width and the "
        "switch port; other traffic at the same time shows as a wide interval.",
    ),
    Entry(
        code="latency-degraded",
        room="link",
        title="small messages take longer than they should",
        meaning="The first piece of the cost line starts higher than expected: small all-reduces "
        "pay on every call. Or, where a host is named: its small messages are late with every "
        "partner.",
        established="Fitted latency against an expectation learned from good runs, with the "
        "tolerance of the fabric file; without such an expectation, nothing is said of a network. "
        "A host: half a round trip of a few bytes takes half as long again as between others, and "
        "four times their scatter more, with each of its partners (a warning, because a busy CPU "
        "does that too).",
        remedy="CPU frequency and sleep states, interrupt placement, NUMA node of the process "
        "against that of the NIC, a longer path through the switches.",
    ),
    Entry(
        code="host-slow",
        room="link",
        title="one host is slow with every partner",
        meaning="All pairs with this host are slower than pairs without it, so the fault is in or "
        "at the host, not in the fabric.",
        established="Two screening rounds over all hosts, the second of slow with fast ones (up "
        "to eight hosts: up to five rounds), then three confirming rounds of each suspect against "
        "different good hosts. Every pair sends there, back and both ways at once, over fresh "
        "connections each time. Accused is who is slower than half of what matters (at least 3 %) "
        "in every pair with a good host; degraded from the fabric file's tolerance on (10 % "
        "unless it says otherwise), below it a warning. One direction is named where the other "
        "is clearly as fast as others'. By a nightly job: slower than the fleet of the same night "
        "on each of its last three nights, wherever these ran; degraded from 5 % on.",
        remedy="Drain it, then look at its NIC, cable, PCIe width, clocks, thermal throttling and "
        "what else runs there.",
    ),
    Entry(
        code="rail-slow",
        room="link",
        title="one rail is slow",
        meaning="Pairs of GPUs on one rail are slower than those on the other rails, over many "
        "hosts.",
        established="All rails timed at once between hosts, GPU g with GPU g. By a nightly job: a "
        "host's rail, as host-slow.",
        remedy="The rail's leaf switch, its uplinks and its configuration.",
    ),
    Entry(
        code="link-negotiated-down",
        room="link",
        title="a port runs below the speed it should have",
        meaning="The port agreed on a lower speed than the fabric file or its peers have. The "
        "whole ring runs at that speed. A port that merely could do more, like all its peers, "
        "is only noted; so is a slower NIC at its own maximum, unless the fabric file wants more.",
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
        "noise of their neighbours, in every session. In a foreign table: sizes that take twice "
        "as long as a larger message of the same table, or as a smaller one sent in parts, or "
        "that jump up and down again by 1.7 between their neighbours; two sizes or more, in the "
        "better of both halves, beyond four times the scatter between the halves. One size alone "
        "must be 4 times off. A switch of algorithm that comes too late is a warning below 3 "
        "times; one slow half of a row is only noted.",
        remedy="Compare with one algorithm and protocol forced (NCCL_ALGO, NCCL_PROTO), another "
        "congestion control, fewer sockets; then buffers of NIC and switch.",
    ),
    Entry(
        code="below-expectation",
        room="link",
        title="everything is slower than expected, and no single part is to blame",
        meaning="What users get, or a way between GPUs, is slower than the fabric file's own "
        "figure for it, and no network, host or link was found that explains it; or every pair "
        "of hosts is equally slow. A switch, a setting, a new library or the expectation itself "
        "is wrong, not a host.",
        established="The fitted bus bandwidth's 95 % interval lies wholly below a [[busbw]] "
        "figure less its tolerance (learned from the spread of good runs: expect --learn), after "
        "all findings that could explain it; or pair measurements show no host, link or rail "
        "standing out. Shipped hints accuse no sweep. A foreign table's plateau (the better half "
        "of its largest sizes) is held against the fabric file; without one it is accused only "
        "below 60 % of every known system with its GPUs. Nothing is said where busbw still rises "
        "at the largest size, where settings force a path, or where another finding explains it.",
        remedy="MTU, congestion control, switch configuration, CPU limits common to all hosts; "
        "or correct the fabric file. For a table: the reasons in the order given, each with the "
        "check that decides.",
    ),
)
