"""Warnings and errors in their place, the first fault first, each with the returns it caused.

In: "NCCL WARN" and "ATTN" lines, "… retrying" lines and "init.cc:903 -> 5" returns, by thread.
Out: LogEvent records. File order is not event order in mixed logs, so times count where all
faults carry one; consequences come behind causes, remarks of healthy machines last. Where there is
no room for all, the latest of the least role are left out and counted: a fault never for a remark.
"""

from __future__ import annotations

import re
from typing import Literal

from bench.formats.nccl_log.heads import Head, Speaker, short
from bench.records import LogEvent

Role = Literal["fault", "remark", "retry", "consequence"]
_ORDER: tuple[Role, ...] = ("fault", "retry", "consequence", "remark")
Key = tuple[str, int, str]  # host, process, text

MOST_EVENTS = 1000  # different ones; a 10,000-rank job that dies prints the same few on each rank
LONGEST_TEXT = 1000
LONGEST_TRACE = 24

# What NCCL and RCCL warn of on machines that work.
_REMARKS = (
    'Missing "', "amd_iommu", "iommu=pt", "NUMA auto balancing", "libibverbs.so", "is deprecated",
    "RCCL_USE_AMD_SMI_LIB", "MSCCL", "GDRCOPY", "gdrcopy", "falling back to internal",
    "Could not get speed from", "ignoring the rest", "Kernel version", "Could not read node #",
    "Could not find ncclGetVersion symbol",
    # What ports report that change and go on.
    "GID table change", "client reregistration", "LID change", "PKey change", "SM change",
    "port active",
)  # fmt: skip
# What a rank says after another rank, or another of its threads, has failed.
_CONSEQUENCES = (
    "Connection closed by remote peer", "Connection reset by peer", "Broken pipe",
    "Proxy Call to rank", "in abort state", "[Service thread] Connection closed",
    "[Service thread] Accept failed", "[Service thread] Could not receive type",
    "[Service thread] Error encountered progressing", "ncclCommAbort", "sets state",
    "Error while creating shared memory segment", "communicator encountered a fatal error",
    "closed before", "communicator was revoked",
)  # fmt: skip

_RETURN = re.compile(
    r"(\S{1,400}\.(?:cc|cpp|cu|h):\d{1,6}) (?:\(\w{1,120}\) )?-> (\d{1,3})(?: \[.{1,40}\])?\s*$"
)
# A source file of RAS, NCCL's watch over its processes: it goes on without what RAS cannot do.
_RAS = re.compile(r"(?:^|[\s/])ras/\w{1,60}\.(?:cc|h):\d")
_NUMBERS = re.compile(r"\d+/\d+\)|after sleep for \d+ msec")
# A return that has come up to one of these has ended the call that the program made.
_OUTERMOST = ("init.", "group.", "enqueue.", "bootstrap.", "collectives.")


def role_of(text: str, place: str = "") -> Role:
    """The part that a message plays, by its words and what stands before them."""
    if any(words in text for words in _REMARKS) or _RAS.search(place):
        return "remark"
    if any(words in text for words in _CONSEQUENCES):
        return "consequence"
    return "retry" if "retrying" in text else "fault"


def is_return(text: str) -> bool:
    """Whether a message is a return trace with a code, "init.cc:903 -> 5"."""
    found = _RETURN.match(text)
    return found is not None and found[2] != "0"


class Event:
    """One message of one process while the log is read."""

    __slots__ = ("count", "head", "last_line", "level", "line", "role", "speaker", "text", "trace")

    def __init__(self, head: Head, text: str, line: int, level: str) -> None:
        self.head, self.speaker, self.text, self.line = head, head.speaker, text, line
        self.level, self.role = level, role_of(text, head.place or "")
        self.count, self.last_line = 1, line
        self.trace: list[str] = []

    def record(
        self, file: str, rank: int | None, inferred: bool, communicator: str | None
    ) -> LogEvent:
        failed = self.role in ("fault", "consequence") and bool(self.trace)
        return LogEvent(
            severity="error" if failed else "warning",
            text=self.text,
            line=self.line,
            file=file,
            role=self.role,
            place=self.head.place,
            function=self.head.function,
            host=self.speaker.host or None,
            pid=self.speaker.pid or None,
            device=self.speaker.device,
            rank=rank,
            rank_basis=None if rank is None else "inferred" if inferred else "told",
            communicator=communicator,
            time=self.head.time,
            count=self.count,
            last_line=self.last_line if self.count > 1 else None,
            trace=tuple(self.trace),
        )


