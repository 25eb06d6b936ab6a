"""Rank logs into findings: real logs of each shape, and made-up jobs whose truth is known."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.formats import file_walk, rank_log
from bench.formats.source import Source
from bench.hang import logs
from bench.judge.docket import Docket
from bench.records import Finding
from tests.hang import simulated_logs
from tests.hang.simulated_logs import FAULTS, Story

DATA = Path(__file__).resolve().parents[1] / "data" / "hang"


def judged(*paths: Path | str) -> tuple[Finding, ...]:
    docket = Docket()
    read = rank_log.read_all(file_walk.files([str(path) for path in paths]))
    logs.judge(read, docket)
    return docket.findings


def told(story: Story) -> tuple[Finding, ...]:
    """Findings of a made-up job, its files handed over in any order."""
    files = simulated_logs.files(story)
    names = list(files)
    random.Random(story.seed).shuffle(names)
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text(files[name], name)) for name in names], docket)
    return docket.findings


def accused(findings: tuple[Finding, ...]) -> set[int]:
    """Ranks that a finding names as the one; who only waits is named beside an abstention."""
    open_ = any(f.code == "not-determinable" for f in findings)
    ranks: set[int] = set()
    for finding in findings:
        if finding.code == "not-determinable":
            continue
        if finding.where.rank is not None:
            ranks.add(finding.where.rank)
        elif finding.code == "first-fault" or not open_:
            ranks.update(finding.where.ranks)
    return ranks


REAL = (
    ("gloo_exc", "first-fault", "exception", 1),
    ("gloo_exc_tree", "first-fault", "exception", 1),
    ("gloo_kill", "first-fault", "killed", 2),
    ("gloo_worker", "first-fault", "dataloader", 1),
    ("gloo_worker_exc", "first-fault", "exception", 1),
    ("gloo_ckpt", "first-fault", "disk-full", 0),
    ("gloo_segv", "first-fault", "crash", 2),
    ("gloo_inuse", "first-fault", "address-in-use", None),
    ("gloo_restart_tree", "first-fault", "exception", 1),
    ("gloo_term", "first-fault", "terminated", None),
    ("gloo_sleep", "hang-midrun", None, 2),
    ("gloo_uneven", "hang-end", None, 1),
    ("gloo_detail", "collective-mismatch", "type", 1),
)


@pytest.mark.parametrize(("folder", "code", "kind", "rank"), REAL, ids=[r[0] for r in REAL])
def test_a_real_job_has_its_cause_and_its_rank(
    folder: str, code: str, kind: str | None, rank: int | None
) -> None:
    found = judged(DATA / folder)
    assert [(f.code, f.kind, f.where.rank) for f in found] == [(code, kind, rank)]
    file, line = found[0].where.file, found[0].where.line
    assert file is not None and line is not None
    assert Path(file).read_text().split("\n")[line - 1].strip()


def test_the_exception_is_quoted_with_its_file_line_and_the_users_stack() -> None:
    (found,) = judged(DATA / "gloo_exc_tree")
    assert found.where.file is not None and found.where.line is not None
    lines = Path(found.where.file).read_text().splitlines()
    assert lines[found.where.line - 1].endswith("ValueError: negative loss -1.0 at step 7")
    assert "raised ValueError at 17:27:48: negative loss -1.0 at step 7" in found.summary
    assert any("train.py:50 <module> → train.py:28 main" in e.text for e in found.evidence)
    assert any("ranks 0, 2 lost the connection" in e.text for e in found.evidence)


@pytest.mark.parametrize(
    ("folder", "odd", "silent"),
    [("nccl_type_mismatch", 3, "rank 0"), ("nccl_reduce_gather", 0, "ranks 2-4")],
)
def test_the_odd_one_of_those_that_printed_is_named_and_the_silent_are_unknown(
    folder: str, odd: int, silent: str
) -> None:
    """One rank of four is silent; of six three are, and the group is not printed."""
    (found,) = judged(DATA / folder)
    assert (found.code, found.kind, found.where.rank) == ("collective-mismatch", "type", odd)
    assert found.confidence == "inferred"
    words = f"{silent} printed nothing of it: unknown, not proven healthy; rank {odd} stands out"
    assert any(e.text.startswith(words) for e in found.evidence)


def test_two_ranks_that_disagree_about_a_size_are_both_named_and_neither_is_accused() -> None:
    found = judged(DATA / "nccl_size_mismatch")
    assert [(f.code, f.kind) for f in found] == [
        ("collective-mismatch", "size"),
        ("not-determinable", "mismatch"),
    ]
    assert found[0].where.rank is None and found[0].where.ranks == (4, 6)
    assert "56,320 → 450,560" in found[0].summary and "76,800 → 614,400" in found[0].summary


def test_the_rank_that_reports_a_time_out_first_is_no_culprit() -> None:
    found = judged(DATA / "nccl_dump_signal")
    assert [f.code for f in found] == ["hang-midrun", "not-determinable"]
    assert found[0].where.rank is None and found[0].where.ranks == (2, 7)
    assert "ALLREDUCE #460,631" in found[0].summary and "barrier" in found[0].summary
    texts = " ".join(e.text for f in found for e in f.evidence)
    assert "rank 6 gave up first" in texts and "Flight Recorder seems to be off" in texts
    assert "ranks 0, 1, 3-5 are missing: start there" in found[1].summary


def test_the_attempt_before_the_last_is_told_and_not_judged() -> None:
    (found,) = judged(DATA / "gloo_restart_tree")
    assert "attempt_1" in (found.where.file or "")
    assert any("attempts before this one ended as well" in e.text for e in found.evidence)


def test_a_tree_without_the_launchers_page_still_has_the_lost_rank(tmp_path: Path) -> None:
    """Killed by SIGKILL a rank says nothing: it alone has no error among three."""
    shutil.copytree(DATA / "gloo_exc_tree", tmp_path / "run")
    for file in (tmp_path / "run").rglob("1/*"):
        if file.name == "error.json":
            file.unlink()
        else:
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(line for line in lines if "[rank1]" not in line))
    found = judged(tmp_path)
    assert [(f.code, f.where.rank, f.confidence) for f in found] == [
        ("hang-midrun", 1, "inferred")
    ]


def test_packed_and_rotated_logs_are_read_as_the_others(tmp_path: Path) -> None:
    import gzip

    for rank, text in enumerate(simulated_logs.files(Story(kind="oom", fault_rank=3)).values()):
        half = text.index("\n", len(text) // 2) + 1
        (tmp_path / f"rank_{rank}.log.1").write_text(text[:half])
        (tmp_path / f"rank_{rank}.log.gz").write_bytes(gzip.compress(text[half:].encode()))
    (found,) = judged(tmp_path)
    assert (found.code, found.kind, found.where.rank) == ("first-fault", "oom", 3)


@pytest.mark.parametrize("kind", sorted(FAULTS))
@pytest.mark.parametrize("age", ["2.0", "2.3", "2.6"])
@pytest.mark.parametrize("launcher", ["files", "console", "srun"])
def test_every_fault_is_found_in_every_form_with_a_decoy_and_clocks_half_a_minute_apart(
    kind: str, age: str, launcher: str
) -> None:
    story = Story(
        kind=kind, age=age, launcher=launcher, decoys=(0, 2), skew_s=(0.0, 30.0), pages=True
    )
    found = told(story)
    assert accused(found) == {5}
    assert (found[0].code, found[0].kind) == ("first-fault", kind)


def test_clocks_are_measured_by_the_steps_that_ranks_share() -> None:
    docket = Docket()
    files = simulated_logs.files(Story(skew_s=(0.0, 30.0)))
    view = logs.View([rank_log.of(Source.of_text(text, name)) for name, text in files.items()])
    logs.faults(view, docket)
    clocks = dict(logs.facts(view, docket))["clocks"]
    assert "ranks 4-7" in clocks or "ranks 0-3" in clocks
    assert "30 s" in clocks
    assert "600 s before the first time-out" in docket.findings[0].summary.replace("599", "600")


def test_a_fault_that_was_survived_is_no_cause() -> None:
    story = Story(kind="network", decoys=(1,))
    assert accused(told(story)) == set()


def test_faults_of_two_hosts_within_their_clocks_difference_accuse_nobody() -> None:
    files = simulated_logs.files(Story(kind="oom", fault_rank=1, steps_on="first"))
    other = simulated_logs.files(Story(kind="disk-full", fault_rank=6, steps_on="first"))
    files["host2/rank_6.log"] = other["host2/rank_6.log"]
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text(text, name)) for name, text in files.items()], docket)
    assert [(f.code, f.kind) for f in docket.findings] == [
        ("not-determinable", "first-fault"),
        ("hang-midrun", None),
    ]
    assert accused(docket.findings) == set()


def test_the_same_fault_of_all_ranks_is_told_of_all_of_them() -> None:
    files = {}
    for rank in range(4):
        own = simulated_logs.files(Story(ranks=4, kind="exception", fault_rank=rank))
        files[f"host1/rank_{rank}.log"] = own[f"host1/rank_{rank}.log"]
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text(text, name)) for name, text in files.items()], docket)
    (found,) = docket.findings
    assert found.where.ranks == (0, 1, 2, 3) and found.where.rank is None
    assert "None of them was first" in found.summary


def test_a_rank_that_says_it_never_called_the_collective_is_named() -> None:
    head = "[rank{r}]:[E1130 10:00:00.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) "
    lines = [
        head.replace("{r}", str(r)) + f"Rank {r}] Received a dump signal due to a collective "
        f"timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued "
        f"NCCL work: {9 if r != 2 else 8}, last completed NCCL work: 8."
        for r in range(1, 4)
    ]
    lines.append(
        "[rank0]:[E1130 10:00:00.0 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
    )
    lines.append(
        head.replace("{r}", "0") + "Rank 0]  failure detected by watchdog at work sequence "
        "id: 9 PG status: last enqueued work: 9, last completed work: 8"
    )
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text("\n".join(lines) + "\n", "all.log"))], docket)
    (found,) = docket.findings
    assert (found.code, found.where.rank, found.confidence) == ("hang-midrun", 2, "asked")


LAUNCH = """
[rank1]: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while \
trying to connect to (127.0.1.1, 29500).
[rank0]: torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 \
clients joined.
"""


def test_a_rendezvous_that_fails_has_its_check_done() -> None:
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text(LAUNCH, "console.log"))], docket)
    assert [f.code for f in docket.findings] == ["hang-rendezvous", "not-determinable"]
    texts = " ".join(e.text for e in docket.findings[0].evidence)
    assert "127.0.1.1:29500 is every host's own address" in texts
    assert "1/2 clients joined" in texts


def test_settings_that_cost_evidence_are_named() -> None:
    text = (
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1\nTORCH_DISTRIBUTED_DEBUG=DETAIL\n"
        "TORCH_NCCL_TRACE_BUFFER_SIZE=50\nTORCH_NCCL_DUMP_ON_TIMEOUT: 0\n"
    )
    view = logs.View([rank_log.of(Source.of_text(text, "env.log"))])
    told_ = [text for label, text in logs.facts(view, Docket()) if label == "lost"]
    assert len(told_) == 4
    assert "aborts communicators before" in told_[0] and "keeps 50 entries" in told_[1]


stories = st.builds(
    Story,
    ranks=st.sampled_from([2, 3, 4, 8]),
    ranks_per_host=st.sampled_from([1, 2, 8]),
    fault_rank=st.integers(0, 1),
    kind=st.sampled_from([*FAULTS, "killed", "stuck", "mismatch", "network", "uneven"]),
    steps=st.integers(3, 40),
    timeout_s=st.sampled_from([10.0, 60.0, 600.0, 1800.0]),
    skew_s=st.sampled_from([(0.0,), (0.0, 30.0), (0.0, -30.0, 12.0), (0.0, 0.4)]),
    decoys=st.lists(st.integers(0, 1), max_size=2, unique=True).map(tuple),
    age=st.sampled_from(["2.0", "2.3", "2.6"]),
    launcher=st.sampled_from(["files", "console", "srun"]),
    timed=st.booleans(),
    steps_on=st.sampled_from(["all", "first"]),
    pages=st.booleans(),
    without=st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple),
    seed=st.integers(0, 1 << 20),
    aftermath=st.booleans(),
    torn=st.one_of(st.none(), st.integers(0, 3)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories)
def test_no_innocent_rank_is_ever_accused(story: Story) -> None:
    guilty = set() if story.kind == "network" else {story.fault_rank}
    if len(story.without) < story.ranks:
        assert accused(told(story)) <= guilty, msgspec.json.encode(told(story)).decode()


HEAD = "[rank{0}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught "
WORK = (
    "collective operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=466119168, "
    "NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
)


def of_lines(*lines: str) -> tuple[Finding, ...]:
    docket = Docket()
    logs.judge([rank_log.of(Source.of_text("\n".join(lines) + "\n", "console.log"))], docket)
    return docket.findings


def test_where_all_that_speak_agree_the_missing_log_is_where_to_start() -> None:
    """After github.com/hiyouga/LlamaFactory/issues/7396: rank 1 of five prints nothing."""
    lines = [(HEAD + WORK).format(rank, 1580, "ALLREDUCE") for rank in (0, 4, 2)]
    status = (
        "[rank3]:[E321 02:07:08.465224069 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 3] Exception "
        "(either an error or timeout) detected by watchdog at work: 1580, last enqueued NCCL "
        "work: 1582, last completed NCCL work: 1579."
    )
    hang, open_ = of_lines(*lines, status)
    assert (hang.code, hang.where.ranks) == ("hang-midrun", (0, 2, 3, 4))
    assert open_.code == "not-determinable"
    assert "#1,580 of group 1" in open_.summary and "agree in everything" in open_.summary
    assert open_.summary.endswith("The log of rank 1 is missing: start there.")


def test_nothing_ever_finished_is_the_first_collective() -> None:
    status = (
        "[rank{0}]:[E224 01:11:21.2 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) "
        "Rank {0}]  failure detected by watchdog at work sequence id: 1 PG status: last enqueued "
        "work: 1, last completed work: -1"
    )
    lines = [(HEAD + WORK).format(rank, 1, "BROADCAST") for rank in (1, 2)]
    found = of_lines(*lines, status.format(1), status.format(2))
    assert [f.code for f in found] == ["hang-first-collective", "not-determinable"]
    assert any("NCCL_DEBUG was not INFO" in e.text for e in found[0].evidence)


KERNEL = (
    "Nov 30 10:00:05 node3 kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus."
)
NOTICED = (
    "[rank5]:[E1130 10:00:09.227531918 ProcessGroupNCCL.cpp:1515] [PG ID 0 PG GUID 0(default_pg) "
    "Rank 5] Process group watchdog thread terminated with exception: CUDA error: unspecified "
    "launch failure"
)


def test_an_xid_is_the_cause_of_the_cuda_error_that_its_rank_sees() -> None:
    (found,) = of_lines(KERNEL, NOTICED)
    assert (found.kind, found.where.rank, found.where.line) == ("xid", 5, 1)
    assert any("unspecified launch failure" in e.text for e in found.evidence)


def test_a_kernels_line_names_no_rank_though_it_stands_in_a_ranks_log() -> None:
    (found,) = of_lines("2026-11-30 10:00:00 INFO step 10 rank=0", KERNEL)
    assert (found.kind, found.where.rank) == ("xid", None)


def test_the_scheduler_names_the_rank_that_the_host_had_no_memory_for() -> None:
    found = of_lines(
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving "
        "ncclUniqueId from [0] via c10d key-value store by store->get('0'), but got error: "
        "Connection reset by peer.",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0.",
        "srun: error: node7: task 0: Out Of Memory",
        "srun: error: node8: tasks 8-15: Terminated",
    )
    assert [(f.kind, f.where.rank) for f in found] == [("killed", 0)]


def test_a_log_whose_times_run_ahead_of_its_fault_still_tells_it() -> None:
    """Buffered ordinary lines with later times before the traceback, the true time behind it."""
    ordinary = "2026-11-30 16:13:{0:02d},000 INFO train rank={1} step={0} loss=0.5"
    odd = [ordinary.format(at, 1) for at in range(20)]
    odd += [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "train.py", line 220, in main',
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "2026-11-30 16:00:01,000 ERROR train rank=1 leaving",
    ]
    docket = Docket()
    texts = {"rank_1.log": "\n".join(odd) + "\n"}
    for rank in (0, 2, 3):
        lines = [ordinary.format(at, rank) for at in range(20)]
        lines.append(
            f"[rank{rank}]:[E1130 16:10:00.500000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] "
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
            "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600040 milliseconds before "
            "timing out."
        )
        texts[f"rank_{rank}.log"] = "\n".join(lines) + "\n"
    logs.judge([rank_log.of(Source.of_text(text, name)) for name, text in texts.items()], docket)
    first = docket.findings[0]
    assert (first.code, first.kind, first.where.rank) == ("first-fault", "oom", 1)
    assert "at 16:00:01, 600 s before the first time-out" in first.summary


GROUPED = (
    "[PG ID 1 PG GUID 4(mesh_dp) Rank {1}] Timeout at NCCL work: 7, last enqueued NCCL work: 7"
)


def in_group(rank: int, inner: int, operation: str) -> tuple[str, str]:
    """What rank `inner` of group 4 prints, which is `rank` of the job."""
    caught = HEAD.replace("[Rank {0}]", "[Rank {1}]").format(rank, inner)
    status = f"[rank{rank}]:[E321 02:07:08.5 ProcessGroupNCCL.cpp:1834] {GROUPED}, last completed"
    return caught + WORK.format(rank, 7, operation), status.format(rank, inner) + " NCCL work: 6."


def test_torchs_rank_within_a_group_is_not_the_jobs() -> None:
    lines = [
        *in_group(3, 0, "ALLREDUCE"),
        *in_group(4, 1, "ALLREDUCE"),
        *in_group(5, 2, "BROADCAST"),
        "nranks 6",
    ]
    (mismatch,) = of_lines(*lines)
    assert (mismatch.code, mismatch.where.rank) == ("collective-mismatch", 5)
    assert "where ranks 3, 4 called ALLREDUCE" in mismatch.summary


def test_a_rank_within_a_group_is_no_second_process_of_a_ranks_own_log() -> None:
    text = (
        "[rank13]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught "
        + WORK.format(0, 7, "ALLREDUCE")
        + "\nterminate called after throwing an instance of 'c10::DistBackendError'\n"
        "  what():  [PG ID 1 PG GUID 4(mesh_tp) Rank 1] Process group watchdog thread terminated "
        "with exception: [Rank 1] Watchdog caught " + WORK.format(0, 7, "ALLREDUCE") + "\n"
        "torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    log = rank_log.of(Source.of_text(text, "rank_13.log"))
    assert [(s.name, s.rank) for s in log.streams] == [("", 13)]
    assert {wait.rank for wait in log.waits} == {13}
    assert {sign.rank for sign in log.signs} == {13}


def test_the_rank_in_brackets_counts_where_nothing_else_tells_it() -> None:
    caught = "[E ProcessGroupNCCL.cpp:737] [Rank {0}] Watchdog caught " + WORK
    lines = "\n".join(caught.format(rank, 7, "ALLREDUCE") for rank in (2, 5))
    log = rank_log.of(Source.of_text(lines + "\n", "console.log"))
    assert {wait.rank for wait in log.waits} == {2, 5}
    foldered = rank_log.of(Source.of_text(lines + "\n", "crash-of-rank0/all_ranks.log"))
    assert {wait.rank for wait in foldered.waits} == {2, 5}
    named = rank_log.of(Source.of_text(lines + "\n", "rank_5.log"))
    assert {wait.rank for wait in named.waits} == {5}


def test_a_majority_of_few_that_printed_convicts_nobody() -> None:
    """Five of eight ranks print nothing: more than were heard."""
    lines = [(HEAD + WORK).format(r, 7, "ALLREDUCE" if r < 2 else "BROADCAST") for r in range(3)]
    status = (
        "[rank0]:[E321 02:07:08.5 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 0] Timeout at NCCL work: 7, last enqueued NCCL work: 7, last completed NCCL work: 6."
    )
    for world, rank in ((8, None), (3, 2)):
        found = of_lines(*lines, status, f"world_size={world}")
        assert (found[0].code, found[0].where.rank) == ("collective-mismatch", rank)
        assert len(found) == (1 if rank else 2)


def test_groups_that_ranks_number_themselves_may_be_different_ones() -> None:
    """Before torch 2.5 the groups of ranks 0, 1 and of 2, 3 were both "PG 1"."""
    lines = []
    for rank, operation in enumerate(("ALLREDUCE", "ALLREDUCE", "ALLREDUCE", "BROADCAST")):
        lines.append((HEAD + WORK).format(rank, 7, operation))
        enqueued = 7 if rank < 3 else 5
        lines.append(
            f"[rank{rank}]:[E321 02:07:08.5 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank % 2}] "
            f"Timeout at NCCL work: 7, last enqueued NCCL work: {enqueued}, last completed NCCL "
            "work: 4."
        )
    found = of_lines(*lines, "world_size=4")
    assert [f.code for f in found] == ["collective-mismatch", "not-determinable"]
    assert found[0].where.ranks == (0, 1, 2, 3) and found[0].confidence == "inferred"
