"""What a line says of a job's end: its own fault, a wait, somebody else's doing, a consequence.

In: the text of one line, or "Type: message" of an exception. Out: a Sign, the first that fits;
None for a line that only looks like one. Wording after the sources named in needles; which role a
message has follows the order of events in ProcessGroupNCCL.cpp, gloo's pair.cc, TCPStore.cpp and
torch.distributed.elastic: whoever reports a closed connection has lost a peer, and is no cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.formats.nccl_log import events
from bench.records import Phase
from bench.records.ranklog import SignRole

LONGEST = 2000  # characters of a text that are looked at


@dataclass(frozen=True)
class Sign:
    """`pid` and `peers` name groups of the pattern: the process that the line is about, and the
    ranks that it calls absent."""

    kind: str
    role: SignRole
    pattern: re.Pattern[str]
    phase: Phase | None = None


def _sign(kind: str, role: SignRole, pattern: str, phase: Phase | None = None) -> Sign:
    return Sign(kind, role, re.compile(pattern), phase)


# The first that fits decides, so what follows from something stands before what it quotes.
SIGNS = (
    # A DataLoader's worker that got the SIGTERM meant for all.
    _sign("sigterm", "consequence", r"is killed by signal: Terminated|Signal 15 \(SIGTERM\)"),
    _sign("sigterm", "consequence", r"closing signal SIG|via signal SIG|forcefully exiting via"),
    # The GPU's own word, also where the watchdog passes it on: its rank's GPU failed.
    _sign(
        "oom", "fault",
        r"OutOfMemoryError|(?:CUDA|HIP|XPU|NPU|MPS)(?: error:)? out of memory|OUT_OF_MEMORY"
        r"|[Cc]uda failure.{0,40}out of memory|CUDA error: out of memory",
    ),
    _sign(
        "version-mismatch", "fault",
        r"Mismatched NCCL|NCCL version mismatch|undefined symbol: |driver version is insufficient"
        r"|no kernel image is available|CUDA driver is a stub library",
    ),
    _sign(
        "cuda", "fault",
        r"CUDA error: |CUDA error \d|[Cc](?:uda|UDA) failure|HIP error: |CUBLAS_STATUS_(?!SUCCESS)"
        r"|CUDNN_STATUS_(?!SUCCESS)|device-side assert triggered"
        r"|thread: \[.{3,20}\] Assertion .{1,400}` failed",
    ),
    _sign("xid", "fault", r"NVRM: Xid \(|SXid \(PCI|fallen off the bus"),
    _sign("duplicate-gpu", "fault", r"Duplicate GPU detected"),
    # Loaders and memory.
    _sign(
        "shm-full", "fault",
        r"out of shared memory|insufficient shared memory|bus error encountered in worker"
        r"|unable to (?:open|allocate|mmap|resize).{0,40}shared memory"
        r"|unable to write to file </torch"
        r"|/dev/shm\S{0,200}.{0,40}No space left|killed by signal: Bus error"
        r"|Error while creating shared memory segment",
    ),
    _sign(
        "dataloader", "fault",
        r"DataLoader worker \(pids?(?:\(s\))? [\d, ]{1,200}\)(?: is killed by signal| exited)"
        r"|DataLoader timed out after|Pin memory thread exited",
    ),
    _sign(
        "killed", "fault",
        r"(?:Out of memory|out of memory): Kill(?:ed)? process|oom-kill:|oom_kill event|OOMKilled"
        r"|Killed process \d|Signal 9 \(SIGKILL\)|tasks? [\d,-]{1,400}: (?:Out Of Memory|Killed)"
        r"|exited on signal 9|exit(?:ed with)? code 137|line \d{1,6}: +\d{1,9} Killed"
        r"|with signal SIGKILL|<Signals\.SIGKILL",
    ),
    _sign(
        "crash", "fault",
        r"Segmentation fault|Fatal Python error: (?!Aborted)|Signal (?:11|7|4|8) \(SIG"
        r"|exited on signal (?:11|7|4|8)\b|Bus error",
    ),
    _sign(
        "host-memory", "fault",
        r"can't allocate memory|\bMemoryError\b|std::bad_alloc|Cannot allocate memory"
        r"|DefaultCPUAllocator",
    ),
    _sign(
        "disk-full", "fault",
        r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed"
        r"|inline_container\.cc.{0,40}unexpected pos",
    ),
    _sign("storage", "fault", r"Stale file handle|Input/output error|Remote I/O error"),
    _sign("file-limit", "fault", r"Too many open files"),
    # The store and the meeting.
    _sign(
        "address-in-use", "fault",
        r"EADDRINUSE|[Aa]ddress already in use|failed to listen on any", "rendezvous",
    ),
    _sign("name-resolution", "weak", r"gai error|Name or service not known"
          r"|failure in name resolution", "rendezvous"),
    _sign("wrong-service", "fault", r"Ping failed, invalid value", "rendezvous"),
    _sign("clients-missing", "wait", r"\d clients joined|\d workers joined", "rendezvous"),
    _sign(
        "store-unreachable", "wait",
        r"client socket has (?:timed out|failed)|Rendezvous(?:Timeout|Connection|Closed)Error"
        r"|connection to the C10d store has failed", "rendezvous",
    ),
    _sign("interface", "fault", r"Unable to find address for: ", "init"),
    _sign("mesh", "wait", r"connectFullMesh failed", "init"),
    _sign(
        "store-wait", "wait",
        r"wait timeout after \d|Timeout waiting for key|Socket Timeout|Stop_waiting response",
        "init",
    ),
    # Collectives that did not end.
    _sign("mismatch", "wait", r"mismatch between collectives|op\.preamble\.length <= op\.nbytes"),
    _sign("barrier", "wait", r"failed to pass monitoredBarrier"),
    _sign("barrier", "consequence", r"reached monitoredBarrier, but"),
    _sign("watchdog", "wait", r"Watchdog caught collective operation timeout"),
    _sign(
        "watchdog", "wait",
        r"by watchdog at work|Timeout at NCCL work|Operation timed out after"
        r"|Timed out waiting \d{1,9} ?ms for",
    ),
    _sign("watchdog-stuck", "wait", r"watchdog got stuck|Heartbeat monitor timed out"),
    # What the others see.
    _sign(
        "peer-lost", "consequence",
        r"[Cc]onnection (?:was )?(?:closed|reset|aborted)|likely closed|Broken pipe"
        r"|caused pair closure|ncclRemoteError|remote process exited"
        r"|communicator was aborted|communicator encountered",
    ),
    _sign(
        "teardown", "consequence",
        r"dump signal|taking the entire process down|watchdog thread terminated"
        r"|Aborting process on|Fatal Python error: Aborted|core dumped|Exited with exit code"
        r"|exited with code|non-zero exit status|Process(?:Exited|Raised)Exception"
        r"|task exited|Job step aborted|worker group|terminate called after|hit async error",
    ),
    _sign("recorder-off", "mention", r"FlightRecorder is disabled|[Rr]ecorder is disabled"),
    _sign("cancelled", "outside", r"CANCELLED AT .{0,60}DUE TO (?:TIME LIMIT|PREEMPTION)"
          r"|CANCELLED AT |DUE TO TIME LIMIT"),
    _sign("interrupted", "outside", r"KeyboardInterrupt"
          r"|(?:Received|got signal:) (?:2\b|Signals\.SIGINT)"),
    _sign("terminated", "outside", r"death signal|got signal: "),
    # May be the cause, may be a consequence: who was first decides.
    _sign("unreachable", "weak", r"[Cc]onnection refused|No route to host|Network is unreachable"),
    _sign(
        "nccl", "weak",
        r"ncclSystemError|unhandled system error|ncclInternalError|ncclUnhandledCudaError"
        r"|unhandled cuda error|ncclInvalid(?:Usage|Argument)|NCCL error|DistBackendError",
    ),
    _sign("store", "weak", r"DistStoreError|DistNetworkError"),
)  # fmt: skip

# In a line of a program's own: somebody caught it and went on.
_SURVIVED = re.compile(
    r"\b(?:caught|recover\w*|retry\w*|retries|skipp\w+|ignor\w+|handled|falling back|fallback"
    r"|try again|continuing|(?:reduc|halv|lower|shrink)\w* (?:the )?(?:micro)?[- ]?batch"
    r"|resum\w+)\b",
    re.IGNORECASE,
)
_WARNS = re.compile(r"\b(?:WARN(?:ING)?|INFO|DEBUG|NOTICE)\b")
# A frame's source line or symbol ("frame #2: c10::DistNetworkError::DistNetworkError(…"), a box
# around it, a command: they only contain the words.
_QUOTED = re.compile(
    r"^\s*(?:[│|❱╭╰+]|raise\b|#|frame #\d|\d{1,5} +│)|\braise \w{1,60}(?:Error|Exception)\b"
)
# Xids that follow from the end of a process, and those that only report (NVIDIA's Xid catalogue).
CONSEQUENT_XIDS = (43, 45)
REPORTING_XIDS = (63, 64, 92, 94)
_XID = re.compile(r"Xid \([^)]{1,40}\): (\d{1,4})")
_NCCL_WARN = re.compile(r"NCCL (?:WARN|ATTN) (.{1,1000})")


def of(text: str) -> tuple[Sign, SignRole] | None:
    """The sign of a line and its role there; None where it says nothing of a job's end."""
    text = text[:LONGEST]
    if _QUOTED.search(text):
        return None
    if warned := _NCCL_WARN.search(text):
        return _of_nccl(warned[1], text[: warned.start()])
    sign = first(text)
    if sign is None:
        return None
    role = sign.role
    if sign.kind == "xid" and (number := xid(text)) is not None:
        if number in CONSEQUENT_XIDS:
            role = "consequence"
        elif number in REPORTING_XIDS:
            role = "mention"
    elif role in ("fault", "weak") and (_SURVIVED.search(text) or _WARNS.search(text[:80])):
        role = "mention"
    return sign, role


def first(text: str) -> Sign | None:
    """The first sign that fits a text, whatever stands around it."""
    return next((sign for sign in SIGNS if sign.pattern.search(text)), None)


def says_survived(text: str) -> bool:
    """Whether a program's line says that it went on."""
    return _SURVIVED.search(text) is not None


def xid(text: str) -> int | None:
    found = _XID.search(text)
    return int(found[1]) if found else None


NCCL_WARNING = Sign("nccl-warning", "weak", _NCCL_WARN)
_NCCL_ROLES: dict[str, SignRole] = {
    "fault": "weak", "remark": "mention", "retry": "mention", "consequence": "consequence",
}  # fmt: skip


def _of_nccl(text: str, before: str) -> tuple[Sign, SignRole]:
    return NCCL_WARNING, _NCCL_ROLES[events.role_of(text, before)]
