"""Which launch files belong to one job.

In: configurations, commands, DeepSpeed files and lists of hosts. Out: Jobs of Nodes. Files are of
one job where their names differ only in the node (node0.yaml, node1.yaml; a folder per node),
where they meet at one place, or where ranks of one count complete each other. A folder of
templates is many jobs: what is not of one job is never compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from bench.hang.accelerate import file_names, values
from bench.hang.accelerate.nodes import Node
from bench.records import AccelerateConfig, DeepspeedConfig, HostLine, LaunchCommand

_LOOPBACK = re.compile(r"127\.|localhost|0\.0\.0\.0|::1?$", re.IGNORECASE)
DEFAULT_NAME = "default_config"


@dataclass(frozen=True)
class Job:
    """`nodes`: in order of their ranks where they have some. `hosts`: lists that stand beside.
    `spread`: scripts in which something starts a launcher on other hosts."""

    nodes: tuple[Node, ...]
    hosts: tuple[HostLine, ...] = ()
    spread: frozenset[str] = frozenset()

    @property
    def machines(self) -> int | None:
        """How many machines the job has, by most of its nodes."""
        told = [node.machines for node in self.nodes if node.machines is not None]
        return max(sorted(set(told)), key=told.count) if told else None

    @property
    def several(self) -> tuple[Node, ...]:
        """Nodes that expect others."""
        return tuple(node for node in self.nodes if (node.machines or 0) > 1)


@dataclass
class LaunchFiles:
    """All that is at hand."""

    configs: Sequence[AccelerateConfig] = ()
    commands: Sequence[LaunchCommand] = ()
    deepspeed: Sequence[DeepspeedConfig] = ()
    hosts: Sequence[HostLine] = field(default_factory=tuple)

    def __bool__(self) -> bool:
        return bool(self.configs or self.commands)


def together(files: LaunchFiles) -> list[Job]:
    """The jobs, in the order of their first files."""
    nodes = [_with_deepspeed(node, files) for node in _nodes(files)]
    groups = _Groups(len(nodes))
    for keys in (_names(nodes), _meetings(nodes), _scripts(nodes)):
        for members in keys.values():
            for other in members[1:]:
                groups.join(members[0], other)
    jobs = []
    gathered = _completed(nodes, groups.all())
    spread = frozenset(each.file for each in files.commands if each.starter.name)
    for members in gathered:
        own = [nodes[at] for at in members]
        own.sort(key=lambda node: (node.rank is None, node.rank or 0))
        listed = tuple(
            line
            for line in files.hosts
            if len(gathered) == 1 or file_names.are_near(line.file, own[0].file)
        )
        jobs.append(Job(tuple(own), listed, spread))
    return jobs


# --- nodes ------------------------------------------------------------------------------------


def _nodes(files: LaunchFiles) -> list[Node]:
    """Commands with their configurations, then configurations that no command names."""
    used: set[int] = set()
    nodes: list[Node] = []
    for command in files.commands:
        found = _configs_of(command, files)
        for config in found:
            used.add(id(config))
            nodes.append(Node(config, command))
        if not found:
            nodes.append(Node(None, command, complete=command.launcher == "torchrun"))
    nodes += [Node(config, None) for config in files.configs if id(config) not in used]
    return nodes


def _configs_of(command: LaunchCommand, files: LaunchFiles) -> list[AccelerateConfig]:
    """The configuration that a command uses: by its name; by being the only one."""
    if command.launcher != "accelerate" or not files.configs:
        return []
    named = command.options.get("config_file")
    if named is None:
        # without the option it is the host's default one, if there is any
        return [
            config
            for config in files.configs
            if (config.form == "report" or PurePath(_name(config)).stem == DEFAULT_NAME)
            and (len(files.configs) == 1 or file_names.are_near(config.file, command.file))
        ]
    wanted = PurePath(str(named.value)).name
    pattern = _with_variables(wanted)
    found = [config for config in files.configs if pattern.fullmatch(_name(config))]
    if len(found) > 1:
        path = str(named.value).lstrip("./")
        exact = [config for config in found if config.file.endswith(f"/{path}")]
        near = [config for config in found if file_names.are_near(config.file, command.file)]
        found = exact if len(exact) == 1 and "/" in path else near or found
    if not found and len(files.configs) == 1 and _only_name(files) and not values.is_open(named):
        return list(files.configs)
    return found


def _name(config: AccelerateConfig) -> str:
    return PurePath(config.name or config.file).name


# "node_${SLURM_NODEID}.yaml": a file for each value of the variable
_VARIABLE = re.compile(r"\$\{?\w+\}?|\$\([^)]*\)")


def _with_variables(name: str) -> re.Pattern[str]:
    """The file's name; a variable stands for anything, but not alone for the whole name."""
    parts = _VARIABLE.split(name)
    if not "".join(parts).removesuffix(".yaml").removesuffix(".yml"):
        return re.compile(re.escape(name))
    return re.compile("[\\w.-]*".join(map(re.escape, parts)))


def _only_name(files: LaunchFiles) -> bool:
    """All commands name one configuration: then the one at hand, under another name, is it."""
    told = [command.options.get("config_file") for command in files.commands]
    return len({str(each.value) for each in told if each is not None}) == 1 and None not in told


def _with_deepspeed(node: Node, files: LaunchFiles) -> Node:
    named = node.of_section("deepspeed_config", "deepspeed_config_file")
    if named is None or not isinstance(named.value, str):
        return node
    wanted = PurePath(named.value).name
    found = [each for each in files.deepspeed if PurePath(each.file).name == wanted]
    if len(found) > 1:
        found = [each for each in found if file_names.are_near(each.file, node.file)]
    return replace(node, deepspeed=found[0]) if len(found) == 1 else node


