"""What a launcher writes in front of each line of a job's output, and which process that names.

In: sample lines of a file (the layers are decided once), then line by line. Out: a Prefix and the
rest of the line. Known: mpirun, PRRTE, srun, Intel MPI, pdsh, torchrun, Ray, kubectl, Docker
Compose, journald and ISO stamps, one around the other. NCCL's own `host:pid:tid [0] NCCL INFO` is
no launcher's and stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.formats.source import Source


class Prefix(NamedTuple):
    """What stood in front of a line. `rank` only where the launcher's number is the job's rank;
    a number that may be counted per host, a pod's or worker's name is the `label`."""

    host: str | None = None
    rank: int | None = None
    label: str | None = None
    time: str | None = None

    @property
    def stream(self) -> tuple[str | None, int | None, str | None]:
        """What tells the processes of a file apart: equal for all lines of one of them."""
        return self.host, self.rank, self.label


NONE = Prefix()


class _Layer(NamedTuple):
    """One form. `share` of the sample's lines must have it; 0: nothing else looks like it.

    `repeats`: its words must come again that often, or it is a file of `key: value` lines.
    `starts`: letters that it begins with; empty: any.
    """

    name: str
    pattern: re.Pattern[str]
    share: float
    repeats: int = 0
    starts: str = ""


_STAMP = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DAY = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [A-Z]{3,4})? \d{4}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# Words before a colon at the beginning of lines that are no host.
_NO_HOST = (
    r"(?!(?i:warn(?:ing)?|info|error|note|notice|debug|trace|fatal|critical|nccl|rank|gpu|device|"
    r"port|state|link|node|usage|file|traceback|srun|slurmstepd):)"
)

# In the order in which a tie is decided; every pattern is anchored and looks at a bounded
# beginning. The forms of `share` 0 come first: they are told by their look alone.
_LAYERS = (
    # Open MPI --tag-output "[1,3]<stdout>:", with a date under --timestamp-output, PRRTE's
    # "[prterun-host-17@1,3]<stdout>: ", Horovod's "[3]<stdout>:"
    _Layer(
        "mpirun",
        re.compile(
            rf"(?P<time>{_DAY})?\[(?:[^\]\s,]{{1,100}}@)?(?:\d{{1,6}},)?(?P<rank>\d{{1,7}})\]"
            r"<(?:stdout|stderr|stddiag)>: ?"
        ),
        0,
    ),
    # torch's own "[rank3]: " on errors, "[rank3]:[E1130 10:31:07 ProcessGroupNCCL.cpp:563]"
    _Layer("torch", re.compile(r"\[rank(?P<rank>\d{1,7})\]: ?"), 0, starts="["),
    # torchrun --tee: "[default3]:", counted per host
    _Layer(
        "torchrun", re.compile(r"\[(?P<label>(?:default|trainer|worker)\d{1,6})\]:"), 0, starts="["
    ),
    # pdsh around it, as DeepSpeed's launcher has it, also in a file of which few lines are so
    _Layer("pdsh-torch", re.compile(rf"{_NO_HOST}(?P<host>{_NAME}): (?=\[rank\d{{1,7}}\])"), 0),
    _Layer("kubectl", re.compile(r"\[pod/(?P<label>[^\]\s]{1,300})\] ?"), 0, starts="["),
    _Layer(
        "ray",
        re.compile(r"\((?P<label>\w{1,80} pid=\d{1,8}(?:, ip=[\w.:]{1,45})?)\) ?"),
        0,
        starts="(",
    ),
    _Layer("quote", re.compile(r"> ?"), 0.9, starts=">"),
    _Layer("compose", re.compile(rf"(?P<label>{_NAME}) +\| ?"), 0.6, repeats=3),
    _Layer(
        "journald",
        re.compile(
            rf"(?P<time>[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{_STAMP}) (?P<host>{_NAME}) "
            r"(?P<label>[\w./@-]{1,60}(?:\[\d{1,8}\])?): ?"
        ),
        0.5,
    ),
    _Layer(
        "stamp", re.compile(rf"(?P<time>{_STAMP}|\[{_STAMP}\]):? ?"), 0.5, starts="[0123456789"
    ),
    _Layer(
        "cri", re.compile(r"(?:stdout|stderr) [FP] ?"), 0.5, starts="s"
    ),  # Kubernetes, behind a stamp
    _Layer(
        "srun",
        re.compile(r" {0,6}(?P<rank>\d{1,6}):(?: |$)"),
        0.7,
        repeats=2,
        starts=" 0123456789",
    ),
    # torchrun's older "[3]:", or another role's "[learner3]:"
    _Layer("numbered", re.compile(r"\[(?P<label>[A-Za-z_]{0,40}\d{1,6})\]: ?"), 0.5, starts="["),
    _Layer("hydra", re.compile(r"\[(?P<rank>\d{1,6})\] "), 0.9, starts="["),
    _Layer("pdsh", re.compile(rf"{_NO_HOST}(?P<host>(?!\d+:){_NAME}):(?: |$)"), 0.8, repeats=3),
)
_SELF_EVIDENT = tuple(layer for layer in _LAYERS if not layer.share)

MAX_DEPTH = 4  # kubectl around stamps around mpirun around srun
MAX_KNOWN = 1 << 16  # prefixes remembered, one a rank; those with a time never come again
MAX_SAMPLE = 4000


class Stripper:
    """The layers of one file, outermost first, found once; strip() takes them off line by line."""

    def __init__(self, layers: Sequence[str] = ()) -> None:
        self.layers = tuple(layers)
        by_name = {layer.name: layer for layer in _LAYERS}
        self._decided = tuple(by_name[name] for name in layers)
        self._others = tuple(each for each in _SELF_EVIDENT if each.name not in self.layers)
        self._known: dict[str, Prefix] = {}

    @classmethod
    def of(cls, source: Source) -> Stripper:
        """The layers of a file, from lines of its beginning, middle and end."""
        return cls.of_lines(source.samples())

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> Stripper:
        sample = [line for line in lines if line.strip()][:MAX_SAMPLE]
        layers: list[str] = []
        while len(layers) < MAX_DEPTH and (layer := _outermost(sample, layers)):
            layers.append(layer.name)
            sample = [_rest(layer, line) for line in sample]
            sample = [line for line in sample if line.strip()]
        return cls(layers)

    def strip(self, line: str) -> tuple[Prefix, str]:
        """The launcher's prefix of a line (NONE where it has none) and what the process wrote."""
        begun = line
        found: Prefix | None = None
        for layer in self._decided:
            match = layer.pattern.match(line)
            if match:
                found = self._prefix(match, found)
                line = line[match.end() :]
        if line[:1] in ("[", "("):
            for layer in self._others:
                match = layer.pattern.match(line)
                if match:
                    found = self._prefix(match, found)
                    line = line[match.end() :]
                    break
        return (NONE, begun) if found is None else (found, line)

    def _prefix(self, match: re.Match[str], outer: Prefix | None) -> Prefix:
        text = match.group()
        here = self._known.get(text)
        if here is None:
            groups = match.groupdict()
            rank, time = groups.get("rank"), groups.get("time")
            here = Prefix(
                host=groups.get("host"),
                rank=int(rank) if rank else None,
                label=groups.get("label"),
                time=time.strip("[]") if time else None,
            )
            if not time and len(self._known) < MAX_KNOWN:
                self._known[text] = here
        if outer is None:
            return here
        return Prefix(
            host=here.host or outer.host,
            rank=outer.rank if here.rank is None else here.rank,
            label=here.label or outer.label,
            time=here.time or outer.time,
        )


def strip(line: str) -> tuple[Prefix, str]:
    """One line by itself: only prefixes that nothing else looks like are taken off."""
    return _ALONE.strip(line)


def _outermost(sample: list[str], used: list[str]) -> _Layer | None:
    """The layer that most lines of the sample begin with, if enough of them do."""
    best: tuple[int, _Layer] | None = None
    begun = {line[:1] for line in sample}
    for layer in _LAYERS:
        if layer.name in used or (layer.starts and begun.isdisjoint(layer.starts)):
            continue
        matches = [match for line in sample if (match := layer.pattern.match(line))]
        if not matches or len(matches) < layer.share * len(sample):
            continue
        words = Counter(match.group() for match in matches)
        if layer.repeats and len(matches) < layer.repeats * len(words):
            continue
        if best is None or len(matches) > best[0]:
            best = len(matches), layer
    return best[1] if best else None


def _rest(layer: _Layer, line: str) -> str:
    match = layer.pattern.match(line)
    return line[match.end() :] if match else line


_ALONE = Stripper()
