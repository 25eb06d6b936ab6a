"""Versions from a bug report: `accelerate env`, `python -m torch.utils.collect_env`, and what
vLLM, SGLang and others make of the latter.

In: the command's output, with the words of any release. Out: one SoftwareOf that compares with the
facts of a host. Its own lists of variables and topologies are read by those formats.
"""

from __future__ import annotations

import re

import msgspec

from bench.formats.prefix import Stripper
from bench.formats.source import Source
from bench.records import BadInput, Software, SoftwareOf

KIND = "accelerate env or collect_env"

MAX_DETAILS = 256
MAX_PACKAGES = 512
MAX_TEXT = 400

# "- `Accelerate` version: 1.15.0", "PyTorch version              : 2.7.0"; a tab and a dash under
# "default config" make it a value of Accelerate's own configuration.
_FIELD = re.compile(
    r"(?P<config>\t| {2,8})?(?:- )?(?P<name>[`A-Za-z][\w`()?/. -]{1,60}?)\s{0,40}:"
    r"(?:\s(?P<value>.*))?\Z"
)
_PACKAGE = re.compile(
    r"\s{0,8}\[(?:pip3?|conda)\] (?P<name>[A-Za-z][\w.-]{0,80})"
    r"(?:==|\s{1,60})(?P<version>[\w.+!-]{1,60})"
)
_SIGNS = (
    "Collecting environment information", "Is debug build", "CUDA used to build PyTorch",
    "`Accelerate` version", "`accelerate` version", "- Accelerate version",
    "PyTorch version (GPU?)", "`Accelerate` default config", "`Accelerate` config passed",
)  # fmt: skip
_VERSION = re.compile(r"[vV]?\d[\w.+-]{0,60}")
_KERNEL = re.compile(
    r"Linux-(?P<release>[\w.+~-]{1,120}?)-(?:x86_64|aarch64|ppc64le|arm64|riscv64)"
)

_FIELDS = {
    "python version": "python",
    "pytorch version": "torch",
    "pytorch version (gpu?)": "torch",
    "cuda used to build pytorch": "cuda",
    "nvidia driver version": "driver",
    "nccl version": "nccl",
    "cuda driver version": "driver",
}
# The rest of a report (paths, lists of CPU flags, whole environments) is nobody's business.
_DETAIL = re.compile(r"version|GPU|CUDA|NCCL|RAM|[Pp]latform|^OS$|available|accelerator|cuDNN")
_PLATFORMS = ("platform", "python platform")
# The packages that carry the library itself; torch loads the one of its own CUDA.
_NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11", "nvidia-nccl")
_UNKNOWN = ("could not collect", "n/a", "none", "no cuda", "not found", "not installed", "")


def likeness(head: str, name: str) -> float:
    """1 where two of the reports' own phrases stand, 0.8 for one."""
    signs = sum(sign in head for sign in _SIGNS)
    return 1.0 if signs > 1 else 0.8 if signs else 0.0


def read(source: Source) -> tuple[SoftwareOf, ...]:
    """The versions; BadInput where the file names none."""
    fields: dict[str, str] = {}
    details: dict[str, str] = {}
    packages: dict[str, str] = {}
    in_config = False
    stripper = Stripper.of(source)
    for _, text in source.lines():
        _, line = stripper.strip(text)
        package = _PACKAGE.match(line) if line.lstrip().startswith("[") else None
        if package and len(packages) < MAX_PACKAGES:
            packages.setdefault(package["name"].lower(), package["version"])
            continue
        match = _FIELD.match(line) if ":" in line else None
        if not match:
            in_config = in_config and bool(line.strip())
            continue
        name, value = (
            match["name"].replace("`", "").strip(),
            (match["value"] or "").strip()[:MAX_TEXT],
        )
        if in_config and match["config"]:
            _keep(details, f"config.{name}", value)
            continue
        in_config = "config" in name.lower()
        _field(name, value, fields, details)
    _derive(fields, details, packages)
    if not fields and not packages:
        raise BadInput("names no version of torch, CUDA, the driver or NCCL", file=source.file)
    return (
        SoftwareOf(
            file=source.file,
            software=msgspec.convert({**fields, "packages": packages}, Software),
            details=details,
        ),
    )


def _field(name: str, value: str, fields: dict[str, str], details: dict[str, str]) -> None:
    lowered = name.lower()
    if value.lower() in _UNKNOWN:
        return
    field = _FIELDS.get(lowered)
    version = _VERSION.match(value)
    if field and version:
        fields.setdefault(field, version[0])
    elif lowered in _PLATFORMS:
        kernel = _KERNEL.search(value)
        if kernel:
            fields.setdefault("kernel", kernel["release"])
    if _DETAIL.search(name):
        _keep(details, name, value)


def _keep(details: dict[str, str], name: str, value: str) -> None:
    if value and len(details) < MAX_DETAILS:
        details.setdefault(name, value)


def _derive(fields: dict[str, str], details: dict[str, str], packages: dict[str, str]) -> None:
    """NCCL from its package, Accelerate's version among the packages, CUDA from torch's suffix."""
    nccl = next((packages[name] for name in _NCCL_PACKAGES if name in packages), None)
    if nccl:
        fields.setdefault("nccl", nccl)
    for name, value in details.items():
        word, _, rest = name.partition(" ")
        if rest == "version" and word in ("Accelerate", "accelerate"):
            packages.setdefault("accelerate", value)
        elif name == "Numpy version":
            packages.setdefault("numpy", value)
    local = re.search(r"\+cu(\d{2})(\d)\b", fields.get("torch", ""))
    if local:
        fields.setdefault("cuda", f"{local[1]}.{local[2]}")
