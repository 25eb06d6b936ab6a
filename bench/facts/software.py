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
from bench.formats.allow_list import VALUE_LIMIT, recorded
from bench.records import Software

PACKAGES = (
    "transformers", "accelerate", "peft", "trl", "bitsandbytes", "diffusers", "deepspeed",
    "flash-attn", "datasets", "lightning", "megatron-core", "vllm", "numpy", "triton",
    "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
)  # fmt: skip

_DRIVER = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s")
_TORCH_CUDA = re.compile(r"^(cuda|hip)\b.*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


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
        driver_open=driver_open(proc),
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


def driver_open(proc: Path = Path("/proc")) -> bool | None:
    """Whether the loaded NVIDIA kernel modules are the open ones; None without a driver."""
    told = sysfs.text(proc / "driver/nvidia/version")
    return None if told is None else "Open Kernel Module" in told


def _cuda() -> str | None:
    """The CUDA (or ROCm) release torch was built for, read from torch/version.py as text."""
    try:
        path = Path(str(importlib.metadata.distribution("torch").locate_file("torch/version.py")))
    except (importlib.metadata.PackageNotFoundError, OSError):
        return None
    match = _TORCH_CUDA.search(sysfs.text(path) or "")
    return match[2] if match else None
