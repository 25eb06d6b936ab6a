"""Tracebacks: the exception that ended a process, and where in the user's code it came from.

In: the lines of one stream, from the one that says "Traceback". Out: a Raised, and where the text
goes on. Known: chains ("During handling of …"), a worker's exception that the parent raises again
("Original Traceback"), exception groups, rich's boxes, tracebacks that a JSON log keeps in one
line. Of a chain the first that is a fault of its own counts, else the last, which ended the
process: what is raised while cleaning up is often only a closed connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from bench.formats.rank_log import progress, signs, stamps
from bench.formats.rank_log.passages import Line

HEADER = "Traceback (most recent call last)"
MAX_LINES = 4000  # of one traceback; Python cuts a recursion itself
MAX_TEXT_LINES = 8  # of an exception, behind its first
MAX_CHAIN = 16
MAX_STRANGE = 40  # lines of other writers within one traceback
CHAIN_SHOWN = 6  # frames of the user's code

_FRAME = re.compile(
    r'^[\s|+]*File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,7})(?:,? in (?P<name>.{1,120}))?'
)
_RICH_FRAME = re.compile(r"^│ +(?P<file>\S{0,300}\.py):(?P<line>\d{1,7}) in (?P<name>\S{1,120})")
_RICH_END = re.compile(r"^╰─")
_TYPE = re.compile(
    r"^[\s|+]{0,8}(?P<type>[A-Za-z_][\w.]{0,200}(?:\[\w{1,40}\])?)(?::(?: (?P<text>.*))?)?$",
    re.DOTALL,
)
_BODY = re.compile(r"^(?:\s|│|╭|╰|\||\+|[~^]+\s*$)")
_BETWEEN = re.compile(
    r"^[\s|]*(?:During handling of the above exception|The above exception was the direct cause)"
)
_LAUNCHER = re.compile(r"(?:srun|slurmstepd|mpirun|mpiexec|prterun|prted)\b")
_IGNORED = re.compile(r"Exception ignored in|Error in atexit|Exception ignored on")
_LIBRARY = (
    "site-packages",
    "dist-packages",
    "/lib/python",
    "<frozen",
    "<string>",
    "importlib",
    "/bin/",
)
_COLLECTIVES = ("distributed_c10d.py", "functional_collectives", "_functional_collectives")


@dataclass
class Raised:
    """One exception. `line` is where its type and text stand, `end` the next line to look at."""

    type: str = ""
    text: str = ""
    line: int = 0
    more: list[str] = field(default_factory=list)  # further lines of the text
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    ignored: bool = False
    earlier: list[Raised] = field(default_factory=list)  # of its chain

    @property
    def words(self) -> str:
        return f"{self.type}: {self.text}" if self.text else self.type

    @property
    def all_words(self) -> str:
        """With the lines behind the first: NCCL's own last error is in the third."""
        return "\n".join((self.words, *self.more))

    @property
    def quote(self) -> str:
        """The first line, and what NCCL said last."""
        if "Last error:" in self.more[:-1]:
            return f"{self.words} … {self.more[self.more.index('Last error:') + 1]}"
        return self.words

    @property
    def place(self) -> str | None:
        """ "train.py:220 main": the innermost frame of the user's own code, else the last."""
        own = [frame for frame in self.frames if not _is_library(frame[0])]
        frames = own or self.frames
        return _shown(frames[-1]) if frames else None

    @property
    def chain(self) -> tuple[str, ...]:
        """The user's frames, outermost first."""
        own = [frame for frame in self.frames if not _is_library(frame[0])]
        return tuple(_shown(frame) for frame in own[-CHAIN_SHOWN:])

    @property
    def collective(self) -> str | None:
        """ "all_reduce" where the exception came out of torch.distributed."""
        for file, _, name in reversed(self.frames):
            if any(words in file for words in _COLLECTIVES) and not name.startswith("_"):
                return name if name != "wrapper" else None
        return None


