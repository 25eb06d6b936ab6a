"""Names of files of one job's nodes: node0.yaml and node1.yaml, or a folder per node.

In: a path. Out: the path without what names the node. A word for a node is sure; a bare number or
letter may number nodes or experiments; numbers behind "zero", "gpu" and the like tell variants.
"""

from __future__ import annotations

import re
from pathlib import PurePath

# What a file is called after the node it belongs to: by a word for it, or by a bare number.
_NODE_WORD = re.compile(
    r"(?:node|host|machine|rank|worker|server|srv|master|main|head|slave|child|common|chief"
    r"|primary|secondary|leader|follower|first|second|third)(?:\d{1,6}|[a-z])?|[nrwm]\d{1,6}"
)
_BARE = re.compile(r"\d{1,6}|[a-z]|one|two|three|four")
_TRAILING = re.compile(r"(?P<word>[a-z]{2,})(?P<number>\d{1,6})")
# Numbers behind these tell variants of one configuration apart, never nodes.
_VARIANTS = frozenset((
    "zero", "z", "stage", "fsdp", "v", "ver", "version", "ds", "deepspeed", "gpu", "gpus", "fp",
    "bf", "tp", "pp", "dp", "cp", "ep", "sp", "llama", "qwen", "phase", "step", "exp", "run",
    "test", "bs", "lr", "epoch", "h", "a", "seed", "dpo", "sft", "b", "k",
))  # fmt: skip


def without_node(file: str) -> str:
    """The last folders and the name, "#" where a node is named, "?" where a number stands."""
    path = PurePath(file)
    parts = [*path.parts[-3:-1], path.stem]
    return "/".join("-".join(_words_of(part)) for part in parts) + path.suffix


def _words_of(part: str) -> list[str]:
    words: list[str] = []
    for word in re.split(r"[._-]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", part).lower()):
        trailing = _TRAILING.fullmatch(word)
        before = words[-1] if words else ""
        variant = before in _VARIANTS or (trailing is not None and trailing["word"] in _VARIANTS)
        if variant and re.search(r"\d", word):
            words.append(word)
        elif _NODE_WORD.fullmatch(word) or (before == "#" and _BARE.fullmatch(word)):
            words.append("#")
        elif _BARE.fullmatch(word):
            words.append("?")
        elif trailing:
            words.append(f"{trailing['word']}?")
        else:
            words.append(word)
    return [w for at, w in enumerate(words) if w != "#" or at == 0 or words[at - 1] != "#"]


def is_by_number(stem: str) -> bool:
    """Whether only a bare number or letter tells such files apart."""
    return "?" in stem


def are_near(one: str, other: str) -> bool:
    """Whether one of two files lies in the other's folder, or somewhere below it."""
    first, second = PurePath(one).parent, PurePath(other).parent
    return first == second or first in second.parents or second in first.parents
