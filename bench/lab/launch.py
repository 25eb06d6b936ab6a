"""The real torchrun on every host of a lab, and what becomes of it.

In: a lab that is up, the script and its options. Out: one `Torchrun` per host, in sessions of
their own. The caller's NCCL_ and GLOO_ variables stay outside: the lab file's [environment] rules.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from bench.lab.keeper import Keeper
from bench.lab.running import RunningLab

MASTER_PORT = 29500  # torchrun's own default; every lab has its own networks, so it is free

# What configures NCCL, gloo or a launcher on the real machine and would leak into every host.
FOREIGN_PREFIXES = (
    "NCCL_",
    "GLOO_",
    "TORCH_NCCL_",
    "TORCHELASTIC_",
    "PET_",  # torchrun reads each of its options from PET_<OPTION>
    "SLURM_",
    "OMPI_",
    "PMI_",
    "PMIX_",
    "UCX_",
    "FI_",
)
FOREIGN_NAMES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "LD_PRELOAD",
)


def clean_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """`inherited` without what would configure NCCL, gloo or a launcher inside the lab."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(FOREIGN_PREFIXES) and name not in FOREIGN_NAMES
    }
    # torchrun sets it to 1 itself when it starts several ranks, and prints a warning about it
    kept.setdefault("OMP_NUM_THREADS", "1")
    return kept


class Torchrun:
    """torchrun on one host: running, ended, or never started (an absent host)."""

    def __init__(self, host: Keeper, process: subprocess.Popen[bytes] | None) -> None:
        self.host = host
        self.process = process

    @property
    def started(self) -> bool:
        """False for a host that is absent."""
        return self.process is not None

    def ended(self) -> int | None:
        """The exit status, None while it runs or when it was never started."""
        return None if self.process is None else self.process.poll()

    def terminate(self) -> None:
        """SIGTERM, which torchrun hands to its ranks; they end by their own rules."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL for torchrun. Its ranks end with the lab's host."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


def master_address(lab: RunningLab) -> str:
    """Where the ranks meet: host 1 on the first network that joins the hosts."""
    return lab.lab.rendezvous_network.address_of(1).partition("/")[0]


def command(lab: RunningLab, host: Keeper, script: Path, options: Sequence[str]) -> list[str]:
    """torchrun's command line on `host`: static rendezvous, one node per host."""
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        str(lab.lab.hosts),
        "--node-rank",
        str(host.host - 1),
        "--master-addr",
        master_address(lab),
        "--master-port",
        str(MASTER_PORT),
        "--nproc-per-node",
        str(lab.lab.ranks_per_host),
        "--log-dir",
        f"{host.temporary}/torchrun",  # it leaves folders behind; this one goes with the host
        str(script),
        *options,
    ]


def start(
    lab: RunningLab,
    host: Keeper,
    script: Path,
    options: Sequence[str],
    *,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> Torchrun:
    """Start torchrun on `host`, unless the lab file says that the host is absent."""
    if any(fault.host == host.host for fault in lab.lab.faults("absent")):
        return Torchrun(host, None)
    process = lab.start(
        host,
        command(lab, host, script, options),
        environment=clean_environment(os.environ),
        stdout=stdout,
        stderr=stderr,
    )
    return Torchrun(host, process)
