"""Faults of links, applied once the lab is built: loss, firewall, MTU, down, duplicate address.

Rates and delays belong to the shaping of a link (cluster.shape); ranks are killed by `victim`,
absent hosts are not started by `run`. In: a Lab and its keepers, in the switch's namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from pyroute2 import IPRoute

from bench.lab import cluster
from bench.lab.description import Fault, Lab, Network
from bench.lab.keeper import Keeper
from bench.records import BadInput

IPTABLES_S = 10.0  # it takes 10 ms; it waits only for a lock of its own


def apply(lab: Lab, hosts: Sequence[Keeper]) -> None:
    """Break what the file says is broken. BadInput when the kernel lacks the means."""
    for fault in lab.faults("loss", "firewall", "mtu", "down", "duplicate-address"):
        assert fault.host is not None and fault.network is not None, "checked when it was read"
        host, network = hosts[fault.host - 1], lab.network_named(fault.network)
        if fault.kind == "loss":
            _lose(fault, network, hosts)
        elif fault.kind == "firewall":
            with cluster.inside(host):
                for rule in firewall_rules(network.interface_of(host.host), fault.port or 0):
                    _iptables(rule, host)
        elif fault.kind == "mtu" and fault.at == "switch":
            _shrink_port(fault, host, network, lab, hosts)
        else:
            with cluster.inside(host) as netlink:
                _change_interface(netlink, fault, network, lab)


def firewall_rules(interface: str, port: int) -> list[list[str]]:
    """iptables rules that drop all traffic of an interface, or one TCP port's (0 = all)."""
    rules = []
    for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o")):
        if port == 0:
            rules.append(["-A", chain, way, interface, "-j", "DROP"])
            continue
        for side in ("--dport", "--sport"):
            match = ["-p", "tcp", side, str(port)]
            rules.append(["-A", chain, way, interface, *match, "-j", "DROP"])
    return rules


def _lose(fault: Fault, network: Network, hosts: Sequence[Keeper]) -> None:
    """Drop packets where they arrive: dropped on the way out, the sender's TCP would be told."""
    assert fault.host is not None and fault.percent is not None
    chance = ["-m", "statistic", "--mode", "random", "--probability", f"{fault.percent / 100:.8f}"]
    source = network.address_of(fault.host).partition("/")[0]
    for host in hosts:
        arriving = ["-A", "INPUT", "-i", network.interface_of(host.host)]
        if host.host == fault.host and fault.direction in (None, "both", "receive"):
            rule = [*arriving, *chance, "-j", "DROP"]
        elif host.host != fault.host and fault.direction in (None, "both", "transmit"):
            rule = [*arriving, "-s", source, *chance, "-j", "DROP"]
        else:
            continue
        with cluster.inside(host):
            _iptables(rule, host)


def _shrink_port(
    fault: Fault, host: Keeper, network: Network, lab: Lab, hosts: Sequence[Keeper]
) -> None:
    """A switch port that silently drops what is larger than its MTU.

    A bridge lets a segmentation-offload packet pass whatever its size (is_skb_forwardable), and on
    veth such a packet is never cut up: so every host of this network sends one segment at a time.
    """
    with IPRoute() as switch:
        name = cluster.port(host.host, lab.network.index(network) + 1)
        switch.link("set", index=cluster.index_of(switch, name), mtu=fault.mtu)
    for sender in hosts:
        with cluster.inside(sender) as netlink:
            index = cluster.index_of(netlink, network.interface_of(sender.host))
            netlink.link("set", index=index, gso_max_segs=1)


def _change_interface(netlink: IPRoute, fault: Fault, network: Network, lab: Lab) -> None:
    assert fault.host is not None
    index = cluster.index_of(netlink, network.interface_of(fault.host))
    if fault.kind == "mtu":
        netlink.link("set", index=index, mtu=fault.mtu)
    elif fault.kind == "down":
        netlink.link("set", index=index, state="down")
    else:
        # the next host's unless the file says whose; both answer ARP, as in the field
        victim = fault.peer or fault.host % lab.hosts + 1
        netlink.flush_addr(index=index, family=2)
        address, _, length = network.address_of(victim).partition("/")
        netlink.addr("add", index=index, address=address, prefixlen=int(length))


def _iptables(rule: Sequence[str], host: Keeper) -> None:
    program = shutil.which("iptables", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        raise BadInput("iptables is not installed, which loss and firewall faults need")
    # The lock lies where the lab's own root may write: /run belongs to the real machine.
    environment = {**os.environ, "XTABLES_LOCKFILE": f"/proc/{host.pid}/root{host.scratch}/lock"}
    try:
        done = subprocess.run(
            [program, "-w", *rule],
            capture_output=True,
            text=True,
            timeout=IPTABLES_S,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise BadInput(f"iptables did not answer within {IPTABLES_S:g} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        reason = lines[0] if lines else f"exit status {done.returncode}"
        match = " (match statistic)" if "statistic" in rule else ""
        raise BadInput(
            f"iptables{match} does not work inside a namespace, which loss and firewall faults "
            f"need: {reason}; as root, modprobe xt_statistic, or use a kernel that has it"
        )
