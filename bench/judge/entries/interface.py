"""Texts of the room "interface": which network NCCL took, and by whose word."""

from __future__ import annotations

from bench.judge.entry import Entry

ENTRIES = (
    Entry(
        code="interface-misselected",
        room="interface",
        title="NCCL uses a slower network than one that joins the same hosts",
        meaning="With the environment as it is, NCCL puts its data on a network that is slower "
        "than another one that was measured between the same hosts, or on one that does not work "
        "while another does. Every collective of every job pays for it, and nothing in a job's "
        "log says so.",
        established="The unset case and each network alone were measured in fresh processes. The "
        "finding needs three things: the two use different interfaces; the ratio of bus "
        "bandwidths at large sizes has a 95 % interval wholly above 1 + tolerance (10 % unless "
        "the fabric file says otherwise); and the default's path is known, by byte counters of "
        "the unset case (measured), by a single match that NCCL itself named (asked), or by its "
        "selection rules (predicted). The bootstrap line alone proves only where NCCL meets: "
        "meeting on a management port beside RDMA, a plugin or a faster port that tells its "
        "speed truly is healthy and is not accused.",
        remedy="Export the line of the finding before the job starts, on every host, in the "
        "launcher's environment (mpirun needs -x, srun needs --export). The = makes the match "
        "exact: without it data0 also matches data01. Run the sweep again: the default case must "
        "now equal the best network.",
    ),
    Entry(
        code="interface-unreachable",
        room="interface",
        title="hosts cannot reach each other on a network",
        meaning="Some hosts do not answer on this network's addresses, or one has no working "
        "interface in it. If NCCL uses the network, or the fabric file calls it a data network, "
        "jobs hang or fail when they connect; otherwise this is a remark (docker0 is never "
        "reachable between hosts).",
        established="Before any collective runs, hosts open TCP connections to each other on "
        "each candidate network and check the identity of who answers (172.17.0.1 is every "
        "host's own docker0). A host is named when all of its probes fail and those between the "
        "others succeed; with two hosts the pair is named. An interface that the fabric file "
        "expects and that is down or missing is named from the facts.",
        remedy="Refused or wrong host: the address is not the peer's. Timeout: a firewall or a "
        "switch drops; compare iptables -S and nft list ruleset of the named host with a good "
        "one, and allow all ports between the hosts of a job, as NCCL listens on random ones. No "
        "route: ip route get ADDRESS. Interface down: ip link, cable, switch port.",
    ),
    Entry(
        code="interface-ambiguous",
        room="interface",
        title="the setting matches several interfaces",
        meaning="NCCL_SOCKET_IFNAME is a list of prefixes: eth1 also matches eth10, and ^docker "
        "re-admits lo. Where several interfaces match, NCCL meets on the first in the kernel's "
        "order, whatever the order of the list, and offers all of them for data.",
        established="NCCL was asked, or its rules were applied, with the setting in force; the "
        "number of interfaces taken exceeds the number of names given.",
        remedy="Use exact names: export NCCL_SOCKET_IFNAME='=data0'. Several rails on purpose: "
        "'=data0,data1'.",
    ),
    Entry(
        code="interface-no-match",
        room="interface",
        title="the setting matches no interface",
        meaning="NCCL_SOCKET_IFNAME, or the default rules, leave no interface on a host. NCCL "
        "fails at init: 'no socket interface found', invalid usage (code 5), or on some versions "
        "'address family is neither AF_INET nor AF_INET6'.",
        established="ncclGetUniqueId was called in a fresh process and returned code 5, or the "
        "selection rules find nothing. Interfaces that are not running do not count since NCCL "
        "2.28.3.",
        remedy="Export a name that exists on that host; where hosts name the interface "
        "differently, list all names exactly: '=ens1f0,enp65s0' takes whichever exists.",
    ),
    Entry(
        code="interface-loopback",
        room="interface",
        title="a job over several hosts meets on loopback",
        meaning="The chosen interface is lo: every host listens on its own 127.0.0.1 and no peer "
        "can reach it. On a single host lo is fine and is not reported.",
        established="NCCL's choice with the environment as it is (asked or predicted) is a "
        "loopback interface and the run has more than one host. Usual causes: "
        "NCCL_SOCKET_IFNAME=lo left over from a laptop, or ^docker, which excludes docker and "
        "thereby cancels the default exclusion of lo.",
        remedy="Unset the variable or export the exact name of the data interface.",
    ),
    Entry(
        code="interface-link-local",
        room="interface",
        title="NCCL listens on a link-local address",
        meaning="The first address of the chosen interface is 169.254.x.x (typical of a BMC's "
        "USB port) or fe80:: (an interface without IPv4). Such an address works only on one "
        "cable or switch, if at all, and is the same range on every interface.",
        established="The address that NCCL returned, or the first one of the interface in its "
        "order. Broken where the peers did not reach each other by it, else a warning. The range "
        "alone is no accusation where traffic flowed.",
        remedy="Export the exact name of an interface with a routable address. For IPv6-only "
        "hosts set NCCL_SOCKET_FAMILY=AF_INET6 and name the interface with the global address.",
    ),
    Entry(
        code="interface-virtual",
        room="interface",
        title="NCCL takes a virtual interface that leads to no other host",
        meaning="A container bridge (docker0, br-…), virbr0, a stray veth, a VPN or a Wi-Fi port "
        "is offered to NCCL, which excludes only names that begin with docker, lo or virbr. "
        "Every host has the same private address there, so peers connect to themselves and the "
        "job hangs or dies at its first connection.",
        established="NCCL's choice (asked) or its data path (predicted) includes the interface, "
        "hosts do not reach each other by it (measured), and another network works. A virtual "
        "interface that is the only way out, such as a pod's eth0, is not accused.",
        remedy="Export the exact name of the working interface. Excluding works too but is "
        "fragile: '^docker,br-,lo' must name lo again, and the next bridge has another name.",
    ),
    Entry(
        code="interface-differs",
        room="interface",
        title="hosts chose different networks",
        meaning="Left alone, some hosts meet or send on one network and others on another. If the "
        "networks are not routed to each other the job hangs; if they are, the slowest path sets "
        "the pace.",
        established="For each host, NCCL's choice (asked or predicted) was mapped to the networks "
        "that join hosts: no network is common to all. Different names for the same network are "
        "not a finding.",
        remedy="Export the line of the finding, which names the common network's interface on "
        "each host.",
    ),
    Entry(
        code="egress-differs",
        room="interface",
        title="traffic leaves by another interface than the one selected",
        meaning="NCCL_SOCKET_IFNAME sets the address on which NCCL listens. By which interface "
        "the peer sends is the routing table's choice. With two interfaces in one subnet, or a "
        "route by another port, the selected network stays idle.",
        established="The kernel gave a probe's connection the address of another interface, or "
        "byte counters around the sessions show that most bytes went elsewhere. Our own control "
        "traffic and counters that count twice (bond members, VLAN parents) are left out.",
        remedy="Give each interface its own subnet, or add source routing (ip rule from ADDRESS "
        "lookup TABLE) with arp_ignore=1 and arp_announce=2. Check with ip route get ADDRESS.",
    ),
    Entry(
        code="setting-overridden",
        room="interface",
        title="a setting comes from, or is overridden in, another place",
        meaning="NCCL reads NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf, for variables "
        "that the environment does not set. Either a file decides although nothing is exported, "
        "or a file's value is not in force because the environment says otherwise.",
        established="The files in force on each host were read and held against the environment.",
        remedy="Keep each setting in one place. Exporting the variable wins over the files; an "
        "empty export shields from them (not NCCL_NET, where empty matches nothing).",
    ),
    Entry(
        code="setting-not-exported",
        room="interface",
        title="ranks do not share an NCCL setting",
        meaning="A variable is set on some hosts and not, or otherwise, on others. mpirun "
        "forwards nothing without -x, pdsh and ssh forward nothing at all. Half a setting is "
        "worse than none: transports and protocols must agree.",
        established="NCCL_ variables of all hosts were compared; those that rightly differ "
        "(interface and HCA names, debug files, host ids) are left out.",
        remedy="Forward it to every rank: mpirun -x NAME, srun --export=ALL, or write it to "
        "/etc/nccl.conf on every host.",
    ),
    Entry(
        code="fallback-to-sockets",
        room="interface",
        title="RDMA or a plugin was there, and NCCL used TCP",
        meaning="InfiniBand, RoCE, EFA or another plugin was expected or loaded, yet the log "
        "shows 'Using network Socket'. Loading a plugin is no proof of its use.",
        established="NCCL's own network line and the channel lines of the unset case, against "
        "the RDMA ports in the host's facts.",
        remedy="Read the first NET/IB or NET/OFI warning: missing device files in a container, "
        "no eligible provider, NCCL_IB_DISABLE=1, a plugin built for another NCCL.",
    ),
    Entry(
        code="hca-set-differs",
        room="interface",
        title="hosts use different sets of RDMA devices",
        meaning="A channel that one host places on its second device has no partner on a host "
        "that cannot open it.",
        established="The NET/IB device lists, or the active ports, of all hosts were compared.",
        remedy="Set NCCL_IB_HCA to the devices that all hosts have, or give the container access "
        "to the missing one. Do not silence it with NCCL_IGNORE_NET_MISMATCH.",
    ),
    Entry(
        code="gdr-disabled",
        room="interface",
        title="GPUDirect RDMA is not used",
        meaning="Data between GPU and NIC goes through host memory; with a fast NIC that costs "
        "a large part of the bandwidth.",
        established="Channel lines without /GDRDMA where GPU and NIC share a PCIe switch, or no "
        "peer-memory module.",
        remedy="Load nvidia-peermem or use a kernel with DMA-BUF; check ACS and IOMMU, and "
        "NCCL_NET_GDR_LEVEL.",
    ),
    Entry(
        code="rail-isolated",
        room="interface",
        title="rails have no route to each other",
        meaning="A ring edge joins a GPU near one rail to a GPU near another, and the two "
        "networks do not meet.",
        established="The ring order of NCCL's log against the rails' subnets and reachability.",
        remedy="Route between rails, or keep rings on rails: NCCL_CROSS_NIC=0, PXN on, and "
        "NCCL_NET_DISABLE_INTRA=1 where the log shows GPU pairs as nodes.",
    ),
)
