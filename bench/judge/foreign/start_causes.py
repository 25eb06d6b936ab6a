"""What the last words of a program that did not start mean, and what mends it.

In: a StartFailure, or the sentence with which a test gave up. Out: a Cause. Meanings after the
manuals of NVIDIA and Open MPI and maintainers' answers (nccl-tests issues 12, 14, 32, 85; nccl
issue 473); the versions that symbols came with after NCCL's release notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from bench.records import StartFailure

# First NCCL that has the symbol: a program that wants it was built for that or a newer one.
SYMBOLS = {
    "ncclCommInitRankConfig": "2.14", "ncclCommSplit": "2.18", "ncclCommRegister": "2.19",
    "ncclMemAlloc": "2.19", "ncclGroupSimulateEnd": "2.22", "ncclCommInitRankScalable": "2.23",
    "ncclCommWindowRegister": "2.27", "ncclCommShrink": "2.27",
}  # fmt: skip
_FAILED = re.compile(r"(NCCL|CUDA|HIP) failure \S{1,200} '([^']{1,400})'")


class Cause(NamedTuple):
    """`kind` is the finding's; `means` completes "…: "; `check` one line to paste."""

    kind: str
    means: str
    check: str


ONE_NCCL = (
    "pip list | grep -i nccl; echo $LD_LIBRARY_PATH   # one NCCL only, the one the program was "
    "built for"
)
LIBRARY_PATH = (
    'export LD_LIBRARY_PATH=/path/to/lib:"$LD_LIBRARY_PATH"   # on every host: mpirun -x '
    "LD_LIBRARY_PATH"
)
# The beginning of a library's name -> what it belongs to and where it comes from.
LIBRARIES = {
    "libnccl": ("NCCL's library is not where the loader looks", LIBRARY_PATH),
    "librccl": ("RCCL's library is not where the loader looks", LIBRARY_PATH),
    "libmpi": ("MPI's library is not where the loader looks", LIBRARY_PATH),
    "libcudart": (
        "the CUDA runtime of the version that it was built with is not there",
        LIBRARY_PATH,
    ),
    "libcuda.": (
        "the driver's library is not there: no driver, or a container started without GPUs",
        "nvidia-smi; docker run --gpus all …",
    ),
    "libibverbs": ("the verbs library is not installed", "apt install libibverbs1   # rdma-core"),
}
MPI_HOME = (
    "make MPI=1 MPI_HOME=/usr/lib/x86_64-linux-gnu/openmpi   # the folder above include/mpi.h, "
    "which mpicc -show prints; apt install libopenmpi-dev"
)
HEADERS = {
    "mpi.h": (
        "MPI=1 was asked for, and MPI_HOME/include has no mpi.h",
        MPI_HOME,
    ),
    "nccl.h": (
        "NCCL's header is not where the compiler looks",
        "make NCCL_HOME=/path/to/nccl   # apt install libnccl-dev",
    ),
    "cuda_runtime.h": (
        "CUDA's headers are not where the compiler looks",
        "make CUDA_HOME=/usr/local/cuda",
    ),
}
GPU_CODE = Cause(
    "version-mismatch",
    "the program or its NCCL has no code for this GPU, or was built for a newer CUDA",
    "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv   # build with "
    "NVCC_GENCODE='-gencode=arch=compute_XX,code=sm_XX'",
)
# Words of CUDA's and NCCL's errors, the most telling first.
ERRORS = (
    (
        ("driver version is insufficient", "driver on your system is too old"),
        Cause(
            "version-mismatch",
            "the NVIDIA driver is older than the CUDA that the program was built with",
            "nvidia-smi; nvcc --version   # a newer driver, or a build for this driver's CUDA",
        ),
    ),
    (("no kernel image", "named symbol not found", "kernel image is invalid", "PTX"), GPU_CODE),
    (
        ("invalid device ordinal",),
        Cause(
            "gpu-count",
            "a process asked for a GPU that its host does not have or show: more processes on it "
            "than GPUs, or CUDA_VISIBLE_DEVICES hides some",
            "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES   # mpirun -N as many as there are",
        ),
    ),
    (
        ("no CUDA-capable device", "no ROCm-capable device"),
        Cause(
            "gpu-count",
            "no GPU is visible: no driver, or a container started without GPUs",
            "nvidia-smi; docker run --gpus all …",
        ),
    ),
    (
        ("out of memory",),
        Cause("oom", "the buffers do not fit into the GPU's memory", "nvidia-smi   # smaller -e"),
    ),
    (
        ("system not yet initialized",),
        Cause(
            "nvlink-fabric",
            "the NVSwitch fabric is not up: Fabric Manager does not run or is of another version",
            "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric",
        ),
    ),
    (
        ("unhandled system error",),
        Cause(
            "system-error",
            "a system call of NCCL's failed, and which is not said: in containers mostly /dev/shm "
            "is too small, else no interface or no socket",
            "NCCL_DEBUG=WARN …   # names it; docker run --shm-size=1g … or --ipc=host",
        ),
    ),
    (
        ("unhandled cuda error",),
        Cause(
            "cuda",
            "a CUDA call of NCCL's failed, and which is not said: mostly an NCCL built for "
            "another CUDA than this driver runs",
            "NCCL_DEBUG=WARN …   # names it; nvidia-smi; ldd PROGRAM | grep nccl",
        ),
    ),
    (
        ("invalid usage", "invalid argument"),
        Cause(
            "usage",
            "NCCL refuses what it was asked for: two ranks on one GPU, or settings that leave no "
            "interface",
            "NCCL_DEBUG=WARN …   # names it",
        ),
    ),
    (
        ("remote process exited",),
        Cause(
            "consequence",
            "another rank ended first, or the way to it broke: its own output says why",
            "NCCL_DEBUG=WARN …   # of every host",
        ),
    ),
)
UNSAID = Cause("unknown", "", "NCCL_DEBUG=WARN …   # says more")