# --- what belongs together ----------------------------------------------------------------------


def _names(nodes: Sequence[Node]) -> dict[tuple[str, str], list[int]]:
    """Nodes by the names of their files without what names the node: configurations, and scripts
    of one command each. Bare numbers number experiments as well: they count where the ranks
    differ, or where nothing else does."""
    keys: dict[tuple[str, str], list[int]] = {}
    scripts = Counter(node.command.file for node in nodes if node.command)
    for at, node in enumerate(nodes):
        if node.config is not None:
            members = keys.setdefault(("config", file_names.without_node(_place(node.config))), [])
            if all(nodes[other].config is not node.config for other in members):
                members.append(at)
        if node.command is not None and scripts[node.command.file] == 1:
            keys.setdefault(("script", file_names.without_node(node.command.file)), []).append(at)
    found = {}
    for key, members in keys.items():
        several = [nodes[at] for at in members]
        if len(members) < 2 or not any(_is_of_many(node) for node in several):
            continue
        if not file_names.is_by_number(key[1]) or _have_own_ranks(several) or _are_copies(several):
            found[key] = members
    return found


def _place(config: AccelerateConfig) -> str:
    """The file's name; several in one text may be nodes' or one person's attempts."""
    return f"{config.file}/0.text" if config.form == "text" else config.file


def _have_own_ranks(nodes: Sequence[Node]) -> bool:
    ranks = [node.rank for node in nodes]
    return None not in ranks and len(set(ranks)) == len(ranks)


def _are_copies(nodes: Sequence[Node]) -> bool:
    """As many files as machines, that are the same but for what may differ between nodes."""
    texts = set()
    for node in nodes:
        held = {**(node.config.values if node.config else {})}
        held |= node.command.options if node.command else {}
        fields = {k: str(s.value) for k, s in held.items() if k not in ("machine_rank", "gpu_ids")}
        texts.add(str(sorted(fields.items())))
    return len(texts) == 1 and len(nodes) == nodes[0].machines


def _is_of_many(node: Node) -> bool:
    return (node.machines or 1) > 1 or (node.rank or 0) > 0


def _meetings(nodes: Sequence[Node]) -> dict[tuple[object, ...], list[int]]:
    """Nodes that go to one address and port, with one count of machines."""
    keys: dict[tuple[object, ...], list[int]] = {}
    for at, node in enumerate(nodes):
        address, port = (values.text(each) for each in node.endpoint)
        if address is None or (node.machines or 0) < 2 or _LOOPBACK.match(address):
            continue
        if node.rank is None or node.config is None:
            continue
        around = PurePath(node.file).parent.parent  # of a folder for each node
        keys.setdefault((around, address, port, node.machines, node.rank), []).append(at)
    meetings: dict[tuple[object, ...], list[int]] = {}
    for (*where, _rank), members in keys.items():
        if len(members) == 1:  # of two with one rank each may be a job's own variant
            meetings.setdefault(tuple(where), []).extend(members)
    return meetings


def _scripts(nodes: Sequence[Node]) -> dict[tuple[object, ...], list[int]]:
    """Commands of one script that go to different hosts, or that have different ranks. Several
    commands for one and the same rank may run one after another."""
    keys: dict[tuple[str, str, int], list[int]] = {}
    for at, node in enumerate(nodes):
        machines = node.machines or 0
        if node.command is not None and machines > 1:
            key = (node.command.file, node.command.launcher, machines)
            keys.setdefault(key, []).append(at)
    found: dict[tuple[object, ...], list[int]] = {}
    for script, members in keys.items():
        hosts = [_commanded(nodes[at]).starter.hosts for at in members]
        apart = all(hosts) and len(set(hosts)) == len(hosts)
        ranks = [nodes[at].rank for at in members]
        numbered = None not in ranks and len(set(ranks)) == len(ranks)
        if len(members) > 1 and (apart or numbered) and len(members) <= script[2]:
            found[script] = members
    return found


def _commanded(node: Node) -> LaunchCommand:
    assert node.command is not None, "asked of nodes with a command only"
    return node.command


def _completed(nodes: Sequence[Node], groups: list[list[int]]) -> list[list[int]]:
    """Single nodes of one count whose ranks differ, and make no more than that count."""
    alone: dict[tuple[object, ...], list[int]] = {}
    rest = []
    for group in groups:
        node = nodes[group[0]]
        if len(group) == 1 and node.config and (node.machines or 0) > 1 and node.rank is not None:
            around = PurePath(node.file).parent.parent
            alone.setdefault((around, node.machines, node.kind), []).append(group[0])
        else:
            rest.append(group)
    for members in alone.values():
        ranks = [nodes[at].rank for at in members]
        if len(set(ranks)) == len(ranks) and len(ranks) <= (nodes[members[0]].machines or 0):
            rest.append(members)
        else:
            rest += [[at] for at in members]
    return sorted(rest)


class _Groups:
    """Members that were joined, directly or through others."""

    def __init__(self, size: int) -> None:
        self._above = list(range(size))

    def top(self, at: int) -> int:
        while self._above[at] != at:
            self._above[at] = self._above[self._above[at]]
            at = self._above[at]
        return at

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.top(one), self.top(other)))
        self._above[second] = first

    def all(self) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for at in range(len(self._above)):
            groups.setdefault(self.top(at), []).append(at)
        return list(groups.values())
