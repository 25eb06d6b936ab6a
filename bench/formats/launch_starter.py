"""What starts a launcher on the nodes: srun, mpirun, pdsh, ssh, and how often it does.

In: the words before the launcher, and what the batch script asks for. Out: a Starter. Only plain
numbers count; srun takes over what #SBATCH says unless its own options differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from bench.formats import host_list
from bench.formats.shell_script import Scope
from bench.formats.shell_words import EARLY, Word
from bench.records import BadInput, Starter

# Those that run one command line on several nodes, and those that run it on one.
SPREADING = (
    "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "pdsh", "clush",
    "parallel-ssh", "pssh", "ibrun", "jsrun", "aprun",
)  # fmt: skip
_SINGLE = ("ssh", "kubectl", "docker", "salloc")
_HOSTS = {
    "srun": ("-w", "--nodelist"),
    "pdsh": ("-w",),
    "clush": ("-w",),
    "pssh": ("-H",),
    "parallel-ssh": ("-H",),
}
_MPI_HOSTS = ("-H", "-host", "--host", "-hosts")
_GRES = re.compile(r"gpu:(?:[\w.-]+:)?(\d{1,4})")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")


def is_starter(name: str) -> bool:
    return name in SPREADING or name in _SINGLE


def of_batch(starter: Starter, scope: Scope) -> Starter:
    """With what the script's #SBATCH lines ask for."""
    if not scope.is_batch:
        return starter
    gres = _GRES.search(scope.batch.get("gres", ("", 0))[0])
    return msgspec.structs.replace(
        starter,
        batch_nodes=scope.number("nodes"),
        batch_line=scope.batch.get("nodes", scope.batch[""])[1],
        tasks_per_node=scope.number("ntasks-per-node"),
        gpus_per_node=scope.number("gpus-per-node") or (int(gres[1]) if gres else None),
        launchers=scope.number("ntasks"),
    )


def read(words: Sequence[Word], batch: Starter) -> Starter | None:
    """The starter that these words begin; None where they begin none."""
    name = words[0].text.rpartition("/")[2] if words else ""
    if name.startswith("$"):
        return msgspec.structs.replace(batch, name="unknown", launchers=None)
    if not is_starter(name):
        return None
    options = _options(words[1:])
    hosts = _hosts(name, words, options)
    if batch.name == "loop":  # once for each turn
        return msgspec.structs.replace(batch, launchers=None, hosts=())
    if name not in SPREADING:
        return msgspec.structs.replace(batch, name=name, launchers=1, hosts=hosts)
    launchers = per_node = None
    if name == "srun":
        gres = _GRES.search(options.get("--gres", ""))
        granted = _number(options, "--gpus-per-node") or (int(gres[1]) if gres else None)
        if granted is not None:
            batch = msgspec.structs.replace(batch, gpus_per_node=granted)
        own = any(option in options for option in ("-N", "--nodes"))
        nodes = _number(options, "-N", "--nodes") if own else batch.batch_nodes
        per_node = _number(options, "--ntasks-per-node") or batch.tasks_per_node
        launchers = _number(options, "-n", "--ntasks")
        if launchers is None and not any(o in options for o in ("-n", "--ntasks")):
            asked = nodes if own else len(hosts) or None
            if own and asked is None:
                launchers = None
            elif asked is None and per_node is None:
                launchers = batch.launchers or nodes
            elif (asked or nodes) is not None:
                launchers = (asked or nodes or 0) * (per_node or 1)
    elif name in ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"):
        launchers = _number(options, "-np", "-n", "--np", "-c")
        per_node = _number(options, "-ppn", "-npernode", "--npernode")
    elif hosts:
        launchers = len(hosts)
    if any(word.text.startswith(("$", EARLY)) for word in words):
        launchers = None  # more options, which nobody knows
    return msgspec.structs.replace(
        batch, name=name, launchers=launchers, hosts=hosts, tasks_per_node=per_node
    )


def _options(words: Sequence[Word]) -> dict[str, str]:
    """Every option with the word behind it, as far as that may be its value."""
    options: dict[str, str] = {}
    for at, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        name, sign, value = word.text.partition("=")
        glued = re.fullmatch(r"(-[NnwH])(\d\S*)", name)
        if glued:
            options[glued[1]] = glued[2]
            continue
        following = words[at + 1].text if at + 1 < len(words) else ""
        options[name] = value if sign else following
    return options


def _number(options: dict[str, str], *names: str) -> int | None:
    for name in names:
        text = options.get(name, "")
        if text.isascii() and text.isdecimal() and len(text) < 7:
            return int(text)
    return None


def _hosts(name: str, words: Sequence[Word], options: dict[str, str]) -> tuple[str, ...]:
    if name == "ssh":
        return _ssh_host(words)
    text = next((options[o] for o in _HOSTS.get(name, _MPI_HOSTS) if o in options), "")
    if not text or "$" in text:
        return ()
    try:
        return host_list.expand(re.sub(r":\d{1,4}(?=,|\Z)", "", text))
    except BadInput:
        return ()


_SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"  # ssh(1): options that take a value


def _ssh_host(words: Sequence[Word]) -> tuple[str, ...]:
    at = 1
    while at < len(words):
        text = words[at].text
        if not text.startswith("-"):
            host = text.rpartition("@")[2]
            return (host,) if _HOST.match(host) else ()
        at += 2 if len(text) == 2 and text[1] in _SSH_VALUES else 1
    return ()
