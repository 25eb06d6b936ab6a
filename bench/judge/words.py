"""Words that several rules share: lists of hosts, interfaces of a candidate, who set what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from bench.judge.networks import Networks
from bench.records import Candidate, Evidence, HostFacts

QUOTED = 160  # characters of an error
SOURCE_PLACE = re.compile(r"\[/\S+:\d+\] ?")  # gloo names the build machine's file and line
PATHS_SHOWN = 2  # hosts that call interfaces differently have as many paths as there are hosts
SHOWN = 4  # names in a sentence; the rest is counted, and `where` has them all


def listed(names: Iterable[str]) -> str:
    """ "host1", "host1 and host2", "host1, host2, host3, host4 and 60 more"."""
    all_names = list(dict.fromkeys(names))
    shown = all_names[:SHOWN]
    if len(all_names) > SHOWN:
        return f"{', '.join(shown)} and {len(all_names) - SHOWN} more"
    if len(shown) > 1:
        return f"{', '.join(shown[:-1])} and {shown[-1]}"
    return "".join(shown)


def carrier(candidate: Candidate, hosts: Sequence[str] = ()) -> str:
    """ "data0", or "data (ens1f0 on host1, enp65s0 on host2)" where hosts name it differently."""
    chosen = {h: n for h, n in candidate.interfaces.items() if not hosts or h in hosts}
    names = set(chosen.values())
    if len(names) == 1:
        return names.pop()
    told = [f"{name} on {host}" for host, name in list(chosen.items())[:SHOWN]]
    more = f", … {len(chosen)} hosts" if len(chosen) > SHOWN else ""
    return f"{candidate.name} ({', '.join(told)}{more})"


def single(names: Iterable[str]) -> str | None:
    """The name that all have in common, for `where`; None where they differ."""
    distinct = set(names)
    return distinct.pop() if len(distinct) == 1 else None


def some(net: Networks, hosts: Iterable[str]) -> tuple[str, ...]:
    """Hosts for `where`: none named where all are meant."""
    named = tuple(hosts)
    return named if len(named) < len(net.hosts) else ()


def opening(net: Networks, *, data: bool = False) -> str:
    """ "With nothing set", or what is set and where; of `data`, with what else steers it."""
    settings = {net.setting(host) for host in net.hosts}
    if len(settings) > 1:
        return "With each host's own NCCL_SOCKET_IFNAME"
    value, place = settings.pop() if settings else (None, None)
    if not value:
        steered = {tuple(_steering(facts)) for facts in net.hosts.values()} if data else {()}
        if len(steered) > 1:
            return "With each host's own settings"
        return f"With {listed(steered.pop())}" if any(steered) else "With nothing set"
    file = "" if place == "environment" else f" from {place}"
    return f"With NCCL_SOCKET_IFNAME={value}{file}"


def _steering(facts: HostFacts) -> Iterator[str]:
    """What decides which transport and adapters NCCL's data takes, as it is in force on a host."""
    for name in ("NCCL_NET", "NCCL_IB_DISABLE", "NCCL_IB_HCA"):
        value = in_force(facts, name)
        if value is not None:
            yield f"{name}={value}"


def in_force(facts: HostFacts, name: str) -> str | None:
    """A variable's value on a host: the environment's, else that of a file."""
    places = (facts.environment, *(conf.settings for conf in facts.nccl_conf))
    return next((place[name] for place in places if name in place), None)


def asked(net: Networks, hosts: Sequence[str] = ()) -> list[Evidence]:
    """NCCL's own words on its choice, or what its rules predict, each told once."""
    told: dict[tuple[str | None, str | None], list[str]] = {}
    for host in hosts or tuple(net.hosts):
        choice = net.choice(host)
        if choice is not None:
            told.setdefault((choice.basis, choice.bootstrap), []).append(host)
    lines = []
    for (basis, bootstrap), group in list(told.items())[:SHOWN]:
        choice = net.choice(group[0])
        assert choice is not None, "grouped by a choice that exists"
        alike = f", alike on {len(group)} hosts" if len(group) > 1 else ""
        version = f" {choice.nccl_version}" if choice.nccl_version else ""
        if basis == "asked" and choice.line:
            said = choice.line[max(choice.line.find("Bootstrap"), 0) :].strip()
            lines.append(
                Evidence(basis="asked", text=f'NCCL{version} on {group[0]}: "{said}"{alike}')
            )
        elif bootstrap is None:
            code = f" (code {choice.code})" if choice.code else ""
            text = f"NCCL{version} on {group[0]} takes no interface{code}{alike}"
            lines.append(Evidence(basis=choice.basis, text=text))
        else:
            at = f" at {choice.address}" if choice.address else ""
            text = f"NCCL{version} on {group[0]} meets on {bootstrap}{at}{alike}"
            lines.append(Evidence(basis=choice.basis, text=text))
    return lines


def data_path(net: Networks, hosts: Sequence[str] = ()) -> list[Evidence]:
    """Where the data of the default case goes: counted, or predicted with the reason."""
    told: dict[tuple[Literal["measured", "predicted"], tuple[str, ...]], list[str]] = {}
    for host in hosts or tuple(net.hosts):
        path = net.path(host)
        if path:
            told.setdefault((net.basis(host), path), []).append(host)
    lines = []
    for (basis, path), group in list(told.items())[:PATHS_SHOWN]:
        facts = net.hosts[group[0]]
        place = "" if len(told) == 1 else f" on {listed(group)}"
        if basis == "measured" and net.default is not None:
            shares = net.shares(net.default, group[0])
            counted = ", ".join(f"{name} {percent(shares.get(name, 0))}" for name in path)
            text = f"bytes of the default case{place}: {counted}"
        else:
            why = f": {facts.data_path.why}" if facts.data_path and facts.data_path.why else ""
            text = f"data path {', '.join(path)}{place}{why}"
        lines.append(Evidence(basis=basis, text=text))
    rest = list(told.items())[PATHS_SHOWN:]
    if rest:
        text = f"other paths on {sum(len(group) for _, group in rest)} more hosts"
        lines.append(Evidence(basis=rest[0][0][0], text=text))
    return lines


def percent(share: float) -> str:
    """ "99.9 %", "20 %": a decimal only where it tells something."""
    value = 100 * share
    close = 99 <= value < 99.95 or value < 9.95
    return f"{value:.1f} %" if close else f"{value:.0f} %"


def quote(error: str | None) -> str:
    """The last line of an error, which names it, cut to a readable length."""
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    text = SOURCE_PLACE.sub("", lines[-1]) if lines else "an unknown error"
    return text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"
