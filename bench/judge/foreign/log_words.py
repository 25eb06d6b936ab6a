"""Evidence and advice that the judges of logs share: quoted lines, settings, what to export.

In: a Job and its processes. Out: Evidence with file and line, and one shell line.
"""

from __future__ import annotations

from bench.facts.name_lists import parse
from bench.judge.foreign import addresses
from bench.judge.foreign.log_jobs import Job, Told
from bench.judge.remedy import quoted
from bench.records import Evidence, LogEvent

IFNAME = "NCCL_SOCKET_IFNAME"
MAX_NAMES = 16  # NCCL reads at most this many
LONGEST = 300  # characters of a quoted line


def line_of(told: Told, *topics: str) -> tuple[Evidence, ...]:
    """The first of these topics that the process has a line of."""
    for topic in topics:
        quote = told.quote(topic)
        if quote is not None:
            text = f"{told.log.file}:{quote.line}: {quote.text[:LONGEST]}"
            return (Evidence(basis="asked", text=text),)
    return ()


def setting_of(told: Told) -> tuple[Evidence, ...]:
    """What the user set, and the trap of an exclusion that forgets lo."""
    value = told.process.environment.get(IFNAME)
    if value is None:
        return ()
    trap = ""
    names = parse(value, MAX_NAMES)
    if names.exclude and names.admits("lo"):
        trap = " (an exclusion replaces NCCL's own: lo is taken again unless the list names it)"
    return (Evidence(basis="asked", text=f"{IFNAME} set by environment to {value}{trap}"),)


def failures(job: Job) -> tuple[Evidence, ...]:
    shown = [event for event in job.failed_connections if event.role == "fault"][:2]
    return tuple(event_line(event) for event in shown or job.failed_connections[:2])


def event_line(event: LogEvent) -> Evidence:
    times = f" ({event.count} times)" if event.count > 1 else ""
    who = f"{event.host}: " if event.host else ""
    return Evidence(
        basis="asked", text=f"{event.file}:{event.line}: {who}{event.text[:LONGEST]}{times}"
    )


def advice(job: Job, hosts: tuple[str, ...], *, forced_away: bool = False) -> str:
    """The line that names the usable interface exactly; all names where hosts differ."""
    names = [
        good[0].name for host in hosts if (good := addresses.usable(job.socket_nets(host)))
    ] or [
        net.name
        for told in job.told
        for net in addresses.usable(job.socket_nets(told.process.host))[:1]
    ]
    if names:
        return f"export {IFNAME}={quoted('=' + ','.join(dict.fromkeys(names)))}"
    if forced_away:
        return f"unset {IFNAME}   # or name the data interface exactly: export {IFNAME}='=NAME'"
    return f"export {IFNAME}='=NAME'   # the interface of a routable address: ip -br addr"
