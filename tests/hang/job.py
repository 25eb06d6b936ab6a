"""A job of several ranks that runs in this file, and the Flight Recorder dumps that it leaves.

Each rank has a program: calls in groups, in order. A call is over when all members have made it
with equal arguments and everything before it in the group is over; a rank may be `depth` calls
ahead of what is over, as a CPU is ahead of its GPU. It runs until nothing moves. Dumps are in
torch's layout (schema 2.10), of NCCL or of gloo with its quirks, with a ring buffer.
"""

from __future__ import annotations

import json
import math
import pickle
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_NS = 1_796_000_000_000_000_000
STEP_NS = 3_000_000


@dataclass
class Call:
    """One call of one rank. `pause_ns`: what the rank does before it. `send`, `recv`: the peer,
    as a global rank. `batch`: part of a batch of sends, which takes a number of its own."""

    group: str = "0"
    name: str = "all_reduce"
    inputs: list[list[int]] = field(default_factory=lambda: [[1024]])
    outputs: list[list[int]] | None = None
    dtype: str = "Float"
    pause_ns: int = 0
    line: int = 141
    peer: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        if self.name == "all_to_all":
            return (self.name, self.dtype)
        if self.name == "gather":
            return (self.name, sum(math.prod(s) for s in self.inputs), self.dtype)
        if self.name in ("scatter", "all_gather"):
            return (self.name, sum(math.prod(s) for s in self.out), self.dtype)
        numbers = [sum(math.prod(s) for s in side) for side in (self.inputs, self.out)]
        return (self.name, *numbers, self.dtype)

    @property
    def out(self) -> list[list[int]]:
        return self.inputs if self.outputs is None else self.outputs


@dataclass
class Made:
    """A call as it was recorded."""

    call: Call
    record: int
    seq: int
    p2p_seq: int
    op: int
    created_ns: int
    completed_ns: int = 0
    started: bool = False


