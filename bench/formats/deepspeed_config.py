"""A DeepSpeed configuration (JSON), as deepspeed_config_file or --deepspeed names it.

In: the file. Out: one DeepspeedConfig, values by dotted path with their lines
(https://www.deepspeed.ai/docs/config-json/). BadInput for what is no such JSON.
"""

from __future__ import annotations

import re

from bench.formats import yaml_tree
from bench.formats.source import Source
from bench.formats.yaml_tree import Branch, Leaf
from bench.records import BadInput, DeepspeedConfig, Setting

KIND = "DeepSpeed config"

_SIGNS = re.compile(
    r'"(?:zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|steps_per_print'
    r'|gradient_accumulation_steps|wall_clock_breakdown)"\s*:'
)
LEAST_SIGNS = 2


def likeness(head: str, name: str) -> float:
    """1 where two of its own keys stand in a JSON object."""
    if not head.lstrip().startswith("{"):
        return 0.0
    return 1.0 if len(set(_SIGNS.findall(head))) >= LEAST_SIGNS else 0.0


def read(source: Source) -> tuple[DeepspeedConfig, ...]:
    """The values; comments are none of JSON's, and none of DeepSpeed's."""
    if source.size_bytes > yaml_tree.MOST_BYTES:
        limit = f"is larger than {yaml_tree.MOST_BYTES >> 20} MiB, too large for a configuration"
        raise BadInput(limit, file=source.file)
    text = source.bytes_().decode("utf-8", "replace").removeprefix("\ufeff")
    trees = yaml_tree.documents(text, source.file)
    if len(trees) != 1 or not isinstance(trees[0], Branch):
        raise BadInput(
            "holds no DeepSpeed configuration: one object is expected", file=source.file
        )
    values: dict[str, Setting] = {}
    waiting: list[tuple[str, Branch]] = [("", trees[0])]
    while waiting:
        path, branch = waiting.pop()
        for key, child in branch.children.items():
            name = f"{path}{key}"
            if isinstance(child, Branch):
                waiting.append((f"{name}.", child))
            elif isinstance(child, Leaf):
                values[name] = Setting(value=child.value, file=source.file, line=child.line)
    return (DeepspeedConfig(file=source.file, values=values),)
