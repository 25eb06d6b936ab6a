"""Lines to paste, and the settings behind them.

In: a candidate that works. Out: its Recommendation (per host where hosts name it differently) and
one shell line that sh, bash and zsh read alike: values in single quotes, because an unquoted ==
dies in zsh. A finding about the socket name gets the best network of sockets, whatever is fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bench.judge.networks import Networks, parts
from bench.judge.words import in_force
from bench.records import Candidate, HostFacts, Recommendation

MAX_NAMES = {"NCCL_SOCKET_IFNAME": 16, "NCCL_IB_HCA": 32}  # NCCL reads at most so many
# What a candidate sets to force its path for the measurement (NCCL_NET=Socket, …) is no advice.
ADVISED = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")
# Findings that the socket name mends, and the ones that a network for the data mends.
NAMED = (
    "interface-virtual",
    "interface-differs",
    "interface-no-match",
    "interface-loopback",
    "interface-link-local",
)
SENT = ("interface-misselected", "interface-differs")


def recommendation(candidate: Candidate, more: Mapping[str, str] | None = None) -> Recommendation:
    """The settings that keep NCCL on a candidate: exact names, and `more`."""
    return _told({h: {**(more or {}), **_settings(candidate, h)} for h in candidate.interfaces})


def advice(net: Networks, codes: Iterable[str]) -> Recommendation:
    """The settings that mend findings of these codes, all together."""
    found = set(codes)
    by_host: dict[str, dict[str, str]] = {}
    if found.intersection(SENT) and net.best is not None:
        for host in net.best.interfaces:
            by_host[host] = {**forcing(net, net.best), **_settings(net.best, host)}
    if found.intersection(NAMED) and net.best_socket is not None:
        for host in net.best_socket.interfaces:
            by_host.setdefault(host, {}).update(_settings(net.best_socket, host))
    return _told(by_host)


def name_line(net: Networks) -> str | None:
    """The line that makes NCCL meet on the best network of sockets; None where none works."""
    return export_line(net, net.best_socket) if net.best_socket else None


def data_line(net: Networks, candidate: Candidate) -> str:
    """The line that sends the data over a candidate, whatever is set against its transport."""
    return export_line(net, candidate, forcing(net, candidate))


def forcing(net: Networks, candidate: Candidate) -> dict[str, str]:
    """Settings without which data would not go by a candidate's transport; none where it does."""
    wanted = "rdma" if candidate.transport == "rdma" else "socket"
    paths = [facts.data_path for facts in net.report.hosts if facts.data_path is not None]
    if all(path.transport == wanted for path in paths):
        return {}
    if wanted == "socket":
        return {"NCCL_NET": "Socket"} if net.other_transport else {}
    disabled = [in_force(facts, "NCCL_IB_DISABLE") for facts in net.report.hosts]
    off = any(value not in (None, "", "0") for value in disabled)
    return {"NCCL_NET": "IB", **({"NCCL_IB_DISABLE": "0"} if off else {})}


def export_line(net: Networks, candidate: Candidate, more: Mapping[str, str] | None = None) -> str:
    """One line for every host. Where names differ, an exact list of all of them takes whichever
    exists; where a host has another network under one of these names, a case on the host name."""
    told = recommendation(candidate, more)
    if told.environment:
        return _exports({name: quoted(value) for name, value in told.environment.items()})
    words: dict[str, str] = {}
    for name in dict.fromkeys(name for own in told.per_host.values() for name in own):
        values = {host: own.get(name, "") for host, own in told.per_host.items()}
        alike = len(set(values.values())) == 1
        words[name] = quoted(next(iter(values.values()))) if alike else _by_host(net, name, values)
    return _exports(words)


def look(names: str | None, transport: str) -> str | None:
    """What to read of a network's own ports; None where there is no one name."""
    if names is None:
        return None
    if transport == "rdma":
        device = names.partition(":")[0]
        return f"ibstat {device}; rdma link show" if "+" not in names else "ibstat; rdma link show"
    if transport != "socket" or "+" in names:
        return None
    return f"ethtool {names}; ip -s -s link show dev {names}"


def quoted(value: str) -> str:
    """A value in single quotes, whatever it holds."""
    return "'" + value.replace("'", "'\\''") + "'"


def _told(by_host: dict[str, dict[str, str]]) -> Recommendation:
    values = list(by_host.values())
    if values and all(value == values[0] for value in values):
        return Recommendation(environment=values[0])
    return Recommendation(per_host=by_host)


def _by_host(net: Networks, variable: str, values: Mapping[str, str]) -> str:
    """The shell's word for exact lists that differ between hosts."""
    own = {host: _names(value) for host, value in values.items()}
    listed = list(dict.fromkeys(name for host in sorted(own, key=own.__getitem__)
                                for name in own[host]))  # fmt: skip
    if len(listed) <= MAX_NAMES[variable] and all(
        _present(variable, facts).intersection(listed) <= set(own.get(host, ()))
        for host, facts in net.hosts.items()
    ):
        return quoted("=" + ",".join(listed))
    cases = []
    for host, value in values.items():
        hostname = net.hosts[host].hostname if host in net.hosts else host
        cases.append(f"({quoted(hostname)}) echo {quoted(value)};;")
    return f'"$(case "$(hostname)" in {" ".join(cases)} esac)"'


def _names(value: str) -> list[str]:
    return [name for name in value.lstrip("=").split(",") if name]


def _present(variable: str, facts: HostFacts) -> set[str]:
    """What an exact name of this variable could match on a host."""
    if variable == "NCCL_SOCKET_IFNAME":
        return {interface.name for interface in facts.interfaces}
    ports = facts.rdma_ports
    return {port.device for port in ports} | {f"{port.device}:{port.port}" for port in ports}


def _settings(candidate: Candidate, host: str) -> dict[str, str]:
    merged = {**candidate.environment, **candidate.per_host.get(host, {})}
    if candidate.transport == "rdma":
        return {name: v for name, v in merged.items() if name in ADVISED and v is not None}
    return {"NCCL_SOCKET_IFNAME": "=" + ",".join(parts(candidate.interfaces[host]))}


def _exports(words: Mapping[str, str]) -> str:
    return "export " + " ".join(f"{name}={word}" for name, word in words.items())