class Job:
    """Groups by name, with their ranks; `programs` by rank."""

    def __init__(
        self,
        world: int,
        programs: dict[int, list[Call]],
        groups: dict[str, Sequence[int]] | None = None,
        *,
        depth: int = 1,
        backend: str = "nccl",
        ring: int = 2000,
        seed: int = 0,
        first_seq: int = 1,
        timing: Sequence[int] = (),
    ) -> None:
        self.timing = timing  # ranks with TORCH_NCCL_ENABLE_TIMING, which tells starts
        self.world, self.programs, self.backend, self.ring = world, programs, backend, ring
        self.groups = {"0": list(range(world))} | {k: list(v) for k, v in (groups or {}).items()}
        self.depth, self.first_seq = depth, first_seq
        self.random = random.Random(seed)
        self.made: dict[int, list[Made]] = {rank: [] for rank in range(world)}
        self.skew_ns = {rank: self.random.randint(-50, 50) * 1_000_000 for rank in range(world)}
        self.clock_ns = dict.fromkeys(range(world), START_NS)
        self.ended: set[int] = set()
        self._run()

    def _run(self) -> None:
        """Round after round: every rank makes what it may, then what is complete is over."""
        moved = True
        while moved:
            moved = False
            for rank in range(self.world):
                while self._makes(rank):
                    moved = True
            moved = self._complete() or moved

    def _makes(self, rank: int) -> bool:
        made, program = self.made[rank], self.programs.get(rank, [])
        open_ = sum(not each.completed_ns for each in made)
        if len(made) >= len(program) or open_ >= self.depth:
            return False
        call = program[len(made)]
        own = [each for each in made if each.call.group == call.group]
        colls = sum(each.call.peer is None for each in own)
        peers = len(own) - colls
        is_p2p = call.peer is not None
        self.clock_ns[rank] += STEP_NS + call.pause_ns
        made.append(
            Made(
                call=call,
                record=len(made),
                seq=colls + (not is_p2p) - 1 + self.first_seq if not is_p2p else colls,
                p2p_seq=peers + is_p2p,
                op=len(own) + 1,
                created_ns=self.clock_ns[rank],
            )
        )
        return True

    def _complete(self) -> bool:
        """Collectives whose members have all called them alike, and sends that are received."""
        moved = False
        for name, ranks in self.groups.items():
            while self._next(name, ranks):
                moved = True
        return self._exchange() or moved

    def _next(self, name: str, ranks: Sequence[int]) -> bool:
        heads = []
        for rank in ranks:
            open_ = [
                each
                for each in self.made[rank]
                if each.call.group == name and each.call.peer is None and not each.completed_ns
            ]
            if not open_:
                return False
            heads.append((rank, open_[0]))
        seqs, keys = {each.seq for _, each in heads}, {each.call.key for _, each in heads}
        if len(seqs) > 1 or len(keys) > 1:
            return False
        now = max(each.created_ns for _, each in heads) + 900_000
        for rank, each in heads:
            each.completed_ns = now
            self.clock_ns[rank] = max(self.clock_ns[rank], now)
        return True

    def _exchange(self) -> bool:
        moved = False
        for rank in range(self.world):
            for each in self.made[rank]:
                if each.completed_ns or each.call.name != "send":
                    continue
                other = next(
                    (
                        one
                        for one in self.made[each.call.peer or 0]
                        if not one.completed_ns
                        and one.call.name == "recv"
                        and one.call.peer == rank
                    ),
                    None,
                )
                if other is not None:
                    each.completed_ns = other.completed_ns = (
                        max(each.created_ns, other.created_ns) + 500_000
                    )
                    moved = True
        return moved

    def dump(self, rank: int, *, stacks: bool = True) -> dict[str, Any]:
        """What the rank's recorder holds, as torch writes it."""
        entries = [self._entry(rank, each, stacks) for each in self.made[rank][-self.ring :]]
        own = {name: ranks for name, ranks in self.groups.items() if rank in ranks}
        if self.backend == "gloo":
            world = str(self.groups["0"]) if len(own) == 1 else "[]"
            config = {"": {"name": "", "desc": "", "ranks": world}}
        else:
            config = {
                name: {"name": name, "desc": self.desc(name), "ranks": str(ranks)}
                for name, ranks in own.items()
            }
        status = {}
        for name in own:
            mine = [m for m in self.made[rank] if m.call.group == name and m.call.peer is None]
            status[str(self.pg_id(rank, name))] = {
                "last_enqueued_collective": max((m.seq for m in mine), default=-1),
                "last_started_collective": -1,
                "last_completed_collective": max(
                    (m.seq for m in mine if m.completed_ns), default=-1
                ),
            }
        return {
            "version": "2.10",
            "pg_config": config,
            "comm_lib_version": "" if self.backend == "gloo" else "2.29.3",
            "pg_status": status,
            "entries": entries,
            "nccl_comm_state": {},
        }

    @staticmethod
    def desc(name: str) -> str:
        return "default_pg" if name == "0" else f"mesh_{name}"

    def pg_id(self, rank: int, name: str) -> int:
        return [each for each, ranks in self.groups.items() if rank in ranks].index(name)

    def _entry(self, rank: int, made: Made, stacks: bool) -> dict[str, Any]:
        call, over = made.call, made.completed_ns > 0
        name = call.name
        if call.peer is not None:
            members = sorted(self.groups[call.group])
            me, peer = members.index(rank), members.index(call.peer)
            name = f"send {me}->{peer}" if call.name == "send" else f"recv {me}<-{peer}"
        gloo = self.backend == "gloo"
        skew = self.skew_ns[rank]
        entry: dict[str, Any] = {
            "record_id": made.record,
            "pg_id": self.pg_id(rank, call.group),
            "process_group": (call.group, self.desc(call.group)),
            "thread_name": "python3",
            "thread_id": "140566134946688",
            "collective_seq_id": made.seq,
            "p2p_seq_id": made.p2p_seq,
            "op_id": made.op,
            "profiling_name": f"{self.backend}:{name}",
            "time_created_ns": made.created_ns + skew,
            "input_sizes": call.inputs,
            "input_dtypes": [call.dtype] * len(call.inputs),
            "output_sizes": call.out,
            "output_dtypes": [call.dtype] * len(call.out),
            "state": "completed" if over and not gloo else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": made.completed_ns + skew
            if over and not gloo
            else None,
            "retired": over,
            "timeout_ms": 600_000,
            "is_p2p": call.peer is not None,
        }
        if made.started and not over:
            entry["state"] = "started"
        if rank in self.timing and (made.started or over):
            entry["time_discovered_started_ns"] = made.created_ns + skew + 100_000
        if stacks:
            entry["frames"] = [
                {"name": call.name, "filename": "/env/site-packages/torch/c10d.py", "line": 3245},
                {"name": "step", "filename": "/home/me/train.py", "line": call.line},
            ]
        return entry


def write(
    folder: Path,
    dumps: dict[int, dict[str, Any]],
    name: str = "rank_{rank}",
    *,
    form: str = "pickle",
) -> list[Path]:
    """Files as torch writes them; JSON has no stacks, zeros for absent times, no empty list."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank, dump in dumps.items():
        path = folder / name.format(rank=rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(dump, protocol=2) if form == "pickle" else as_json(dump))
        paths.append(path)
    return paths


def as_json(dump: dict[str, Any]) -> bytes:
    entries = []
    for entry in dump["entries"]:
        plain = {key: value for key, value in entry.items() if key != "frames"}
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            plain[key] = plain[key] or 0
        entries.append(plain)
    told = {key: value for key, value in dump.items() if key != "entries"}
    told["pg_status"] = {
        key: {word: str(number) for word, number in value.items()}
        for key, value in dump["pg_status"].items()
    }
    return json.dumps(told | ({"entries": entries} if entries else {})).encode()


def same(world: int, program: list[Call]) -> dict[int, list[Call]]:
    """All ranks with one program, each with its own copy of the list."""
    return {rank: list(program) for rank in range(world)}


def training(steps: int, *, buckets: int = 3, pause_ns: int = 40_000_000) -> list[Call]:
    """A loop like DDP's: buckets of different sizes, a pause (data, optimizer) before a step."""
    return list(_training(steps, buckets, pause_ns))


def _training(steps: int, buckets: int, pause_ns: int) -> Iterator[Call]:
    yield Call(name="broadcast", inputs=[[10]], line=12)
    for _ in range(steps):
        for bucket in range(buckets):
            yield Call(
                inputs=[[4096 * (bucket + 1)]], pause_ns=0 if bucket else pause_ns, line=141
            )
