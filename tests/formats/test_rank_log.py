"""How rank logs are read: the sieve against a plain search, line numbers, times, hostile files."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.formats import rank_log
from bench.formats.rank_log import identity, passages, progress, signs, stamps, watchdog
from bench.formats.rank_log.needles import NEEDLES
from bench.formats.rank_log.sieve import Sieve, Tray
from bench.formats.source import Source
from bench.records import RankLog

SMALL = Tray(1 << 12)


def read(text: str | bytes, name: str = "rank_3.log") -> RankLog:
    return rank_log.of(Source.of_text(text, name))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(NEEDLES),
            st.sampled_from([needle[:-1] for needle in NEEDLES]),
            st.binary(max_size=40),
        ),
        max_size=60,
    )
)
def test_the_sieve_finds_what_a_plain_search_finds(parts: list[bytes]) -> None:
    content = b"".join(parts)[: SMALL.size_bytes]
    SMALL.buffer[: len(content)] = content
    found = set(Sieve(NEEDLES).scan(SMALL, len(content), 0))
    plain = set()
    for number, needle in enumerate(NEEDLES):
        at = content.find(needle)
        while at >= 0:
            plain.add((at, number))
            at = content.find(needle, at + 1)
    assert found == plain


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(
            st.integers(0, 60_000).map(lambda n: b"x" * n),
            st.sampled_from([b"torch.OutOfMemoryError: CUDA out of memory", b"", b"step 3\r4"]),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_line_numbers_are_those_of_grep(lines: list[bytes], ended: bool) -> None:
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    kept = passages.of(Source.of_text(content))
    for passage in kept.passages:
        for line in passage.lines:
            assert line.text.encode() in lines[line.number - 1]
    wanted = {n for n, line in enumerate(lines, 1) if b"OutOfMemoryError" in line}
    shown = {
        line.number for p in kept.passages for line in p.lines if "OutOfMemoryError" in line.text
    }
    assert shown == wanted and wanted <= kept.hit_lines


def test_a_word_across_two_pieces_of_a_large_file_is_found(tmp_path: Path) -> None:
    for shift in (0, 1, 2, 3, 17):
        filler = b"x" * 127 + b"\n"
        content = filler * ((passages.TRAY_BYTES // 128) - 1) + b"y" * (118 + shift)
        content += b"ValueError\ntorch.OutOfMemoryError: CUDA out of memory\n" + filler * 9000
        file = tmp_path / f"rank_{shift}.log"
        file.write_bytes(content)
        log = rank_log.of(Source.open(file))
        line = 1 + content[: content.index(b"torch.Out")].count(b"\n")
        assert [(s.kind, s.line) for s in log.signs] == [("oom", line)]
        assert log.lines == content.count(b"\n")


STAMPS = (
    ("[rank3]:[E1130 10:53:25.450476707 ProcessGroupNCCL.cpp:757] x", "local", 334, 39205),
    ("[E901 05:20:03.118748741 ProcessGroupNCCL.cpp:1685] x", "local", 244, 19203),
    ("2026-11-30 10:31:07,123 INFO x", "local", 334, 37867),
    ("[2026-11-30T10:31:07.5+01:00] x", "utc", 334, 34267),
    ("11/30/2026 10:31:07 - INFO - x", "local", 334, 37867),
    ("[Mon Nov 30 10:31:07 2026] NVRM: Xid", "local", 334, 37867),
    ("Nov  3 10:31:07 host1 kernel: x", "local", 307, 37867),
    ("[10:31:07] INFO x", "day", 0, 37867),
)


@pytest.mark.parametrize(("line", "clock", "day", "seconds"), STAMPS)
def test_times_of_every_form_are_read(line: str, clock: str, day: int, seconds: int) -> None:
    stamp = stamps.of(line)
    assert stamp is not None and stamp.clock == clock
    assert int(stamp.seconds) == day * 86400 + seconds


@pytest.mark.parametrize(
    "line",
    [
        "  2%|▏  | 224/13945 [25:36<39:50:56, 10.46s/it]",
        "Epoch 0:   6%|██  | 32040/500150 [6:28:43<94:39:17,  1.37it/s]",
        "[12345.678901] NVRM: Xid (PCI:0000:44:00): 79",
        "hostA:5109:5177 [0] NCCL INFO x",
    ],
)
def test_what_is_no_clock_is_taken_for_none(line: str) -> None:
    assert stamps.of(line) is None


def test_seconds_since_1970_are_the_same_day_as_the_printed_date() -> None:
    for seconds, printed in ((1709251200, "2024-03-01"), (1740787200, "2025-03-01")):
        stamp = stamps.of(f"{printed} 00:00:00 x")
        assert stamp is not None and stamps.of_epoch(seconds).seconds == stamp.seconds


@pytest.mark.parametrize(
    ("file", "rank", "local", "attempt"),
    [
        ("run/rank_17.log", 17, None, None),
        ("host2/rank5.log.1.gz", 5, None, None),
        ("logs/none_x/attempt_1/3/stderr.log", None, 3, 1),
        ("local_rank_2.log", None, 2, None),
        ("machine_rank_2.log", None, None, None),
        ("node1.log", None, None, None),
    ],
)
def test_a_name_tells_a_rank_only_where_it_says_so(
    file: str, rank: int | None, local: int | None, attempt: int | None
) -> None:
    place = identity.of(file)
    assert (place.rank, place.local_rank, place.attempt) == (rank, local, attempt)


STATUS = "last enqueued NCCL work: 160, last completed NCCL work: 157."
WATCHDOGS = (
    (
        (
            "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96, "
            "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800625 milliseconds before timing out"
        ),
        (0, None, 96, "ALLREDUCE", 1800.625, None, None),
    ),
    (
        "[PG 1 Rank 4] Exception (either an error or timeout) detected by watchdog at work: 158, "
        + STATUS,
        (4, "1", 158, None, None, 160, 157),
    ),
    (
        "[PG ID 2 PG GUID 3 Rank 3] Timeout at NCCL work: 158, " + STATUS,
        (3, "3", 158, None, None, 160, 157),
    ),
    (
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by watchdog at work "
            "sequence id: 26 PG status: last enqueued work: 26, last completed work: -1"
        ),
        (1, "0", 26, None, None, 26, -1),
    ),
)


@pytest.mark.parametrize(("text", "told"), WATCHDOGS)
def test_every_versions_watchdog_is_understood(text: str, told: tuple[object, ...]) -> None:
    wait = watchdog.of(text, 1, "x.log", None)
    assert wait is not None
    assert told == (
        wait.rank, wait.group, wait.sequence, wait.operation, wait.ran_s, wait.enqueued,
        wait.completed,
    )  # fmt: skip


ROLES = (
    ("torch.cuda.OutOfMemoryError: CUDA out of memory.", "oom", "fault"),
    ("INFO caught torch.OutOfMemoryError: CUDA out of memory, retrying", "oom", "mention"),
    ("DataLoader worker (pid(s) 1234, 99) exited unexpectedly", "dataloader", "fault"),
    ("DataLoader worker (pid 42) is killed by signal: Terminated. ", "sigterm", "consequence"),
    ("RuntimeError: unable to write to file </torch_12_3>: No space left", "shm-full", "fault"),
    ("OSError: [Errno 28] No space left on device: '/ckpt/x'", "disk-full", "fault"),
    ("watchdog thread terminated with exception: CUDA error: unspecified", "cuda", "fault"),
    ("NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus.", "xid", "fault"),
    ("NVRM: Xid (PCI:0000:44:00): 45, pid=1, Ch 00000010", "xid", "consequence"),
    ("NVRM: Xid (PCI:0000:44:00): 63, row remapper", "xid", "mention"),
    ("Memory cgroup out of memory: Killed process 4242 (python)", "killed", "fault"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.", "killed", "fault"),
    ("port: 29500, code: -98, name: EADDRINUSE", "address-in-use", "fault"),
    ("read: Connection reset by peer", "peer-lost", "consequence"),
    ("ncclRemoteError: A call failed possibly due to a network error", "peer-lost", "consequence"),
    ("ncclSystemError: System call failed", "nccl", "weak"),
    ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT T DUE TO TIME LIMIT ***", "cancelled",
     "outside"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "role"), ROLES)
def test_each_message_has_its_kind_and_its_role(text: str, kind: str, role: str) -> None:
    found = signs.of(text)
    assert found is not None and (found[0].kind, found[1]) == (kind, role)


@pytest.mark.parametrize(
    "text",
    ["    raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly')",
     "│ ❱ 1024 │ raise RuntimeError('CUDA out of memory')", "no timeout applies"],
)  # fmt: skip
def test_source_lines_and_plain_words_are_no_fault(text: str) -> None:
    assert signs.of(text) is None


CHAIN = """2026-11-30 10:00:00,000 INFO step 7 rank=3
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1, in _try
    data = self._data_queue.get(timeout=timeout)