def sentence(cause: Cause, more: str = "") -> str:
    """Its meaning as a sentence; names of files keep their letters."""
    means = cause.means
    if "." not in means.split(" ", 1)[0]:
        means = f"{means[:1].upper()}{means[1:]}"
    return f"{means}{more}."


def of_test(text: str) -> Cause:
    """Of the sentence with which a test gave up: "Test NCCL failure common.cu:777 '…'"."""
    match = _FAILED.search(text)
    return of_error(match[2] if match else text)


def of_error(text: str) -> Cause:
    """Of an error's name as CUDA or NCCL print it."""
    return next((cause for words, cause in ERRORS if any(w in text for w in words)), UNSAID)


def of(failure: StartFailure) -> Cause:
    """Of anything that did not start."""
    subject = failure.subject or ""
    if failure.kind in ("cuda-failure", "nccl-failure"):
        return of_error(subject)
    return _PLAIN[failure.kind](subject, failure.program or "the program")


def _missing(subject: str, program: str) -> Cause:
    for beginning, (means, check) in LIBRARIES.items():
        if subject.startswith(beginning):
            return Cause("library-missing", means, check)
    return Cause("library-missing", "a library is not where the loader looks", LIBRARY_PATH)


def _symbol(subject: str, program: str) -> Cause:
    of_nccl = subject.startswith("nccl")
    since = f" ({subject} came with NCCL {SYMBOLS[subject]})" if subject in SYMBOLS else ""
    name = program.rpartition("/")[2]
    means = f"{name} was built for a newer NCCL than the libnccl that is loaded{since}"
    if of_nccl:
        return Cause("version-mismatch", means, ONE_NCCL)
    return Cause(
        "version-mismatch",
        f"{name} was built for another version of a library that is loaded",
        f"ldd {program}; echo $LD_LIBRARY_PATH",
    )


def _header(subject: str, program: str) -> Cause:
    means, check = HEADERS.get(
        subject.rpartition("/")[2],
        ("a header is not where the compiler looks", f"locate {subject}"),
    )
    return Cause("build", means, check)


def _linked(subject: str, program: str) -> Cause:
    which = "MPI" if subject.lower().startswith("mpi") else "NCCL" if "nccl" in subject else "CUDA"
    return Cause(
        "build",
        f"the linker does not find {which}'s library, or it is another version's",
        f"make {which}_HOME=/path/to/{which.lower()}   # with lib/ or lib64/ in it",
    )


def _gloo(subject: str, program: str) -> Cause:
    check = (
        "export GLOO_SOCKET_IFNAME=NAME NCCL_SOCKET_IFNAME='=NAME'   # on all hosts: the "
        "interface that they reach each other on, see ip -br addr"
    )
    if subject.startswith("127.") or subject == "::1":
        return Cause(
            "loopback",
            "Gloo, which carries PyTorch's control messages, met on the loopback address, where "
            "no other host can reach it: the host's own name leads there",
            check,
        )
    return Cause(
        "connection", "processes do not reach each other on the interface Gloo chose", check
    )


_PLAIN: dict[str, Callable[[str, str], Cause]] = {
    "library-not-found": _missing,
    "undefined-symbol": _symbol,
    "library-version": lambda subject, _: Cause(
        "version-mismatch",
        f"it was built on a newer system: this one has no {subject}",
        "ldd --version   # build it here, or in the container that runs it",
    ),
    "header-not-found": _header,
    "gloo-connect": _gloo,
    "not-linked": _linked,
    "gpu-architecture": lambda subject, _: Cause(
        "build",
        f"this nvcc does not know {subject}: its CUDA is too old for that GPU, or too new",
        "make NVCC_GENCODE='-gencode=arch=compute_XX,code=sm_XX'   # nvcc --list-gpu-arch",
    ),
    "command-not-found": lambda subject, _: Cause(
        "build" if subject.startswith(("nv", "hip", "mpic")) else "launch",
        f"{subject} is not in PATH",
        f"command -v {subject}; ls /usr/local/cuda/bin /usr/lib64/openmpi/bin",
    ),
    "no-slots": lambda subject, _: Cause(
        "launch",
        f"mpirun was asked for {subject} processes and knows of fewer places",
        "mpirun -H host1:8,host2:8 …   # so many a host",
    ),
    "no-program": lambda *_: Cause(
        "launch",
        "the program is not at the same path on every host",
        "ls -l build/all_reduce_perf   # on every host",
    ),
    "as-root": lambda *_: Cause(
        "launch", "Open MPI refuses to run as root unless told to", "mpirun --allow-run-as-root …"
    ),
    "ssh": lambda *_: Cause(
        "launch",
        "ssh to another host does not come about without a question",
        "ssh -o BatchMode=yes HOST true   # from the host that runs mpirun",
    ),
}
