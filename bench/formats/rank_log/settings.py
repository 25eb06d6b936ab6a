"""Variables that decide whether a hang leaves evidence, where a log or script shows their values.

In: lines. Out: name -> (value, line). Both spellings of a variable are kept under the newer one;
defaults and meanings: torch's ProcessGroupNCCL.hpp and FlightRecorder.hpp, 2.1 to 2.15.
"""

from __future__ import annotations

import re

NAMES = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "TORCH_FR_DUMP_ON_TIMEOUT",
    "NCCL_ENABLE_MONITORING": "TORCH_NCCL_ENABLE_MONITORING",
}
KNOWN = (*NAMES.values(), "TORCH_DISTRIBUTED_DEBUG")
MOST_IN_A_LINE = 16  # torch prints its whole configuration in one

_SETTING = re.compile(
    r"\b((?:TORCH_)?(?:NCCL|FR|DISTRIBUTED)_[A-Z_]{3,40})[\"']?\s{0,2}[=:]\s{0,2}[\"']?(\w{1,20})"
)


def note(known: dict[str, tuple[str, int]], text: str, line: int) -> None:
    """Keep what a line sets; the last one counts."""
    if "_" not in text:
        return
    for at, found in enumerate(_SETTING.finditer(text[:4000])):
        if at == MOST_IN_A_LINE:
            return
        name = NAMES.get(found[1], found[1])
        if name in KNOWN:
            known[name] = found[2], line
