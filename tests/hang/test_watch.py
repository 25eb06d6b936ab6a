"""The parts of `watch`: what it sets, what it adds to torchrun, who stands where, what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.hang import rank_processes
from bench.hang.watch import proc, recorder, sentry, torchrun
from bench.hang.watch.harvest import Harvest
from bench.hang.watch.muster import Muster
from bench.hang.watch.standing import Standing
from bench.hang.watch.switchboard import Switchboard
from bench.judge.docket import Docket
from bench.records import Evidence, Finding, FlightFrame, RankProcess, WatchedJob, Where
from bench.records.diagnosis import FlightPicture, FlightRank

FOLDER = Path("/run/folder")
SENTRY = Path(sentry.__file__)


# --- variables and options ----------------------------------------------------------------------


def test_an_older_torch_gets_the_recorder_under_both_names() -> None:
    added = recorder.settings({}, FOLDER, "2.6.0").added
    assert added["TORCH_FR_BUFFER_SIZE"] == added["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"
    assert added["TORCH_NCCL_ENABLE_TIMING"] == "1"
    assert added["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"].startswith("/run/folder/flight/")


def test_a_newer_torch_is_not_made_to_warn_of_an_old_name() -> None:
    added = recorder.settings({}, FOLDER, "2.13.0+cpu").added
    assert not {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"} & set(added)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "TORCH_FR_BUFFER_SIZE",
                "TORCH_NCCL_TRACE_BUFFER_SIZE",
                "TORCH_NCCL_DUMP_ON_TIMEOUT",
                "TORCH_FR_DUMP_TEMP_FILE",
                "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
                "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                "NCCL_ASYNC_ERROR_HANDLING",
                "NCCL_DEBUG",
                "NCCL_DEBUG_FILE",
            ]
        ),
        st.sampled_from(["0", "7", "mine"]),
    ),
    st.sampled_from(["", "2.5.1", "2.13.0", "2.15.0"]),
)
def test_nothing_that_the_user_set_is_set_again(own: dict[str, str], version: str) -> None:
    added = recorder.settings(own, FOLDER, version).added
    assert not set(own) & set(added)
    if "TORCH_FR_BUFFER_SIZE" in own:
        assert added.get("TORCH_NCCL_TRACE_BUFFER_SIZE") in (None, own["TORCH_FR_BUFFER_SIZE"])
    if {"NCCL_DEBUG", "NCCL_DEBUG_FILE"} & set(own):
        assert not {"NCCL_DEBUG", "NCCL_DEBUG_FILE"} & set(added)


def test_settings_of_the_user_that_cost_evidence_are_told() -> None:
    own = {"TORCH_FR_BUFFER_SIZE": "0", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    kept = recorder.settings(own, FOLDER, "2.13.0").kept
    assert len(kept) == 2 and "no dumps" in kept[0] and "DETAIL" in kept[1]


LOGS = Path("/logs")
ADDED = ("--log-dir", "/logs", "--redirects", "3")


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("torchrun --nproc-per-node 2 train.py --tee x -r 1", 1),
        ("python -m torch.distributed.run train.py", 3),
        ("env A=1 /opt/venv/bin/torchrun train.py", 3),
        ("python3 /opt/venv/bin/torchrun --standalone train.py --log-dir mine", 2),
        ("env -u A B=c nice -n 5 taskset -c 0-3,8 timeout -s KILL 2h torchrun train.py", 15),
        ("numactl --interleave all /v/bin/torchrun train.py", 4),
        ("numactl --cpunodebind=0 -m 0,1 python -u -X dev -Wignore torchrun train.py", 10),
    ],
)
def test_torchrun_is_found_and_its_ranks_write_apart(line: str, at: int) -> None:
    words = tuple(line.split())
    found = torchrun.command(words, LOGS, {})
    assert found.argv == (*words[:at], *ADDED, *words[at:])
    assert found.logs == LOGS and found.is_torchrun


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --tee 3 train.py",
        "torchrun --nproc-per-node 2 -r 3 train.py",
        "torchrun --log_dir=mine train.py",
        "torchrun --log mine train.py",
        "torchrun --logs-specs mine train.py",
        "python train.py",
        "bash -c torchrun",
        "python -m axolotl.cli.main train c.yml --launcher torchrun",
        "env A=1 axolotl train c.yml --launcher torchrun",
        "env -i axolotl --launcher torchrun",
        "python launch.py --backend torchrun",
        "python -um launch torchrun",
        "python -c code torchrun",
        "python env torchrun",
        "torchrun.sh torchrun",
        "nice -n 5 python launch.py torchrun",
    ],
)
def test_logs_that_the_user_has_arranged_and_other_commands_stay_as_they_are(line: str) -> None:
    words = tuple(line.split())
    found = torchrun.command(words, LOGS, {})
    assert found.argv == words and found.logs is None
    assert torchrun.command(("torchrun", "a.py"), LOGS, {"PET_TEE": "3"}).logs is None


def test_the_console_shows_the_ranks_that_torchrun_would_have_shown() -> None:
    words = ["torchrun", "--local-ranks-filter", "0,2", "train.py"]
    assert torchrun.command(words, LOGS, {}).shown == {0, 2}
    assert torchrun.command(["torchrun", "a.py"], LOGS, {}).shown is None


# --- who stands where ---------------------------------------------------------------------------


def status(called: int, finished: int) -> dict[str, Any]:
    told = {"last_enqueued_collective": str(called), "last_completed_collective": str(finished)}
    return {"gloo": {"0": told}}


def calls(*entries: tuple[int, str, bool], timeout_ms: int = 600_000) -> bytes:
    return json.dumps(
        {
            "entries": [
                {
                    "record_id": number,
                    "collective_seq_id": seq,
                    "pg_id": 0,
                    "process_group": ["0", "default_pg"],
                    "profiling_name": f"gloo:{name}",
                    "input_sizes": [[1024]],
                    "input_dtypes": ["Float"],
                    "state": "scheduled",
                    "retired": retired,
                    "timeout_ms": timeout_ms,
                }
                for number, (seq, name, retired) in enumerate(entries)
            ]
        }
    ).encode()


def standing(ranks: int = 3) -> Standing:
    made = Standing()
    for rank in range(ranks):
        made.joined(rank, 0.0)
    return made


def test_ranks_that_wait_are_told_with_their_call_and_the_one_behind_by_how_much() -> None:
    now = standing()
    for rank, (called, finished) in enumerate([(5, 4), (5, 4), (4, 4)]):
        now.counted(rank, status(called, finished), 1.0)
    for rank in (0, 1):
        now.listed(rank, "gloo", calls((4, "broadcast", True), (5, "all_reduce", False)), 0.1, 3.0)
    now.listed(2, "gloo", calls((4, "broadcast", True)), 0.1, 3.0)
    waiting = now.waiting(4.0)
    assert set(waiting) == {0, 1}
    assert waiting[0][1].name == "all_reduce" and now.behind() == {0: 0, 1: 0, 2: 1}
    assert now.shortest_timeout_s(4.0) == 600.0


def test_a_list_from_before_the_last_move_proves_no_wait() -> None:
    now = standing(1)
    now.counted(0, status(5, 4), 1.0)
    now.listed(0, "gloo", calls((5, "all_reduce", False)), 0.1, 2.0)
    now.counted(0, status(9, 8), 3.0)
    assert not now.waiting(20.0)


def test_the_dear_question_takes_at_most_a_four_hundredth_of_a_moving_rank() -> None:
    now, asked, at = standing(1), 0, 0.0
    while at < 100.0:
        for rank, what in now.due(at):
            if what == "look":
                now.counted(rank, status(int(at * 9) + 1, int(at * 9)), at)
            else:
                asked += 1
                now.listed(rank, "gloo", calls((int(at * 9), "all_reduce", True)), 0.027, at)
                now.places[rank].listing = False
        at += 0.25
    assert 1 <= asked <= 1 + 100 / 10.8
    assert asked * 0.027 <= 100 / 400 + 0.027


def test_a_rank_that_was_asked_and_does_not_answer_is_silent() -> None:
    now = standing(2)
    assert ("look" in {what for _, what in now.due(1.0)}) and not now.silent(2.0, 3.0)
    now.counted(0, status(1, 1), 1.1)
    assert now.silent(4.5, 3.0) == (1,)


@given(st.binary(max_size=300) | st.just(b'{"entries": [{"pg_id": "x"}]}'))
def test_what_a_rank_says_may_be_anything(data: bytes) -> None:
    now = standing(1)
    now.listed(0, "gloo", data, 0.0, 1.0)
    now.counted(0, {"gloo": {"0": {"last_enqueued_collective": data.hex()}, "x": 3}}, 1.0)
    assert now.waiting(9.0) == {}


# --- what is kept -------------------------------------------------------------------------------


def test_what_was_taken_while_nothing_moved_outlives_what_came_after_the_failure(
    tmp_path: Path,
) -> None:
    (tmp_path / "flight").mkdir()
    harvest = Harvest(tmp_path)
    first, late = calls((5, "all_reduce", False)), calls((5, "all_reduce", True))
    harvest.keep(1)
    harvest.dump(0, "gloo", "json", 1, first)
    harvest.dump(0, "gloo", "json", 0, late)  # the rank's own last one
    harvest.dump(1, "gloo", "json", 0, late)  # this rank had told nothing yet
    harvest.write(WatchedJob(command=("x",)))
    assert (tmp_path / "flight/asked_gloo_rank_0.json").read_bytes() == first
    assert (tmp_path / "flight/asked_gloo_rank_1.json").read_bytes() == late
    harvest.thaw()
    harvest.dump(0, "gloo", "json", 0, late)
    harvest.write(WatchedJob(command=("x",)))
    assert (tmp_path / "flight/asked_gloo_rank_0.json").read_bytes() == late


def test_a_rank_that_ended_many_calls_later_had_not_been_standing_still(tmp_path: Path) -> None:
    (tmp_path / "flight").mkdir()
    harvest = Harvest(tmp_path)
    slow_start = calls((1, "all_reduce", False))
    harvest.keep(1)
    harvest.dump(0, "gloo", "json", 1, slow_start)
    harvest.dump(1, "gloo", "json", 1, slow_start)
    cleanup = calls((1, "all_reduce", True), (2, "barrier", True))
    harvest.dump(0, "gloo", "json", 0, cleanup)
    assert harvest.keeps and harvest.told()[0, "gloo"] == slow_start
    steps = [(seq, "all_reduce", True) for seq in range(1, 25)]
    harvest.dump(0, "gloo", "json", 0, calls(*steps))
    harvest.dump(1, "gloo", "json", 0, calls((1, "all_reduce", True)))
    assert not harvest.keeps
    assert harvest.told()[0, "gloo"] == calls(*steps)


def test_a_recorder_without_an_entry_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "flight").mkdir()
    harvest = Harvest(tmp_path)
    harvest.dump(0, "nccl", "json", 1, b'{"version": "2.10", "pg_config": {}}')
    harvest.write(WatchedJob(command=("x",)))
    assert not list((tmp_path / "flight").iterdir())


# --- the sentry in a real process ---------------------------------------------------------------

HOLDS_INTERPRETER = "import ctypes\nctypes.PyDLL(None).getchar()\n"  # waits for its stdin
SLEEPS = "import time\ntime.sleep(60)\n"


def rank_process(folder: Path, board: Switchboard, script: str) -> subprocess.Popen[bytes]:
    (folder / ".live").mkdir()
    (folder / ".live" / "sitecustomize.py").write_bytes(SENTRY.read_bytes())
    (folder / "train.py").write_text(script)
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / ".live"),
        sentry.ADDRESS: board.address,
        sentry.FOLDER: str(folder / ".live"),
        "RANK": "0",
    }
    return subprocess.Popen(
        [sys.executable, str(folder / "train.py")], env=environment, stdin=subprocess.PIPE
    )


@pytest.mark.parametrize("script", [SLEEPS, HOLDS_INTERPRETER], ids=["sleeps", "holds-the-gil"])
def test_a_rank_shows_where_it_stands_even_if_native_code_holds_its_interpreter(
    tmp_path: Path, script: str
) -> None:
    with Switchboard() as board:
        process = rank_process(tmp_path, board, script)
        try:
            ranks, end = Muster(tmp_path), time.monotonic() + 20
            while not ranks.living and time.monotonic() < end:
                for told in board.take(0.05):
                    ranks.hear(told, time.monotonic())
            time.sleep(0.5)  # it is in its script by now
            current = ranks.collect(time.monotonic())
            while not ranks.is_over(current, time.monotonic()) and time.monotonic() < end:
                for told in board.take(0.05):
                    ranks.hear(told, time.monotonic())
            (tmp_path / "flight").mkdir()
            ranks.harvest.write(WatchedJob(command=("x",)))
        finally:
            process.kill()
            process.wait()
    stacks = (tmp_path / "stacks.txt").read_text()
    assert stacks.startswith("=== Rank 0 ===")
    assert 'train.py", line 2 in <module>' in stacks


@pytest.mark.parametrize(("script", "code"), [("raise ValueError(1)", 1), ("pass", None)])
def test_a_rank_that_was_reaped_before_the_look_has_told_of_its_failure_itself(
    tmp_path: Path, script: str, code: int | None
) -> None:
    with Switchboard() as board:
        process = rank_process(tmp_path, board, script)
        ranks, end = Muster(tmp_path), time.monotonic() + 20
        while 0 not in ranks.harvest.processes and time.monotonic() < end:
            for told in board.take(0.05):
                ranks.hear(told, time.monotonic())
                if told.say == "farewell":  # as a launcher would, before anybody asks the kernel
                    process.communicate(timeout=20)
        while ranks.living and time.monotonic() < end:
            for told in board.take(0.05):
                ranks.hear(told, time.monotonic())
    (left,) = ranks.harvest.processes.values()
    assert (left.farewell, left.exit_code, left.signal) == (True, code, None)


STARTS_TWO = """
import os, subprocess, sys
ranks = [
    subprocess.Popen(["sh", "-c", f"{sys.executable} -c 'input()'; true"],
                     env={**os.environ, "RANK": rank, "WORLD_SIZE": "8"})
    for rank in "45"
]
[rank.wait() for rank in ranks]
"""


@pytest.mark.parametrize(
    ("program", "variable"),
    [
        ("torchrun", "SLURM_PROCID"),
        ("torchrun", "RANK"),
        ("launch.py", "SLURM_PROCID"),
        ("launch.py", "OMPI_COMM_WORLD_RANK"),
    ],
)
def test_a_launcher_with_a_nodes_number_is_no_rank(
    tmp_path: Path, program: str, variable: str
) -> None:
    (tmp_path / "sitecustomize.py").write_bytes(SENTRY.read_bytes())
    (tmp_path / program).write_text(STARTS_TWO)
    clean = {name: text for name, text in os.environ.items() if name not in sentry.RANKS}
    with Switchboard() as board:
        more = {"PYTHONPATH": str(tmp_path), sentry.ADDRESS: board.address, variable: "1"}
        process = subprocess.Popen(
            [sys.executable, "-u", str(tmp_path / program)],
            env={**clean, **more},
            stdin=subprocess.PIPE,
        )
        ranks, end = Muster(tmp_path), time.monotonic() + 20
        heard: list[int] = []
        try:
            while len(ranks.living & {4, 5}) < 2 and time.monotonic() < end:
                for told in board.take(0.05):
                    heard += [told.line.pid] * (told.say == "hello")
                    ranks.hear(told, time.monotonic())
            assert ranks.living == set(ranks.lines) == {4, 5}
            assert ranks.hurry(time.monotonic()).told == {4, 5}
            assert len(heard) == (3 if program == "launch.py" else 2)
        finally:
            process.communicate(b"\n\n", timeout=20)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("/v/bin/torchrun --nproc-per-node 2 train.py", True),
        ("-u -X dev -m torch.distributed.run train.py", True),
        ("-Wignore /v/bin/accelerate launch train.py", True),
        ("-u train.py torchrun", False),
        ("-m train torchrun", False),
        ("-c code torchrun", False),
        ("", False),
    ],
)
def test_launchers_are_known_by_their_own_words(
    monkeypatch: pytest.MonkeyPatch, words: str, expected: bool
) -> None:
    import builtins
    import io

    line = "\0".join(["/v/bin/python", *words.split(), ""]).encode()
    monkeypatch.setattr(builtins, "open", lambda *_: io.BytesIO(line))
    assert sentry.launches() is expected


def test_a_stranger_on_the_abstract_socket_harms_nobody() -> None:
    import socket

    with Switchboard() as board:
        link = socket.socket(socket.AF_UNIX)
        link.connect("\0" + board.address)
        link.sendall(b'{"say": "look", "bytes": -1}\n' + b"\xff" * 100_000)
        told = [one for _ in range(5) for one in board.take(0.05)]
        link.close()
        assert [each.say for each in told] == ["gone"]


def test_the_kernel_tells_stopped_dead_and_what_a_process_handles() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        os.kill(process.pid, signal.SIGSTOP)
        end = time.monotonic() + 5
        while proc.look(process.pid, 3).state != "T" and time.monotonic() < end:
            time.sleep(0.01)
        assert proc.look(process.pid, 3).state == "T"
        assert not proc.handles(process.pid, sentry.STACKS_SIGNAL)
    finally:
        process.kill()
        end = time.monotonic() + 5
        while proc.look(process.pid, 3).state != "Z" and time.monotonic() < end:
            time.sleep(0.01)
        seen = proc.look(process.pid, 3)
        process.wait()
    assert (seen.state, seen.signal) == ("Z", signal.SIGKILL)
    assert proc.look(process.pid, 3).state is None


# --- what the states of processes add -----------------------------------------------------------


def job(*processes: RankProcess) -> list[WatchedJob]:
    return [WatchedJob(command=("x",), processes=processes)]


def hang_end(rank: int) -> Finding:
    text = f"rank {rank} ended after a whole number of steps, as when its data ran out"
    return Finding(
        code="hang-end",
        severity="broken",
        summary=f"Rank {rank} never joined.",
        where=Where(rank=rank),
        evidence=(Evidence(basis="inferred", text=text),),
    )


def test_a_stopped_rank_is_named_and_the_abstention_about_its_dump_falls() -> None:
    docket = Docket()
    docket.add(Finding(code="not-determinable", severity="info", summary="?", where=Where(rank=2)))
    stopped = RankProcess(rank=2, pid=7, host="h", state="T", silent_s=4.0)
    parts = rank_processes.judge(
        job(RankProcess(rank=0, pid=5, state="S"), stopped), docket, {}, {}
    )
    assert parts["ranks"] == (2,)
    (finding,) = docket.findings
    assert (finding.code, finding.kind, finding.where.rank) == ("first-fault", "stopped", 2)
    assert "kill -CONT 7" in (finding.remedy or "")


def test_a_wait_in_the_kernel_counts_once_the_rank_has_answered_nothing() -> None:
    alive = RankProcess(rank=0, pid=5, state="S")
    for silent_s, ranks in ((None, None), (4.0, (1,))):
        docket = Docket()
        waits = RankProcess(rank=1, pid=7, state="D", waits_in="nfs_wait_bit", silent_s=silent_s)
        assert rank_processes.judge(job(alive, waits), docket, {}, {}).get("ranks") == ranks
        assert len(docket.findings) == (ranks is not None)
    assert "nfs_wait_bit" in docket.findings[0].evidence[0].text


def test_when_all_ranks_are_stopped_nobody_is_accused() -> None:
    docket = Docket()
    both = [RankProcess(rank=rank, pid=5 + rank, state="T") for rank in (0, 1)]
    assert rank_processes.judge(job(*both), docket, {}, {}) == {}
    assert docket.findings == ()


def test_a_death_by_the_launchers_own_signal_accuses_nobody() -> None:
    docket = Docket()
    ended = [
        RankProcess(rank=0, pid=5, ended_s=3.0, signal=signal.SIGTERM),
        RankProcess(rank=1, pid=6, ended_s=3.1, signal=signal.SIGKILL),
    ]
    assert rank_processes.judge(job(*ended), docket, {}, {}) == {}


def test_the_first_to_die_of_sigkill_is_named_where_no_log_tells() -> None:
    docket = Docket()
    ended = [
        RankProcess(rank=1, pid=6, ended_s=3.0, signal=signal.SIGKILL),
        RankProcess(rank=0, pid=5, ended_s=3.4, signal=signal.SIGTERM),
    ]
    assert rank_processes.judge(job(*ended), docket, {}, {})["ranks"] == (1,)
    assert docket.findings[0].kind == "killed"


@pytest.mark.parametrize(("now", "phase"), [(18, "midrun"), (30, None)])
def test_only_a_line_before_the_newest_call_shows_that_the_loop_goes_on(
    now: int, phase: str | None
) -> None:
    def stack(line: int) -> tuple[FlightFrame, ...]:
        return (FlightFrame(name="<module>", file="train.py", line=line),)

    docket = Docket()
    docket.add(hang_end(2))
    picture = FlightPicture(
        phase="end",
        collectives=60,
        ranks=(FlightRank(rank=2, file="d", stack=0),),
        stacks=(stack(25),),
    )
    parts = rank_processes.judge([], docket, {"flight": picture}, {2: stack(now)})
    assert parts.get("phase") == phase
    assert docket.findings[0].code == ("hang-midrun" if phase else "hang-end")


@pytest.mark.parametrize(("late", "kept"), [(1, True), (2, False), (None, False)])
def test_who_was_late_in_the_moment_of_a_death_is_not_accused_unless_it_had_ended(
    late: int | None, kept: bool
) -> None:
    docket = Docket()
    docket.add(msgspec.structs.replace(hang_end(9), code="hang-midrun", where=Where(rank=late)))
    ended = [
        RankProcess(rank=0, pid=5, ended_s=3.3, exit_code=1, farewell=True),
        RankProcess(rank=1, pid=6, ended_s=3.0, exit_code=17),
        RankProcess(rank=2, pid=7, ended_s=3.4, signal=signal.SIGTERM),
    ]
    moving = [WatchedJob(command=("x",), stood=False, processes=tuple(ended))]
    parts = rank_processes.judge(moving, docket, {"flight": FlightPicture(collectives=9)}, {})
    assert bool(docket.findings) is kept
    assert parts.get("phase") == (None if kept else "midrun")


def test_the_sentry_runs_on_the_pythons_that_jobs_run_on() -> None:
    import ast

    tree = ast.parse(SENTRY.read_text(), feature_version=(3, 8))
    loaded = {node.names[0].name for node in tree.body if isinstance(node, ast.Import)}
    assert loaded == {"os", "sys"}  # every process of a job pays for what stands at the top
