"""What of a command line is torchrun's, and which options keep its ranks' output apart.

In: the command as the user typed it. Out: the same with --log-dir and --redirects, where it starts
torchrun and says nothing of its own about logs; which local ranks the console is to show.
Source: torch/distributed/run.py (get_args_parser), `torchrun --help` of 2.6 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

MODULES = ("torch.distributed.run", "torch.distributed.launch")
# Any of these is the user's own arrangement of the logs; each may come as --name=value.
OWN = (
    "--tee",
    "-t",
    "--redirects",
    "-r",
    "--log-dir",
    "--log_dir",
    "--logs-specs",
    "--logs_specs",
)
FILTER = ("--local-ranks-filter", "--local_ranks_filter")
BOTH = "3"  # stdout and stderr
_OF_NUMACTL = (
    "-i", "-m", "-N", "-C", "-p", "-P", "--interleave", "--membind", "--cpunodebind",
    "--physcpubind", "--preferred", "--preferred-many",
)  # fmt: skip
# Programs that run the words behind their own, with options whose value is a word of its own.
_WRAPPERS: Mapping[str, Sequence[str]] = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "numactl": _OF_NUMACTL,
    "stdbuf": ("-i", "-o", "-e"),
    "taskset": (),
    "timeout": ("-s", "--signal", "-k", "--kill-after"),
}
# Such a program's own words: an option, NAME=value, a number, a list, a mask or a duration.
_OPTION = re.compile(r"-.*|[A-Za-z_]\w*=.*|[\d.,:-]+[smhd]?|0x[\da-fA-F,]+", re.DOTALL)
_OF_PYTHON = re.compile(r"(?!-[a-zA-Z]*[mc])-.+", re.DOTALL)  # behind -m and -c stands a program
_OWN_VARIABLES = ("PET_TEE", "PET_REDIRECTS", "PET_LOG_DIR")


@dataclass(frozen=True)
class Command:
    """`argv` to start; `logs`: where its ranks write, None where they write to the console;
    `shown`: local ranks that the console shows, None for all."""

    argv: tuple[str, ...]
    logs: Path | None = None
    shown: frozenset[int] | None = None
    is_torchrun: bool = True


def command(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Command:
    """The command with its ranks' logs in `folder`, if it is torchrun's without any of its own."""
    at = _first_option(argv)
    if at is None:
        return Command(tuple(argv), is_torchrun=False)
    own = _options(argv[at:])
    if any(map(_is_own, own)) or any(name in environment for name in _OWN_VARIABLES):
        return Command(tuple(argv))
    added = ("--log-dir", str(folder), "--redirects", BOTH)
    return Command((*argv[:at], *added, *argv[at:]), folder, _shown(own, environment))


def _first_option(argv: Sequence[str]) -> int | None:
    """Where torchrun's own options begin; None where the command is another."""
    if argv and PurePath(argv[0]).name == "torchrun":
        return 1
    for at, word in enumerate(argv):
        if word in MODULES and at and argv[at - 1] == "-m":
            return at + 1
        if PurePath(word).name == "torchrun" and _runs_next(argv[:at]):
            return at + 1
    return None


def _runs_next(before: Sequence[str]) -> bool:
    """Whether what stands before runs the next word as a program: env, nice, python …"""
    program = last = ""
    for word in before:
        name, last = PurePath(word).name, word if last not in _valued(program) else ""
        if not last:
            continue  # the value of the option before it
        of_python = program not in ("", *_WRAPPERS)
        if not of_python and (name in _WRAPPERS or name.startswith("python")):
            program = name
        elif not program or not (_OF_PYTHON if of_python else _OPTION).fullmatch(word):
            return False
    return bool(program)


def _valued(program: str) -> Sequence[str]:
    return _WRAPPERS.get(program, ("-W", "-X"))


def _options(argv: Sequence[str]) -> list[str]:
    """Words up to the script: options and their values, which nobody needs told apart here."""
    found: list[str] = []
    for at, word in enumerate(argv):
        before = argv[at - 1] if at else ""
        if not word.startswith("-") and not _takes_value(before):
            break
        found.append(word)
    return found


FLAGS = (
    "--standalone",
    "--no-python",
    "--no_python",
    "-m",
    "--module",
    "--run-path",
    "--run_path",
)


def _takes_value(word: str) -> bool:
    return word.startswith("-") and "=" not in word and word not in FLAGS


def _is_own(word: str) -> bool:
    """argparse takes any unambiguous beginning of a long option."""
    name = _name(word)
    return name in OWN or (len(name) >= 4 and any(own.startswith(name) for own in OWN))


def _name(word: str) -> str:
    return word.partition("=")[0]


def _shown(own: Sequence[str], environment: Mapping[str, str]) -> frozenset[int] | None:
    told = environment.get("PET_LOCAL_RANKS_FILTER", "")
    for at, word in enumerate(own):
        if _name(word) in FILTER:
            told = word.partition("=")[2] or (own[at + 1] if at + 1 < len(own) else "")
    numbers = [text for text in told.split(",") if text.strip().isdigit()]
    return frozenset(int(text) for text in numbers) if numbers else None
