"""Lines to paste, and the settings behind them.

In: a candidate that works. Out: its Recommendation (per host where hosts name it differently) and
one shell line that sh, bash and zsh read alike: values in single quotes, because an unquoted ==
dies in zsh.
"""

from __future__ import annotations

from bench.judge.networks import Networks, parts
from bench.records import Candidate, Recommendation

MAX_NAMES = 16  # NCCL reads at most this many names of NCCL_SOCKET_IFNAME
# What a candidate sets to force its path for the measurement (NCCL_NET=Socket, …) is no advice.
ADVISED = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")


def recommendation(candidate: Candidate) -> Recommendation:
    """The settings that keep NCCL on a candidate: exact names."""
    per_host = {host: _settings(candidate, host) for host in candidate.interfaces}
    values = list(per_host.values())
    if values and all(value == values[0] for value in values):
        return Recommendation(environment=values[0])
    return Recommendation(per_host=per_host)


def export_line(net: Networks, candidate: Candidate) -> str:
    """One line for every host. Where names differ, an exact list of all of them takes whichever
    exists; where a host has another network under one of these names, a case on the host name."""
    advice = recommendation(candidate)
    if advice.environment:
        return _exports(advice.environment)
    names = sorted({value.get("NCCL_SOCKET_IFNAME", "") for value in advice.per_host.values()})
    listed = list(dict.fromkeys(n for name in names for n in name.lstrip("=").split(",")))
    if len(listed) <= MAX_NAMES and all(
        {i.name for i in facts.interfaces} & set(listed)
        <= set(parts(candidate.interfaces.get(host, "")))
        for host, facts in net.hosts.items()
    ):
        return _exports({"NCCL_SOCKET_IFNAME": "=" + ",".join(listed)})
    cases = []
    for host, settings in advice.per_host.items():
        hostname = net.hosts[host].hostname if host in net.hosts else host
        value = settings.get("NCCL_SOCKET_IFNAME", "")
        cases.append(f"({quoted(hostname)}) echo {quoted(value)};;")
    chosen = " ".join(cases)
    return f'export NCCL_SOCKET_IFNAME="$(case "$(hostname)" in {chosen} esac)"'


def quoted(value: str) -> str:
    """A value in single quotes, whatever it holds."""
    return "'" + value.replace("'", "'\\''") + "'"


def _settings(candidate: Candidate, host: str) -> dict[str, str]:
    merged = {**candidate.environment, **candidate.per_host.get(host, {})}
    if candidate.transport == "rdma":
        return {name: v for name, v in merged.items() if name in ADVISED and v is not None}
    return {"NCCL_SOCKET_IFNAME": "=" + ",".join(parts(candidate.interfaces[host]))}


def _exports(settings: dict[str, str]) -> str:
    return "export " + " ".join(f"{name}={quoted(value)}" for name, value in settings.items())
