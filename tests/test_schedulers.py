"""configs/schedulers: each file is run where this machine can, and held against its schema where
it cannot. Slurm and Open MPI are the real ones, of Debian's packages.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from bench.lab.launch import clean_environment
from tests.real_slurm import RealSlurm, checkout

ROOT = Path(__file__).resolve().parents[1]
SCHEDULERS = ROOT / "configs" / "schedulers"
PLACE = "/opt/nccl-fabric-bench"  # where the files that need a path expect the checkout
SHORT = (
    "--plan", "quick", "--sessions", "1", "--collective", "all_reduce", "--maxbytes", "64K",
    "--locate", "never",
)  # fmt: skip
TWO_BY_TWO = ("--nodes=2", "--gpus-per-node=2", "--time=5")


def night(place: Path) -> tuple[Path, dict]:
    """The one night in a checkout's history, and its report."""
    nights = [run for run in (place / "reports" / "history").iterdir() if not run.is_symlink()]
    (file,) = [run / "report.json" for run in nights if (run / "report.json").exists()]
    return file.parent, json.loads(file.read_text())


# ------------------------------------------------------------------------------- Slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    real = RealSlurm(tmp_path_factory.mktemp("cluster"))
    yield real
    real.close()


@pytest.fixture
def shared(slurm: RealSlurm, request: pytest.FixtureRequest) -> Path:
    """A checkout on a shared disk, with a history of its own: a night that is judged by another
    test's would be a regression on a busy machine."""
    return checkout(slurm.folder / request.node.name, ROOT)


@pytest.mark.lab
def test_srun_alone_runs_the_nightly_job(slurm: RealSlurm, shared: Path) -> None:
    """As shipped, but on a cluster of another shape and with tasks dealt round the nodes."""
    code, printed = slurm.job(
        *TWO_BY_TWO, "--ntasks-per-node=2", "--distribution=cyclic",
        "configs/schedulers/slurm-srun.sbatch", *SHORT, cwd=shared,
    )  # fmt: skip
    assert code == "0:0", printed
    run, report = night(shared)
    assert (run / "status").read_text() == "0\n"
    assert report["complete"] and report["plan"]["ranks"] == 4
    ranks = {host["host"]: host["ranks"] for host in report["hosts"]}
    assert ranks == {"host1": [0, 2], "host2": [1, 3]}
    measured = {c["name"] for c in report["candidates"] if c["outcome"] == "measured"}
    assert measured == {"data0", "mgmt0", "(default)"}
    assert (run / "junit.xml").exists(), "the night was judged"
    assert "store has gone" not in printed
    assert printed.rstrip().splitlines()[-2].endswith(" · exit 0"), printed


@pytest.mark.lab
def test_a_torchrun_on_every_node_runs_the_nightly_job(slurm: RealSlurm, shared: Path) -> None:
    code, printed = slurm.job(
        *TWO_BY_TWO, "configs/schedulers/slurm-torchrun.sbatch", *SHORT, cwd=shared
    )
    assert code == "0:0", printed
    _, report = night(shared)
    ranks = {host["host"]: host["ranks"] for host in report["hosts"]}
    per_node = os.cpu_count() or 1  # "auto" without GPUs
    assert ranks == {
        "host1": list(range(per_node)), "host2": list(range(per_node, 2 * per_node)),
    }  # fmt: skip


@pytest.mark.lab
def test_a_job_whose_time_is_up_keeps_what_it_measured(slurm: RealSlurm, shared: Path) -> None:
    """What --signal=TERM@120 does: SIGTERM to the steps, not to the batch script."""
    number = slurm.submit(
        *TWO_BY_TWO, "--ntasks-per-node=1", "configs/schedulers/slurm-srun.sbatch",
        *SHORT, "--sessions", "40", "--budget", "600", cwd=shared,
    )  # fmt: skip
    history, end = shared / "reports" / "history", time.monotonic() + 60
    while not any(lines(file) >= 2 for file in history.glob("*/samples.jsonl")):
        assert time.monotonic() < end, slurm.result(number, timeout_s=1)
        time.sleep(0.2)
    assert slurm.run("scancel", "--signal=TERM", number).returncode == 0
    _, printed = slurm.result(number)
    _, report = night(shared)
    assert not report["complete"] and any("SIGTERM" in line for line in report["missing"])
    assert report["sessions"], printed


def lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.lab
def test_a_batch_script_that_forgot_srun_is_told_so(slurm: RealSlurm, shared: Path) -> None:
    sweep = ".venv/bin/python bench/sweep.py"
    code, printed = slurm.job("--nodes=2", "--ntasks=4", f"--wrap={sweep}", cwd=shared)
    assert code == "2:0"
    assert printed.startswith("fabric-bench: this is the batch script itself, not a step")
    assert printed.count("\n") == 1


@pytest.mark.parametrize("name", ["slurm-srun.sbatch", "slurm-torchrun.sbatch"])
def test_a_job_out_of_time_has_room_to_end_by_itself(name: str) -> None:
    """The signal comes after the plan's budget, and leaves time for report and judgement."""
    text = (SCHEDULERS / name).read_text()
    time_s = 60 * int(re.search(r"--time=01:(\d\d):00|$", text)[1] or 0) + 3600  # type: ignore[index]
    signal_s = int(re.search(r"--signal=TERM@(\d+)", text)[1])  # type: ignore[index]
    plan = (ROOT / "configs/plans/nightly.toml").read_text()
    budget_s = float(re.search(r"^budget_s = ([\d.]+)", plan, re.MULTILINE)[1])  # type: ignore[index]
    assert budget_s + 300 < time_s - signal_s and signal_s >= 60


# ----------------------------------------------------------------------------- mpirun


def user(place: Path, **more: str) -> dict[str, str]:
    """The environment of somebody who works in the checkout `place`."""
    kept = clean_environment(os.environ)
    return kept | {"PATH": f"{place}/.venv/bin:{os.environ['PATH']}"} | more


