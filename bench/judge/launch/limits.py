"""What hosts grant a job: shared memory, open files, locked memory.

In: facts. Out: host-limits, one finding a kind. Only what stops jobs that are started every day:
Docker's 64 MiB of /dev/shm (NVIDIA's containers ask for --shm-size=1g --ulimit memlock=-1), and
RDMA without locked memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from bench.judge.docket import Docket
from bench.judge.words import listed
from bench.records import Evidence, Finding, HostFacts, Readiness, Where

SHM = "/dev/shm"  # noqa: S108 - only named
MIB = 1 << 20
# Docker's default is 64 MiB, in which one batch of images fills up; NVIDIA asks for 1 GiB.
LEAST_SHM_BYTES = 512 * MIB
LEAST_FREE_SHM_BYTES = 64 * MIB
# Each rank holds sockets to its peers; the usual 1024 carries a few hosts, 256 (macOS's) does not.
LEAST_FILES = 1024
LEAST_LOCKED_BYTES = 64 * MIB  # what RDMA registers at once for one rank's buffers

Told = Callable[[HostFacts, Readiness], str | None]


def judge(hosts: Sequence[HostFacts], docket: Docket) -> None:
    """A finding for each thing that is short on some host."""
    checks: tuple[tuple[str, Told, str, str, Literal["warning", "degraded"]], ...] = (
        (
            "shm-size", _small_shm,
            "data loaders and NCCL's paths inside a host end with a bus error or 'No space left'",
            "docker run --shm-size=8g …   # Kubernetes: an emptyDir with medium: Memory",
            "warning",
        ),
        (
            "shm-full", _full_shm,
            "what a killed job has left there is never freed by itself",
            "ls -l /dev/shm   # and remove what no running job owns",
            "degraded",
        ),
        (
            "open-files", _few_files,
            "ranks of a large job run out of sockets",
            "ulimit -n 65536   # before the launcher; or LimitNOFILE= of its service",
            "warning",
        ),
        (
            "locked-memory", _little_locked,
            "RDMA cannot register its buffers: ibv_reg_mr fails with 'Cannot allocate memory'",
            "ulimit -l unlimited   # docker run --ulimit memlock=-1; Slurm: LimitMEMLOCK=infinity",
            "degraded",
        ),
    )  # fmt: skip
    for kind, told, meaning, remedy, severity in checks:
        short = [(h, text) for h in hosts if h.readiness and (text := told(h, h.readiness))]
        if short:
            docket.add(
                Finding(
                    code="host-limits",
                    kind=kind,
                    severity=severity,
                    summary=f"{listed(h.host for h, _ in short)}: {short[0][1]}; {meaning}.",
                    where=Where(hosts=tuple(h.host for h, _ in short)),
                    evidence=tuple(
                        Evidence(basis="measured", text=f"{h.host}: {text}")
                        for h, text in short[:3]
                    ),
                    remedy=remedy,
                )
            )


def _small_shm(_: HostFacts, ready: Readiness) -> str | None:
    size = ready.shm_bytes
    if size is None or size >= LEAST_SHM_BYTES:
        return None
    return f"{SHM} is {size // MIB} MiB in all"


def _full_shm(_: HostFacts, ready: Readiness) -> str | None:
    size, free = ready.shm_bytes, ready.shm_free_bytes
    if size is None or free is None or free >= min(LEAST_FREE_SHM_BYTES, size // 2):
        return None
    return f"{SHM} has {free // MIB} MiB left of {size // MIB}"


def _few_files(_: HostFacts, ready: Readiness) -> str | None:
    limit = ready.open_files
    return f"open files: {limit}" if limit is not None and limit < LEAST_FILES else None


def _little_locked(host: HostFacts, ready: Readiness) -> str | None:
    limit = ready.locked_bytes
    if not host.rdma_ports or limit is None or limit >= LEAST_LOCKED_BYTES:
        return None
    return f"locked memory: {limit // 1024} KiB beside RDMA ports"
