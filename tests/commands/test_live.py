"""`diagnose --live` on jobs that hang: processes, torch's worker server, RAS, the pipe, py-spy."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from bench.cli import main
from bench.hang.live import pipe
from bench.hang.live.worker_server import workers
from bench.hang.watch import proc
from bench.records import Diagnosis
from tests.formats.test_nccl_ras import BEHIND, answer

RANK = """
import os, sys, time
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _WorkerServer

rank = int(os.environ["RANK"])
server = _WorkerServer(os.environ["TORCH_WORKER_SERVER_SOCKET"])
remote = _WorkerServer("127.0.0.1", 0)
with open(os.environ["TORCH_WORKER_SERVER_SOCKET"] + ".port", "w") as out:
    out.write(str(remote.port))
place = "tcp://127.0.0.1:" + sys.argv[1]
dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
x = torch.ones(64)
for step in range(4):
    if step == 3 and rank == 1:
        print("hangs", flush=True)
        time.sleep(600)  # line 18
    dist.all_reduce(x)
"""
PLAIN = "import time\nprint('hangs', flush=True)\ntime.sleep(600)\n"


def start(script: Path, rank: int, *arguments: str, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", **more}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def job(script: Path, ranks: int, *arguments: str, **more: str) -> Iterator[Sequence[int]]:
    """Ranks that hang, by their process ids."""
    folder = script.parent
    processes = [
        start(
            script,
            rank,
            *arguments,
            TORCH_WORKER_SERVER_SOCKET=f"{folder}/{rank}.sock",
            **more,
        )
        for rank in range(ranks)
    ]
    try:
        stdout = processes[-1].stdout
        assert stdout is not None and stdout.readline() == "hangs\n"
        yield [process.pid for process in processes]
        assert all(process.poll() is None for process in processes), "a rank was ended"
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def live(out: Path, *names: object) -> Diagnosis:
    text = io.StringIO()
    assert main(["diagnose", "--live", "--json", "--out", str(out), *map(str, names)], text) == 0
    return msgspec.json.decode(text.getvalue(), type=Diagnosis)


def test_a_hung_job_of_torch_tells_through_its_worker_servers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(RANK)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with job(script, 2, port) as pids:
        time.sleep(0.5)  # the others have called what rank 1 never does
        told = live(tmp_path / "out", *pids)
        alone = live(tmp_path / "alone", f"127.0.0.1:{(tmp_path / '1.sock.port').read_text()}")
    assert alone.ranks == () and alone.flight is not None  # whose it is, nobody told
    assert told.ranks == (1,) and told.phase == "midrun", told.findings
    (finding,) = [each for each in told.findings if each.severity == "broken"]
    assert "Rank 1 never joined all_reduce #4" in finding.summary
    assert any("train.py:18" in each.text for each in finding.evidence), finding.evidence
    assert "its worker server gave gloo, stacks" in capfd.readouterr().err


def test_a_process_has_the_user_by_whom_it_makes_files() -> None:
    assert proc.user(os.getpid()) == os.geteuid()
    assert proc.user(4_194_305) == -1


def test_the_debug_servers_page_names_every_ranks_own_server() -> None:
    """As torch/distributed/debug/_debug_handlers.py writes it, escaped by jinja2."""
    page = (
        b"<h1>Stacks</h1><h2>Rank 0: http://node-a:41234/handler/dump_traceback?</h2><pre>x</pre>"
        b"<h2>Rank 11: http://[fd00::1]:5/handler/dump_traceback?</h2><p>Failed to fetch</p>"
    )
    assert workers(page) == {0: "node-a:41234", 11: "[fd00::1]:5"}


def test_a_stopped_rank_is_named_without_any_help_of_the_job(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    with job(script, 2) as pids:
        os.kill(pids[1], signal.SIGSTOP)
        while proc.look(pids[1], 1).state != "T":
            time.sleep(0.01)
        told = live(tmp_path / "out", *pids)
        assert proc.look(pids[1], 1).state == "T"  # as it was
    assert told.ranks == (1,)
    assert told.findings[0].kind == "stopped"


def test_ranks_of_which_nothing_is_known_but_that_they_live_accuse_nobody(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    with job(script, 2, PATH="") as pids:
        told = live(tmp_path / "out", *pids)
    assert [each.code for each in told.findings] == ["not-determinable"]
    assert told.ranks == ()


def test_py_spy_tells_who_is_in_no_collective_and_its_absence_is_one_note(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program stands for py-spy, whose form it prints; a real one needs ptrace."""
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    spy = tmp_path / "py-spy"
    spy.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "assert sys.argv[1:3] == ['dump', '--nonblocking'], sys.argv\n"
        "rank = open(f'/proc/{sys.argv[-1]}/environ').read().split('RANK=')[1][0]\n"
        "print(f'Process {sys.argv[-1]}: python train.py\\nPython v3.11.7 (/bin/python3)\\n')\n"
        "print('Thread 7 (active): \"MainThread\"')\n"
        "if rank != '1':\n"
        "    print('    all_reduce (torch/distributed/distributed_c10d.py:3252)')\n"
        "print('    <module> (train.py:' + ('9' if rank == '1' else '24') + ')')\n"
    )
    spy.chmod(0o755)
    with job(script, 3) as pids:
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        told = live(tmp_path / "out", *pids)
        assert told.suspects == (1,) and told.findings[0].code == "not-determinable"
        assert "rank 1 is not" in told.findings[0].summary
        capfd.readouterr()
        monkeypatch.setenv("PATH", "/nowhere")
        live(tmp_path / "again", *pids)
    assert capfd.readouterr().err.count("py-spy is not installed") == 1


