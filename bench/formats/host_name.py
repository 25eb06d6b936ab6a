"""The host that a file is about, from the file's name: hostA_ibv.txt, node07/ibstat.log.

In: a file's name. Out: a host's name, or None where the name only says what is in the file.
"""

from __future__ import annotations

import re
from pathlib import PurePath

# Words of file names that say what a file holds, when, or which run, and name no host.
_NO_HOST = frozenset({
    "ib", "ibv", "hca", "ibv_devinfo", "devinfo", "ibstat", "ibstatus", "ibdev2netdev", "rdma",
    "env", "environment", "environ", "vars", "variables", "export", "exports", "launch", "run",
    "start", "job", "step", "try", "attempt", "script", "txt", "log", "out", "err", "output",
    "conf", "config", "topo", "topology", "dump", "file", "lspci", "acs", "dmesg", "iommu",
    "cmdline", "kernel", "nvlink", "status", "p2p", "matrix", "peer", "nvidia", "smi", "nccl",
    "rank", "all", "before", "after", "as", "filed", "old", "new", "test", "tests", "perf",
    "bench", "measurements", "pairwise", "busbw", "pairs", "figures", "list", "default",
    "commands", "command", "info", "debug", "system", "mtu", "ports", "port", "hang", "works",
    "mpirun", "srun", "slurm", "sbatch", "worker", "train", "stdout", "stderr", "text", "sh",
    "csv", "xml", "tmp", "work", "home", "data", "cases", "reports", "logs", "v",
})  # fmt: skip
MAX_FOLDER = 20  # a folder's longer name is a title
_WORD = re.compile(r"[A-Za-z0-9-]+")
# What is left must look like a host: node07, hostA, dgx-12; not report, 2024-05-01 or 2.18.3.
_HOST = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9A-Z])[A-Za-z0-9][A-Za-z0-9.-]{0,62}\Z")


def of_file(file: str) -> str | None:
    """ "hostA" for hostA_ibv.txt and for hostA/ibv_devinfo.txt; None for env.txt."""
    path = PurePath(file)
    if file.startswith("<"):
        return None
    stem = path.name.partition(".")[0]
    return _left(stem) or (_left(path.parent.name) if _is_plain(path.parent.name) else None)


def _left(name: str) -> str | None:
    words = [word for word in re.split(r"[_\s]+", name) if word]
    # "ibstat-node3": the words of the format are cut at dashes as well
    words = [
        "-".join(part for part in word.split("-") if not _is_plain_word(part)) for word in words
    ]
    words = [word for word in words if word]
    return words[0] if len(words) == 1 and _HOST.match(words[0]) else None


def _is_plain_word(word: str) -> bool:
    """A word of _NO_HOST, numbered or not: run3."""
    return word.lower().rstrip("0123456789") in _NO_HOST


def _is_plain(folder: str) -> bool:
    """A folder that is called as a host is: one short word, no sentence."""
    return len(folder) <= MAX_FOLDER and len(_WORD.findall(folder)) == 1 and "-" not in folder[3:]
