"""Kinds of faults that NCCL's warnings name, what each means, and what mends it.

In: the text of a warning. Out: a Kind; None for a message that no kind knows. Meanings after
NVIDIA's troubleshooting pages and maintainers' answers (nccl issues 210, 224, 902).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bench.judge.foreign import rdma_faults
from bench.records import LogEvent

_SIZE = re.compile(r"size (\d{4,15})|to (\d{4,15}) bytes")
DOCKER_SHM_BYTES = 64 << 20  # what docker run gives without --shm-size


@dataclass(frozen=True)
class Kind:
    """`means` completes "NCCL …: ". `signs`: any of them in the text."""

    name: str
    signs: tuple[str, ...]
    means: str | Callable[[LogEvent], str]
    remedy: str | Callable[[LogEvent], str] | None = None

    def meaning(self, event: LogEvent) -> str:
        return self.means if isinstance(self.means, str) else self.means(event)

    def mended_by(self, event: LogEvent) -> str | None:
        return self.remedy(event) if callable(self.remedy) else self.remedy


def _shm(event: LogEvent) -> str:
    text = "/dev/shm of the container is full"  # noqa: S108 - a name in a sentence
    match = _SIZE.search(" ".join((event.text, *event.trace)))
    size = int(match[1] or match[2]) if match else 0
    if not size:
        return f"{text} (Docker gives 64 MB unless told otherwise)"
    return (
        f"{text}: each connection needs a segment of {size} bytes, and of Docker's 64 MiB "
        f"{DOCKER_SHM_BYTES // size} fit"
    )


KINDS = (
    Kind(
        "shm-full",
        ("No space left on device", "failed to extend /dev/shm", "posix_fallocate failed"),
        _shm,
        "docker run --shm-size=1g …   # or --ipc=host; in Kubernetes an emptyDir of medium "
        "Memory on /dev/shm",
    ),
    Kind(
        "version-mismatch",
        ("Mismatched NCCL version", "Mismatched NCCL git versions"),
        "ranks load different NCCL libraries",
        "python -c 'import torch; print(torch.cuda.nccl.version())'   # on every host; one image "
        "for all, and look at LD_LIBRARY_PATH and LD_PRELOAD",
    ),
    Kind(
        "duplicate-gpu",
        ("Duplicate GPU detected", "using the same GPU"),
        "several ranks opened one GPU",
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    ),
    Kind(
        "address-family",
        ("Address family not supported", "is neither AF_INET"),
        "the side channel that exchanges addresses was given one of a family that this host does "
        "not have: no usable IP interface, or IPv4 and IPv6 mixed between hosts",
        "export NCCL_SOCKET_FAMILY='AF_INET'   # or AF_INET6, and NCCL_SOCKET_IFNAME='=NAME', "
        "alike on all hosts",
    ),
    Kind(
        "settings-differ",
        ("wrong type", "message truncated", "wrong magic"),
        "ranks do not agree on what they send: settings or collective sizes differ between them",
        "mpirun -x NAME … for every NCCL_ variable   # srun --export=ALL",
    ),
    Kind(
        "device-not-opened",
        ("Unable to open device", "ibv_open_device failed", "could not open",
         "mixed local Net device counts"),
        "hosts have different sets of RDMA devices",
        "export NCCL_IB_HCA='=DEVICE'   # devices that all hosts have",
    ),
    Kind(
        "no-network",
        ("Error: network ", "Failed to initialize any NET plugin"),
        "no network is left to use: NCCL_NET or NCCL_NET_PLUGIN names one that is not there, or "
        "is set to nothing, which matches nothing",
        "unset NCCL_NET NCCL_NET_PLUGIN",
    ),
    Kind(
        "rank-count",
        ("mismatch in rank count", "mismatch in info from procs", "has already checked in"),
        "processes do not agree on how many ranks there are, or two have one rank number",
        "env | grep -E 'WORLD_SIZE|RANK'   # of every process: nodes, node rank, processes a node",
    ),
    Kind(
        "no-interface",
        ("no socket interface found", "no interface found", "No IP interface found",
         "No interface found", "No usable listening interface"),
        "no interface is left to meet on",
        "ip -br addr   # then export NCCL_SOCKET_IFNAME='=NAME'",
    ),
    Kind(
        "rdma-connection",
        ("ibv_modify_qp failed", "ibv_query_gid", "RTR failed"),
        rdma_faults.of_queue_pair,
        rdma_faults.after_queue_pair,
    ),
    Kind(
        "connection",
        ("Connect to ", "Call to connect", "connect to ", "No route to host",
         "exceeded error retry count", "retry count exceeded"),
        "a connection between two ranks does not come about",
        "ip route get ADDRESS; nc -vz ADDRESS PORT   # from the host that logs it",
    ),
    Kind(
        "port-down",
        ("port error",),
        "the link of a port was lost: cable, transceiver or switch, or a reset of the NIC",
        "ibstat; sudo dmesg -T | grep -i 'link'   # on the host that logs it; and the counters "
        "of its switch port (link_downed, symbol errors)",
    ),
    Kind(
        "rdma-error",
        ("Got completion", "Got async event", "async fatal event", "Got non-fatal async event"),
        rdma_faults.of_completion,
        rdma_faults.after_completion,
    ),
    Kind(
        "rdma-memory",
        ("ibv_reg_mr", "ibv_reg_dmabuf_mr", "ibv_create_qp failed", "ibv_create_cq failed",
         "ibv_reg_mr_iova2"),
        "memory could not be registered with the NIC: the limit of locked memory, or GPUDirect "
        "without its module",
        "ulimit -l unlimited   # docker run --ulimit memlock=-1; lsmod | grep nvidia_peermem",
    ),
    Kind(
        "oom",
        ("out of memory", "Cuda failure 2 ", "Failed to CUDA malloc", "Failed to CUDA calloc"),
        "the GPU has no memory left for NCCL's buffers",
        "nvidia-smi   # leave room, or export NCCL_BUFFSIZE='2097152'",
    ),
    Kind(
        "nvlink-fabric",
        ("IMEX", "MNNVL (cliqueSize", "Fabric Manager", "fabric handle", "NVLink SHARP (NVLS)",
         "system not yet initialized", "Cuda failure 802"),
        "the NVLink fabric is not ready: Fabric Manager, or IMEX between hosts",
        "systemctl status nvidia-fabricmanager nvidia-imex; nvidia-imex-ctl -N",
    ),
    Kind(
        "p2p",
        ("Could not enable P2P", "peer access", "P2P is disabled between NVLINK",
         "failed to peer with device", "cudaIpcOpenMemHandle", "cudaIpcGetMemHandle"),
        "direct access between two GPUs is refused",
        "nvidia-smi topo -p2p r; export NCCL_P2P_DISABLE='1'   # to go on meanwhile",
    ),
    Kind(
        "topology-search",
        ("Could not find a path for pattern", "Could not find NET with id", "Could not find net",
         "No algorithm/protocol available", "nor symKernelId available",
         "Failed to find reverse path"),
        "NCCL's search for a ring or tree found no way through this topology with these settings",
        "unset NCCL_ALGO NCCL_PROTO NCCL_TOPO_FILE NCCL_GRAPH_FILE",
    ),
    Kind(
        "gpu-code",
        ("named symbol not found", "no kernel image", "kernel image is invalid"),
        "this NCCL has no code for this GPU, or was built for a newer CUDA than the driver runs",
        "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv",
    ),
    Kind(
        "cuda",
        ("Cuda failure", "CUDA error", "cuMem", "HIP failure"),
        "a CUDA call failed: often an earlier error of a kernel of the program",
        "export CUDA_LAUNCH_BLOCKING='1'; sudo dmesg | grep -i xid",
    ),
    Kind(
        "plugin",
        ("NET/OFI", "NET/UCX", "NET/FasTrak", "NET/gIB"),
        "the network plugin reports a fault of its own",
        "export NCCL_NET_PLUGIN='none'   # to go on meanwhile with NCCL's own networks",
    ),
    Kind(
        "proxy",
        ("Failed to execute operation", "Proxy Call to rank"),
        "the thread that moves data for this rank could not set up or use a connection",
        None,
    ),
)  # fmt: skip


def of(event: LogEvent) -> Kind | None:
    """The first kind whose signs the text has."""
    return next((k for k in KINDS if any(sign in event.text for sign in k.signs)), None)
