"""Configurations of Accelerate: its YAML or JSON file, or the same as `accelerate env` prints it.

In: the file; several documents in one are several nodes' configurations. Out: AccelerateConfigs
with the line of every value. Fields are those of ClusterConfig in accelerate/commands/config/
config_args.py, releases 0.12 to 1.15; values are kept as they stand, known field or not.
"""

from __future__ import annotations

import re
from pathlib import PurePath

import msgspec

from bench.formats import shell_sums, yaml_tree
from bench.formats.source import Source
from bench.formats.yaml_tree import Branch, Leaf, Tree
from bench.records import AccelerateConfig, BadInput, Setting

KIND = "Accelerate config"

# Top-level fields of some release; a file with any other is refused by Accelerate.
FIELDS = frozenset((
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug",
    "num_processes", "machine_rank", "num_machines", "gpu_ids", "main_process_ip",
    "main_process_port", "rdzv_backend", "same_network", "main_training_function",
    "enable_cpu_affinity", "fp8_config", "deepspeed_config", "fsdp_config", "parallelism_config",
    "megatron_lm_config", "ipex_config", "mpirun_config", "downcast_bf16", "tpu_name", "tpu_zone",
    "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env",
    "dynamo_config", "dynamo_backend", "fp16",
))  # fmt: skip
_HEREDOC = re.compile(r"<<-?\s?[\"'\\]?[A-Za-z_]")
_TELLING = frozenset(("num_machines", "machine_rank", "main_process_ip", "main_process_port"))
LEAST_FIELDS = 3  # known ones, of a file that names neither of the two below
_NAMED = re.compile(r"^[\"']?(?:compute_environment|distributed_type)[\"']?[ \t]*:", re.MULTILINE)
_KEY = re.compile(r"^[\"']?([a-z_0-9]{2,40})[\"']?[ \t]*:", re.MULTILINE)
_JSON_KEY = re.compile(r'^[ \t]*"(?:compute_environment|distributed_type)"\s*:', re.MULTILINE)
# "- `Accelerate` default config:" and under it "\t- num_processes: 8", deeper for sections.
_REPORT = re.compile(
    r"^[-\s`]{0,8}[Aa]ccelerate`? (?:default config|config passed):", re.MULTILINE
)
_REPORT_LINE = re.compile(r"^(?P<indent>[ \t]{1,24})-[ \t](?P<key>\w{2,64}):[ \t]?(?P<value>.*)$")


def likeness(head: str, name: str) -> float:
    """1 for the two fields that every such file has, at the beginning of lines."""
    start = head.lstrip()
    if start.startswith(("#!", "<")) or _HEREDOC.search(shell_sums.blanked(head)):
        return 0.0  # a script that writes one
    if start.startswith("{"):
        return 1.0 if len(_JSON_KEY.findall(head)) > 0 else 0.0
    if _REPORT.search(head):
        return 1.0 if "distributed_type" in head else 0.0
    yaml_name = PurePath(name).suffix in (".yaml", ".yml")
    known = FIELDS & set(_KEY.findall(head))
    if _NAMED.search(head) and len(known) > 1 and (yaml_name or _is_most(head)):
        return 1.0
    telling = known & _TELLING  # of a file that somebody has trimmed
    return 0.9 if yaml_name and len(known) >= LEAST_FIELDS and len(telling) > 1 else 0.0


def _is_most(head: str) -> bool:
    """A text that is a configuration for the most part, not a log that prints one."""
    lines = [line for line in head.split("\n") if line.strip()]
    return 3 * len(_KEY.findall(head)) >= len(lines)


def read(source: Source) -> tuple[AccelerateConfig, ...]:
    """The configurations; BadInput for a file that cannot be one."""
    if _REPORT.search(source.head()):
        return (_report(source),)
    if source.size_bytes > yaml_tree.MOST_BYTES:
        limit = f"is larger than {yaml_tree.MOST_BYTES >> 20} MiB, too large for a configuration"
        raise BadInput(limit, file=source.file)
    text = source.bytes_().decode("utf-8", "replace").removeprefix("\ufeff")
    form = "json" if text.lstrip()[:1] == "{" else "yaml"
    if form == "yaml" and PurePath(source.file).suffix not in (".yaml", ".yml"):
        form = "text"
    parts = _parts(text) if form == "text" else [text]
    trees = [tree for part in parts for tree in yaml_tree.documents(part, source.file)]
    found = [_config(tree, source.file, form) for tree in trees if isinstance(tree, Branch)]
    if not found:
        raise BadInput("holds no configuration: fields are expected", file=source.file, line=1)
    return tuple(found)