def parse(lines: Sequence[Line], at: int) -> tuple[Raised, int]:
    """The exception whose traceback begins at lines[at], and the index behind it."""
    if "\\n" in lines[at].text:  # a JSON log
        text = lines[at].text.replace("\\n", "\n").replace('\\"', '"')
        inner = [Line(lines[at].number, part.rstrip('"}, ')) for part in text.split("\n")]
        begin = next(i for i, line in enumerate(inner) if HEADER in line.text)
        if len(inner) > begin + 1:
            return parse(inner, begin)[0], at + 1
    ignored = at > 0 and _IGNORED.search(lines[at - 1].text) is not None
    links: list[Raised] = []
    while len(links) < MAX_CHAIN:
        raised, at = _one(lines, at)
        links.append(raised)
        following = _next_link(lines, at)
        if following is None:
            break
        at = following
    chosen = _cause(links)
    chosen.ignored = ignored
    chosen.earlier = [link for link in links if link is not chosen]
    return chosen, at


def _one(lines: Sequence[Line], at: int) -> tuple[Raised, int]:
    """One link of a chain."""
    raised, strange = Raised(line=lines[at].number), 0
    end = min(len(lines), at + MAX_LINES)
    boxed = lines[at].text.lstrip().startswith("╭")
    at += 1
    while at < end:
        text = lines[at].text
        if found := _FRAME.match(text) or _RICH_FRAME.match(text):
            raised.frames.append((found["file"], int(found["line"]), found["name"] or "?"))
        elif HEADER in text:
            return raised, at  # cut off; the next begins
        elif boxed and _RICH_END.match(text):
            boxed = False
        elif text.strip() and not _BODY.match(text) and not boxed:
            found = _TYPE.match(text)
            if found:
                raised.type, raised.text = found["type"], (found["text"] or "").strip()
                raised.line = lines[at].number
                _further(lines, at + 1, raised)
                return _original(lines, at + 1, raised)
            strange += 1
            if strange > MAX_STRANGE:
                return raised, at
        elif raised.frames and (found := _TYPE.match(text)) and _ends_group(text, found["type"]):
            raised.type, raised.text = found["type"], (found["text"] or "").strip()
            raised.line = lines[at].number
            return raised, at + 1
        at += 1
    return raised, at


def _further(lines: Sequence[Line], at: int, raised: Raised) -> None:
    """The other lines of an exception of NCCL's, whose third tells what happened. They are looked
    at again by themselves: what follows without a time may be another process's."""
    end = min(len(lines), at + MAX_TEXT_LINES)
    if "NCCL" not in raised.text:
        return
    while at < end:
        text = lines[at].text.strip()
        if not text or _BETWEEN.match(text) or HEADER in text or stamps.of(text) is not None:
            break
        if progress.step(text, 0, None) is not None or _LAUNCHER.match(text):
            break
        raised.more.append(text[:400])
        at += 1


def _ends_group(text: str, kind: str) -> bool:
    """The line "  | ValueError: …" in an exception group."""
    return text.lstrip().startswith("|") and kind.endswith(("Error", "Exception"))


def _original(lines: Sequence[Line], at: int, raised: Raised) -> tuple[Raised, int]:
    """Behind "Caught ValueError in DataLoader worker process 0." stands the worker's traceback."""
    if not raised.text.startswith("Caught "):
        return raised, at
    for ahead in range(at, min(at + len(raised.more) + 3, len(lines))):
        if HEADER in lines[ahead].text:
            inner, end = _one(lines, ahead)
            if inner.type:
                inner.frames = inner.frames or raised.frames
                inner.earlier = [raised]
                return inner, end
    return raised, at


def _next_link(lines: Sequence[Line], at: int) -> int | None:
    """Where the next traceback of the chain begins."""
    for ahead in range(at, min(at + 12, len(lines))):
        if _BETWEEN.match(lines[ahead].text):
            for header in range(ahead + 1, min(ahead + 6, len(lines))):
                if HEADER in lines[header].text:
                    return header
        elif HEADER in lines[ahead].text:
            return None
    return None


def _cause(links: Sequence[Raised]) -> Raised:
    """The link that tells the cause."""
    roles = [sign.role if (sign := signs.first(link.all_words)) else None for link in links]
    for link, role in zip(links, roles, strict=True):
        if role == "fault":
            return link
    if roles[-1] is None:
        return links[-1]
    for link, role in zip(links, roles, strict=True):
        # raised by the program itself; a library's own KeyError or queue.Empty is its way to look
        if role is None and link.frames and not _is_library(link.frames[-1][0]):
            return link
    return links[-1]


def _is_library(file: str) -> bool:
    return any(words in file for words in _LIBRARY)


def _shown(frame: tuple[str, int, str]) -> str:
    file, line, name = frame
    return f"{PurePath(file).name}:{line} {name}"
