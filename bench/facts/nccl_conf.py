"""nccl.conf files in force: settings that apply where the environment says nothing.

In: the environment. Out: the files NCCL would read and their settings. After NCCL's
src/misc/param.cc (initEnv): $NCCL_CONF_FILE, else ~/.nccl.conf; then /etc/nccl.conf; nothing is
ever overwritten, so the environment wins over the user's file and that over the system's.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.formats.allow_list import recorded
from bench.records import NcclConf

SYSTEM_FILE = Path("/etc/nccl.conf")
SIZE_LIMIT_BYTES = 1 << 20  # a conf file has a dozen lines; anything larger is a mistake
VALUE_LIMIT = 1023  # NCCL copies names and values into buffers of 1024 bytes


def read(
    environment: Mapping[str, str] | None = None, *, system_file: Path = SYSTEM_FILE
) -> tuple[tuple[NcclConf, ...], dict[str, str]]:
    """The files in force, strongest first, and the ones that exist but could not be read."""
    environment = os.environ if environment is None else environment
    found = []
    unreadable = {}
    for path in _paths(environment, system_file):
        try:
            with path.open("rb") as file:
                content = file.read(SIZE_LIMIT_BYTES)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            # NCCL skips such a file without a word, and so do its settings.
            unreadable[f"nccl_conf.{path}"] = str(error)
            continue
        settings = parse(content.decode(errors="replace"))
        found.append(
            NcclConf(
                path=str(path),
                settings={k: v for k, v in settings.items() if recorded(k)},
            )
        )
    return tuple(found), unreadable


def _paths(environment: Mapping[str, str], system_file: Path) -> list[Path]:
    named = environment.get("NCCL_CONF_FILE", "")
    if named:
        return [Path(named), system_file]
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir  # NCCL asks the password file, not $HOME
    except KeyError:
        return [system_file]
    return [Path(home) / ".nccl.conf", system_file]


def parse(content: str) -> dict[str, str]:
    """Settings of one file as NCCL reads it: no trimming, no quotes, the first of equals wins."""
    settings: dict[str, str] = {}
    for line in content.split("\n"):
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(name[:VALUE_LIMIT], value[:VALUE_LIMIT])
    return settings


def effective(environment: Mapping[str, str], files: Sequence[NcclConf]) -> dict[str, str]:
    """NCCL_* settings as the library will see them: environment, then the files in order."""
    settings = {key: value for key, value in environment.items() if key.startswith("NCCL_")}
    for file in files:
        for key, value in file.settings.items():
            settings.setdefault(key, value)
    return settings
