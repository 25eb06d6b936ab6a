"""The terminal view of a preflight: where ranks meet, the hosts, the networks, then what is wrong.

In: a judged Preflight. Out: text of at most `width` columns, verdict last.
"""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from bench.judge.launch import clocks
from bench.records import HostFacts, Meeting, Preflight, PreflightPair
from bench.report import units
from bench.report.findings import blocks_of, coloured_verdict, labelled
from bench.report.text import cell, printable

HOSTS_SHOWN, RANKS_SHOWN, NETWORKS_SHOWN = 16, 16, 12
OUTCOMES = {
    "store": "a store of torch answers",
    "stranger": "something else answers",
    "silent": "connected, no answer",
    "refused": "nobody listens yet",
    "no-answer": "nothing comes back",
    "no-route": "cannot be sent to",
    "unresolved": "no address",
    "free": "this host, port free",
    "taken": "this host, port taken",
}


def screen(seen: Preflight, *, width: int = 80, colour: bool = False) -> str:
    blocks = [
        _meetings(seen.meetings, width),
        _hosts(seen),
        _ranks(seen.hosts),
        _networks(seen),
        *blocks_of(seen.findings, width=width, colour=colour, all_in="--json", paged=False),
    ]
    words = [seen.verdict, units.count(len(seen.findings), "finding")]
    if not seen.together:
        words.append("this host alone")
    words.append(units.duration(seen.duration_s))
    blocks.append(coloured_verdict(seen.verdict, words, width, colour))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _meetings(found: Sequence[Meeting], width: int) -> list[str]:
    lines = []
    for one in found[:HOSTS_SHOWN]:
        words = [f"{printable(one.host)}:{one.port}"]
        if one.addresses:
            way = f" by {printable(one.interface)}" if one.interface else ""
            words.append(f"{one.addresses[0]}{way}")
        words.append(f"{OUTCOMES[one.outcome]} (from {printable(one.seen_from)})")
        lines += labelled("meeting", words, width, hang=10)
    return lines


def _hosts(seen: Preflight) -> list[str]:
    ahead = clocks.offsets(seen.pairs)
    rows = [["host", "ranks", "GPUs", "own name is", "clock", "shm", "open files"]]
    for host in seen.hosts[:HOSTS_SHOWN]:
        ready = host.readiness
        name = ready.name_addresses[0] if ready and ready.name_addresses else "nothing"
        offset = f"{ahead[host.host][0] * 1e3:+.1f} ms" if host.host in ahead else units.UNKNOWN
        shm = ready.shm_bytes if ready else None
        files = ready.open_files if ready else None
        rows.append(
            [
                cell(printable(host.host), 20),
                str(len(host.ranks)) if host.ranks else units.UNKNOWN,
                str(len(host.gpus)),
                printable(name),
                offset,
                units.UNKNOWN if shm is None else units.size(shm),
                "unlimited" if files is None else str(files),
            ]
        )
    return _table(rows, len(seen.hosts) - HOSTS_SHOWN, "host")


def _ranks(hosts: Sequence[HostFacts]) -> list[str]:
    """Only where there is something to place: a GPU."""
    rows = [["rank", "host", "GPU", "NUMA", "CPUs", "their NUMA"]]
    places = [(host, place) for host in hosts if host.gpus for place in host.placements]
    for host, place in places[:RANKS_SHOWN]:
        nodes = {gpu.index: gpu.numa_node for gpu in host.gpus}
        node = nodes.get(place.gpu) if place.gpu is not None else None
        rows.append(
            [
                str(place.rank),
                cell(printable(host.host), 20),
                units.UNKNOWN if place.gpu is None else str(place.gpu),
                units.UNKNOWN if node is None else str(node),
                cell(place.cpus or units.UNKNOWN, 24),
                ",".join(map(str, place.numa_nodes)) or units.UNKNOWN,
            ]
        )
    return _table(rows, len(places) - RANKS_SHOWN, "rank") if len(rows) > 1 else []


def _networks(seen: Preflight) -> list[str]:
    rows = [["network", "interface", "reached", "round trip"]]
    by_network: dict[str, list[PreflightPair]] = {}
    for pair in seen.pairs:
        by_network.setdefault(pair.candidate, []).append(pair)
    named = {candidate.name: candidate for candidate in seen.candidates}
    for name, pairs in list(by_network.items())[:NETWORKS_SHOWN]:
        good = [pair for pair in pairs if pair.outcome == "ok"]
        times = sorted(pair.rtt_s for pair in good if pair.rtt_s is not None)
        interfaces = dict.fromkeys(named[name].interfaces.values()) if name in named else {}
        rows.append(
            [
                cell(printable(name), 20),
                cell(printable(", ".join(interfaces)), 20),
                f"{len(good)} of {len(pairs)} ways",
                units.time(times[len(times) // 2]) if times else units.UNKNOWN,
            ]
        )
    return _table(rows, len(by_network) - NETWORKS_SHOWN, "network") if len(rows) > 1 else []


def _table(rows: list[list[str]], more: int, noun: str) -> list[str]:
    if len(rows) == 1:
        return []
    text = tabulate(rows, tablefmt="plain", disable_numparse=True)
    lines = ["  " + line.rstrip() for line in text.splitlines()]
    return [*lines, f"  … {units.count(more, f'more {noun}')}"] if more > 0 else lines
