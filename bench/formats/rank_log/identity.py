"""Whose log a file is, by its path: rank, local rank, attempt, host.

In: a path. Out: a Place. torchrun's tree is <run>/attempt_<n>/<local rank>/stderr.log; otherwise a
name tells a rank only where it says so (rank_17.log, host2/rank5.log.1.gz), for gpu3.log or
node1.log count something else. A number alone (0.log … 7.log) is left to whoever sees all files.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NamedTuple

from bench.formats import host_name

_TREE = re.compile(
    r"(?P<node>.*?)/?attempt_(?P<attempt>\d{1,4})/(?P<local>\d{1,5})/"
    r"(?:stdout|stderr|error)\.(?:log|json)(?:\.\w{1,4})*$"
)
_RANK = re.compile(r"(?<![a-z])(?:global[_-]?)?rank[_\-. =]{0,2}(?P<rank>\d{1,6})(?!\d)", re.I)
_LOCAL = re.compile(r"local[_-]?rank[_\-. =]{0,2}(?P<local>\d{1,5})(?!\d)", re.I)
_NO_RANK = re.compile(r"(?:local|machine|node|group|host)[_-]?rank", re.I)
_NUMBER = re.compile(r"\d{1,6}")
# A file called so belongs to a host or a launcher, which has several ranks.
_SEVERAL = re.compile(r"node|host|machine|agent|launch|console|master|slurm|dmesg|syslog", re.I)
_ROTATED = re.compile(r"(?:\.\d{1,3})?(?:\.(?:gz|old|bak))*$")


class Place(NamedTuple):
    """What a path tells; None what it does not. `base` is the name without a rotation's number."""

    base: str
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None
    node: str | None = None
    host: str | None = None
    number: int | None = None  # the only number in the name, where it may be a rank


def of(file: str) -> Place:
    """The place of a file in its job."""
    path = PurePath(file)
    if found := _TREE.match(path.as_posix()):
        node = found["node"]
        return Place(
            base=path.name,
            local_rank=int(found["local"]),
            attempt=int(found["attempt"]),
            node=node,
            host=_host(PurePath(node)),
        )
    base = _ROTATED.sub("", path.name)
    rank = local = None
    for name in (path.name, path.parent.name):
        if found := _LOCAL.search(name):
            local = int(found["local"])
        elif not _NO_RANK.search(name) and (found := _RANK.search(name)):
            rank = int(found["rank"])
        if rank is not None or local is not None:
            break
    numbers = _NUMBER.findall(base)
    alone = len(numbers) == 1 and not _SEVERAL.search(base) and local is None
    return Place(
        base=base,
        rank=rank,
        local_rank=local,
        host=_named(file),
        number=int(numbers[0]) if alone else None,
    )


# Files and folders are mostly called after a run (exp3, try2): these words make it a host's.
_HOST_WORDS = re.compile(
    r"(?:node|host|gpu|worker|compute|server|dgx|hgx|rack|cn|ip|nid|n)-?\w{0,20}[0-9A-Z]", re.I
)


def _named(file: str) -> str | None:
    """ "hostA" for hostA_rank0.log and for host2/rank_3.log; None for exp3/rank_3.log."""
    host = host_name.of_file(file)
    path = PurePath(file)
    if host is None:
        return None
    if host_name.of_file(path.name) == host and _RANK.search(path.name):
        return host  # what else stands beside a rank
    return host if _HOST_WORDS.fullmatch(host) else None


def _host(folder: PurePath) -> str | None:
    """ "host2" for runs/host2/none_k3j_x9/attempt_0: a run's own folder names no host."""
    for part in reversed(folder.parts[-3:]):
        if "_" not in part and (host := host_name.of_file(f"{part}/stderr.log")):
            return host
    return None
