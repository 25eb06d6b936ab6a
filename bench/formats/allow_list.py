"""Which environment variables may be kept: those that steer communication, and no secrets.

In: a name. Out: whether it may stand in a report. Whole environments hold keys and passwords, so
the list is of what is allowed.
"""

from __future__ import annotations

PREFIXES = (
    "NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "UCX_", "FI_", "OFI_NCCL_", "RCCL_", "HSA_",
    "SHARP_", "SLURM_TOPOLOGY_",
)  # fmt: skip
NAMES = frozenset({
    "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "SLURM_NODEID", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST", "SLURM_CPU_BIND", "SLURM_GPUS_ON_NODE",
})  # fmt: skip
# Words of a name behind which a secret may stand even under an allowed prefix;
# NCCL_SOCKET_MAGIC is what keeps strangers out of NCCL's connections.
SECRET_WORDS = frozenset({
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "CREDENTIALS", "PSK", "MAGIC",
})  # fmt: skip
VALUE_LIMIT = 4096


def recorded(name: str) -> bool:
    """Whether the variable may stand in a report."""
    if SECRET_WORDS.intersection(name.upper().split("_")):
        return False
    return name in NAMES or name.startswith(PREFIXES)
