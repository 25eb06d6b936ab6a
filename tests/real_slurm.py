"""A real Slurm of two nodes on this machine, for tests: its daemons inside two hosts of a lab.

slurmctld, slurmd and munged are Debian's own. All they write is in the test's folder; they listen
inside the lab's hosts, which have networks and process numbers of their own, so that they meet no
other Slurm and end with the lab. Two GPUs a node are invented (any two devices will do), so that
the options that ask for GPUs can be used as they stand. No cgroups: a container may have none.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

from bench.lab import checks, running
from bench.lab.launch import clean_environment

LAB = """
hosts = 2

[[network]]
name = "mgmt"
interface = "mgmt0"
rate_mbit = 100

[[network]]
name = "data"
interface = "data0"
rate_mbit = 400
"""

CONFIGURATION = """
ClusterName=test
SlurmctldHost=host1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
GresTypes=gpu
NodeName=host[1-2] CPUs=2 RealMemory=100 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""
READY_S = 60.0  # 2 s on two idle cores
CGROUPS_CAN_BE_OFF = (23, 2)  # before, slurmd insisted on a plugin, which it then does not use


class RealSlurm:
    """Up from construction to `close`. `folder` is what tests see of a shared file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = folder / "slurm"
        for name in ("state", "spool-host1", "spool-host2"):
            (self.place / name).mkdir(parents=True)
        self.configuration = self.place / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(folder=self.place))
        (self.place / "cgroup.conf").write_text(f"CgroupPlugin={_cgroup_plugin()}\n")
        (self.place / "gres.conf").write_text("Name=gpu File=/dev/null,/dev/zero\n")
        (folder / "lab.toml").write_text(LAB)
        self.lab = running.open_lab(checks.load(folder / "lab.toml"), needed=[folder])
        self._munged: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._munged = subprocess.Popen(
            self._munge(),
            stdin=subprocess.DEVNULL,
            stdout=self._log("munged"),
            stderr=subprocess.STDOUT,
        )
        self._await("munged's socket", (self.place / "munge.socket").exists)
        self._daemon(1, "slurmctld")
        for host in (1, 2):
            self._daemon(host, "slurmd")
        self._await("two idle nodes", lambda: self._idle() == 2)

    def _munge(self) -> list[str]:
        key = self.place / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        # --force: the folders above may be anybody's to write, as /tmp is
        files = {"key-file": key, "socket": self.place / "munge.socket"}
        files |= {f"{n}-file": self.place / f"munged.{n}" for n in ("log", "pid", "seed")}
        options = [f"--{name}={path}" for name, path in files.items()]
        return ["munged", "--foreground", "--force", *options]

    def _daemon(self, host: int, name: str) -> None:
        self.lab.start(
            self.lab.hosts[host - 1],
            self._inside(name, "-D"),
            environment=clean_environment(os.environ),
            stdout=self._log(f"{name}-{host}"),
            stderr=subprocess.STDOUT,
        )

    def _log(self, name: str):
        return (self.place / f"{name}.log").open("wb")

    def _inside(self, *command: str) -> list[str]:
        return ["env", f"SLURM_CONF={self.configuration}", *command]

    def _idle(self) -> int:
        return (
            self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split().count("idle")
        )

    def _await(self, what: str, there) -> None:
        end = time.monotonic() + READY_S
        while not there():
            if time.monotonic() > end:
                said = "\n".join(
                    f"{log.name}: {log.read_text(errors='replace')[-2000:]}"
                    for log in sorted(self.place.glob("*.log"))
                )
                raise AssertionError(f"no {what} within {READY_S:g} s\n{said}")
            time.sleep(0.2)

    def run(
        self, *command: str, cwd: Path | None = None, timeout_s: float = 20.0
    ) -> subprocess.CompletedProcess[str]:
        """A command of Slurm's on host1, where a user would be logged in."""
        process = self.lab.start(
            self.lab.hosts[0],
            self._inside("bash", "-c", 'cd "$0" && exec "$@"', str(cwd or self.folder), *command),
            environment=clean_environment(os.environ),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(
            command, process.returncode, out.decode(), err.decode(errors="replace")
        )

    def job(self, *command: str, cwd: Path, timeout_s: float = 120.0) -> tuple[str, str]:
        """sbatch COMMAND: its exit status as Slurm tells it ("0:0"), and what it printed."""
        number = self.submit(*command, cwd=cwd)
        return self.result(number, timeout_s=timeout_s)

    def submit(self, *command: str, cwd: Path) -> str:
        done = self.run("sbatch", "--parsable", *command, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def result(self, number: str, *, timeout_s: float = 120.0) -> tuple[str, str]:
        """Of a job, once it has ended."""
        end = time.monotonic() + timeout_s
        while True:
            told = dict(
                re.findall(r"(\w+)=(\S*)", self.run("scontrol", "show", "job", number).stdout)
            )
            printed = Path(told["StdOut"])
            if told["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"):
                return told["ExitCode"], printed.read_text(errors="replace")
            if time.monotonic() > end:
                self.run("scancel", number)
                said = printed.read_text(errors="replace") if printed.exists() else "(nothing)"
                raise AssertionError(
                    f"job {number} is {told['JobState']} after {timeout_s:g} s:\n{said}"
                )
            time.sleep(0.3)

    def close(self) -> None:
        """Everything ends: what runs in the lab with the lab, munged by its own id."""
        self.lab.close()
        if self._munged is not None:
            self._munged.terminate()
            try:
                self._munged.wait(10)
            except subprocess.TimeoutExpired:
                self._munged.kill()
                self._munged.wait(10)


def _cgroup_plugin() -> str:
    said = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, timeout=20, check=True)
    found = re.search(r"(\d+)\.(\d+)", said.stdout)
    assert found is not None, said.stdout
    new = (int(found[1]), int(found[2])) >= CGROUPS_CAN_BE_OFF
    return "disabled" if new else "cgroup/v1"


def checkout(folder: Path, root: Path) -> Path:
    """A checkout with its .venv, as it lies on a cluster's shared file system."""
    folder.mkdir()
    for name in ("bench", "configs", "run.sh"):
        (folder / name).symlink_to(root / name)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "reports").mkdir()
    return folder