_queue.Empty

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/job/train.py", line 9, in main
    for batch in loader:
RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly
"""


def test_of_a_chain_the_fault_is_told_and_not_the_librarys_way_to_look() -> None:
    (sign,) = read(CHAIN).signs
    assert (sign.kind, sign.rank, sign.line, sign.place) == (
        "dataloader",
        3,
        12,
        "train.py:9 main",
    )


def test_what_nccl_said_last_decides_the_kind_of_its_exception() -> None:
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/job/train.py", line 9, in main\n'
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, unhandled "
        "system error, NCCL version 2.20.5\n[rank1]: ncclSystemError: System call failed. \n"
        "[rank1]: Last error:\n"
        "[rank1]: Error while creating shared memory segment /dev/shm/nccl-5s (size 9637888)\n"
    )
    first = read(text, "console.log").signs[0]
    assert (first.kind, first.role, first.rank) == ("shm-full", "fault", 1)
    assert "Error while creating shared memory" in first.text


def test_a_fault_is_survived_where_the_steps_go_on() -> None:
    step = "2026-11-30 10:00:0{0},000 INFO step {0}/9 rank=3\n"
    trace = 'Traceback (most recent call last):\n  File "/a.py", line 1, in f\nValueError: x\n'
    (before,) = read(step.format(1) + trace + step.format(2)).signs
    (after,) = read(step.format(1) + step.format(2) + trace).signs
    assert before.survived and not after.survived
    assert (before.time_s, before.until_s) == (
        334 * 86400 + 36001.0,
        334 * 86400 + 36002.0,
    )


def test_progress_is_compared_by_its_word() -> None:
    told = [progress.step(text, 1, None) for text in (
        "step 7/12 loss=1", "| 224/13945 [25:36<39:50:56", "iteration     100/ 5000 |",
        "{'loss': 1.2, 'epoch': 0.34}", "global_step=1,204", "step 3.5 ms",
    )]  # fmt: skip
    assert [(s.word, s.number, s.of) if s else None for s in told] == [
        ("step", 7, 12), ("bar", 224, 13945), ("iteration", 100, 5000), ("epoch", 0.34, None),
        ("global_step", 1204, None), None,
    ]  # fmt: skip


LIMITED = """
import sys
from pathlib import Path
from bench.formats import rank_log
from bench.formats.source import Source
for name in sys.argv[1:]:
    log = rank_log.of(Source.open(Path(name)))
    print(log.lines, [(s.kind, s.line) for s in log.signs])
