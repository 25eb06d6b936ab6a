"""Logs of a job that hung, made up with a known truth: who failed, how, when.

In: a Story. Out: files as text, by name, in the form that a launcher and a version of torch give
them. Message shapes are those of the real logs under tests/data/hang; ranks, times and hosts are
the story's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

BEGIN_S = 10 * 3600.0
STEP_S = 2.0
DATE = "2026-11-30"

# What a rank prints of its own fault: (kind, lines). "{r}" is the rank, "{g}" its GPU.
TRACE = (
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 220, in <module>',
    "    main()",
    '  File "/job/train.py", line 141, in train_step',
    "    loss.backward()",
)
FAULTS: dict[str, tuple[str, ...]] = {
    "oom": (
        *TRACE,
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {g} has "
            "a total capacity of 79.10 GiB of which 1.20 GiB is free."
        ),
    ),
    "exception": (*TRACE, "ValueError: loss is nan at step {s}"),
    "dataloader": (
        *TRACE,
        "RuntimeError: DataLoader worker (pid 42{r}) is killed by signal: Killed. ",
    ),
    "shm-full": (
        *TRACE,
        (
            "RuntimeError: DataLoader worker (pid 42{r}) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory. Please try to raise "
            "your shared memory limit."
        ),
    ),
    "cuda": (
        *TRACE,
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        (
            "CUDA kernel errors might be asynchronously reported at some other API call, so the "
            "stacktrace below might be incorrect."
        ),
    ),
    "disk-full": (*TRACE, "OSError: [Errno 28] No space left on device"),
}
SILENT = ("killed", "stuck")  # kinds without a line of their own


@dataclass(frozen=True)
class Story:
    """`kind`: one of FAULTS or SILENT, "mismatch", "network" (all wait) or "uneven"."""

    ranks: int = 8
    ranks_per_host: int = 4
    fault_rank: int = 5
    kind: str = "oom"
    steps: int = 40
    timeout_s: float = 600.0
    skew_s: tuple[float, ...] = (0.0,)  # per host, repeated
    decoys: tuple[int, ...] = ()  # ranks that catch an OutOfMemoryError and go on
    age: str = "2.6"  # of torch: "2.0", "2.3", "2.6"
    launcher: str = "files"  # files, console, srun
    timed: bool = True  # whether ordinary lines carry a time
    steps_on: str = "all"  # or "first": only rank 0 logs steps
    pages: bool = False  # torchrun's page at the end of a console
    without: tuple[int, ...] = ()  # ranks whose log is lost
    seed: int = 0
    aftermath: bool = True  # errors of ranks that were torn down
    torn: int | None = (
        None  # a rank without a time-out of its own, whose teardown looks like a fault
    )


@dataclass
class Rank:
    """Lines with the true time of each; the clock of the host is put on at the end."""

    number: int
    lines: list[tuple[float, str]] = field(default_factory=list)

    def say(self, when_s: float, text: str) -> None:
        self.lines.append((when_s, text))


def files(story: Story) -> dict[str, str]:
    """The job's logs: file name -> text."""
    rng = random.Random(story.seed)
    ranks = [Rank(number) for number in range(story.ranks)]
    end_s = BEGIN_S + story.steps * STEP_S
    for rank in ranks:
        _train(story, rank, rng)
    _end(story, ranks, end_s, rng)
    return _written(story, ranks, end_s, rng)


