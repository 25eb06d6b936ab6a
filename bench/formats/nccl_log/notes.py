"""All that is noted of a file while it is read: processes, threads, communicators, events.

In: speakers and lines. Out: the notes that summary turns into records.
"""

from __future__ import annotations

from bench.formats.nccl_log.bundles import Bundle
from bench.formats.nccl_log.collectives import Tunings
from bench.formats.nccl_log.events import Events
from bench.formats.nccl_log.groups import Groups
from bench.formats.nccl_log.heads import Speaker
from bench.formats.nccl_log.processes import Process

MOST_PROCESSES = 1 << 15
MOST_ALIKE = 64  # hosts remembered of one process number: every container has a process 1
MOST_STREAMS = 1 << 16  # threads; a 10,000-rank job has a few of each rank


class Stream:
    """One thread of one process. `last` is the latest line of it, as it stands in the file."""

    __slots__ = ("bundle", "device", "last", "last_number", "process", "speaker")

    def __init__(self, speaker: Speaker, process: Process) -> None:
        self.speaker, self.process, self.device = speaker, process, speaker.device
        self.bundle: Bundle | None = None
        self.last = b""
        self.last_number = 0


class Notes:
    """What has been read so far."""

    def __init__(self) -> None:
        self.groups, self.events, self.tunings = Groups(), Events(), Tunings()
        self.processes: dict[tuple[str, int], Process] = {}
        self.streams: dict[tuple[str, int, int, int | None], Stream] = {}
        self.versions: dict[str, str] = {}  # version -> flavour, of lines that name no process
        self.hosts: dict[int, tuple[str, ...]] = {}  # by process number
        self.world_size: int | None = None
        self.program_ranks: dict[int, int] = {}  # process number -> rank, by the program's word
        self.processes_left_out = 0
        self._overflow = Stream(Speaker(), Process("", 0, 0))

    def stream(self, speaker: Speaker, line: int) -> Stream:
        """The thread that speaks; beyond the limits one nameless thread takes all."""
        identity = speaker[:4]
        found = self.streams.get(identity)
        if found is not None:
            return found
        process = self.processes.get((speaker.host, speaker.pid))
        if process is None:
            if len(self.processes) >= MOST_PROCESSES:
                self.processes_left_out += 1
                return self._overflow
            process = self.processes[speaker.host, speaker.pid] = Process(
                speaker.host, speaker.pid, line
            )
            alike = self.hosts.get(speaker.pid, ())
            if len(alike) < MOST_ALIKE:
                self.hosts[speaker.pid] = (*alike, speaker.host)
        if speaker.device is not None:
            process.devices.add(speaker.device)
        if speaker.rank is not None and len(process.launcher_ranks) < 2:
            process.launcher_ranks.add(speaker.rank)
        if len(self.streams) >= MOST_STREAMS:
            return Stream(speaker, process)
        found = self.streams[identity] = Stream(speaker, process)
        return found

    def told_by_program(self, pid: int | None, size: int | None, rank: int | None) -> None:
        """What a program prints of itself: of use where NCCL has not come so far."""
        self.world_size = self.world_size or size
        if pid is not None and rank is not None and len(self.program_ranks) < MOST_PROCESSES:
            self.program_ranks[pid] = rank

    def bundle_of(self, stream: Stream, line: int) -> Bundle:
        """Where a thread's lines are gathered that name no communicator."""
        if stream.bundle is None:
            stream.bundle = self.groups.bundle(stream.process, stream.device, line)
        return stream.bundle