class Events:
    """All messages of a file; equal ones of a process are counted."""

    def __init__(self) -> None:
        self.known: dict[Key, Event] = {}
        self.left_out = 0
        self._of_role: dict[Role, dict[Key, None]] = {role: {} for role in _ORDER}
        self._latest: dict[tuple[str, int, int], Event] = {}
        self._early: dict[tuple[str, int, int], list[tuple[int, str]]] = {}

    def add(self, head: Head, text: str, line: int, level: str) -> None:
        """A warning ("WARN", "ATTN") or a retry that NCCL prints as INFO."""
        speaker = head.speaker
        text = text.strip()[:LONGEST_TEXT]
        key = (speaker.host, speaker.pid, _NUMBERS.sub("", text) if "retry" in text else text)
        event = self.known.get(key)
        if event is None:
            event = Event(head, text, line, level)
            if not self._has_room(event.role):
                self.left_out += 1
                return
            self.known[key] = event
            self._of_role[event.role][key] = None
        else:
            event.count += 1
            event.last_line = line
        thread = (speaker.host, speaker.pid, speaker.tid)
        if event.role == "fault" or (event.role == "consequence" and thread not in self._latest):
            self._latest[thread] = event  # returns behind a consequence belong to its cause
            for _, early in self._early.pop(thread, ()):  # returns told before the warning
                _append(event, early)

    def _has_room(self, role: Role) -> bool:
        """Whether one more is kept; the latest one of a lesser role gives way to it."""
        if len(self.known) < MOST_EVENTS:
            return True
        for lesser in _ORDER[: _ORDER.index(role) : -1]:
            if self._of_role[lesser]:
                key, _ = self._of_role[lesser].popitem()
                self.left_out += self.known.pop(key).count
                return True
        return False

    def returned(self, speaker: Speaker, text: str, line: int) -> None:
        """A return trace: it belongs to the last warning of its thread. RAS's come to nothing."""
        if _RAS.search(text):
            return
        thread = (speaker.host, speaker.pid, speaker.tid)
        event = self._latest.get(thread)
        if event is not None:
            _append(event, text)
        elif len(self._early) < MOST_EVENTS:
            early = self._early.setdefault(thread, [])
            if len(early) < LONGEST_TRACE:
                early.append((line, text.strip()))

    def orphans(self) -> dict[tuple[str, int], tuple[int, str]]:
        """Processes that returned an error from an outermost call, with no warning of theirs."""
        warned = {(event.speaker.host, event.speaker.pid) for event in self.known.values()}
        found: dict[tuple[str, int], tuple[int, str]] = {}
        for (host, pid, _), returns in self._early.items():
            for line, text in returns:
                name = text.partition(":")[0].rpartition("/")[2]
                if name.startswith(_OUTERMOST) and (host, pid) not in warned:
                    found.setdefault((host, pid), (line, short(text)))
        return found

    def ordered(self) -> list[Event]:
        """The first fault first: by role, then by time where every fault has one, then by line."""
        events = sorted(self.known.values(), key=lambda event: event.line)
        times = [event.head.time for event in events if event.role == "fault"]
        timed = bool(times) and all(times) and len({len(time or "") for time in times}) == 1
        return sorted(
            events,
            key=lambda event: (_ORDER.index(event.role), (event.head.time or "") if timed else ""),
        )


def _append(event: Event, text: str) -> None:
    text = short(text.strip())
    if len(event.trace) < LONGEST_TRACE and text not in event.trace:
        event.trace.append(text)
