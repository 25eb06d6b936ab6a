"""Words of which at least one stands in every line that tells how a job died or why.

In: nothing. Out: NEEDLES, each at least SHORTEST bytes long, so that one of its four-byte pieces
falls on a multiple of four wherever it stands (see sieve). Sources: strings of torch 1.12 to 2.15
(ProcessGroupNCCL.cpp, TCPStore.cpp, gloo's transport/tcp), torch.utils.data, torch.distributed.
elastic, NCCL's debug.h, Linux' mm/oom_kill.c, NVIDIA's Xid documentation, Slurm, Open MPI.
"""

from __future__ import annotations

SHORTEST = 7

TRACEBACK = b"Traceback (most recent call last)"

# Of these a file may hold millions on a bad day; of each the first and last few are read.
NEEDLES: tuple[bytes, ...] = (
    TRACEBACK,
    # memory, of the GPU and of the host
    b"OutOfMemoryError", b"out of memory", b"Out of memory", b"can't allocate memory",
    b"MemoryError", b"std::bad_alloc", b"Cannot allocate memory",
    # loaders and the memory they share
    b"DataLoader worker", b"DataLoader timed out", b"bus error", b"Bus error",
    b"shared memory", b"No space left on device", b"unable to write to file",
    b"Disk quota exceeded", b"Too many open files", b"PytorchStreamWriter failed",
    b"Stale file handle", b"Input/output error", b"Remote I/O error",
    # the GPU
    b"CUDA error", b"Cuda failure", b"CUDA failure", b"HIP error", b"HIP failure",
    b"CUBLAS_STATUS_", b"CUDNN_STATUS_", b"device-side assert", b"` failed.", b"NVRM: Xid",
    b"SXid (PCI", b"fallen off the bus", b"ECC error",
    # NCCL
    b"NCCL WARN ", b"NCCL error", b"ncclSystemError", b"ncclRemoteError", b"ncclInternalError",
    b"ncclInvalidUsage", b"ncclInvalidArgument", b"ncclUnhandledCudaError",
    b"NCCL version mismatch", b"undefined symbol",
    # torch's watchdog of both ages
    b"Watchdog caught collective", b"by watchdog at work", b"Timeout at NCCL work",
    b"watchdog thread terminated", b"watchdog got stuck", b"Heartbeat monitor timed out",
    b"dump signal", b"FlightRecorder", b"nccl hit async error", b"Operation timed out after",
    b"Aborting process on rank", b"communicator was aborted", b"taking the entire process down",
    # the store and the rendezvous
    b"DistStoreError", b"DistNetworkError", b"DistBackendError", b"clients joined",
    b"socket has timed out", b"wait timeout after", b"Ping failed", b"gai error",
    b"EADDRINUSE", b"ddress already in use", b"failed to listen", b"was likely closed",
    b"Socket Timeout", b"RendezvousTimeoutError", b"RendezvousConnectionError",
    b"RendezvousClosedError", b"Timeout waiting for key", b"Name or service not known",
    b"Temporary failure in name resolution", b"No route to host", b"Network is unreachable",
    # gloo, and what all see when a peer is gone
    b"Timed out waiting", b"onnection closed by", b"onnection reset", b"onnection refused",
    b"Broken pipe", b"caused pair closure", b"connectFullMesh", b"monitoredBarrier",
    b"mismatch between collectives", b"op.preamble.length", b"Unable to find address",
    # the end of a process
    b"SIGKILL", b"SIGTERM", b"death signal", b"got signal", b"exitcode  : ", b"(exitcode: ",
    b"first observed failure", b"closing signal", b"Segmentation fault", b"Fatal Python error",
    b"core dumped", b"terminate called after throwing", b"Killed process", b"oom-kill",
    b"oom_kill", b"OOMKilled", b"Exited with exit code", b"exited with code",
    b"exited on signal", b"non-zero exit status", b"KeyboardInterrupt", b"CANCELLED AT ",
    b"task exited", b": Killed", b"srun: error", b"Out Of Memory",
    b"terminated with the following error", b"worker group",
    # what decides whether there will be evidence
    b"ASYNC_ERROR_HANDLING", b"TRACE_BUFFER_SIZE", b"FR_BUFFER_SIZE", b"DUMP_ON_TIMEOUT",
    b"TORCH_DISTRIBUTED_DEBUG", b"BLOCKING_WAIT", b"ENABLE_MONITORING",
)  # fmt: skip

assert all(len(needle) >= SHORTEST for needle in NEEDLES), (
    "a piece may fall on no multiple of four"
)
LONGEST = max(map(len, NEEDLES))
