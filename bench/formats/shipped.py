"""Where the files that come with the program are: plans, fabrics, labs.

In: what the user wrote, a name such as "nightly" or a path. Out: the path of an existing file. The
repository has them in configs/; an installed package carries that folder as bench/configs.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal

from bench.records import BadInput

PACKAGE = Path(__file__).resolve().parents[1]


def folder(kind: Literal["plans", "fabrics", "labs"]) -> Path:
    """The folder of shipped files of one kind; it may be absent in a trimmed installation."""
    for configs in (PACKAGE / "configs", PACKAGE.parent / "configs"):
        if (configs / kind).is_dir():
            return configs / kind
    return PACKAGE / "configs" / kind


def find(kind: Literal["plans", "fabrics", "labs"], wanted: str) -> Path:
    """The file that `wanted` means: a path as it stands, else a shipped name without ".toml".

    A path wins over a name, and whatever ends in .toml or holds a slash is only ever a path.
    Raises BadInput naming the nearest shipped name.
    """
    path = Path(wanted)
    if wanted.endswith(".toml") or "/" in wanted or path.is_file():
        if path.is_file():
            return path
        reason = "is a folder; expected a TOML file" if path.is_dir() else "no such file"
        raise BadInput(reason, file=wanted)
    names = sorted(file.stem for file in folder(kind).glob("*.toml"))
    if wanted in names:
        return folder(kind) / f"{wanted}.toml"
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(names) or 'none'}"
    raise BadInput(f'no {kind.removesuffix("s")} is called "{wanted}"; {hint}')
