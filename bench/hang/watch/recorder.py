"""Which variables turn the Flight Recorder on for a job, without overriding one that its user set.

In: the environment that the job would have, the run's folder. Out: variables to add, and sentences
about those that the user's own settings leave as they are. Newer and older names of one setting
are set alike, because torch reads some of them under one name only.
Source: torch/csrc/distributed/c10d/FlightRecorder.hpp, ProcessGroupNCCL.hpp (2.4 to 2.15).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ENTRIES = "2000"  # 2.13's own default: the last hundreds of steps, 25 ms and 1 MB a dump
ON_SINCE = (2, 13)
DUMPS, NCCL_LOGS = "flight", "nccl"
NCCL_PREFIX = "nccl_rank_"

# (names, value); the first that the user set decides for all of them.
_SIZE = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_ON_TIMEOUT = ("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT")
_FILE = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_PIPE = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",)
# Without it entries of NCCL never reach "started", and nobody knows who waits and who works.
_TIMING = ("TORCH_NCCL_ENABLE_TIMING",)
# torchrun sets 1, which aborts communicators before the dump; 3 is torch's own default.
_ERRORS = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING")
_LOG = ("NCCL_DEBUG", "NCCL_DEBUG_FILE")


@dataclass(frozen=True)
class Settings:
    """`added` goes into the job's environment; `kept`: what the user's own settings cost."""

    added: dict[str, str]
    kept: tuple[str, ...] = ()


def settings(environment: Mapping[str, str], folder: Path, torch: str = "") -> Settings:
    """The recorder on, its dumps and NCCL's logs in the run's folder. `torch`: its version, where
    known; a newer one has the recorder on by itself, and warns of the older name."""
    on_already = _version(torch) >= ON_SINCE
    wanted = (
        (() if on_already else _SIZE, ENTRIES),
        (_ON_TIMEOUT, "1"),
        (_FILE, str(folder / DUMPS / NCCL_PREFIX)),
        (_PIPE, str(folder / ".live" / NCCL_PREFIX)),
        (_TIMING, "1"),
        (_ERRORS[:1] if _ERRORS[1] not in environment else (), "3"),
    )
    added: dict[str, str] = {}
    for names, value in wanted:
        own = next((environment[name] for name in names if name in environment), None)
        added |= {name: own or value for name in names if name not in environment}
    if on_already and _SIZE[0] in environment and _SIZE[1] not in environment:
        added[_SIZE[1]] = environment[_SIZE[0]]  # what NCCL's group reads for its dump
    if not any(name in environment for name in _LOG):
        # INFO says once per communicator what it uses; the subsystems that speak per call stay off
        added |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(folder / NCCL_LOGS / "%h.%p.log")}
    return Settings(added, tuple(_kept(environment)))


def _version(text: str) -> tuple[int, int]:
    """(2, 13) of "2.13.0+cpu"; (0, 0) of anything else."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _kept(environment: Mapping[str, str]) -> list[str]:
    told = []
    size = next((environment[name] for name in _SIZE if name in environment), ENTRIES)
    if size == "0":
        told.append("the recorder is off by your own TORCH_FR_BUFFER_SIZE=0: no dumps")
    if environment.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL":
        told.append("TORCH_DISTRIBUTED_DEBUG=DETAIL keeps the failing call out of the dumps")
    if environment.get(_ERRORS[0]) == "1":
        told.append("your TORCH_NCCL_ASYNC_ERROR_HANDLING=1 aborts before NCCL's dump is written")
    return told
