"""Environment variables as people hand them in: `KEY=value` lists, `env` output, exports, launch
scripts, `-x` of mpirun, `--export` of srun, env lists of Kubernetes and Docker.

In: the file. Out: one Variables; of everything else in it nothing is kept, as scripts and
environments hold secrets. Nothing is executed or expanded: "$VALUE" stays as it is written.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from bench.formats import launch_line, shell_assignments
from bench.formats.allow_list import VALUE_LIMIT, recorded
from bench.formats.host_name import of_file
from bench.formats.prefix import Stripper
from bench.formats.shell_assignments import NAME
from bench.formats.source import Source
from bench.records import BadInput, Variables

KIND = "environment variables"

MAX_NAMES = 4096
MAX_STATEMENT = 64 << 10  # a launch line continued over many lines

_ASSIGNMENT = re.compile(
    rf"\s{{0,32}}(?P<lead>export\s+|declare\s+-x\s+|typeset\s+-x\s+|set\s+|setenv\s+|ENV\s+|-\s+|\+\s+)?"
    rf"(?P<name>{NAME})(?P<sign>=|\s*:\s+|\s+=\s+|\s+)(?P<value>.*)"
)
# Kubernetes: "- name: NCCL_DEBUG" and on the next line "value: INFO"
_YAML_NAME = re.compile(
    rf"\s{{0,64}}-?\s{{0,8}}name:\s{{0,8}}[\"']?(?P<name>{NAME})[\"']?\s{{0,8}}\Z"
)
_YAML_VALUE = re.compile(r"\s{0,64}value:\s{0,8}(?P<value>.{0,4096})")
# NCCL's own lines are the log's business: "NCCL_IB_HCA set by environment to mlx5".
_COMMENT = ("#!", "# ", "##", "//")


def likeness(head: str, name: str) -> float:
    """By the share of lines that set a variable; a launch script has few of them."""
    lines = [line for line in head.split("\n") if line.strip()]
    if not lines:
        return 0.0
    kept = assigned = launched = 0
    for line in lines[:2000]:
        match = _ASSIGNMENT.match(line)
        if match and match["sign"] == "=":
            assigned += 1
            kept += recorded(match["name"])
        launched += launch_line.launcher(line) is not None
    if kept and assigned * 2 >= len(lines):
        return 1.0
    script = head.startswith("#!") or PurePath(name).suffix in (".sh", ".sbatch", ".slurm", ".env")
    if launched and (script or launched * 2 >= len(lines)):
        return 0.9
    if kept and (script or kept * 4 >= len(lines)):
        return 0.8
    yaml = sum(1 for line in lines[:2000] if (m := _YAML_NAME.match(line)) and recorded(m["name"]))
    return 0.6 if yaml or (kept and launched) else 0.0


def read(source: Source) -> tuple[Variables, ...]:
    """What the file sets; BadInput where it sets nothing that may be kept and launches nothing."""
    reader = _Reader()
    stripper = Stripper.of(source)
    for number, line in source.lines():
        reader.feed(number, stripper.strip(line)[1])
    reader.finish()
    if not reader.variables and not reader.forwarded and reader.launcher is None:
        raise BadInput("sets no variable that bears on NCCL and starts no job", file=source.file)
    return (
        Variables(
            file=source.file,
            line=reader.line or 1,
            host=of_file(source.file),
            variables=reader.variables,
            exported=tuple(reader.exported),
            forwarded=tuple(reader.forwarded),
            launched_on=reader.launched_on,
            launcher=reader.launcher,
        ),
    )


class _Reader:
    """Statement after statement, continued lines joined."""

    def __init__(self) -> None:
        self.line = 0
        self.variables: dict[str, str] = {}
        self.exported: dict[str, None] = {}
        self.forwarded: dict[str, None] = {}
        self.launched_on: tuple[str, ...] = ()
        self.launcher: str | None = None
        self._statement = ""
        self._begun = 0
        self._yaml_name: str | None = None

    def feed(self, number: int, text: str) -> None:
        self._begun = self._begun or number
        text = text.rstrip()
        if text.endswith("\\") and len(self._statement) < MAX_STATEMENT:
            self._statement += text[:-1]
            return
        statement, begun = self._statement + text, self._begun
        self._statement, self._begun = "", 0
        self._take(begun, statement[:MAX_STATEMENT])

    def finish(self) -> None:
        if self._statement:
            self._take(self._begun, self._statement)

    def _take(self, number: int, text: str) -> None:
        if not text.strip() or text.lstrip().startswith(_COMMENT):
            return
        if self._yaml(number, text):
            return
        launch = launch_line.read(text)
        if launch is not None:
            self.line = self.line or number
            self.launcher = self.launcher or launch.text
            self.launched_on = self.launched_on or launch.hosts
            self.forwarded.update(dict.fromkeys(launch.forwarded))
            for name, value in launch.variables.items():
                self._keep(number, name, value)
            return
        for told in shell_assignments.of_line(text):
            if told.value is not None:
                self._keep(number, told.name, told.value)
            if told.exported:
                self._export(told.name)

    def _yaml(self, number: int, text: str) -> bool:
        named = _YAML_NAME.match(text)
        if named:
            self._yaml_name = named["name"]
            return True
        value = _YAML_VALUE.match(text) if self._yaml_name else None
        if value and self._yaml_name:
            self._keep(number, self._yaml_name, _unquoted(value["value"]))
        self._yaml_name = None
        return value is not None

    def _keep(self, number: int, name: str, value: str) -> None:
        if recorded(name) and len(self.variables) < MAX_NAMES:
            self.variables[name] = value[:VALUE_LIMIT]
            self.line = self.line or number

    def _export(self, name: str) -> None:
        if recorded(name) and len(self.exported) < MAX_NAMES:
            self.exported[name] = None


def _unquoted(text: str) -> str:
    """The value without quotes and a comment behind it."""
    text = text.strip()
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        return text[1:end] if end > 0 else text[1:]
    return text.partition(" #")[0].strip()
