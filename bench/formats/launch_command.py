"""Commands that start a job, of a launch script or a line that somebody typed.

In: the file: sbatch scripts, ssh and pdsh lines, `accelerate launch`, torchrun and deepspeed ones.
Out: a LaunchCommand for each, with what starts it and the variables filled in that have one plain
value. Whose shell fills in a variable is kept: `srun accelerate launch --machine_rank
$SLURM_NODEID` gives every node the batch script's own 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from bench.formats import (
    accelerate_config,
    launch_line,
    launch_starter,
    launcher_options,
    shell_script,
    shell_words,
)
from bench.formats.prefix import Stripper
from bench.formats.shell_script import Scope, Statement
from bench.formats.shell_words import EARLY, Word
from bench.formats.source import Source
from bench.records import AccelerateConfig, BadInput, LaunchCommand, Setting, Starter

KIND = "launch script"

MOST_LINES = 20_000  # a script has some hundred; a log that quotes one is none
MOST_COMMANDS = 256
_LAUNCH = re.compile(
    r"\baccelerate(?:-launch|\s+launch)\b|\btorchrun\s|torch\.distributed\.(?:run|launch)\b"
    r"|\bdeepspeed\s+(?:--?\w|\S+\.py)"
)
_LOG = re.compile(
    r"Traceback \(most recent|NCCL (?:INFO|WARN)|\[rank\d|ProcessGroupNCCL|^\[E\d", re.M
)
_SCRIPT_NAMES = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".cmd", ".zsh")
_SKIPPED = (
    "$", ">", "%", "+", "sudo", "exec", "time", "nohup", "env", "command", "eval", "then", "do",
    "else", "!", "{", "if", "while",
)  # fmt: skip
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w{0,127})\+?=(?P<value>.*)", re.DOTALL)
_EXPORTS = ("export", "declare", "local", "readonly", "typeset")
# Of a node or a process: what a batch script's own shell has for them is 0, on no node.
_OF_THE_NODE = re.compile(
    rf"{EARLY}\{{?(SLURM_NODEID|SLURM_PROCID|SLURM_LOCALID|OMPI_COMM_WORLD_RANK|PMI_RANK)\b"
)
Launcher = Literal["accelerate", "torchrun", "deepspeed"]


def likeness(head: str, name: str) -> float:
    """1 for a script or a line with such a command; less for a script whose beginning has none."""
    suffix = PurePath(name).suffix.lower()
    script = head.startswith("#!") or suffix in _SCRIPT_NAMES or "\n#SBATCH" in head
    if suffix in (".py", ".md", ".yaml", ".yml", ".json") or _LOG.search(head):
        return 0.0
    lines = [line for line in head.split("\n") if line.strip()]
    found = len(_LAUNCH.findall(head))
    if found and (script or found * 12 >= len(lines)):
        return 1.0
    return 0.7 if script else 0.0


def read(source: Source) -> tuple[LaunchCommand | AccelerateConfig, ...]:
    """All commands, and the configurations that the script writes; none for a script that starts
    no job."""
    stripper = Stripper.of(source)
    scope = Scope()
    found: list[LaunchCommand | AccelerateConfig] = []
    lines = _limited(source, stripper)
    for statement in shell_script.statements(lines, scope):
        reader = _Reader(source.file, statement, scope)
        found += reader.commands()
        if len(found) >= MOST_COMMANDS:
            break
    return (*found[:MOST_COMMANDS], *_written(source.file, scope))


def _written(file: str, scope: Scope) -> Iterator[AccelerateConfig]:
    for document in scope.documents:
        lines = [scope.filled(line) if document.filled else line for line in document.lines]
        text = "\n" * (document.line - 1) + "\n".join(lines).replace("\\$", "$")
        yield from accelerate_config.of_script(text, file, document.name)


def _limited(source: Source, stripper: Stripper) -> Iterator[tuple[int, str]]:
    for number, line in source.lines():
        if number > MOST_LINES:
            raise BadInput(f"has more than {MOST_LINES:,} lines, too many for a launch script",
                           file=source.file, line=number)  # fmt: skip
        yield number, stripper.strip(line)[1]


@dataclass(frozen=True)
class _Around:
    """What a text stands in: what starts it, and how many shells lie between it and the script."""

    starter: Starter
    depth: int = 0


class _Reader:
    """One statement: assignments go to the scope, commands that start a job come out."""

    def __init__(self, file: str, statement: Statement, scope: Scope) -> None:
        self.file, self.statement, self.scope = file, statement, scope

    def commands(self) -> Iterator[LaunchCommand]:
        place = self.statement.place
        name = place if place in ("function", "loop") else ""
        around = _Around(launch_starter.of_batch(Starter(name=name), self.scope))
        yield from self._commands(self.statement.text, self.statement.line, around)

    def _commands(self, text: str, line: int, around: _Around) -> Iterator[LaunchCommand]:
        for words in shell_words.commands(text, line):
            rest = self._assign(words, around)
            if rest:
                yield from self._command(rest, around)

    def _assign(self, words: Sequence[Word], around: _Around) -> Sequence[Word]:
        """What stands behind the assignments; of a line of assignments only, nothing."""
        at = 1 if words[0].text in _EXPORTS else 0
        assigned = []
        while at < len(words) and (match := _ASSIGNED.fullmatch(words[at].text)):
            assigned.append((match["name"], match["value"], words[at].line))
            at += 1
        rest = words[at:]
        if rest and words[0].text not in _EXPORTS:
            return rest  # "A=1 torchrun …"
        sure = not self.statement.place and around.depth == 0
        for name, value, line in assigned:
            multi = any(mark in value for mark in " \n\ue002")
            text = shell_words.marked(line) + value if multi else value
            # "$(nproc)" differs from host to host; what holds an unknown is filled in later
            self.scope.assign(name, text, sure=sure and not re.match(r"\$\((?!\()|`", value))
        return ()

    def _command(self, words: Sequence[Word], around: _Around) -> Iterator[LaunchCommand]:
        words = list(self._expanded(words))
        evaluated = any(word.text == "eval" for word in words[:2])
        while words and (words[0].text in _SKIPPED or "@" in words[0].text.rstrip("$#:~")):
            words = words[1:]
        if not words:
            return
        first = words[0].text.rpartition("/")[2]
        starts = launch_starter.is_starter(first) or first.startswith("$")
        for at in range(len(words)):
            if nested := self._nested(words[at]):
                if at and not starts and not _is_runner(first):
                    return  # echo, grep
                starter = launch_starter.read(words[:at], around.starter) if starts else None
                inner = _Around(starter or around.starter, around.depth + 1)
                if inner.depth < 4:  # ssh in bash in srun
                    yield from self._commands(nested, words[at].line, inner)
                return
            launcher, skip = _launcher(words, at)
            if launcher is None:
                continue
            if at and not starts and not _is_runner(first):
                return  # a sentence, or the program of something else
            starter = launch_starter.read(words[:at], around.starter) if starts and at else None
            by = starter or around.starter
            early = not around.depth and not evaluated and by.name in launch_starter.SPREADING
            yield self._launch(launcher, words, at, skip, by, early=early)
            return

    def _expanded(self, words: Sequence[Word]) -> Iterator[Word]:
        for word in words:
            text = self.scope.filled(word.text)
            if text != word.text and not word.quoted:
                yield from shell_words.split(text, word.line)
            else:
                yield replace(word, text=text)

    def _nested(self, word: Word) -> str | None:
        """A word that is itself a command line, as a shell on the node reads it."""
        if (
            not word.quoted
            or not _LAUNCH.search(word.text)
            or " " not in shell_words.shown(word.text)
        ):
            return None
        return self.scope.filled(shell_words.for_next_shell(word.text))

    def _launch(
        self,
        launcher: Launcher,
        words: Sequence[Word],
        at: int,
        skip: int,
        by: Starter,
        *,
        early: bool,
    ) -> LaunchCommand:
        own = words[at + skip :]
        if early:  # the script's own shell fills in what has no quotes to keep it
            own = [replace(word, text=word.text.replace("$", EARLY)) for word in own]
        parsed = launcher_options.parse(launcher, own)
        options = {
            name: self._setting(word.text, word.line) for name, word in parsed.options.items()
        }
        for name, line in parsed.switches.items():
            options[name] = Setting(value=True, file=self.file, line=line, basis="command")
        shown = " ".join(shell_words.shown(word.text) for word in words[at:])
        told = launch_line.read(shown)
        return LaunchCommand(
            file=self.file,
            line=words[at].line,
            launcher=launcher,
            text=told.text if told else shown[:4096],
            options=options,
            unknown={n: self._setting(w.text, w.line) for n, w in parsed.unknown.items()},
            early={
                name: match[1]
                for name, word in parsed.options.items()
                if by.name in launch_starter.SPREADING
                and (match := _OF_THE_NODE.search(word.text))
            },
            program=shell_words.shown(parsed.program.text) if parsed.program else "",
            program_after=parsed.after,
            more=parsed.more,
            starter=by,
        )

    def _setting(self, text: str, line: int) -> Setting:
        return Setting(
            value=shell_words.shown(text).strip(), file=self.file, line=line, basis="command"
        )


_RUNNERS = (
    "python", "python3", "bash", "sh", "zsh", "singularity", "apptainer", "docker", "podman",
    "conda", "mamba", "uv", "poetry", "pipenv", "numactl", "nsys", "stdbuf", "timeout", "screen",
    "tmux", "pixi", "enroot", "shifter", "taskset",
)  # fmt: skip


def _is_runner(name: str) -> bool:
    return name in _RUNNERS or re.fullmatch(r"python3?(?:\.\d+)?", name) is not None


def _launcher(words: Sequence[Word], at: int) -> tuple[Launcher | None, int]:
    """The launcher that begins here, and how many words its name takes."""
    text = words[at].text.rpartition("/")[2]
    following = words[at + 1].text if at + 1 < len(words) else ""
    if text == "accelerate" and following == "launch":
        return "accelerate", 2
    if text == "accelerate-launch":
        return "accelerate", 1
    if text == "torchrun" and following:
        return "torchrun", 1
    if text == "-m" and following in ("torch.distributed.run", "torch.distributed.launch"):
        return "torchrun", 2
    if text == "-m" and following == "accelerate.commands.launch":
        return "accelerate", 2
    if text == "deepspeed" and (following.startswith("-") or following.endswith(".py")):
        return "deepspeed", 1
    return None, 0
