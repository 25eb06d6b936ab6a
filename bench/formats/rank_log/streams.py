"""Who speaks in a file: its passages taken apart into one list of lines per process.

In: Passages and the file's place. Out: Voices. A line belongs to whom its launcher's prefix names,
else to the rank that the program itself, or torch in the default group, names in it, else to the
file. In a file of one rank all lines are its own. The rank that torch counts within another group
names nobody; where the group is not printed it counts only if nothing else tells.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from bench.formats.prefix import NONE, Prefix, Stripper
from bench.formats.rank_log import identity, watchdog
from bench.formats.rank_log.identity import Place
from bench.formats.rank_log.passages import Line, Passage

# What a program says of itself: "rank=3", "rank: 3", "[rank 3]", "Rank 3:"; never "to rank 3".
_SELF = re.compile(
    r"(?:^|[\s\[(|,{])(?:global[_-]?)?rank(?:=|: ?|[\"']: ?)(\d{1,7})(?![\d.])"
    r"|^\W{0,3}\[?rank[ _](\d{1,7})(?:\]|:| \|)",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\[Rank (\d{1,7})\]")
_BRACKET = re.compile(r"\[rank\d{1,7}\]: ?(?:.{0,12})Traceback")
_NCCL = re.compile(r"(?:^|\s)([\w.-]{1,64}):(\d{1,10}):\d{1,10} \[\d{1,3}\]")
_ENTRY = re.compile(r"\[\d{1,6}\]:\s*$")
LOOKED_AT = 400  # characters
SAMPLE = 200  # lines by which a launcher's prefix is recognised
MOST_VOICES = 4096  # ranks of one console; beyond, they share one


@dataclass
class Said:
    """One line: what the process wrote, and what stood before it."""

    line: Line
    prefix: Prefix
    rank: int | None = None  # that the line names as its own speaker
    uncaught: bool = False  # torch's own hook printed it at the interpreter's end
    inner: int | None = None  # by which torch names itself within a group that it does not print


@dataclass
class Voice:
    """One process of the file. `parts` are its lines, a list per passage."""

    name: str
    rank: int | None = None
    label: str | None = None
    host: str | None = None
    pid: int | None = None
    parts: list[list[Said]] = field(default_factory=list)


class Voices:
    """All processes of a file."""

    def __init__(self, passages: list[Passage], place: Place) -> None:
        self.place = place
        lines = [line.text for passage in passages for line in passage.lines]
        self.stripper = Stripper.of_lines(lines[:: max(len(lines) // SAMPLE, 1)])
        said = [[self._said(line) for line in passage.lines] for passage in passages]
        self._believe(said)
        self.ranks = Counter(one.rank for part in said for one in part if one.rank is not None)
        self.labels = self._labels(said)
        self.single = len(self.ranks) <= 1 and len(self.labels) <= 1
        self.voices: dict[str, Voice] = {}
        for at, part in enumerate(said):
            for one in part:
                voice = self._voice(one)
                while len(voice.parts) <= at:
                    voice.parts.append([])
                voice.parts[at].append(one)
        self._identify()

    def _said(self, line: Line) -> Said:
        if _ENTRY.match(line.text):  # torchrun's page counts its entries as a launcher would
            return Said(line, NONE)
        prefix, rest = self.stripper.strip(line.text)
        hooked = "Traceback" in line.text and _BRACKET.search(line.text) is not None
        rank, inner = _named(prefix, rest[:LOOKED_AT])
        return Said(Line(line.number, rest), prefix, rank, hooked, inner)

    def _believe(self, said: list[list[Said]]) -> None:
        """A rank within a group that nobody names stands for the job's, where neither the file's
        name, nor any prefix, nor another line of the same label tells that. A folder's name tells
        it of one process, so not where several speak."""
        lines = [one for part in said for one in part]
        by_name = identity.of(self.place.base).rank is not None
        if by_name or any(one.prefix.rank is not None for one in lines):
            return
        inner = {one.inner for one in lines} - {None}
        if self.place.rank is not None and len(inner) < 2:
            return
        told = {one.prefix.label for one in lines if one.rank is not None} - {None}
        for one in lines:
            if one.inner is not None and one.prefix.label not in told:
                one.rank = one.inner

    def _labels(self, said: list[list[Said]]) -> dict[str, int | None]:
        """The launcher's labels ("default1"), each with the one rank that its lines name."""
        named: dict[str, set[int]] = {}
        for part in said:
            for one in part:
                if one.prefix.label is not None:
                    ranks = named.setdefault(one.prefix.label, set())
                    if one.rank is not None:
                        ranks.add(one.rank)
        return {
            label: ranks.copy().pop() if len(ranks) == 1 else None
            for label, ranks in named.items()
        }

    def _voice(self, one: Said) -> Voice:
        if self.single:
            name = ""
        elif one.prefix.label is not None:
            name = one.prefix.label
        elif one.rank is not None:
            name = f"rank {one.rank}"
        else:
            name = one.prefix.host or ""
        voice = self.voices.get(name)
        if voice is None:
            if len(self.voices) >= MOST_VOICES:
                name = ""
            voice = self.voices.setdefault(name, Voice(name))
            voice.label = one.prefix.label
            voice.host = one.prefix.host
        return voice

    def _identify(self) -> None:
        """Ranks of voices: told by the lines; of a file of one rank, by the file."""
        for voice in self.voices.values():
            if voice.name.startswith("rank "):
                voice.rank = int(voice.name[5:])
            elif voice.label is not None:
                voice.rank = self.labels.get(voice.label)
            if self.single and len(self.ranks) == 1:
                voice.rank = next(iter(self.ranks))
            for part in voice.parts:
                for one in part[:200]:
                    if "NCCL" in one.line.text and (found := _NCCL.search(one.line.text)):
                        voice.host, voice.pid = voice.host or found[1], voice.pid or int(found[2])
                        break


def _named(prefix: Prefix, text: str) -> tuple[int | None, int | None]:
    """The rank that a line names as its own speaker, and the one within a group not printed."""
    if prefix.rank is not None:
        return prefix.rank, None
    if "ank" not in text and "RANK" not in text:
        return None, None
    if torchs := watchdog.speaker(text):
        default = torchs.group == watchdog.DEFAULT_GROUP
        return torchs.rank if default else None, torchs.rank if torchs.group is None else None
    found = _BRACKETED.search(text) or _SELF.search(text)
    return next((int(rank) for rank in found.groups() if rank), None) if found else None, None
