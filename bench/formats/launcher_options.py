"""The options of `accelerate launch`, torchrun and deepspeed, as their own parsers take them.

In: the words behind the launcher's name. Out: options by name with underscores, the program, and
the switch right before it, if one is: a switch takes no value, so "--same_network true" makes a
program of "true". From accelerate/commands/launch.py (0.12 to 1.15), torch/distributed/run.py and
deepspeed/launcher/runner.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.formats.shell_words import EARLY, LATE, Word

# Options of Accelerate that take no value.
_ACCELERATE_SWITCHES = frozenset((
    "quiet", "cpu", "multi_gpu", "tpu", "enable_cpu_affinity", "dynamo_use_fullgraph",
    "dynamo_use_dynamic", "dynamo_use_regional_compilation", "use_deepspeed", "use_fsdp",
    "use_parallelism_config", "use_megatron_lm", "same_network", "module", "no_python",
    "tpu_cluster", "no_tpu_cluster", "tpu_use_sudo", "downcast_bf16",
    "fp8_use_autocast_during_eval", "debug", "help", "use_xpu", "ipex", "use_mps_device", "fp16",
))  # fmt: skip
_ACCELERATE_VALUES = frozenset((
    "config_file", "mixed_precision", "num_processes", "num_machines",
    "num_cpu_threads_per_process", "dynamo_backend", "dynamo_mode", "gpu_ids", "machine_rank",
    "main_process_ip", "main_process_port", "tee", "log_dir", "role", "rdzv_backend", "rdzv_conf",
    "max_restarts", "monitor_interval", "vm", "env", "main_training_function", "zero_stage",
    "offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path",
    "offload_param_nvme_path", "gradient_accumulation_steps", "gradient_clipping",
    "zero3_init_flag", "zero3_save_16bit_model", "aws_access_key_id", "aws_secret_access_key",
    "mpirun_hostfile", "mpirun_ccl",
))  # fmt: skip
_ACCELERATE_FAMILIES = ("deepspeed_", "fsdp_", "megatron_lm_", "fp8_", "parallelism_config_")
_TORCHRUN_SWITCHES = frozenset(
    ("standalone", "no_python", "run_path", "module", "use_env", "no_use_env", "help")
)
TORCHRUN_VALUES = frozenset((
    "nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "rdzv_backend",
    "rdzv_endpoint", "rdzv_id", "rdzv_conf", "max_restarts", "monitor_interval", "start_method",
    "role", "log_dir", "redirects", "tee", "local_ranks_filter", "local_addr",
    "logs_specs", "event_log_handler", "numa_binding", "shutdown_timeout",
))  # fmt: skip
_DEEPSPEED_SWITCHES = frozenset((
    "module", "no_python", "no_local_rank", "no_ssh", "force_multi", "save_pid", "no_ssh_check",
    "enable_each_rank_log", "bind_cores_to_rank", "help", "elastic_training", "quick_start",
))  # fmt: skip
_DEEPSPEED_VALUES = frozenset((
    "hostfile", "include", "exclude", "num_nodes", "min_elastic_nodes", "max_elastic_nodes",
    "num_gpus", "master_port", "master_addr", "node_rank", "launcher", "launcher_args",
    "autotuning", "bind_core_list", "ssh_port", "venv_script",
))  # fmt: skip
_DOLLARS = ("$", EARLY, LATE)
# Variables that are called after what they hold: "$SCRIPT", "$PY_FILE", "${TRAIN_CMD}".
_PROGRAM = re.compile(r"script|prog|py|file|cmd|main|train|entry|run\b|\$\{?[0-9]", re.IGNORECASE)
_SHORT = {
    "accelerate": {"q": "quiet", "t": "tee", "m": "module", "h": "help"},
    "torchrun": {"m": "module", "r": "redirects", "t": "tee", "h": "help"},
    "deepspeed": {"H": "hostfile", "i": "include", "e": "exclude", "h": "help"},
}
_SWITCHES = {
    "accelerate": _ACCELERATE_SWITCHES,
    "torchrun": _TORCHRUN_SWITCHES,
    "deepspeed": _DEEPSPEED_SWITCHES,
}
_VALUES = {
    "accelerate": _ACCELERATE_VALUES,
    "torchrun": TORCHRUN_VALUES,
    "deepspeed": _DEEPSPEED_VALUES,
}


@dataclass
class Parsed:
    """`unknown`: options that the launcher has in no release read here. `more`: a variable among
    them may hold others."""

    options: dict[str, Word] = field(default_factory=dict)
    switches: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, Word] = field(default_factory=dict)
    program: Word | None = None
    after: str = ""
    more: bool = False


def parse(launcher: str, words: Sequence[Word]) -> Parsed:
    """The launcher's own options: up to the first word that is neither option nor value."""
    found = Parsed()
    at = 0
    last_switch = ""
    while at < len(words):
        word = words[at]
        if word.text in ("", "\\"):  # a continuation with a blank behind it
            at += 1
            continue
        if word.text[:1] in _DOLLARS and not _PROGRAM.search(word.text):
            found.more = True  # "$ARGS": more options, or the program
            last_switch = ""
            at += 1
            continue
        if not word.text.startswith("-") or word.text in ("-", "--"):
            found.program = word
            found.after = last_switch
            return found
        name, sign, value = word.text.partition("=")
        option = _named(launcher, name)
        last_switch = ""
        if option in _SWITCHES[launcher]:
            found.switches[option] = word.line
            last_switch = option if not sign else ""
        elif sign:
            _keep(found, launcher, option, Word(value, word.line))
        elif at + 1 < len(words):
            at += 1
            _keep(found, launcher, option, Word(words[at].text, word.line))
        at += 1
    return found


def _named(launcher: str, text: str) -> str:
    if text.startswith("--"):
        return text[2:].replace("-", "_")
    return _SHORT[launcher].get(text[1:], text[1:])


def _keep(found: Parsed, launcher: str, option: str, value: Word) -> None:
    known = option in _VALUES[launcher]
    if launcher == "accelerate":
        known = known or option.startswith(_ACCELERATE_FAMILIES)
    (found.options if known else found.unknown)[option] = value
