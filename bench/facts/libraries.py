"""Shared libraries NCCL's data path rests on: libnccl itself, network plugins, libibverbs.

In: what is mapped, LD_PRELOAD, installed packages, LD_LIBRARY_PATH, the loader's cache. Out: the
path that torch would load. torch's CUDA wheels carry an RPATH to the nvidia-nccl package, which
the loader searches before LD_LIBRARY_PATH; builds without that package take the system's.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.facts import sysfs

LOADER_CACHE = Path("/etc/ld.so.cache")
CACHE_LIMIT_BYTES = 16 << 20  # a large installation's cache has about 1 MB
MAPS_LIMIT_BYTES = 16 << 20
SYSTEM_FOLDERS = tuple(
    Path(folder)
    for folder in ("/lib64", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu",
                   "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib")
)  # fmt: skip

_MAPPED = re.compile(
    r"(/\S*(?:lib(?:p?nccl|rccl)[^/\s]*\.so[^/\s]*|libibverbs\.so[^/\s]*|libfabric\.so[^/\s]*))$"
)


def find_nccl(environment: Mapping[str, str] | None = None) -> Path | None:
    """The libnccl (or RCCL) that a torch process of this environment would load, or None."""
    environment = os.environ if environment is None else environment
    for path in _nccl_places(environment):
        if path.is_file():
            return path
    return None


def _nccl_places(environment: Mapping[str, str]) -> Iterator[Path]:
    for word in re.split(r"[\s:]+", environment.get("LD_PRELOAD", "")):
        if re.search(r"/lib[nr]ccl\.so", word):
            yield Path(word)
    for mapped_file in mapped("self"):
        if re.search(r"/lib[nr]ccl\.so[^/]*$", mapped_file):
            yield Path(mapped_file)
    for folder in _package_folders():
        yield folder / "libnccl.so.2"
    for folder in _torch_folders():
        yield from (folder / "libnccl.so.2", folder / "librccl.so.1", folder / "librccl.so")
    yield from named(("libnccl.so.2", "librccl.so.1"), environment)


def _package_folders() -> list[Path]:
    """lib folders of the nvidia-nccl package; `nvidia` is a namespace package, nothing runs."""
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        return []
    places = spec.submodule_search_locations if spec else None
    return [Path(place) / "lib" for place in places or ()]


def _torch_folders() -> list[Path]:
    try:
        torch = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(torch.locate_file("torch/lib")))]


def named(names: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[Path]:
    """Files of one of these names where the loader looks, in its order."""
    for entry in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield from (Path(entry) / name for name in names)
    cache = _cache()
    for name in names:
        pattern = rb"(/[^\0]+/" + re.escape(name.encode()) + rb")\0"
        yield from (Path(os.fsdecode(found)) for found in re.findall(pattern, cache))
    yield from (folder / name for folder in SYSTEM_FOLDERS for name in names)


def _cache() -> bytes:
    try:
        with LOADER_CACHE.open("rb") as file:
            return file.read(CACHE_LIMIT_BYTES)
    except OSError:
        return b""


def find_plugin(settings: Mapping[str, str]) -> Path | None:
    """The external network plugin NCCL would load, or None.

    `settings` are the effective NCCL_* settings and LD_LIBRARY_PATH. NCCL_NET_PLUGIN names one or
    several ("none": no plugin); a name X is tried as X and as libnccl-net-X.so; by default
    libnccl-net.so is (NCCL's src/plugin/net.cc and plugin_open.cc).
    """
    wanted = settings.get("NCCL_NET_PLUGIN")
    if wanted is not None and wanted.lower() in ("", "none"):
        return None
    for name in (wanted or "libnccl-net.so").split(","):
        if "/" in name:
            places: Iterator[Path] = iter((Path(name),))
        else:
            places = named((name, f"libnccl-net-{name}.so"), settings)
        for path in places:
            if path.is_file():
                return path
    return None


def verbs_missing(environment: Mapping[str, str] | None = None) -> str | None:
    """Why NCCL could not speak RDMA here although ports are up, or None.

    Containers often show /sys/class/infiniband without the library or the device files.
    """
    environment = os.environ if environment is None else environment
    if not any(
        path.is_file() for path in named(("libibverbs.so.1", "libibverbs.so"), environment)
    ):
        return "libibverbs.so.1 is not installed"
    if not any(name.startswith("uverbs") for name in sysfs.names(Path("/dev/infiniband"))):
        return "/dev/infiniband/uverbs* is not there"
    return None


def mapped(process: int | str = "self", proc: Path = Path("/proc")) -> tuple[str, ...]:
    """libnccl, its plugins and RDMA libraries that a process has mapped, sorted."""
    content = sysfs.text(proc / str(process) / "maps", MAPS_LIMIT_BYTES) or ""
    return tuple(
        sorted({match[1] for line in content.splitlines() if (match := _MAPPED.search(line))})
    )
