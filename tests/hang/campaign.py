"""Real jobs that are made to hang or die, and what `diagnose` says of what they left.

A Case is how a job is started and what is known of it: code, kind, rank and phase. run() starts
it under a real torchrun over gloo, waits for its death, and has `python -m bench diagnose --json`
read the console, torchrun's log tree and the dumps. tests/performance/bench_hangs.py prints a
table.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench.lab import checks, namespaces, running
from bench.lab.launch import clean_environment
from bench.records import Diagnosis, Finding

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("hanging_job.py")
ODD = 1
DEATH_S = 90.0  # a job that was not dead by then is ended, and told
ANSWER_S = 10.0  # after its death
SHUTDOWN_S = "3"  # torchrun's patience with a rank that does not end (30 by default)
ABORT = "gloo ends the receiver of a larger message"
LAB = """
hosts = 2
[[network]]
name = "data"
interface = "data0"
subnet = "10.2.0.0/24"
"""
FIREWALL = """
[[fault]]
kind = "firewall"
host = 1
network = "data"
port = 29500
"""


@dataclass(frozen=True)
class Case:
    """`codes`: one of them is the first serious finding's. `rank`: the only one that may be named;
    None: nobody may be. `says`: words that stand in the findings. `place`: where it runs."""

    name: str
    codes: tuple[str, ...]
    phase: str
    kind: str | None = None
    rank: int | None = ODD
    says: tuple[str, ...] = ()
    ranks: int = 3
    place: str = "here"
    options: tuple[str, ...] = ()


ELSEWHERE = ("--nnodes", "2", "--node-rank", "1", "--rdzv-conf", "timeout=3")
CASES = (
    Case("oom", ("first-fault",), "midrun", "oom"),
    Case("killed", ("first-fault",), "midrun", "killed"),
    Case("stopped", ("hang-midrun",), "midrun", says=("never joined",)),
    Case("dataloader", ("first-fault",), "midrun", "dataloader"),
    Case("uneven", ("hang-end",), "end"),
    # four ranks: the one that receives a larger message is aborted, the others still decide
    Case("shape", ("collective-mismatch",), "midrun", "size", ranks=4),
    Case("dtype", ("collective-mismatch",), "midrun", "dtype", ranks=4),
    Case("order", ("collective-mismatch",), "midrun", "type", ranks=4),
    Case("inversion", ("collective-mismatch",), "midrun", "order"),
    Case(
        "missing node", ("hang-rendezvous",), "rendezvous", rank=None, ranks=1,
        says=("RendezvousTimeoutError", "a node that never started"),
        options=("--nnodes", "2", "--c10d"),
    ),
    Case(
        "wrong address", ("hang-rendezvous",), "rendezvous", rank=None, ranks=1,
        says=("is every host's own address",), options=ELSEWHERE,
    ),
    Case("taken port", ("first-fault",), "rendezvous", "address-in-use", rank=None, ranks=2),
    Case(
        "firewalled port", ("hang-rendezvous",), "rendezvous", rank=None, ranks=1,
        says=("Nobody answered at 10.2.0.1:29500", "firewall"), place="lab", options=ELSEWHERE,
    ),
    Case("interface", ("first-fault",), "init", "interface", says=("ens99",)),
    Case("shm", ("first-fault",), "midrun", "shm-full", place="shm"),
)  # fmt: skip
CHEAPEST = ("oom", "killed", "taken port", "wrong address", "interface")


@dataclass
class Answer:
    """`answer_s`: the diagnosis alone, interpreter start included; `cpu_s`: the same on a machine
    that does nothing else; `trouble`: why it is wrong."""

    case: Case
    job_s: float
    answer_s: float
    cpu_s: float = 0.0
    diagnosis: Diagnosis | None = None
    trouble: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return not self.trouble


def case(name: str) -> Case:
    return next(each for each in CASES if each.name == name)


def run(one: Case, folder: Path) -> Answer:
    """The job, its death, its diagnosis and what is wrong with that."""
    begun = time.monotonic()
    died = _job(one, folder)
    answer = Answer(one, time.monotonic() - begun, 0.0)
    if not died:
        answer.trouble.append(f"the job lived for {DEATH_S:.0f} s")
    begun, used = time.monotonic(), _children_cpu_s()
    done = subprocess.run(
        [sys.executable, "-m", "bench", "diagnose", "--json", str(folder)],
        capture_output=True, cwd=ROOT, timeout=DEATH_S, check=False,
    )  # fmt: skip
    answer.answer_s, answer.cpu_s = time.monotonic() - begun, _children_cpu_s() - used
    if done.returncode:
        answer.trouble.append(done.stderr.decode()[-400:])
        return answer
    answer.diagnosis = msgspec.json.decode(done.stdout, type=Diagnosis)
    answer.trouble += _wrong(one, answer.diagnosis)
    if answer.cpu_s > ANSWER_S:
        answer.trouble.append(f"it took {answer.cpu_s:.1f} s of a core")
    return answer


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def serious(diagnosis: Diagnosis) -> list[Finding]:
    return [each for each in diagnosis.findings if each.severity == "broken"]


def accused(diagnosis: Diagnosis) -> set[int]:
    """Ranks that serious findings name."""
    found: set[int] = set()
    for each in serious(diagnosis):
        found |= {each.where.rank, *each.where.ranks} - {None}  # type: ignore[arg-type]
    return found


def _wrong(one: Case, told: Diagnosis) -> Iterator[str]:
    first = next(iter(serious(told)), None)
    if first is None or first.code not in one.codes:
        yield f"says {[f'{f.code} {f.kind or str()}' for f in told.findings]}"
        return
    if one.kind is not None and first.kind != one.kind:
        yield f"kind {first.kind}, not {one.kind}"
    if told.phase != one.phase:
        yield f"phase {told.phase}, not {one.phase}"
    named = accused(told)
    if one.rank is not None and named != {one.rank}:
        yield f"names ranks {sorted(named)}, not {one.rank}"
    if one.rank is None and one.place != "here" and named:
        yield f"names ranks {sorted(named)}"
    text = msgspec.json.encode(told.findings).decode()
    yield from (f"does not say {words}" for words in one.says if words not in text)


# --- the jobs ---------------------------------------------------------------------------------


def _job(one: Case, folder: Path) -> bool:
    """Start it and wait for its death; False where it had to be ended."""
    port = _free_port()
    with contextlib.ExitStack() as stack:
        if one.name == "taken port":
            held = stack.enter_context(socket.create_server(("0.0.0.0", port)))
            assert held
        console = stack.enter_context((folder / "console.log").open("wb"))
        if one.place == "lab":
            file = folder.parent / f"{folder.name}.toml"
            file.write_text(LAB + FIREWALL)
            lab = stack.enter_context(running.open_lab(checks.load(file), needed=[folder, ROOT]))
            command = _torchrun(one, folder, "10.2.0.1", 29500)
            job = lab.start(
                lab.hosts[1], command, environment=_environment(), stdout=console, stderr=console
            )
            return _wait(job)
        command = _torchrun(one, folder, "127.0.0.1", port)
        if one.place == "shm":
            flags = "-m" if os.geteuid() == 0 else "-Urm"
            mount = 'mount -t tmpfs -o size=2m tmpfs /dev/shm && exec "$@"'
            command = ["unshare", flags, "sh", "-c", mount, "sh", *command]
        job = subprocess.Popen(
            command, stdout=console, stderr=console, stdin=subprocess.DEVNULL,
            env=_environment(), start_new_session=True,
        )  # fmt: skip
        return _wait(job)


def possible(one: Case) -> bool:
    """Whether this machine can be made to fail so."""
    if one.place == "shm":
        return shutil.which("unshare") is not None and (
            os.geteuid() == 0 or namespaces.may_make_namespaces()
        )
    return one.place == "here" or os.geteuid() == 0 or namespaces.may_make_namespaces()


def _torchrun(one: Case, folder: Path, address: str, port: int) -> list[str]:
    if "--c10d" in one.options:
        meeting = [
            "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "campaign",
            "--rdzv-endpoint", f"{address}:{port}", "--rdzv-conf", "join_timeout=5",
        ]  # fmt: skip
    else:
        meeting = [*one.options, "--master-addr", address, "--master-port", str(port)]
    return [
        sys.executable, "-m", "torch.distributed.run", *meeting,
        "--nproc-per-node", str(one.ranks), "--shutdown-timeout", SHUTDOWN_S,
        "--log-dir", str(folder / "logs"), "-r", "3",
        str(JOB), one.name, str(folder),
    ]  # fmt: skip


def _environment() -> dict[str, str]:
    return clean_environment(os.environ)


def _wait(job: subprocess.Popen[bytes]) -> bool:
    try:
        job.wait(DEATH_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
