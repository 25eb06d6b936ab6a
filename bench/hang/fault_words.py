"""How each kind of first fault is called, what it means, and what mends it.

In: a RankSign. Out: words for a finding. What NCCL itself warns of has its kinds in
judge/foreign/fault_kinds, whose words are taken where a rank's log quotes such a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from bench.formats.rank_log import signs
from bench.judge.foreign import fault_kinds
from bench.records import LogEvent, RankSign

KERNEL_LOG = "sudo journalctl -k --since -2h --grep 'out of memory|killed process|xid'"

# NVIDIA's Xid catalogue: what an operator does about it.
XIDS = {
    13: "a kernel of the program went out of bounds",
    31: "a kernel of the program touched memory that is not its own",
    48: "a double-bit ECC error: the GPU needs a reset, or to be replaced",
    74: "an NVLink error: the link, or the GPU at its other end",
    79: "the GPU has fallen off the bus: power, heat, or PCIe",
    94: "a contained ECC error",
    95: "an uncontained ECC error: the GPU needs a reset",
    119: "the GPU's system processor does not answer: reset the GPU, look at its firmware",
    120: "the GPU's system processor failed: reset the GPU, look at its firmware",
    145: "an NVLink error of the fabric",
    149: "an NVLink error of the fabric",
}


@dataclass(frozen=True)
class Words:
    """`does` completes "rank 17 …", `means` is a sentence behind it, `mend` what to do."""

    does: str | Callable[[RankSign], str]
    mend: str
    means: str = ""

    def deed(self, sign: RankSign) -> str:
        return self.does if isinstance(self.does, str) else self.does(sign)


def _raised(sign: RankSign) -> str:
    name = sign.text.partition(":")[0].rpartition(".")[2].strip()
    return f"raised {name}"


def _xid(sign: RankSign) -> str:
    number = signs.xid(sign.text)
    return "has a GPU that fell off the bus" if number is None else f"has a GPU with Xid {number}"


def _worker(sign: RankSign) -> str:
    if "timed out" in sign.text:
        return "got no batch from its DataLoader in time"
    return "lost a worker of its DataLoader"


def _killed(sign: RankSign) -> str:
    if re.search(r"ut of memory|oom|OOM|Out Of Memory", sign.text):
        return "was killed because its host ran out of memory"
    return "was killed (SIGKILL)"


_PORT = re.compile(r"\bport[:= ]{1,3}(\d{1,5})\b|:(\d{2,5})\b.{0,40}in use")


def _taken(sign: RankSign) -> str:
    found = _PORT.search(sign.text)
    return f"found the store's port{f' {found[1] or found[2]}' if found else ''} taken"


def _cuda(sign: RankSign) -> str:
    if "ECC" in sign.text:
        return "has a GPU with an uncorrectable ECC error"
    return "had a CUDA error"


KINDS: dict[str, Words] = {
    "oom": Words(
        "ran out of GPU memory",
        "a smaller micro-batch or activation checkpointing; export "
        "PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' where much is reserved but free",
    ),
    "host-memory": Words(
        "ran out of host memory",
        "free -g; fewer DataLoader workers, no copies of the data per rank",
    ),
    "dataloader": Words(
        _worker,
        KERNEL_LOG + "   # fewer workers, or more memory per rank",
        "A worker that is killed by a signal was mostly the victim of the host's OOM killer.",
    ),
    "shm-full": Words(
        "found /dev/shm full",
        "docker run --shm-size=16g …   # or --ipc=host; in Kubernetes an emptyDir of medium "
        "Memory on /dev/shm",
        "DataLoader workers hand batches over through /dev/shm, of which Docker gives 64 MB.",
    ),
    "disk-full": Words("could not write a file (disk or quota full)", "df -h; df -i; quota -s"),
    "storage": Words("lost its storage", "sudo journalctl -k --since -2h --grep 'nfs|lustre|I/O'"),
    "file-limit": Words(
        "ran out of file descriptors",
        "ulimit -n 65536   # or torch.multiprocessing.set_sharing_strategy('file_system')",
    ),
    "cuda": Words(
        _cuda,
        "export CUDA_LAUNCH_BLOCKING='1'   # shows the call; sudo dmesg | grep -i xid on its host",
        "Kernels run later than the line that calls them: the stack shows where it was noticed.",
    ),
    "xid": Words(_xid, "nvidia-smi -q -d ECC,PAGE_RETIREMENT; drain the host and reset the GPU"),
    "killed": Words(_killed, KERNEL_LOG),
    "duplicate-gpu": Words(
        "shares its GPU with another rank",
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))   # before the group is made",
    ),
    "crash": Words(
        "crashed",
        "ulimit -c unlimited; export PYTHONFAULTHANDLER='1'   # a stack at the next crash",
    ),
    "exception": Words(_raised, "the stack shows the line; the other ranks only waited"),
    "exit": Words(
        "ended by itself",
        "decorate main with torch.distributed.elastic.multiprocessing.errors.record: then its "
        "exception is written to error.json",
    ),
    "version-mismatch": Words(
        "loads libraries that do not fit",
        "python -c 'import torch; print(torch.__version__, torch.version.cuda, "
        "torch.cuda.nccl.version())'   # on every host: one image for all",
    ),
    "address-in-use": Words(
        _taken,
        "ss -ltnp   # on rank 0's host: end what listens there, or take another --master-port",
        "A job that did not end may still hold it, or two jobs share a host.",
    ),
    "wrong-service": Words(
        "found something else than torch's store at the store's port",
        "ss -ltnp   # on rank 0's host; a proxy or another program answers",
    ),
    "interface": Words(
        "cannot find the interface that GLOO_SOCKET_IFNAME names",
        "ip -br addr; export GLOO_SOCKET_IFNAME='NAME'   # one that every host has",
    ),
    "name-resolution": Words(
        "cannot resolve rank 0's name", "getent hosts NAME   # on the host that logs it"
    ),
    "unreachable": Words(
        "could not reach another host", "nc -vz ADDRESS PORT   # from the host that logs it"
    ),
    "nccl": Words("had an error of NCCL's", "export NCCL_DEBUG='INFO'   # and run again"),
    "store": Words("lost the store", "the log of rank 0's host: the store lives there"),
    "node-failure": Words("lost its node", "sinfo -R; the node's own console log"),
    "cancelled": Words(
        "was cancelled by the scheduler", "sacct -j JOBID -o state,elapsed,timelimit"
    ),
    "interrupted": Words("was interrupted from the keyboard", "nothing: somebody ended the job"),
    "terminated": Words(
        "was told to end (SIGTERM)", "the scheduler's log: who ended the job, and why"
    ),
}
UNKNOWN = Words("reports a fault", "read the quoted line")


def of(sign: RankSign) -> Words:
    """Words for a sign; those of NCCL's kinds for its own warnings."""
    if sign.kind == "nccl-warning" and (kind := nccl_kind(sign)) is not None:
        event = _event(sign)
        return Words(
            f"reports {sign.text.partition('NCCL WARN ')[2][:120].strip()}",
            kind.mended_by(event) or UNKNOWN.mend,
            _sentence(kind.meaning(event)),
        )
    return KINDS.get(sign.kind, UNKNOWN)


def means(sign: RankSign) -> str:
    """A sentence on what the kind means; of an Xid, its number's."""
    if sign.kind == "xid" and (number := signs.xid(sign.text)) in XIDS:
        return _sentence(XIDS[number])
    return of(sign).means


def kind_of(sign: RankSign) -> str:
    """The finding's kind."""
    if sign.kind == "nccl-warning":
        kind = nccl_kind(sign)
        return kind.name if kind else "nccl"
    return sign.kind


def nccl_kind(sign: RankSign) -> fault_kinds.Kind | None:
    return fault_kinds.of(_event(sign))


def _event(sign: RankSign) -> LogEvent:
    text = sign.text.partition("NCCL WARN ")[2] or sign.text
    return LogEvent(severity="error", text=text, line=sign.line, file=sign.file)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""
