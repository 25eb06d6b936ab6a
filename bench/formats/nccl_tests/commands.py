"""Commands that start a test, as they stand in a paste or script, and what the programs measure.

In: a line. Out: the program and the command as written. A line is a command where a shell would
run the program: after a prompt, variables and a launcher. What merely names it (make's "Linking",
ldd, a crash report, a process list's heading) is none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bench.formats.nccl_tests.rows import is_beginning

# Names of the collectives, in the project's words; with the spellings of files and of NCCL.
COLLECTIVES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "broadcast": "broadcast", "bcast": "broadcast", "reduce": "reduce", "alltoall": "all_to_all",
    "alltoallv": "all_to_all_v", "sendrecv": "send_recv", "gather": "gather",
    "scatter": "scatter", "hypercube": "hypercube",
}  # fmt: skip

_PROGRAM = re.compile(r"((?:[nr]ccl_)?[a-z_]{4,24}?_(?:perf|test)(?:_mpi)?)(?:\.exe)?")
_LAUNCHERS = frozenset({
    "mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "srun", "salloc", "torchrun",
    "jsrun", "aprun", "flux", "docker", "podman", "singularity", "apptainer", "enroot", "kubectl",
    "ssh", "pdsh", "sudo", "time", "timeout", "numactl", "taskset", "nsys", "nice", "nohup", "env",
    "exec", "stdbuf", "bash", "sh",
})  # fmt: skip
_MENTIONS = frozenset({"ldd", "ls", "which", "file", "cp", "mv", "rm", "make", "cat", "strings"})
MAX_COMMAND = 8192


class Command(NamedTuple):
    program: str
    text: str
    line: int


def collective_of(program: str) -> str | None:
    """What a program measures, by its name: `all_reduce_perf_mpi`, `nccl_alltoall_perf`."""
    name = program.rpartition("/")[2].removesuffix(".exe").removesuffix("_mpi")
    for ending in ("_perf", "_test", "_bias"):
        name = name.removesuffix(ending)
    name = name.removeprefix("nccl_").removeprefix("rccl_").removesuffix("_bias")
    return COLLECTIVES.get(name.replace("_", ""))


def may_be_command(text: str) -> bool:
    """A cheap look before command()."""
    return "_perf" in text or "_test" in text


def command(text: str, line: int) -> Command | None:
    """The command on a line, without the prompt before it; None where there is none."""
    words = text.strip()[:MAX_COMMAND].split()
    if not words or is_beginning(text):
        return None
    at = next((at for at, word in enumerate(words) if _program(word)), None)
    if at is None or collective_of(words[at]) is None:
        return None
    begin = _after_prompt(words[:at])
    before = words[begin:at]
    names = [word.rpartition("/")[2] for word in before]
    if _MENTIONS & set(names[:1]):
        return None
    launched = bool(_LAUNCHERS & set(names))
    has_options = len(words) > at + 1 and words[at + 1].startswith("-")
    at_the_front = all(_is_assignment(word) for word in before)
    if not (launched or has_options or at_the_front):
        return None
    if (
        at_the_front
        and len(words) > at + 1
        and not words[at + 1].startswith(("-", "2>", ">", "|"))
    ):
        return None  # "all_reduce_perf exited with …"
    program = _program(words[at])
    assert program is not None
    return Command(program, " ".join(words[begin:]), line)


def _program(word: str) -> str | None:
    found = _PROGRAM.fullmatch(word.strip("'\"`;").rpartition("/")[2])
    return found[1] if found else None


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum() and not name[:1].isdigit()


def _after_prompt(words: list[str]) -> int:
    """Where the command begins: after the last word that ends as prompts do."""
    for at in range(len(words) - 1, -1, -1):
        word = words[at]
        if word.startswith("-"):
            continue
        if word[-1:] in "$#%" or (at == 0 and word[-1:] in ">+"):  # later a redirection
            return at + 1
    return 0