def test_mpirun_runs_the_nightly_job(tmp_path: Path) -> None:
    """The real Open MPI, on this host; over ssh nothing else is different."""
    place = checkout(tmp_path / "nccl-fabric-bench", ROOT)
    done = subprocess.run(
        [place / "configs/schedulers/mpirun.sh", "localhost", "2", *SHORT],
        env=user(place, MPIRUN="mpirun.openmpi"), cwd="/", capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    _, report = night(place)
    assert report["plan"]["ranks"] == 2 and report["complete"]
    assert "store has gone" not in done.stderr


def test_mpirun_sh_says_how_it_is_called_and_what_it_cannot_use(tmp_path: Path) -> None:
    script = SCHEDULERS / "mpirun.sh"
    done = subprocess.run([script, "host1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: mpirun.sh HOST1,HOST2,")
    place = checkout(tmp_path / "nccl-fabric-bench", ROOT)
    done = subprocess.run(
        [place / "configs/schedulers/mpirun.sh", "host1", "2"],
        env=user(place, MPIRUN="/bin/true"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "mpirun.sh: /bin/true is neither Open MPI nor MPICH\n"


# Stands in for the sweep under a real mpirun: rank 0 notes itself as the journal does, takes its
# time over a report when it is told to end, and ends the other.
SLOW_RANK = """
import os, signal, sys, time
from pathlib import Path
out = Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
def stop(number, frame):
    time.sleep(4)
    (out / "told").write_text(signal.Signals(number).name)
    sys.exit(1)
if rank == 0:
    signal.signal(signal.SIGTERM, stop)
    (out / ".lock").write_text(f"{os.getpid()}\\n")
end = time.monotonic() + 60
while time.monotonic() < end and not (out / "told").exists():
    time.sleep(0.1)
"""
JUDGE = "import sys; print('judged', *sys.argv[1:])"


def slow_checkout(tmp_path: Path) -> Path:
    """A checkout whose sweep and judge are stand-ins."""
    place = checkout(tmp_path / "nccl-fabric-bench", ROOT)
    (place / "bench").unlink()
    (place / "bench").mkdir()
    (place / "bench" / "sweep.py").write_text(SLOW_RANK)
    (place / "bench" / "__main__.py").write_text(JUDGE)
    return place


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not get that far"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_unit_leaves_rank_0_under_mpirun_the_time_for_a_report(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The signal as systemd sends it (KillMode=mixed): to the script alone."""
    place = slow_checkout(tmp_path)
    history = place / "reports" / "history"
    process = subprocess.Popen(
        [place / "configs/schedulers/mpirun.sh", "localhost", "2"],
        env=user(place, MPIRUN="mpirun.openmpi"), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(lambda: any(file.stat().st_size for file in history.glob("*/.lock")), process)
        process.send_signal(number)
        out, err = process.communicate(timeout=90)
    finally:
        kill_group(process)
    (run,) = history.iterdir()
    assert (run / "told").read_text() == "SIGTERM", err
    assert (process.returncode, out) == (
        0, f"judged nightly --judge {run.relative_to(place)}\n",
    ), err  # fmt: skip


def kill_group(process: subprocess.Popen[str]) -> None:
    """Whatever is left of it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(10)


# Starts no ranks; ends half a second after it is told to.
TERMINABLE = """#!/bin/bash
[ "$1" = --version ] && { echo 'HYDRA build details:'; exit; }
trap 'sleep 0.5; echo told >>"$MARK"; exit 1' TERM
for word; do
    [ "${before:-}" != --out ] || run=$word
    before=$word
done
[ -z "${NOTED:-}" ] || { mkdir -p "$run" && echo "$NOTED" >"$run/.lock"; }
echo started >"$MARK"
for _ in {1..300}; do sleep 0.1; done
"""


@pytest.mark.parametrize("noted", ["", "1", "no-number"])
def test_without_a_rank_0_mpirun_itself_is_told_and_no_other_process(
    tmp_path: Path, noted: str
) -> None:
    """Before the run's folder is held, or where what it notes is no sweep of this host."""
    place = slow_checkout(tmp_path)
    mpirun = tmp_path / "mpiexec"
    mpirun.write_text(TERMINABLE)
    mpirun.chmod(0o755)
    process = subprocess.Popen(
        [place / "configs/schedulers/mpirun.sh", "host1", "2"],
        env=user(place, MPIRUN=str(mpirun), MARK=str(tmp_path / "mark"), NOTED=noted), text=True,
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for((tmp_path / "mark").exists, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        kill_group(process)
    assert (tmp_path / "mark").read_text() == "started\ntold\n", err
    assert out.startswith("judged nightly --judge reports/history/")


# What an mpirun of another make is given: the options of MPICH's mpiexec (its manual), which Intel
# MPI's takes too.
HYDRA = """#!/bin/sh
[ "$1" = --version ] && { echo 'HYDRA build details:'; exit; }
printf '%s\\n' "$MASTER_ADDR" "$OMP_NUM_THREADS" "$@"
exit 1
"""


def test_mpich_is_told_where_rank_0_is_and_one_port(tmp_path: Path) -> None:
    place = checkout(tmp_path / "nccl-fabric-bench", ROOT)
    (tmp_path / "mpiexec").write_text(HYDRA)
    (tmp_path / "mpiexec").chmod(0o755)
    done = subprocess.run(
        [place / "configs/schedulers/mpirun.sh", "host1,host2,host3", "4", "--seed", "7"],
        env=user(place, MPIRUN=str(tmp_path / "mpiexec")), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    words = done.stdout.split("\n")
    assert words[:2] == ["host1", "1"]
    given = " ".join(words)
    assert "-hosts host1,host2,host3 -n 12 -ppn 4 -bind-to none" in given
    assert "-genvlist MASTER_ADDR,MASTER_PORT,OMP_NUM_THREADS,PATH" in given
    assert "bench/sweep.py --plan nightly --out reports/history/2" in given
    assert "--seed 7" in given
    assert done.returncode == 2, "no run, and the judgement says so"


# ----------------------------------------------------------------- systemd and cron


def verify_units(folder: Path) -> subprocess.CompletedProcess[str]:
    units = sorted(map(str, folder.glob("fabric-nightly.*")))
    assert len(units) == 2
    return subprocess.run(
        ["systemd-analyze", "--man=no", "verify", *units],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The unit files as the README has them installed: with the checkout's own path."""
    for file in SCHEDULERS.glob("fabric-nightly.*"):
        (tmp_path / file.name).write_text(file.read_text().replace(PLACE, str(ROOT)))
    return tmp_path


def test_systemd_finds_nothing_wrong_with_the_units(units: Path) -> None:
    done = verify_units(units)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("LimitMEMLOK=infinity", "Unknown key"),
        ("TimeoutStartSec=soon", "Failed to parse"),
        ("ExecStartPre=/no/such/program", "is not executable"),
    ],
)
def test_systemd_would_have_found_it(units: Path, line: str, words: str) -> None:
    with (units / "fabric-nightly.service").open("a") as service:
        service.write(f"{line}\n")
    assert words in verify_units(units).stderr


def test_the_timer_is_for_every_night() -> None:
    when = re.search(r"OnCalendar=(.*)", (SCHEDULERS / "fabric-nightly.timer").read_text())
    assert when is not None
    done = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=3", when[1]],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    nights = re.findall(r"(\d{4}-\d\d-\d\d) 02:30:00", done.stdout)
    assert len(set(nights)) == 3, done.stdout


def cron_lines(text: str) -> list[tuple[list[str], str]]:
    """Five fields and a command each, as crontab(5) has them; without a field for a user."""
    entries = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#") or re.match(r"[A-Z_]+=", bare):
            continue
        entries.append((bare.split(None, 5)[:5], bare.split(None, 5)[5]))
    return entries


def in_cron_range(field: str, low: int, high: int) -> bool:
    parts = [re.fullmatch(r"(\*|(\d+)(-(\d+))?)(/\d+)?", part) for part in field.split(",")]
    numbers = [int(n) for part in parts if part for n in (part[2], part[4]) if n]
    return all(parts) and all(low <= n <= high for n in numbers)


CRON = (SCHEDULERS / "nightly.cron").read_text()
CRON_ALL = re.sub(r"^#(?=\d)", "", CRON, flags=re.MULTILINE)  # with the line that is commented out


@pytest.mark.parametrize(("fields", "command"), cron_lines(CRON_ALL))
def test_a_line_of_cron_is_one(fields: list[str], command: str) -> None:
    limits = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
    assert all(in_cron_range(f, *limit) for f, limit in zip(fields, limits, strict=True))
    assert "%" not in command, "cron would make a line break of it"
    subprocess.run(["sh", "-n", "-c", command], check=True, timeout=20)


def test_there_is_one_line_that_counts_and_one_for_slurm() -> None:
    assert CRON.endswith("\n"), "cron ignores a last line without its end"
    assert [len(cron_lines(text)) for text in (CRON, CRON_ALL)] == [1, 2]
    named = re.findall(r"configs/schedulers/\S+\.sbatch", CRON_ALL)
    assert named and all((ROOT / name).exists() for name in named)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_cron_has_something_to_mail_only_after_a_bad_night(tmp_path: Path, status: int) -> None:
    """The line as cron runs it: /bin/sh, next to no environment; run.sh is a stand-in."""
    ((_, command),) = cron_lines(CRON)
    (tmp_path / "reports").mkdir()
    script = f'#!/bin/sh\necho "$@"; echo "verdict: something" >&2; exit {status}\n'
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / "run.sh").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", command.replace(PLACE, str(tmp_path))],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SHELL": "/bin/sh"},
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == ("" if status == 0 else "nightly\nverdict: something\n")
    assert (tmp_path / "reports" / "nightly.log").read_text() == "nightly\nverdict: something\n"


# ------------------------------------------------------------------------- Kubernetes

SCHEMAS = json.loads((ROOT / "tests/data/schemas/kubernetes.json").read_text())
MANIFESTS = sorted((SCHEDULERS / "kubernetes").glob("*.yaml"))
SIMPLE = {"str": str, "int": int, "bool": bool, "float": float}


def objects(text: str) -> Iterator[dict]:
    """Everything that a manifest makes, what it makes only later (a ConfigMap's) included."""
    for thing in yaml.safe_load_all(text):
        yield thing
        if thing["kind"] == "ConfigMap":
            for inner in thing["data"].values():
                yield from objects(inner)


def against_schema(value: object, kind: str, where: str) -> Iterator[str]:
    """What a strict API server would object to, as sentences."""
    listed = re.fullmatch(r"list\[(.*)\]", kind)
    mapped = re.fullmatch(r"dict\(str, (.*)\)", kind)
    if kind in SIMPLE or kind in ("datetime", "object"):
        wanted = SIMPLE.get(kind)
        if wanted is not None and type(value) is not wanted:
            yield f"{where}: {value!r} is no {kind}"
    elif listed:
        if not isinstance(value, list):
            yield f"{where}: no list"
            return
        for i, one in enumerate(value):
            yield from against_schema(one, listed[1], f"{where}[{i}]")
    elif mapped:
        quantities = mapped[1] == "str" and where.endswith(("limits", "requests"))
        for key, one in value.items():  # type: ignore[attr-defined]
            if not (quantities and type(one) is int):  # a quantity may be a number
                yield from against_schema(one, mapped[1], f"{where}.{key}")
    else:
        schema = SCHEMAS["types"][kind]
        if not isinstance(value, dict):
            yield f"{where}: no {kind}"
            return
        yield from (f"{where}: lacks {n}" for n in schema["required"] if n not in value)
        for key, one in value.items():
            if key not in schema["properties"]:
                yield f"{where}: no property {key}"
            else:
                yield from against_schema(one, schema["properties"][key], f"{where}.{key}")


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_a_manifest_is_as_the_published_types_want_it(file: Path) -> None:
    found = list(objects(file.read_text()))
    wrong = [
        sentence
        for thing in found
        for sentence in against_schema(thing, SCHEMAS["kinds"][thing["kind"]], thing["kind"])
    ]
    assert not wrong
    assert "CronJob" in [thing["kind"] for thing in found]


VERSIONS = {
    "CronJob": "batch/v1", "Service": "v1", "ConfigMap": "v1", "ServiceAccount": "v1",
    "Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
    "PyTorchJob": "kubeflow.org/v1", "JobSet": "jobset.x-k8s.io/v1alpha2",
}  # fmt: skip


def test_every_object_has_its_version_and_the_three_ways_are_there() -> None:
    found = [thing for file in MANIFESTS for thing in objects(file.read_text())]
    assert all(thing["apiVersion"] == VERSIONS[thing["kind"]] for thing in found)
    assert {thing["kind"] for thing in found} == set(VERSIONS)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("restartPolicy:", "restartPolcy:", "no property restartPolcy"),
        ("backoffLimit: 0", 'backoffLimit: "0"', "'0' is no int"),
        ("schedule:", "shedule:", "lacks schedule"),
        ("- name: NODES", "- nam: NODES", "lacks name"),
        ('value: "2"', "value: 2", "2 is no str"),
    ],
)
def test_the_schema_would_have_found_it(old: str, new: str, words: str) -> None:
    text = (SCHEDULERS / "kubernetes" / "indexed-job.yaml").read_text()
    assert old in text
    wrong = [
        sentence
        for thing in objects(text.replace(old, new))
        for sentence in against_schema(thing, SCHEMAS["kinds"][thing["kind"]], thing["kind"])
    ]
    assert any(words in sentence for sentence in wrong), wrong


def pods(file: Path) -> Iterator[tuple[int, dict]]:
    """(how many of them, the container) of the pods that measure."""
    for thing in objects(file.read_text()):
        spec = thing.get("spec", {})
        if thing["kind"] == "PyTorchJob":
            for replica in spec["pytorchReplicaSpecs"].values():
                (container,) = replica["template"]["spec"]["containers"]
                yield replica["replicas"], container
        elif thing["kind"] == "JobSet":
            (job,) = spec["replicatedJobs"]
            (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
            yield job["template"]["spec"]["completions"], container
        elif thing["kind"] == "CronJob" and "completions" in spec["jobTemplate"]["spec"]:
            job = spec["jobTemplate"]["spec"]
            assert job["completions"] == job["parallelism"], "all at once or none"
            (container,) = job["template"]["spec"]["containers"]
            yield job["completions"], container


# torchrun's own parser and the sweep's, nothing started; then what judges, likewise.
DRY_TORCHRUN = """#!{python}
import sys
from torch.distributed.run import parse_args
from bench.plan import options
p = parse_args(sys.argv[1:])
given = options.parse(p.training_script_args)
print(p.nnodes, p.node_rank, p.nproc_per_node, p.master_addr, p.master_port, p.training_script,
      given.plan, given.out)
"""
DRY_PYTHON = """#!/bin/sh
echo "python $*"
"""


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_every_pod_joins_and_pod_0_judges(file: Path, tmp_path: Path) -> None:
    """The pods' own scripts, with what the controllers set."""
    found = list(pods(file))
    nodes = sum(count for count, _ in found)
    assert nodes == 2
    for name, text in (
        ("torchrun", DRY_TORCHRUN.format(python=sys.executable)), ("python", DRY_PYTHON),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    lead = {"indexed-job": "night-1-0.fabric-nightly"}.get(file.stem, "lead")
    for container in {container["args"][0]: container for _, container in found}.values():
        (declared,) = [e["value"] for e in container["env"] if e["name"] == "NODES"]
        assert declared == str(nodes)
        (script,) = container["args"]
        for node in range(nodes):
            set_by_others = {
                "JOB": "night-1", "NODES": declared, "JOB_COMPLETION_INDEX": str(node),
                "COORDINATOR": "lead", "RANK": str(node), "WORLD_SIZE": str(nodes),
                "MASTER_ADDR": "lead", "MASTER_PORT": "29500",
            }  # fmt: skip
            done = subprocess.run(
                [*container["command"], script], cwd=ROOT, text=True, capture_output=True,
                env=user(ROOT, PATH=f"{tmp_path}:{os.environ['PATH']}", PYTHONPATH=str(ROOT))
                | set_by_others,
                timeout=60, check=False,
            )  # fmt: skip
            said = done.stdout.split("\n")
            start = f"{nodes} {node} auto {lead} 29500 bench/sweep.py nightly /history/2"
            assert said[0].startswith(start) and said[0].endswith("Z-night-1"), done.stderr
            run = said[0].split()[-1]
            judged = [f"python -m bench nightly --judge {run}"] if node == 0 else []
            assert [line for line in said[1:] if line] == judged


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_a_pod_that_is_stopped_lets_the_sweep_end_and_judges_it(
    file: Path, tmp_path: Path
) -> None:
    """The kubelet's SIGTERM comes to the pod's first process, which is the script."""
    for name, text in (("torchrun", TERMINABLE), ("python", DRY_PYTHON)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for container in {container["args"][0]: container for _, container in pods(file)}.values():
        (script,) = container["args"]
        mark = tmp_path / "mark"
        process = subprocess.Popen(
            [*container["command"], script], cwd=ROOT, text=True, start_new_session=True,
            env=user(ROOT, PATH=f"{tmp_path}:{os.environ['PATH']}", MARK=str(mark))
            | {"JOB": "night-1", "NODES": "2", "JOB_COMPLETION_INDEX": "0", "RANK": "0",
               "COORDINATOR": "lead", "MASTER_ADDR": "lead", "MASTER_PORT": "29500"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            wait_for(mark.exists, process)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        finally:
            kill_group(process)
        assert mark.read_text() == "started\ntold\n", err
        assert out.startswith("python -m bench nightly --judge /history/2"), err
        assert process.returncode == 0


# ------------------------------------------------------------------------------- README


def test_the_readme_names_every_file_and_no_other() -> None:
    text = (SCHEDULERS / "README.md").read_text()
    named = set(re.findall(r"^\| `([\w./-]+)`", text, re.MULTILINE))
    there = {str(p.relative_to(SCHEDULERS)) for p in SCHEDULERS.rglob("*.*") if p.is_file()}
    assert named == there - {"README.md"}
