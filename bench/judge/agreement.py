"""Whether the hosts of a job agree: on the network, and on NCCL's settings.

In: a report's networks. Out: interface-differs and setting-not-exported. Different names of one
network are agreement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from bench.judge.docket import Docket
from bench.judge.networks import BROKEN_OUTCOMES, Networks, interfaces_of
from bench.judge.remedy import data_line, name_line
from bench.judge.words import asked, data_path, listed, opening
from bench.records import Evidence, Finding, Where

# Names of devices may be others on each host, but not set on some hosts and unset on others.
MAY_BE_OTHER = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")
# Variables that rightly differ between hosts, or that change nothing but what is written down.
MAY_DIFFER = (
    "NCCL_OOB_NET_IFNAME",
    "NCCL_HOSTID",
    "NCCL_DEBUG",
    "NCCL_TOPO",
    "NCCL_GRAPH",
    "NCCL_CONF_FILE",
    "NCCL_COMM_ID",
    "NCCL_INSPECTOR",
    "NCCL_RAS",
)


def differs(net: Networks, docket: Docket) -> None:
    """No network is common to the hosts' choices, or some hosts lack one that the others use."""
    default = net.default
    if not net.several_hosts or default is None:
        return
    meets = {host: _networks_of(net, host, _met(net, host)) for host in net.hosts}
    sends = {host: _networks_of(net, host, net.path(host)) for host in net.hosts}
    for told_as, by_host in (("meets", meets), ("sends its data", sends)):
        if not all(by_host.values()) or len(set(by_host.values())) == 1:
            continue
        common = frozenset.intersection(*by_host.values())
        if docket.explains(default.name) or (common and default.outcome == "measured"):
            continue
        works = default.outcome == "measured" or bool(common)
        groups: dict[frozenset[str], list[str]] = {}
        for host, names in by_host.items():
            groups.setdefault(names, []).append(host)
        told = "; ".join(f"on {listed(sorted(n))} ({listed(h)})" for n, h in groups.items())
        best = net.best
        severity: Literal["warning", "degraded", "broken"] = (
            "warning" if works else "broken" if default.outcome in BROKEN_OUTCOMES else "degraded"
        )
        line = data_line(net, best) if best else None
        if told_as == "meets":
            line = name_line(net)
        finding = Finding(
            code="interface-differs",
            severity=severity,
            summary=f"{opening(net)} NCCL {told_as} on {len(groups)} different sets of networks: "
            f"{told}.",
            where=Where(
                candidate=default.name, hosts=_minority(groups.values(), tuple(net.hosts))
            ),
            evidence=(*asked(net), *data_path(net)),
            remedy=line,
            confidence="asked" if told_as == "meets" else "predicted",
        )
        docket.add(finding, explains=[] if works else [default.name])
        return


def _met(net: Networks, host: str) -> tuple[str, ...]:
    choice = net.choice(host)
    return (choice.bootstrap,) if choice and choice.bootstrap else ()


def _networks_of(net: Networks, host: str, names: Sequence[str]) -> frozenset[str]:
    return frozenset(c.name for c in net.networks if interfaces_of(c, host) & set(names))


def _minority(groups: Iterable[list[str]], everybody: tuple[str, ...]) -> tuple[str, ...]:
    """The smallest group where one is smaller than all others: they are the odd ones."""
    ordered = sorted(groups, key=len)
    if len(ordered) > 1 and len(ordered[0]) < len(ordered[1]):
        return tuple(ordered[0])
    return everybody


def not_exported(net: Networks, docket: Docket) -> None:
    """One finding for all NCCL_ variables that some hosts have and others do not, or otherwise."""
    names = {
        name
        for facts in net.report.hosts
        for name in facts.environment
        if name.startswith("NCCL_") and not name.startswith(MAY_DIFFER)
    }
    told, odd = [], dict[str, None]()
    for name in sorted(names):
        by_value: dict[str | None, list[str]] = {}
        for host, facts in net.hosts.items():
            by_value.setdefault(facts.environment.get(name), []).append(host)
        if len(by_value) < 2 or (name in MAY_BE_OTHER and None not in by_value):
            continue
        told.append(
            f"{name}: "
            + "; ".join(
                f"{'unset' if value is None else repr(value)} on {listed(hosts)}"
                for value, hosts in by_value.items()
            )
        )
        odd |= dict.fromkeys(_minority(by_value.values(), tuple(net.hosts)))
    if not told:
        return
    docket.add(
        Finding(
            code="setting-not-exported",
            severity="warning",
            summary=f"{len(told)} NCCL setting{'s are' if len(told) > 1 else ' is'} not the same "
            f"on all {len(net.hosts)} hosts.",
            where=Where(hosts=tuple(odd)),
            evidence=tuple(Evidence(basis="measured", text=text) for text in told),
        )
    )