def _train(story: Story, rank: Rank, rng: random.Random) -> None:
    stamp = "{t} " if story.timed else ""
    rank.say(BEGIN_S - 5, f"{stamp}INFO starting rank={rank.number} world_size={story.ranks}")
    last = story.steps - (3 if story.kind == "uneven" and rank.number == story.fault_rank else 0)
    decoy_at = rng.randrange(1, max(story.steps // 2, 2)) if rank.number in story.decoys else None
    for step in range(1, last + 1):
        when = BEGIN_S + step * STEP_S + rng.random() * 0.3
        if step == decoy_at:
            rank.say(
                when - 0.5,
                f"{stamp}WARNING rank={rank.number} caught torch.OutOfMemoryError: CUDA out of "
                "memory. Tried to allocate 512.00 MiB; emptied cache, retrying (recovered)",
            )
        if story.steps_on == "all" or rank.number == 0:
            rank.say(
                when,
                f"{stamp}INFO train rank={rank.number} step={step} loss={rng.random():.4f} "
                "timeout=30",
            )


def _end(story: Story, ranks: list[Rank], end_s: float, rng: random.Random) -> None:
    culprit = ranks[story.fault_rank]
    told_s = end_s + story.timeout_s
    if story.kind in FAULTS:
        for line in FAULTS[story.kind]:
            text = line.format(r=culprit.number, g=culprit.number % 8, s=story.steps)
            prefix = f"[rank{culprit.number}]: " if story.age != "2.0" else ""
            culprit.say(end_s + 1.0, prefix + text)
    elif story.kind == "uneven":
        stamp = "{t} " if story.timed else ""
        text = f"{stamp}INFO epoch 1 finished rank={culprit.number}"
        culprit.say(end_s - 2 * STEP_S, text)
    everybody = story.kind in ("mismatch", "network")
    waiting = [r for r in ranks if everybody or r is not culprit]
    if story.torn is not None and len(waiting) > 1:
        torn = next((rank for rank in waiting if rank.number == story.torn), None)
        if torn is not None:
            waiting.remove(torn)
            for line in (*TRACE, "RuntimeError: CUDA error: unspecified launch failure"):
                torn.say(told_s + 3.0, line)
    for rank in waiting:
        odd = story.kind == "mismatch" and rank is culprit
        began = end_s + rng.random() * 0.2
        _give_up(story, rank, began + story.timeout_s, odd)
    if story.aftermath:
        late = rng.choice(waiting)
        late.say(
            told_s + 5,
            f"[rank{late.number}]: torch.distributed.DistBackendError: NCCL error in: "
            "NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version "
            "2.27.5",
        )


def _give_up(story: Story, rank: Rank, when_s: float, odd: bool) -> None:
    operation = "BROADCAST" if odd else "ALLREDUCE"
    number = 4 * story.steps + 3
    elements = 56623104 if odd else 4821568
    sizes = f", NumelIn={elements}, NumelOut={elements}" if story.age != "2.0" else ""
    head = (
        "[rank{n}]:[E{glog} ProcessGroupNCCL.cpp:685] "
        if story.age != "2.0"
        else ("[E ProcessGroupNCCL.cpp:737] ")
    )
    head = head.replace("{n}", str(rank.number))
    waited = int(story.timeout_s * 1000)
    rank.say(
        when_s,
        f"{head}[Rank {rank.number}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={number}, OpType={operation}{sizes}, Timeout(ms)={waited}) ran for "
        f"{waited + 40} milliseconds before timing out.",
    )
    if story.age == "2.3":
        rank.say(
            when_s + 0.01,
            f"{head}[PG 0 Rank {rank.number}] Timeout at NCCL work: {number}, last enqueued NCCL "
            f"work: {number + 2}, last completed NCCL work: {number - 1}.",
        )
    elif story.age == "2.6":
        rank.say(
            when_s + 0.01,
            f"{head}[PG ID 0 PG GUID 0(default_pg) Rank {rank.number}]  failure detected by "
            f"watchdog at work sequence id: {number} PG status: last enqueued work: {number + 2}, "
            f"last completed work: {number - 1}",
        )
    rank.say(
        when_s + 2,
        f"{head}To avoid data inconsistency, we are taking the entire process down.",
    )


def _written(story: Story, ranks: list[Rank], end_s: float, rng: random.Random) -> dict[str, str]:
    kept = [rank for rank in ranks if rank.number not in story.without]
    if story.launcher == "files":
        found = {}
        for rank in kept:
            host = rank.number // story.ranks_per_host
            text = "\n".join(_line(story, rank, when, line) for when, line in rank.lines)
            found[f"host{host + 1}/rank_{rank.number}.log"] = text + "\n"
        return found
    mixed = sorted(
        (
            (when + (rng.random() - 0.5) * 0.05, at, rank, line)
            for rank in kept
            for at, (when, line) in enumerate(rank.lines)
        ),
        key=lambda each: (each[0], each[2].number, each[1]),
    )
    order = {rank.number: iter(rank.lines) for rank in kept}
    lines = []
    for _, _, rank, _ in mixed:  # a rank's own lines stay in their order
        when, line = next(order[rank.number])
        lines.append(_launched(story, rank) + _line(story, rank, when, line))
    if story.pages:
        lines += _page(story, end_s)
    return {"console.log": "\n".join(lines) + "\n"}


def _launched(story: Story, rank: Rank) -> str:
    if story.launcher == "srun":
        width = len(str(story.ranks - 1))
        return f"{rank.number:>{width}}: "
    return f"[default{rank.number}]:"


def _line(story: Story, rank: Rank, when_s: float, line: str) -> str:
    host = rank.number // story.ranks_per_host
    clock = when_s + story.skew_s[host % len(story.skew_s)]
    return line.replace("{t}", f"{DATE} {_clock(clock)},{int(clock * 1000) % 1000:03d}").replace(
        "{glog}", f"1130 {_clock(clock)}.{int(clock % 1 * 1e9):09d}"
    )


def _clock(seconds: float) -> str:
    whole = int(seconds) % 86400
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _page(story: Story, end_s: float) -> list[str]:
    """torchrun's last words: who failed first by its clock."""
    code = "-9" if story.kind == "killed" else "1"
    if story.kind in ("stuck", "network", "mismatch", "uneven"):
        return []
    clock = _clock(end_s + 1).replace(":", ":")
    name = " (SIGKILL)" if code == "-9" else ""
    told = (
        "Signal 9 (SIGKILL) received by PID 7000"
        if code == "-9"
        else ("To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html")
    )
    return [
        (
            f"E1130 {clock}.489000 6999 torch/distributed/elastic/multiprocessing/api.py:1002] "
            f"failed (exitcode: {code}) local_rank: {story.fault_rank} (pid: 7000) of binary: py"
        ),
        "Traceback (most recent call last):",
        '  File "/usr/local/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : {DATE}_{clock}",
        "  host      : host1",
        f"  rank      : {story.fault_rank} (local_rank: {story.fault_rank})",
        f"  exitcode  : {code} (pid: 7000) {name}",
        "  error_file: <N/A>",
        f"  traceback : {told}",
        "=" * 60,
    ]
