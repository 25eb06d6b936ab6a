"""The folder of a run that nobody has named: its own on every host that shares the place.

In: what runs, or the name that its user gave. Out: a new folder with those that belong into it.
Several nodes start in one second and one directory, so a name has the host and the process.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Sequence
from pathlib import Path

from bench.records import BadInput

PARENT = "reports"


def name(kind: str) -> str:
    """ "watch-2026-01-31T03-00-00Z-node7-4711"."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node().partition(".")[0])[:64]
    moment = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    return "-".join(word for word in (kind, moment, host, str(os.getpid())) if word)


def made(out: str, kind: str, folders: Sequence[str]) -> Path:
    """`out`, else one of `kind`. BadInput where something is in it, or none can be made."""
    folder = Path(out) if out else Path(PARENT) / name(kind)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadInput("is there already; choose another folder with --out", file=str(folder))
        for each in folders:
            (folder / each).mkdir(parents=True)
    except OSError as error:
        raise BadInput(f"no run can be kept here: {error.strerror}", file=str(folder)) from None
    return folder
