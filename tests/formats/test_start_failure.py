"""Last words of programs that did not start: each form is known, and only where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats.source import Source
from bench.formats.start_failure import FORMS, likeness, read
from bench.records import BadInput, StartFailure

DATA = Path(__file__).resolve().parents[1] / "data" / "start_failure"

# Kind, line, what it names, which program.
WORDS = [
    (
        "library-not-found",
        "./all_reduce_perf: error while loading shared libraries: libmpi.so.40: cannot open sha",
        "libmpi.so.40",
        "./all_reduce_perf",
    ),
    (
        "library-not-found",
        "OSError: libnccl.so.2: cannot open shared object file: No such file or directory",
        "libnccl.so.2",
        None,
    ),
    (
        "undefined-symbol",
        "./x_perf: symbol lookup error: ./x_perf: undefined symbol: ncclMemAlloc",
        "ncclMemAlloc",
        "./x_perf",
    ),
    (
        "library-version",
        "./a_perf: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (by x)",
        "GLIBC_2.34",
        "./a_perf",
    ),
    ("header-not-found", "nccl.h:5:10: fatal error: 'mpi.h' file not found", "mpi.h", None),
    ("not-linked", "/usr/bin/ld: cannot find -lnccl: No such file or directory", "nccl", None),
    (
        "gloo-connect",
        "RuntimeError: Gloo connectFullMesh failed with no error, remote=[127.0.1.1]:57344",
        "127.0.1.1",
        None,
    ),
    ("not-linked", "a.o: undefined reference to `ncclCommSplit'", "ncclCommSplit", None),
    (
        "gpu-architecture",
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'",
        "compute_90",
        None,
    ),
    ("command-not-found", "bash: mpirun: command not found", "mpirun", None),
    (
        "no-slots",
        "There are not enough slots available in the system to satisfy the 16",
        "16",
        None,
    ),
    (
        "no-program",
        "mpirun was unable to find the specified executable file, and therefore",
        None,
        None,
    ),
    ("as-root", "mpirun has detected an attempt to run as root.", None, None),
    ("ssh", "Host key verification failed.", None, None),
    (
        "cuda-failure",
        "node01: Test CUDA failure common.cu:1003 'invalid device ordinal'",
        "invalid device ordinal",
        None,
    ),
    (
        "nccl-failure",
        "NCCL failure common.cu:874 'unhandled system error'",
        "unhandled system error",
        None,
    ),
    (
        "cuda-failure",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "no kernel image is available",
        None,
    ),
]


def of(text: str) -> tuple[StartFailure, ...]:
    return read(Source.of_text(text, "out.txt"))


@pytest.mark.parametrize(("kind", "line", "subject", "program"), WORDS)
def test_every_form_is_read(kind: str, line: str, subject: str, program: str) -> None:
    text = f"some output\n{line}\nmake: *** [Makefile:20: src.build] Error 2\n"
    assert likeness(text, "out.txt") == 0.9
    (found,) = of(text)
    assert (found.kind, found.subject, found.program) == (kind, subject, program)
    assert (found.line, found.text) == (2, line)


def test_every_form_has_an_example() -> None:
    assert {form.kind for form in FORMS} == {kind for kind, *_ in WORDS}


@pytest.mark.parametrize(
    "line",
    [
        "a:1:1 [0] NCCL INFO NET/Plugin : libnccl-net.so: cannot open shared object file: No such",
        "a:1:1 [0] NCCL WARN Cuda failure 'out of memory'",
        "mpirun: command line arguments were found",
        "the file was not found",
        "Test failure is not an option",
    ],
)
def test_lines_of_programs_that_run_are_none(line: str) -> None:
    assert likeness(line, "out.txt") == 0.0
    with pytest.raises(BadInput, match="no line of a program"):
        of(line)


def test_what_every_rank_says_is_told_once_with_its_hosts() -> None:
    line = "Test CUDA failure common.cu:1003 'invalid device ordinal'"
    (found,) = of("".join(f"node{n}: {line}\n" for n in (1, 2, 1)))
    assert (found.count, found.hosts, found.line) == (3, ("node1", "node2"), 1)


def test_the_driver_of_the_same_file_is_kept() -> None:
    found = read(Source.open(DATA / "driver_too_old.txt"))
    assert [(one.kind, one.driver, one.count) for one in found] == [("cuda-failure", "384.81", 2)]


@given(st.text(max_size=300), st.sampled_from([line for _, line, *_ in WORDS]))
def test_any_text_around_a_failure_does_no_harm(text: str, line: str) -> None:
    likeness(text, "x")
    assert any(one.text.strip() for one in of(f"{text}\n{line}\n"))
