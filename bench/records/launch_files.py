"""What files say of how a job is started: configurations, commands, lists of hosts.

Every value keeps the place where it stands. Nothing is judged and nothing expanded here; a value
that still holds a variable of the shell is text with a dollar in it.
"""

from __future__ import annotations

from typing import Literal

from bench.records.words import Record


class Setting(Record, frozen=True, kw_only=True):
    """One value and its place. `basis`: a line of a file, an option of a command, or what the
    launcher takes where nothing is said."""

    value: str | int | float | bool | None
    file: str = ""
    line: int | None = None
    basis: Literal["file", "command", "default"] = "file"


class AccelerateConfig(Record, frozen=True, kw_only=True):
    """One configuration of Accelerate, of a file of its own or as `accelerate env` prints it.

    `values`: the top level without its sections; `sections`: fsdp_config and the like, by key;
    `section_lines`: where they begin. `twice`: keys that stand twice, with the line of the second.
    `name`: of the file that a script writes it to; `file` is the script then.
    """

    file: str
    line: int = 1
    name: str = ""
    form: Literal["yaml", "json", "text", "report"] = "yaml"
    values: dict[str, Setting] = {}
    sections: dict[str, dict[str, Setting]] = {}
    section_lines: dict[str, int] = {}
    twice: tuple[tuple[str, int], ...] = ()


class DeepspeedConfig(Record, frozen=True, kw_only=True):
    """A DeepSpeed JSON file; `values` by dotted path, such as zero_optimization.stage."""

    file: str
    values: dict[str, Setting] = {}


class HostLine(Record, frozen=True, kw_only=True):
    """One host of a list: its addresses (/etc/hosts) or its GPUs (a host file's slots)."""

    file: str
    line: int
    host: str
    addresses: tuple[str, ...] = ()
    gpus: int | None = None


class Starter(Record, frozen=True, kw_only=True):
    """What starts a command, if anything does: srun, ssh, pdsh, mpirun; "function" in the body of
    one, "loop" where it may be repeated. `launchers`: how often it is started, where that is said;
    `hosts`: where. `batch_nodes`, `gpus_per_node`: what the batch script around it asks for."""

    name: str = ""
    launchers: int | None = None
    hosts: tuple[str, ...] = ()
    tasks_per_node: int | None = None
    batch_nodes: int | None = None
    batch_line: int | None = None
    gpus_per_node: int | None = None


class LaunchCommand(Record, frozen=True, kw_only=True):
    """One command that starts a job: `accelerate launch`, torchrun or deepspeed.

    `options` by name with underscores; a switch is True. `unknown`: options that the launcher does
    not have, as far as we know. `early`: options whose variable the batch script's own shell fills
    in, before the nodes do, with that variable. `program`: the first word that is no option.
    `more`: a variable among the options may hold others.
    """

    file: str
    line: int
    launcher: Literal["accelerate", "torchrun", "deepspeed"]
    text: str
    options: dict[str, Setting] = {}
    unknown: dict[str, Setting] = {}
    early: dict[str, str] = {}
    program: str = ""
    program_after: str = ""  # the switch right before it, if one is
    more: bool = False
    starter: Starter = Starter()


class NodeLaunch(Record, frozen=True, kw_only=True):
    """What one node would start, as torchrun would get it; None where the files do not say.

    `how`: torchrun (through Accelerate or itself), deepspeed, or one plain process. `values_from`:
    the places of what decided, as file:line.
    """

    file: str
    line: int | None = None
    how: Literal["torchrun", "deepspeed", "process"] = "torchrun"
    nodes: int | None = None
    node_rank: int | None = None
    processes_per_node: int | None = None
    address: str | None = None
    port: int | None = None
    rendezvous: str = "static"
    command: str = ""