def test_the_recorders_pipe_brings_a_dump(tmp_path: Path) -> None:
    """What stands behind the pipe does what ProcessGroupNCCL's monitor does."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, shutil\n"
        "path = os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE'] + os.environ['RANK'] + '.pipe'\n"
        "os.mkfifo(path)\n"
        "end = os.open(path, os.O_RDWR)\n"
        "print('hangs', flush=True)\n"
        "while os.read(end, 16):\n"
        "    shutil.copy(os.environ['SAMPLE'], os.environ['TORCH_FR_DUMP_TEMP_FILE'] + '0')\n"
    )
    sample = Path(__file__).resolve().parents[1] / "data" / "flight"
    dump = next(path for path in sorted(sample.rglob("*")) if path.is_file())
    more = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/pipe_",
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/dump_",
        "SAMPLE": str(dump),
    }
    with job(script, 1, **more) as pids:
        live(tmp_path / "out", *pids)
    assert (tmp_path / "out/flight/pipe_rank_0").read_bytes() == dump.read_bytes()


HERS = os.getuid()


def test_nothing_is_written_to_a_file_that_somebody_names_as_the_pipe(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("root:x:0\n")
    os.mkfifo(tmp_path / "fifo0.pipe")
    reader = os.open(tmp_path / "fifo0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / "link0.pipe").symlink_to(kept)
    (tmp_path / "file0.pipe").write_text("mine\n")
    (tmp_path / "way0.pipe").symlink_to(tmp_path / "fifo0.pipe")

    def said(name: str, uid: int = HERS) -> str:
        return pipe.ask(0, {pipe.PIPE: str(tmp_path / name)}, uid) or ""

    assert said("link").endswith(": is a link") and said("way").endswith(": is a link")
    assert said("file").endswith(": is no pipe")
    assert said("none").endswith("No such file or directory")
    assert said("fifo", HERS + 1).endswith(": belongs to another user than the rank")
    assert kept.read_text() == "root:x:0\n" and (tmp_path / "file0.pipe").read_text() == "mine\n"
    assert said("fifo") == "" and os.read(reader, 16) == b"1\n"
    os.close(reader)
    assert said("fifo").endswith("nobody reads it")


def test_a_dump_is_a_plain_file_of_the_ranks_user_and_of_a_dumps_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "MAX_BYTES", 8)
    (tmp_path / "dump").write_bytes(b"12345678")
    (tmp_path / "long").write_bytes(b"123456789")
    (tmp_path / "link").symlink_to(tmp_path / "dump")
    os.mkfifo(tmp_path / "fifo")
    assert pipe.read(tmp_path / "dump", HERS) == b"12345678"
    for name, uid, why in (
        ("long", HERS, "is no dump"),
        ("link", HERS, "is a link"),
        ("fifo", HERS, "is no plain file"),
        ("dump", HERS + 1, "belongs to another user"),
        ("none", HERS, "No such file"),
    ):
        with pytest.raises(pipe.Refused, match=why):
            pipe.read(tmp_path / name, uid)


class Ras:
    """NCCL's side of the protocol, from its source; `answers` are given in their order."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._door.getsockname()[1]}"
        self.commands: list[str] = []
        self._thread = threading.Thread(target=self._serve, args=(answers,), daemon=True)
        self._thread.start()

    def _serve(self, answers: Sequence[bytes]) -> None:
        for data in answers:
            link, _ = self._door.accept()
            with link, link.makefile("rb") as lines:
                for line in lines:
                    command = line.decode().strip().lower()
                    self.commands.append(command)
                    if command.startswith("client protocol"):
                        link.sendall(b"SERVER PROTOCOL 2\n")
                    elif command == "verbose status":
                        link.sendall(data)
                        break
                    else:
                        link.sendall(b"OK\n")

    def close(self) -> None:
        self._door.close()


def test_ras_names_the_rank_whose_counts_stay_behind_in_two_answers(tmp_path: Path) -> None:
    behind = json.dumps(answer(BEHIND)).encode()
    ras = Ras([behind, behind])
    told = live(tmp_path / "out", ras.place)
    ras.close()
    assert told.ranks == (1,) and told.findings[0].code == "hang-midrun"
    assert "set format json" in ras.commands


def test_counts_that_move_between_the_answers_accuse_nobody(tmp_path: Path) -> None:
    later = [count + 7 for count in BEHIND]
    ras = Ras([json.dumps(answer(counts)).encode() for counts in (BEHIND, later)])
    told = live(tmp_path / "out", ras.place)
    ras.close()
    assert told.ranks == () and [f.code for f in told.findings] == ["not-determinable"]


def test_something_else_on_the_port_and_nobody_there_are_one_sentence_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.hang.live.worker_server.DEADLINE_S", 0.5)
    monkeypatch.setattr("bench.hang.live.ras_client.HELLO_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts, and never says a word
        place = f"127.0.0.1:{mute.getsockname()[1]}"
        began = time.monotonic()
        assert main(["diagnose", "--live", "--out", str(tmp_path / "a"), place]) == 2
        assert time.monotonic() - began < 5
    assert main(["diagnose", "--live", "--out", str(tmp_path / "b"), place]) == 2
    assert main(["diagnose", "--live", "--out", str(tmp_path / "c"), "host"]) == 2
    assert main(["diagnose", "--live", "--out", str(tmp_path / "d"), "4194304"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4 and all(line.startswith("fabric-bench: ") for line in said)
    assert "no answer in" in said[0] and "connection refused" in said[1]
