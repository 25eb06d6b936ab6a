"""One node's launch: the command line over the file over what the launcher takes by itself.

In: a configuration, a command, or both. Out: a Node that answers for each value, and the
NodeLaunch that torchrun would get. The rules are those of accelerate/commands/launch.py and
utils/launch.py, releases 0.20 to 1.15: rdzv_backend and same_network of the file are never looked
at, for the command line's own defaults stand in their way.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.hang.accelerate import values
from bench.records import AccelerateConfig, DeepspeedConfig, LaunchCommand, Setting

_DEFAULTS: dict[str, int | str] = {"machine_rank": 0, "num_machines": 1}
_SWITCHES = (
    ("use_deepspeed", "DEEPSPEED"),
    ("use_fsdp", "FSDP"),
    ("use_megatron_lm", "MEGATRON_LM"),
    ("multi_gpu", "MULTI_GPU"),
    ("tpu", "XLA"),
)
# Those for which Accelerate starts torchrun's agent on each machine.
AGENTS = (
    "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU",
    "MULTI_NEURON", "FSDP", "MEGATRON_LM", "DEEPSPEED",
)  # fmt: skip
TYPES = (*AGENTS, "NO", "MULTI_CPU", "XLA", "TPU")
SECTION_OF = {"fsdp_": "fsdp_config", "parallelism_config_": "parallelism_config"}
STANDARD = "standard"


@dataclass(frozen=True)
class Node:
    """`complete`: the configuration that the command uses is at hand, so a value that stands
    nowhere is not set. `deepspeed`: the file that its configuration names, if at hand."""

    config: AccelerateConfig | None
    command: LaunchCommand | None
    complete: bool = True
    deepspeed: DeepspeedConfig | None = None

    @property
    def file(self) -> str:
        return self.config.file if self.config else self.command.file if self.command else ""

    @property
    def line(self) -> int | None:
        source = self.command or self.config
        return source.line if source else None

    @property
    def is_torchrun(self) -> bool:
        return self.command is not None and self.command.launcher == "torchrun"

    @property
    def is_accelerate(self) -> bool:
        return self.command is None or self.command.launcher == "accelerate"

    def option(self, name: str) -> Setting | None:
        return self.command.options.get(name) if self.command else None

    def of_file(self, name: str) -> Setting | None:
        return self.config.values.get(name) if self.config else None

    def get(self, name: str) -> Setting | None:
        """The value that counts; None where none is set, or where it is not at hand. Not for
        rdzv_backend and same_network, which are read from the command line only: `option`."""
        option = self.option(name)
        if option is not None or self._has_more:
            return option
        told = self.of_file(name)
        if told is not None and told.value is not None:
            return told
        if name == "num_processes" and self._is_single:
            return Setting(value=1, basis="default")
        if name in _DEFAULTS and self.config is not None and self.is_accelerate:
            return Setting(value=_DEFAULTS[name], basis="default")
        return None

    @property
    def _has_more(self) -> bool:
        """A variable among the options may set anything that no plain option sets."""
        return self.command is not None and self.command.more

    def of_section(self, section: str, key: str) -> Setting | None:
        """A value of a section; a command-line option of its name goes first."""
        option = self.option(key)
        if option is not None or self._has_more:
            return option
        held = self.config.sections.get(section, {}) if self.config else {}
        prefix = section.removesuffix("_config") + "_"
        told = held.get(key)
        return told if told is not None else held.get(key.removeprefix(prefix))

    def number(self, name: str) -> int | None:
        return values.number(self.get(name))

    def text(self, name: str) -> str | None:
        return values.text(self.get(name))

    def is_absent(self, name: str) -> bool:
        """Set nowhere, and all that could set it is at hand."""
        return self.get(name) is None and self.complete and not self._has_more

    @property
    def _is_single(self) -> bool:
        """Type NO in quotes: the number of processes is 1 where none is set."""
        told = self.of_file("distributed_type")
        return told is not None and told.value == "NO"

    @property
    def kind(self) -> str | None:
        """The distributed type that counts; None where it is not at hand."""
        if not self.is_accelerate:
            return None
        if self.option("cpu") is not None:
            return "NO"
        for switch, kind in _SWITCHES:
            if self.option(switch) is not None:
                return kind
        told = self.of_file("distributed_type")
        if told is None or self._has_more:
            return None
        return "NO" if told.value is False else str(told.value).strip()

    @property
    def machines_setting(self) -> Setting | None:
        return self.option("nnodes") if self.is_torchrun else self.get("num_machines")

    @property
    def machines(self) -> int | None:
        """num_machines, or torchrun's nnodes."""
        if self.is_torchrun:
            if self.option("standalone") is not None:
                return 1
            told = self.option("nnodes")
            if told is None:
                return None if self._has_more else 1
            return values.number(told)
        return self.number("num_machines")

    @property
    def rank(self) -> int | None:
        return values.number(self.rank_setting)

    @property
    def rank_setting(self) -> Setting | None:
        return self.option("node_rank") if self.is_torchrun else self.get("machine_rank")

    @property
    def per_machine(self) -> int | None:
        """Processes on this machine."""
        if self.is_torchrun:
            told = self.option("nproc_per_node")
            if told is None:
                return None if self._has_more else 1
            return values.number(told)
        total, machines = self.number("num_processes"), self.machines
        if total is None or total < 0 or not machines or machines < 1:
            return None
        return total // machines

    @property
    def endpoint(self) -> tuple[Setting | None, Setting | None]:
        """Address and port of the meeting, as they are set."""
        if not self.is_torchrun:
            return self.get("main_process_ip"), self.get("main_process_port")
        meeting = self.option("rdzv_endpoint")
        if meeting is None:
            return self.option("master_addr"), self.option("master_port")
        told = str(meeting.value)
        address, colon, port = told.rpartition(":")
        if values.is_open(meeting) or not colon:
            return meeting, None
        return _part(meeting, address.strip("[]")), _part(meeting, port)

    @property
    def backend(self) -> str:
        told = values.word(self.option("rdzv_backend"))
        return told or ("open" if self._has_more else "static")

    @property
    def uses_mpirun(self) -> bool:
        """Of several processes on CPUs mpirun starts the others."""
        held = self.config.sections.get("mpirun_config") if self.config else None
        return bool(held) or self.option("mpirun_hostfile") is not None

    @property
    def has_own_file(self) -> bool:
        """The command names a file by a variable: each node takes another."""
        named = self.option("config_file")
        return named is not None and values.is_open(named) and self.config is not None

    @property
    def ranks_count(self) -> bool:
        """Whether the node's rank decides anything: static meetings only, and no launcher that
        starts the other machines itself."""
        if self.is_accelerate and self.kind is not None and self.kind not in AGENTS:
            return False
        return self.backend == "static" and not self.starts_others

    @property
    def starts_others(self) -> bool:
        """DeepSpeed's own launchers log in to the other machines; Accelerate runs on one."""
        if self.kind != "DEEPSPEED" or self.machines == 1:
            return False
        return self.deepspeed_launcher not in (STANDARD, "nossh", None)

    @property
    def deepspeed_launcher(self) -> str | None:
        """None where a value stands that nobody knows."""
        told = self.of_section("deepspeed_config", "deepspeed_multinode_launcher")
        if told is None or told.value is None:
            return "pdsh" if self.complete and not self._has_more else None
        return values.word(told)


def _part(setting: Setting, value: str) -> Setting:
    return Setting(value=value, file=setting.file, line=setting.line, basis=setting.basis)
