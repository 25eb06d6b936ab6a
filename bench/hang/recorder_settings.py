"""Settings that cost a hang its evidence: what to set before the job runs again.

In: a Crew, and the variables that scripts and environment files hold. Out: sentences. Defaults and
order of events: ProcessGroupNCCL.cpp, torchrun's run.py (it exports async error handling 1 unless
it is set), FlightRecorder.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.formats.rank_log.settings import KNOWN, NAMES
from bench.hang.crew import Crew
from bench.records import Variables

SHORT_BUFFER = 200  # entries; a step of a large model calls a hundred collectives
OFF = ("0", "false", "off", "no")


def lost(crew: Crew, variables: Sequence[Variables] = ()) -> tuple[str, ...]:
    """One sentence for each setting that keeps evidence from being written."""
    told = _settings(crew, variables)
    return (*_sentences(told), *_recorder(crew, told))


def _settings(crew: Crew, variables: Sequence[Variables]) -> dict[str, tuple[str, str]]:
    """Name -> value and where it stands."""
    found: dict[str, tuple[str, str]] = {}
    for each in variables:
        for name, value in each.variables.items():
            name = NAMES.get(name, name)
            if name in KNOWN:
                found[name] = value, f"{each.file}:{each.line}"
    for log in crew.logs:
        for name, (value, line) in log.settings.items():
            found.setdefault(name, (value, f"{log.file}:{line}"))
    return found


def _sentences(told: dict[str, tuple[str, str]]) -> Iterator[str]:
    handling = told.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")
    if handling is not None and handling[0] in ("1", "2"):
        yield (
            f"TORCH_NCCL_ASYNC_ERROR_HANDLING={handling[0]} ({handling[1]}) aborts communicators "
            "before the recorder has written its dump: export TORCH_NCCL_ASYNC_ERROR_HANDLING='3'"
        )
    elif handling is not None and handling[0] == "0":
        yield (
            f"TORCH_NCCL_ASYNC_ERROR_HANDLING=0 ({handling[1]}): no watchdog ends a hung job; "
            "export TORCH_NCCL_ASYNC_ERROR_HANDLING='3'"
        )
    size = told.get("TORCH_FR_BUFFER_SIZE")
    if size is not None and size[0].isdigit():
        if int(size[0]) == 0:
            yield (
                f"the Flight Recorder is off ({size[1]}): export TORCH_FR_BUFFER_SIZE='2000' "
                "TORCH_NCCL_TRACE_BUFFER_SIZE='2000'"
            )
        elif int(size[0]) < SHORT_BUFFER:
            yield (
                f"the Flight Recorder keeps {size[0]} entries ({size[1]}), which may be less than "
                "a step: 2000 is torch's own number"
            )
    dump = told.get("TORCH_FR_DUMP_ON_TIMEOUT")
    if dump is not None and dump[0].lower() in OFF:
        yield f"TORCH_NCCL_DUMP_ON_TIMEOUT={dump[0]} ({dump[1]}): no dump is written"
    monitor = told.get("TORCH_NCCL_ENABLE_MONITORING")
    if monitor is not None and monitor[0].lower() in OFF:
        yield (
            f"TORCH_NCCL_ENABLE_MONITORING={monitor[0]} ({monitor[1]}): the thread that writes "
            "dumps does not run"
        )
    debug = told.get("TORCH_DISTRIBUTED_DEBUG")
    if debug is not None and debug[0] == "DETAIL":
        yield (
            f"TORCH_DISTRIBUTED_DEBUG=DETAIL ({debug[1]}) names mismatches itself, but leaves the "
            "recorder's entries without group and the failed call out of it"
        )


def _recorder(crew: Crew, told: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The watchdog's own remark that it has no recorder."""
    if "TORCH_FR_BUFFER_SIZE" in told:
        return
    signs = [s for m in crew.members.values() for s in m.signs if s.kind == "recorder-off"]
    if signs:
        first = signs[0]
        yield (
            f"the Flight Recorder seems to be off ({first.file}:{first.line}): export "
            "TORCH_FR_BUFFER_SIZE='2000' TORCH_NCCL_TRACE_BUFFER_SIZE='2000'"
        )
