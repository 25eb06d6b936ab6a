"""`lab run`: a real torchrun on every host, the script's own status, and a lab that always ends.

The script is `fake_sweep.py` (fake: it measures nothing), so that each test takes seconds.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.lab import absence, run
from bench.records import BadInput

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAKE = HERE / "fake_sweep.py"
DRIVER = (
    "import pathlib, sys\n"
    "from bench.lab import run\n"
    "sys.exit(run.run(pathlib.Path(sys.argv[1]), out=sys.argv[2],"
    " script=pathlib.Path(sys.argv[3]), options=sys.argv[4:]))\n"
)
pytestmark = pytest.mark.lab


@pytest.fixture
def file(tmp_path: Path, two_networks: str) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(two_networks + '[environment]\nNCCL_SOCKET_IFNAME = "mgmt"\n')
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def told(**labels: object) -> list[str]:
    """Options that tell the fake what to do."""
    return [part for key, value in labels.items() for part in ("--label", f"{key}={value}")]


def start(
    file: Path, out: Path, *options: str, before: list[str] | None = None, **environment: str
) -> subprocess.Popen[str]:
    """`lab run` in a process of its own."""
    return subprocess.Popen(
        [*(before or []), sys.executable, "-c", DRIVER, str(file), str(out), str(FAKE), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ranks_of_all_hosts_reduce_over_the_network_they_are_told(
    file: Path, out: Path, lab_processes: Callable[[], set[int]]
) -> None:
    file.write_text(file.read_text().replace('["data0", "ens1f0"]', '"data0"'))
    status = run.run(file, out=out, script=FAKE, options=told(do="all-reduce", interface="data0"))
    assert status == 0
    assert float((out / "sum").read_text()) == 3.0
    assert not lab_processes()


@pytest.mark.parametrize("status", [0, 2])
def test_it_exits_as_the_sweep_did_without_torchruns_page(
    file: Path, out: Path, status: int
) -> None:
    process = start(file, out, *told(do="status", status=status))
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == status
    assert stdout == "rank 0 speaks\n"
    assert stderr == "rank 0 complains\n"
    assert "ChildFailedError" in (out / "logs" / "host1.log").read_text() or status == 0


def test_the_environment_is_the_lab_files_not_the_callers(
    file: Path,
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lab_processes: Callable[[], set[int]],
) -> None:
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    (home / ".nccl.conf").write_text("NCCL_SOCKET_IFNAME=leaked\n")
    for name, value in (
        ("NCCL_DEBUG", "leaked"),
        ("GLOO_SOCKET_IFNAME", "leaked"),
        ("PET_NNODES", "leaked"),
        ("MASTER_PORT", "1"),
        ("HOME", str(home)),
        ("TMPDIR", str(scratch)),
    ):
        monkeypatch.setenv(name, value)
    stdout = io.StringIO()
    options = told(do="status", status=0)
    assert run.run(file, out=out, script=FAKE, options=options, stdout=stdout) == 0
    assert stdout.getvalue() == "rank 0 speaks\n"
    for rank in (0, 1):
        seen = dict(
            line.partition("=")[::2]
            for line in (out / f"environment.{rank}").read_text().splitlines()
        )
        assert "leaked" not in seen.values()
        assert seen["NCCL_SOCKET_IFNAME"] == "mgmt"
        assert seen["MASTER_ADDR"] == "10.1.0.1"
        assert seen["HOME"] not in (str(home), "")
    assert not list(scratch.iterdir()), "temporary files went with the hosts"
    assert not lab_processes()


def test_a_sweep_that_crashes_leaves_a_sentence_and_no_lab(
    file: Path, out: Path, lab_processes: Callable[[], set[int]]
) -> None:
    with pytest.raises(BadInput, match=r"left no status \(torchrun: 1\); its output is in .*logs"):
        run.run(file, out=out, script=FAKE, options=told(do="crash"))
    assert not lab_processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_sweep_write_what_it_has(
    file: Path,
    out: Path,
    number: signal.Signals,
    lab_processes: Callable[[], set[int]],
    wait_for: Callable[..., bool],
) -> None:
    process = start(file, out, *told(do="wait"))
    assert wait_for((out / "waiting.0").exists, 30)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert (process.returncode, (out / "stopped").read_text()) == (0, "SIGTERM")
    assert not lab_processes()


def test_a_second_signal_ends_a_sweep_that_does_not_listen(
    file: Path, out: Path, lab_processes: Callable[[], set[int]], wait_for: Callable[..., bool]
) -> None:
    file.write_text(
        file.read_text() + '[[fault]]\nkind = "stop"\nrank = 0\nphase = "rendezvous"\n'
    )
    process = start(file, out, *told(do="wait"))
    assert wait_for((out / "waiting.0").exists, 30)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode in (0, 130)
    assert not lab_processes()


def test_kill_9_takes_everything_with_it(
    file: Path,
    out: Path,
    tmp_path: Path,
    lab_processes: Callable[[], set[int]],
    wait_for: Callable[..., bool],
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = start(file, out, *told(do="wait"), TMPDIR=str(scratch))
    assert wait_for((out / "waiting.1").exists, 30)
    assert len(lab_processes()) > 5
    process.kill()
    process.communicate(timeout=10)
    assert wait_for(lambda: not lab_processes())
    assert not list(scratch.iterdir())


def test_an_absent_host_is_named_in_a_report(
    file: Path, out: Path, monkeypatch: pytest.MonkeyPatch, lab_processes: Callable[[], set[int]]
) -> None:
    monkeypatch.setattr(absence, "PROVEN_S", 4.0)
    file.write_text(file.read_text() + '[[fault]]\nkind = "absent"\nhost = 2\n')
    stdout = io.StringIO()
    assert run.run(file, out=out, script=FAKE, stdout=stdout) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "broken"
    (finding,) = report["findings"]
    assert (finding["code"], finding["where"]["host"]) == ("hang-rendezvous", "host2")
    assert "host2 never joined" in " ".join(stdout.getvalue().split())
    assert (out / "status").read_text() == "0\n"
    assert not lab_processes()


def test_a_host_behind_a_firewall_is_named_and_the_gate_fails(
    file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absence, "PROVEN_S", 8.0)
    file.write_text(
        file.read_text() + '[[fault]]\nkind = "firewall"\nhost = 2\nnetwork = "mgmt"\n'
    )
    stdout = io.StringIO()
    assert run.run(file, out=out, script=FAKE, options=["--fail-on", "broken"], stdout=stdout) == 1
    (finding,) = json.loads((out / "report.json").read_text())["findings"]
    assert finding["where"]["hosts"] == ["host2"]
    assert any("gets no answer from 10.1.0.1:29500" in e["text"] for e in finding["evidence"])


@pytest.mark.parametrize(("kind", "end"), [("kill", "ended 9"), ("stop", "T 0")])
def test_a_rank_is_killed_or_stopped_where_the_file_says(
    file: Path, out: Path, kind: str, end: str
) -> None:
    file.write_text(file.read_text() + f'[[fault]]\nkind = "{kind}"\nrank = 1\nphase = "midrun"\n')
    assert run.run(file, out=out, script=FAKE, options=told(do="phases")) == 0
    # rank 0 may end first, and the lab with it: rank 1 has 5 s more, its worker needs 3
    assert (out / "worker.0").read_text() == "ended 0"
    assert (out / "worker.1").read_text() == end


def test_an_ordinary_user_gets_a_whole_run(
    file: Path, out: Path, lab_processes: Callable[[], set[int]]
) -> None:
    # As root: without any capability but the one that lets root map itself into the namespace.
    powerless = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]
    file.write_text(file.read_text().replace('["data0", "ens1f0"]', '"data0"'))
    process = start(
        file,
        out,
        *told(do="all-reduce", interface="data0"),
        before=powerless if os.getuid() == 0 else [],
    )
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert float((out / "sum").read_text()) == 3.0
    assert (out / "sum").stat().st_uid == os.getuid()
    assert not lab_processes()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--plam", "quick"], "unknown option '--plam'; did you mean --plan?"),
        (["--plan", "quik"], 'no plan is called "quik"; did you mean "quick"?'),
        (["--fabric", "none.toml"], "no such file"),
        (["--out", "x"], "--out is given twice"),
    ],
)
def test_bad_options_are_told_before_anything_is_built(
    file: Path, out: Path, options: list[str], sentence: str
) -> None:
    with pytest.raises(BadInput) as caught:
        run.run(file, out=out, options=options, script=FAKE)
    assert sentence in str(caught.value)
    assert not out.exists()


def test_a_fabric_that_is_not_there_is_told_with_the_labs_name(file: Path, out: Path) -> None:
    file.write_text('fabric = "no.toml"\n' + file.read_text())
    with pytest.raises(BadInput, match=r'lab.toml: fabric "no.toml": no such file'):
        run.run(file, out=out, script=FAKE)


def test_a_finished_run_is_not_overwritten(file: Path, out: Path) -> None:
    out.mkdir()
    (out / "report.json").write_text("{}")
    (out / "status").write_text("0\n")
    with pytest.raises(BadInput, match="holds a finished run"):
        run.run(file, out=out, script=FAKE)
    assert (out / "status").exists()
