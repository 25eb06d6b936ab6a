"""One line of a script that starts a job: mpirun, srun, torchrun and their like.

In: the line, continued ones joined. Out: which launcher, on which hosts, which variables it sets
and which it hands on. mpirun hands on only what -x names (and OMPI_MCA_*), srun everything unless
--export says otherwise, Intel MPI everything with -genvall.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from bench.formats.allow_list import SECRET_WORDS, recorded

MAX_WORDS = 4096
MAX_TEXT = 4096

LAUNCHERS = (
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "torchrun", "horovodrun",
    "deepspeed", "pdsh", "parallel-ssh", "accelerate",
)  # fmt: skip
_MPI = ("mpirun", "mpiexec", "orterun", "prterun", "horovodrun")
_HOST_OPTIONS = ("-H", "-host", "--host", "-hosts", "--hosts", "-w", "--nodelist")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,127})=(?P<value>.*)", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}\Z")


@dataclass(frozen=True, slots=True)
class Launch:
    """`forwarded` holds "ALL" where the launcher hands on its whole environment."""

    launcher: str
    text: str
    hosts: tuple[str, ...]
    variables: dict[str, str]
    forwarded: tuple[str, ...]


def launcher(text: str) -> str | None:
    """The launcher that the line starts, after assignments, sudo, exec and a prompt."""
    words = text.split(maxsplit=12)
    for at, word in enumerate(words):
        if word in ("$", ">", "%", "sudo", "exec", "time", "nohup", "env") or "@" in word:
            continue
        if "=" in word and not word.startswith("-"):
            continue
        name = word.rpartition("/")[2]
        alone = at + 1 == len(words)
        if name == "accelerate" and (alone or words[at + 1] != "launch"):
            return None
        # A sentence may begin with such a word; a command line has an option or a program.
        if name in LAUNCHERS and not alone and not words[at + 1][:1].isupper():
            return name
        return None
    return None


def read(text: str) -> Launch | None:
    """The launch, or None where the line starts nothing that we know."""
    name = launcher(text)
    if name is None:
        return None
    words = _words(text)
    variables: dict[str, str] = {}
    forwarded: dict[str, None] = {}
    hosts: tuple[str, ...] = ()
    mpi = name.partition(".")[0] in _MPI
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        option, glued, value = word.partition("=")
        if word == "-x" and mpi:
            _forward(following, variables, forwarded)
            at += 1
        elif word in ("-genv", "-env") and at + 2 < len(words):
            _forward(f"{following}={words[at + 2]}", variables, forwarded)
            at += 2
        elif word in ("-genvlist", "-envlist"):
            for each in following.split(","):
                _forward(each, variables, forwarded)
        elif word in ("-genvall", "-envall"):
            forwarded["ALL"] = None
        elif option == "--export" and name == "srun":
            for each in (value if glued else following).split(","):
                if each in ("ALL", "NONE"):
                    forwarded[each] = None
                else:
                    _forward(each, variables, forwarded)
        elif option in _HOST_OPTIONS and not hosts:
            hosts = _hosts(value if glued and value else following)
        elif (match := _ASSIGNMENT.fullmatch(word)) and recorded(match["name"]):
            # before the launcher, or before the program: "NCCL_DEBUG=INFO ./all_reduce_perf"
            variables.setdefault(match["name"], match["value"])
        at += 1
    return Launch(
        launcher=name,
        text=_shown(words),
        hosts=hosts,
        variables=variables,
        forwarded=tuple(forwarded),
    )


def _forward(told: str, variables: dict[str, str], forwarded: dict[str, None]) -> None:
    name, assigned, value = told.partition("=")
    if recorded(name):
        forwarded[name] = None
        if assigned:
            variables[name] = value


def _hosts(text: str) -> tuple[str, ...]:
    names = [each.partition(":")[0] for each in text.split(",")]
    return tuple(dict.fromkeys(name for name in names if _HOST.match(name)))


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # an open quote
        words = text.split()
    return words[:MAX_WORDS]


def _shown(words: list[str]) -> str:
    """The line for people, without the values of names that may be secrets."""
    shown = []
    after_secret = False  # "--hf-token VALUE"
    for word in words:
        name, assigned, _ = word.partition("=")
        parts = set(name.upper().replace("-", "_").split("_"))
        secret = bool(parts & SECRET_WORDS)
        hidden = secret or (name.isupper() and not recorded(name))
        shown.append("…" if after_secret else f"{name}=…" if assigned and hidden else word)
        after_secret = secret and not assigned and word.startswith("-")
    return " ".join(shown)[:MAX_TEXT]