def _parts(text: str) -> list[str]:
    """Configurations one below the other in a text, with words between them: each begins at a
    field that the one before has already. Every part keeps the lines of the whole."""
    parts: list[list[str]] = [[]]
    seen: set[str] = set()
    ours = False  # within a configuration
    for number, line in enumerate(text.split("\n")):
        key = _KEY.match(line)
        name = key[1] if key else ""
        if name in FIELDS:
            if name in seen:
                parts.append([""] * number)
                seen = set()
            seen.add(name)
            ours = True
        elif line[:1] not in (" ", "\t", "-", "#") or line.startswith("---"):
            ours = False  # a title, a fence of a post, words
        parts[-1].append(line if ours else "")
    return ["\n".join(lines) for lines in parts if any(lines)]


def of_script(text: str, file: str, name: str) -> tuple[AccelerateConfig, ...]:
    """The configurations that a script writes to `name`; `text` has as many empty lines before
    them as the script has others, so that lines are the script's. None for any other text."""
    if likeness(text.lstrip("\n"), name) < 1.0 or len(text) > yaml_tree.MOST_BYTES:
        return ()
    try:
        trees = yaml_tree.documents(text, file)
    except BadInput:  # a template of another kind, with braces or percents
        return ()
    made = [_config(tree, file, "yaml") for tree in trees if isinstance(tree, Branch)]
    return tuple(msgspec.structs.replace(config, name=name) for config in made)


def _config(tree: Branch, file: str, form: str) -> AccelerateConfig:
    values: dict[str, Setting] = {}
    sections: dict[str, dict[str, Setting]] = {}
    lines: dict[str, int] = {}
    for key, child in tree.children.items():
        if isinstance(child, Branch):
            sections[key] = _leaves(child, file)
            lines[key] = child.line
        else:
            values[key] = _setting(child, file)
    return AccelerateConfig(
        file=file,
        line=tree.line,
        form="json" if form == "json" else "text" if form == "text" else "yaml",
        values=values,
        sections=sections,
        section_lines=lines,
        twice=tuple(tree.twice),
    )


def _leaves(tree: Branch, file: str) -> dict[str, Setting]:
    """The values of a section; what is nested in it is of no launcher's interest."""
    return {
        key: _setting(child, file)
        for key, child in tree.children.items()
        if not isinstance(child, Branch)
    }


def _setting(tree: Tree, file: str) -> Setting:
    if isinstance(tree, Leaf):
        return Setting(value=tree.value, file=file, line=tree.line)
    if isinstance(tree, Branch):
        return Setting(value="{…}", file=file, line=tree.line)
    told = [item.value for item in tree.items if isinstance(item, Leaf)]
    return Setting(value=", ".join(map(str, told)) or None, file=file, line=tree.line)


def _report(source: Source) -> AccelerateConfig:
    """The lines under the heading, until they end. A section is a dict as Python prints it."""
    values: dict[str, Setting] = {}
    sections: dict[str, dict[str, Setting]] = {}
    lines: dict[str, int] = {}
    begun = 0
    for number, line in source.lines():
        if not begun:
            begun = number if _REPORT.match(line) else 0
            continue
        match = _REPORT_LINE.match(line)
        if not match:
            if line.strip():
                break
            continue
        key, text = match["key"], match["value"].strip()
        if text.startswith("{") and key.endswith("_config"):
            sections[key] = _printed(text, source.file, number)
            lines[key] = number
        else:
            values[key] = Setting(value=_plain(text), file=source.file, line=number)
    if "distributed_type" not in values:
        raise BadInput("prints no configuration of Accelerate", file=source.file)
    return AccelerateConfig(
        file=source.file,
        line=begun,
        form="report",
        values=values,
        sections=sections,
        section_lines=lines,
    )


# "{'zero_stage': 2, 'offload_param_device': 'none'}"
_PAIR = re.compile(r"'(\w{1,64})': ('[^']{0,200}'|[\w.+-]{1,40})")


def _printed(text: str, file: str, line: int) -> dict[str, Setting]:
    return {
        key: Setting(value=_plain(value.strip("'")), file=file, line=line)
        for key, value in _PAIR.findall(text[:4096])
    }


def _plain(text: str) -> str | int | bool | None:
    """A printed value; "no" is the precision's word here, not False."""
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    return None if text in ("", "None") else text[:256]
