"""Versions that explain a change of behaviour, and the part of the environment that may be kept.

In: installed packages' metadata, /proc, the environment. Out: `Software` and an allow-listed
environment. Nothing is imported to learn its version: torch alone would take seconds.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from bench.facts import sysfs
from bench.records import Software

PACKAGES = (
    "transformers", "accelerate", "peft", "trl", "bitsandbytes", "diffusers", "deepspeed",
    "flash-attn", "datasets", "lightning", "megatron-core", "vllm", "numpy", "triton",
    "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
)  # fmt: skip

# Whole environments hold secrets, so only names that steer communication are recorded.
_PREFIXES = (
    "NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "UCX_", "FI_", "OFI_NCCL_", "RCCL_", "HSA_",
    "SHARP_", "SLURM_TOPOLOGY_",
)  # fmt: skip
_NAMES = frozenset({
    "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "SLURM_NODEID", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST", "SLURM_CPU_BIND", "SLURM_GPUS_ON_NODE",
})  # fmt: skip
# Words of a name behind which a secret may stand even under an allowed prefix;
# NCCL_SOCKET_MAGIC is what keeps strangers out of NCCL's connections.
_SECRET_WORDS = frozenset({
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "CREDENTIALS", "PSK", "MAGIC",
})  # fmt: skip
VALUE_LIMIT = 4096

_DRIVER = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s")
_TORCH_CUDA = re.compile(r"^(cuda|hip)\b.*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


def recorded(name: str) -> bool:
    """Whether the variable may stand in a report."""
    if _SECRET_WORDS.intersection(name.upper().split("_")):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The allow-listed part of the environment, sorted; bytes that are no text are replaced."""
    variables = os.environ if variables is None else variables
    return {
        name: variables[name].encode(errors="replace").decode()[:VALUE_LIMIT]
        for name in sorted(variables)
        if recorded(name)
    }


def read(
    *, nccl: str | None = None, nccl_library: str | None = None, proc: Path = Path("/proc")
) -> Software:
    """Versions on this host; `nccl` and its library come from whoever asked the library."""
    return Software(
        python=platform.python_version(),
        torch=version("torch"),
        nccl=nccl,
        nccl_library=nccl_library,
        cuda=_cuda(),
        driver=driver(proc),
        kernel=platform.release(),
        packages={name: found for name in PACKAGES if (found := version(name)) is not None},
    )


def version(package: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, OSError, UnicodeDecodeError, KeyError):
        return None  # absent, or its metadata is damaged


def driver(proc: Path = Path("/proc")) -> str | None:
    """Version of the loaded NVIDIA kernel driver, e.g. "550.54.15"."""
    match = _DRIVER.search((sysfs.text(proc / "driver/nvidia/version") or "") + " ")
    return match[1] if match else None


def _cuda() -> str | None:
    """The CUDA (or ROCm) release torch was built for, read from torch/version.py as text."""
    try:
        path = Path(str(importlib.metadata.distribution("torch").locate_file("torch/version.py")))
    except (importlib.metadata.PackageNotFoundError, OSError):
        return None
    match = _TORCH_CUDA.search(sysfs.text(path) or "")
    return match[2] if match else None
