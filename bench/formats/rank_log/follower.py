"""One process's lines in their order: what each says of a fault, a wait, a step, an end.

In: the lines of a Voice, passage by passage. Out: records in a Ledger. The latest time before a
line that has none is kept, and the next behind it; a higher step behind a fault shows that it was
survived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from bench.formats.rank_log import (
    exceptions,
    failure_page,
    progress,
    settings,
    signs,
    stamps,
    watchdog,
)
from bench.formats.rank_log.exceptions import HEADER, Raised
from bench.formats.rank_log.identity import Place
from bench.formats.rank_log.passages import Line
from bench.formats.rank_log.stamps import Stamp
from bench.formats.rank_log.streams import Said, Voice, Voices
from bench.records import Phase, RankExit, RankSign, RankStep, RankStream, RankWait
from bench.records.ranklog import SignRole

LONGEST_TEXT = 400
_WORLD = re.compile(
    r"(?:world[_ ]?size|WORLD_SIZE)[\"']?\s{0,2}[=:]?\s{0,2}(\d{1,7})|\bnranks (\d{1,7})"
    r"|(?:num_processes|distributed processes)[=:]? ?(\d{1,7})"
    r"|with (\d{1,7}) processes"
)
_SIZED = re.compile(r"size|SIZE|nranks|process")  # most lines have none of these
_STARTS_AGAIN = re.compile(r"will restart worker group|restart_count=[1-9]")
_ABSENT = re.compile(r"Ranks? ([\d, ]{1,400}) failed to pass monitoredBarrier")
_PROCESS = re.compile(r"Kill(?:ed)? process (\d{1,10})|Xid .{1,60}\bpid=(\d{1,10})")
# What a kernel or a scheduler says is about a host: its process tells the rank, not its file.
_KERNEL = re.compile(r"NVRM: |SXid|Kill(?:ed)? process \d|oom-kill:|oom_kill event|OOMKilled")
KERNEL = "kernel"


@dataclass
class Ledger:
    """What has been found in a file so far. `hits`: numbers of lines with a word of a fault."""

    file: str
    voices: Voices
    hits: set[int]
    signs: list[RankSign] = field(default_factory=list)
    waits: list[RankWait] = field(default_factory=list)
    exits: list[RankExit] = field(default_factory=list)
    streams: list[RankStream] = field(default_factory=list)
    world_size: int | None = None
    settings: dict[str, tuple[str, int]] = field(default_factory=dict)
    restarts: list[int] = field(default_factory=list)
    has_nccl: bool = False

    @property
    def place(self) -> Place:
        return self.voices.place


class Follower:
    """One process's lines, in order."""

    def __init__(self, ledger: Ledger, voice: Voice) -> None:
        self.ledger, self.voice = ledger, voice
        self.first: Said | None = None
        self.last: Said | None = None
        self.begun: Stamp | None = None
        self.now: Stamp | None = None
        self.steps: list[RankStep] = []
        self.ended: tuple[str, int] | None = None
        self.signs: list[RankSign] = []
        self.root = False

    def part(self, part: list[Said]) -> None:
        """The lines of one passage; what lies between two passages was not read."""
        lines = [one.line for one in part]
        at = 0
        if self.now is not None and lines:
            self.now = None  # hours may have passed
        while at < len(part):
            at = self._one(part, lines, at)

    def stream(self) -> RankStream:
        place, voice, ledger = self.ledger.place, self.voice, self.ledger
        rank, basis = voice.rank, "told" if voice.rank is not None else None
        if rank is None and ledger.voices.single and place.rank is not None:
            rank, basis = place.rank, "file"
        ledger.signs += [self._placed(sign, rank) for sign in self.signs]
        return RankStream(
            name=voice.name,
            file=ledger.file,
            rank=rank,
            rank_basis=basis,  # type: ignore[arg-type]
            local_rank=place.local_rank,
            host=voice.host or place.host,
            pid=voice.pid,
            attempt=place.attempt,
            node=place.node,
            first_line=self.first.line.number if self.first else 0,
            last_line=self.last.line.number if self.last else 0,
            last_text=self.last.line.text.strip()[:LONGEST_TEXT] if self.last else "",
            begun_s=self.begun.seconds if self.begun else None,
            ended_s=self.now.seconds if self.now else None,
            clock=self.now.clock if self.now else None,
            steps=tuple(self.steps[-progress.MOST_STEPS :]),
            ended=self.ended[0] if self.ended else None,
            ended_line=self.ended[1] if self.ended else None,
        )

    # --- one line -----------------------------------------------------------------------------

    def _one(self, part: list[Said], lines: list[Line], at: int) -> int:
        """What a line tells; the index of the next one."""
        one = part[at]
        text = one.line.text
        self.first = self.first or one
        stamp = stamps.of(text) or stamps.of_prefix(one.prefix.time)
        if stamp is not None:
            self.now = stamp
            self.begun = self.begun or stamp
            self._until(stamp)
        if HEADER in text and not text.lstrip().startswith("traceback : "):
            return self._traceback(part, lines, at)
        if failure_page.is_root(text):
            self.root = True
        if failure_page.is_entry(text):
            return self._entry(lines, at)
        self.last = one
        if one.line.number in self.ledger.hits:
            self._hit(one, stamp)
        self._marks(one, stamp)
        return at + 1

    def _marks(self, one: Said, stamp: Stamp | None) -> None:
        text = one.line.text[:LONGEST_TEXT]
        ledger = self.ledger
        if ledger.world_size is None and _SIZED.search(text) and (found := _WORLD.search(text)):
            size = next(int(group) for group in found.groups() if group)
            ledger.world_size = size or None
        if "NCCL INFO" in text:
            ledger.has_nccl = True
        elif (step := progress.step(text, one.line.number, self._seconds(stamp))) is not None:
            if self.steps and step.word == self.steps[-1].word:
                self._progressed(step)
            self.steps.append(step)
            self.ended = None if not progress.ended(text) else (text.strip(), one.line.number)
        elif progress.ended(text):
            self.ended = text.strip(), one.line.number
        elif self.ended and one.line.number not in ledger.hits and progress.goes_on(text):
            self.ended = None

    def _hit(self, one: Said, stamp: Stamp | None) -> None:
        """A line with a word of a fault."""
        text, number, file = one.line.text, one.line.number, self.ledger.file
        settings.note(self.ledger.settings, text, number)
        if "NCCL WARN" in text:
            self.ledger.has_nccl = True
        if _STARTS_AGAIN.search(text):
            self.ledger.restarts.append(number)
        if left := failure_page.short(text, number, file, stamp or self.now):
            self.ledger.exits.append(left)
        if wait := watchdog.of(text, number, file, stamp):
            self._wait(wait, one)
        found = signs.of(text)
        if found is None:
            return
        sign, role = found
        if sign.kind == "mismatch":
            self.ledger.waits += watchdog.of_fingerprints(text, number, file)
        self._sign(sign.kind, role, one, text, stamp, phase=sign.phase)

    def _traceback(self, part: list[Said], lines: list[Line], at: int) -> int:
        one = part[at]
        raised, end = exceptions.parse(lines, at)
        for skipped in part[at:end]:
            if stamp := stamps.of(skipped.line.text):
                self.now = stamp
        self.last = part[max(end - 1, at)]
        before = lines[at - 1].text if at else ""
        told = signs.first(before) is None and signs.says_survived(before)
        told = told or signs.says_survived(one.line.text.partition(HEADER)[0])
        self._raised(raised, one, uncaught=one.uncaught, told=told)
        return end

    def _raised(self, raised: Raised, one: Said, *, uncaught: bool, told: bool) -> None:
        if raised.ignored:
            return
        sign = signs.first(raised.all_words)
        kind, role = (sign.kind, sign.role) if sign else ("exception", "fault")
        if raised.type.rpartition(".")[2] in ("ChildFailedError", "SignalException"):
            kind, role = (kind, role) if sign else ("teardown", "consequence")
        if told and role == "fault" and not uncaught:
            role = "mention"
        if wait := watchdog.of_gloo(
            raised.all_words, raised.collective, raised.line, self.ledger.file
        ):
            self._wait(wait, one)
        self.ledger.waits += watchdog.of_fingerprints(raised.words, raised.line, self.ledger.file)
        where = Said(Line(raised.line, raised.quote), one.prefix, one.rank)
        self._sign(
            kind, role, where, raised.quote, None, phase=sign.phase if sign else None,
            raised=raised, uncaught=uncaught,
        )  # fmt: skip

    def _entry(self, lines: list[Line], at: int) -> int:
        left, body, end = failure_page.entry(lines, at, self.ledger.file, self.root)
        self.ledger.exits.append(left)
        self.root = False
        if body and HEADER in body[0].text:
            raised, _ = exceptions.parse(body, 0)
            sign = signs.first(raised.all_words)
            kind, role = (sign.kind, sign.role) if sign else ("exception", "fault")
            where = Said(Line(raised.line, raised.quote), self.voice.parts[0][0].prefix)
            self._sign(
                kind, role, where, raised.quote, None, raised=raised, uncaught=True, left=left
            )
        return max(end, at + 1)

    # --- records ------------------------------------------------------------------------------

    def _sign(
        self,
        kind: str,
        role: SignRole,
        one: Said,
        text: str,
        stamp: Stamp | None,
        *,
        phase: Phase | None = None,
        raised: Raised | None = None,
        uncaught: bool = False,
        left: RankExit | None = None,
    ) -> None:
        when = stamp or self.now
        absent = _ABSENT.search(text)
        rank = left.rank if left else one.rank
        self.signs.append(
            RankSign(
                kind=kind,
                role=role,
                text=text.strip()[:LONGEST_TEXT],
                file=self.ledger.file,
                line=one.line.number,
                stream=self.voice.name,
                rank=rank,
                host=left.host if left else one.prefix.host,
                pid=left.pid if left else _pid(text),
                time=when.text if when else None,
                time_s=left.time_s if left else when.seconds if when else None,
                clock=left.clock if left else when.clock if when else None,
                is_exact=stamp is not None,
                until_s=_until(stamp, left),
                uncaught=uncaught,
                place=raised.place if raised else None,
                chain=raised.chain if raised else (),
                peers=tuple(int(word) for word in re.findall(r"\d+", absent[1])) if absent else (),
                phase=phase,
            )
        )

    def _placed(self, sign: RankSign, rank: int | None) -> RankSign:
        own = sign.rank if sign.rank is not None else rank
        host = sign.host or self.voice.host or self.ledger.place.host
        if _KERNEL.search(sign.text):
            return msgspec.structs.replace(sign, rank=None, stream=KERNEL, host=host)
        return msgspec.structs.replace(sign, rank=own, host=host, pid=sign.pid or self.voice.pid)

    def _wait(self, wait: RankWait, one: Said) -> None:
        """A wait with the job's rank: the line's speaker's, its voice's, or its file's."""
        voices, now = self.ledger.voices, self.now
        rank = one.rank if one.rank is not None else self.voice.rank
        self.ledger.waits.append(
            msgspec.structs.replace(
                wait,
                rank=voices.place.rank if rank is None and voices.single else rank,
                stream=self.voice.name,
                after_s=now.seconds if now else None,
                clock=wait.clock or (now.clock if now else None),
            )
        )

    def _until(self, stamp: Stamp) -> None:
        """The first time behind signs that have none of their own."""
        for at in range(len(self.signs) - 1, -1, -1):
            sign = self.signs[at]
            if sign.until_s is not None:
                break
            if sign.clock in (None, stamp.clock):
                self.signs[at] = msgspec.structs.replace(sign, until_s=stamp.seconds)

    def _progressed(self, step: RankStep) -> None:
        """A higher step than before: what was said meanwhile did not end the process."""
        before = self.steps[-1]
        if step.number <= before.number:
            return
        for at in range(len(self.signs) - 1, -1, -1):
            sign = self.signs[at]
            if sign.survived:
                break
            if before.line < sign.line < step.line:
                self.signs[at] = msgspec.structs.replace(sign, survived=True)

    def _seconds(self, stamp: Stamp | None) -> float | None:
        return stamp.seconds if stamp else self.now.seconds if self.now else None


def _until(stamp: Stamp | None, left: RankExit | None) -> float | None:
    """The latest that it can have been; the launcher's page has whole seconds."""
    if left is not None and left.time_s is not None:
        return left.time_s + 1
    return stamp.seconds if stamp else None


def _pid(text: str) -> int | None:
    """The process that the kernel killed."""
    found = _PROCESS.search(text)
    return int(found[1] or found[2]) if found else None
