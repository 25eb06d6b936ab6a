"""Tables of nccl-tests that ran on two hosts each, as figures of pairs.

In: a dossier's tables. Out: a PlainFigure per table of two hosts: its plateau, the hosts that its
devices name, else those that its file is called by ("hostA-hostB.txt", "pair_n-01_n-02.log").
Names of files are believed only where three tables or more are called alike.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath

from bench.model.table_level import level
from bench.records import Dossier, PlainFigure

FEWEST_NAMED = 3
MOST_TABLES = 20_000
# What may stand between two hosts, the surest first; a dash stands inside names as well.
JOINTS = ("<->", "__", "_vs_", "-vs-", "_to_", "-to-", ",", "+", "_", "-")
PLAIN = frozenset({
    "all", "reduce", "gather", "scatter", "allreduce", "allgather", "reducescatter", "alltoall",
    "broadcast", "sendrecv", "send", "recv", "perf", "nccl", "rccl", "tests", "test", "pair",
    "pairs", "pairwise", "out", "log", "output", "result", "results", "busbw", "bw", "run", "mpi",
})  # fmt: skip
_ENDINGS = re.compile(r"(?:\.(?:txt|log|out|csv|json|gz))+\Z")
_SIZE = re.compile(r"\d{1,15}[KMGT]?i?B?\Z", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,62}\Z")


def figures(dossier: Dossier) -> tuple[PlainFigure, ...]:
    """In the order of the tables. `quantity` is the collective, for only like is compared."""
    named = _named(dossier)
    found = []
    for at, table in enumerate(dossier.tables[:MOST_TABLES]):
        hosts = tuple(dict.fromkeys(table.hosts))
        pair = hosts if len(hosts) == 2 else () if hosts else named.get(at, ())
        reached = level(table) if len(pair) == 2 and table.runs == 1 else None
        if reached is not None:
            found.append(
                PlainFigure(
                    file=table.file,
                    line=table.line,
                    busbw_gbs=reached.plateau,
                    hosts=pair,
                    ranks=table.ranks,
                    size_bytes=reached.to_bytes,
                    quantity=table.collective,
                )
            )
    return tuple(found)


def _named(dossier: Dossier) -> dict[int, tuple[str, str]]:
    """By a table's place the two hosts that its file is called by."""
    stems = {
        at: _bare(PurePath(table.file).name)
        for at, table in enumerate(dossier.tables[:MOST_TABLES])
        if not table.hosts
    }
    found = {at: pair for at, stem in stems.items() if (pair := pair_of(stem)) is not None}
    if len({frozenset(pair) for pair in found.values()}) < FEWEST_NAMED:
        return {}
    # In a set of pairs hosts come again; versions and dates in names do not.
    again = Counter(host for pair in set(found.values()) for host in pair)
    return found if max(again.values()) > 1 else {}


def _bare(name: str) -> str:
    """Without endings and words that say what is in a file: "hostA-hostB" of
    "all_reduce_hostA-hostB.txt"."""
    stem = _ENDINGS.sub("", name)
    kept = "_".join(word for word in stem.split("_") if not _is_plain(word))
    return "-".join(word for word in kept.split("-") if word.lower() not in PLAIN)


def _is_plain(word: str) -> bool:
    return word.lower() in PLAIN or bool(_SIZE.match(word))


def pair_of(stem: str) -> tuple[str, str] | None:
    """ "hostA-hostB", "node-01_node-02", "gpu-a-07-gpu-b-09": two names that begin alike and have
    as many parts."""
    for joint in JOINTS:
        parts = stem.split(joint)
        if len(parts) % 2:
            continue
        half = len(parts) // 2
        one, other = joint.join(parts[:half]), joint.join(parts[half:])
        if _alike(one, other):
            return one, other
    return None


def _alike(one: str, other: str) -> bool:
    if one == other or not _HOST.match(one) or not _HOST.match(other):
        return False
    as_many = len(re.split("[-.]", one)) == len(re.split("[-.]", other))
    return as_many and one[:2].lower() == other[:2].lower()
