"""Programs that did not start and builds that broke: the one line that says why.

In: what a shell, loader, compiler, launcher or test printed, alone or among other lines. Out: a
StartFailure for each different failure, the first one first. Words are those of glibc's loader,
GCC, GNU ld, nvcc, Open MPI, PyTorch's Gloo and nccl-tests (src/common.h: "Test CUDA failure",
before 2.5 "Cuda failure"). NCCL's own lines about plugins that it looks for are none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bench.formats.prefix import Stripper
from bench.formats.source import Source
from bench.records import BadInput, StartFailure

KIND = "failed start"

MOST = 64  # different failures; every rank of a job prints the same
LONGEST = 300
MOST_HOSTS = 64

_SO = r"(?P<subject>lib[\w.+-]{1,80}?\.so(?:\.\d{1,5}){0,4})"
_HOST = r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,254}): )?"
_SSH = ("Host key verification failed", "Permission denied (publickey", "ORTE was unable to reli")


class _Form(NamedTuple):
    """One form of a last word. `word` stands in every line of it, "" where several may."""

    kind: str
    word: str
    pattern: re.Pattern[str]


def _form(kind: str, word: str, *pieces: str) -> _Form:
    return _Form(kind, word, re.compile("".join(pieces)))


FORMS = (
    _form(
        "library-not-found",
        "error while loading shared libraries",
        r"(?:(?P<program>[\w./+-]{1,200}): )?error while loading shared libraries: ",
        rf"{_SO}: cannot open",
    ),
    _form("library-not-found", "cannot open shared object", rf"(?:Import|OS)Error: {_SO}: cannot"),
    _form(
        "undefined-symbol",
        "undefined symbol: ",
        r"(?:symbol lookup error|ImportError|OSError): (?P<program>\S{1,300}): ",
        r"undefined symbol: (?P<subject>\w{1,200})",
    ),
    _form(
        "library-version",
        "' not found",
        r"(?P<program>\S{1,200}): /?\S{1,200}: version ",
        r"`(?P<subject>\w{1,20}_[\d.]{1,12})' not found",
    ),
    _form(
        "header-not-found",
        "fatal error: ",
        r"fatal error: '?(?P<subject>[\w./+-]{1,80}\.h(?:pp)?)'?(?:: No such file| file not)",
    ),
    _form("not-linked", "cannot find -l", r"cannot find -l(?P<subject>\w{1,60})"),
    _form(
        "not-linked",
        "undefined reference to",
        r"undefined reference to ['`‘](?P<subject>(?:nccl|MPI_|cuda)\w{1,120})['’]",
    ),
    _form(
        "gpu-architecture",
        "Unsupported gpu architecture",
        r"Unsupported gpu architecture '(?P<subject>\w{1,20})'",
    ),
    _form(
        "command-not-found",
        "not found",
        r"(?:^|[\s/:])(?P<subject>nvcc|hipcc|mpicc|mpicxx|mpirun|mpiexec|srun|torchrun|",
        r"\w{2,20}_perf): (?:command )?not found",
    ),
    _form(
        "no-slots",
        "not enough slots available",
        r"not enough slots available in the system to satisfy the (?P<subject>\d{1,7})",
    ),
    _form("no-program", "mpirun was unable to find the specified executable", "executable file"),
    _form("as-root", "has detected an attempt to run as root", r"mpi\w{3,4} has detected"),
    _form("ssh", "", "|".join(map(re.escape, _SSH))),
    _form(
        "cuda-failure",
        " failure ",
        rf"{_HOST}(?:Test )?(?:CUDA|Cuda|HIP) failure [\w./-]{{1,80}}:\d{{1,6}}:? ",
        r"'(?P<subject>[^']{1,200})'",
    ),
    _form(
        "nccl-failure",
        "NCCL failure ",
        rf"{_HOST}(?:Test )?NCCL failure [\w./-]{{1,80}}:\d{{1,6}} ",
        r"'(?P<subject>[^']{1,400})'",
    ),
    _form(
        "gloo-connect",
        "Gloo connectFullMesh failed",
        r"Gloo connectFullMesh failed(?:.{0,400}?remote=\[(?P<subject>[\da-fA-F.:]{2,45})\])?",
    ),
    _form(
        "cuda-failure",
        "RuntimeError: ",
        r"RuntimeError: (?:CUDA error: )?(?P<subject>no kernel image is available|",
        r"The NVIDIA driver on your system is too old.{0,60})",
    ),
)
_NCCL = re.compile(r"NCCL (?:INFO|WARN|TRACE) ")
_DRIVER = re.compile(r"Driver Version: (\d{3}\.[\d.]{1,12})")


def likeness(head: str, name: str) -> float:
    """0.9 where a line of the beginning is such a failure."""
    if not any(form.word in head for form in FORMS if form.word) and not _of_ssh(head):
        return 0.0
    return 0.9 if any(True for line in head.split("\n") for _ in _failure(line)) else 0.0


def read(source: Source) -> tuple[StartFailure, ...]:
    """Different failures in their order; BadInput where there is none."""
    stripper = Stripper.of(source)
    found: dict[tuple[str, str], StartFailure] = {}
    driver: str | None = None
    for number, line in source.lines():
        if "Driver Version: " in line and (match := _DRIVER.search(line)):
            driver = driver or match[1]
        for kind, told in _failure(line):
            prefix = stripper.strip(line)[0]
            subject = told.get("subject") or ""
            host = told.get("host") or prefix.host
            key = kind, subject
            known = found.get(key)
            if known is None and len(found) >= MOST:
                continue
            hosts = known.hosts if known else ()
            if host and host not in hosts and len(hosts) < MOST_HOSTS:
                hosts = (*hosts, host)
            found[key] = StartFailure(
                file=source.file,
                line=known.line if known else number,
                kind=kind,
                text=known.text if known else line.strip()[:LONGEST],
                subject=subject or None,
                program=known.program if known else told.get("program"),
                hosts=hosts,
                count=known.count + 1 if known else 1,
            )
    if not found:
        raise BadInput("holds no line of a program that failed to start", file=source.file)
    return tuple(_with_driver(failure, driver) for failure in found.values())


def _failure(line: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The kind of a line and what it names; nothing for most lines."""
    if _NCCL.search(line):
        return
    for form in FORMS:
        if (form.word in line if form.word else _of_ssh(line)) and (
            match := form.pattern.search(line)
        ):
            yield form.kind, match.groupdict()
            return


def _of_ssh(text: str) -> bool:
    return any(words in text for words in _SSH)


def _with_driver(failure: StartFailure, driver: str | None) -> StartFailure:
    if driver is None or failure.kind != "cuda-failure":
        return failure
    fields = {name: getattr(failure, name) for name in failure.__struct_fields__}
    return StartFailure(**{**fields, "driver": driver})