# Of this program alone: ru_maxrss would count what the process that started it had used.
peak = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print(int(peak.split()[1]) // 1024)
"""


def test_a_hundred_megabytes_in_one_line_cost_no_memory_and_hide_nothing(tmp_path: Path) -> None:
    line = tmp_path / "line.log"
    with line.open("wb") as stream:
        for _ in range(100):
            stream.write(b"\x1b[31m progress \r" * (1 << 16))
        stream.write(b"\nRuntimeError: CUDA error: an illegal memory access\n")
    packed = tmp_path / "line.log.gz"
    packed.write_bytes(gzip.compress(line.read_bytes(), 1))
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(line), str(packed)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    first, second, peak = done.stdout.splitlines()
    assert first == second == "2 [('cuda', 2)]"
    assert int(peak) < 200, "MiB"
    assert time.perf_counter() - begun < 30


def test_a_flood_of_one_message_is_counted_and_its_first_and_last_are_kept(tmp_path: Path) -> None:
    flood = (
        b"[W1130 10:00:00.1 TCPStore.cpp:125] sendBytes failed: Broken pipe, Connection reset\n"
    )
    file = tmp_path / "rank_0.log"
    file.write_bytes(b"torch.OutOfMemoryError: first\n" + flood * 200_000 + b"CUDA error: last\n")
    log = rank_log.of(Source.open(file))
    assert log.left_out > 190_000
    assert (log.signs[0].kind, log.signs[0].line) == ("oom", 1)
    assert (log.signs[-1].kind, log.signs[-1].line) == ("cuda", 200_002)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(NEEDLES), st.binary(max_size=60)), max_size=50))
def test_no_bytes_make_a_reader_fail(parts: list[bytes]) -> None:
    log = read(b" ".join(parts))
    assert log.lines >= 0


def test_a_packed_log_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress(
        b"torch.OutOfMemoryError: CUDA out of memory\n" + bytes(range(256)) * 9999
    )
    file = tmp_path / "rank_0.log.gz"
    file.write_bytes(packed[: len(packed) - 20])
    log = rank_log.of(Source.open(file))
    assert log.signs[0].kind == "oom" and log.notes
