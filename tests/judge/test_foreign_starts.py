"""Programs that did not start: what was missing, said once, with a line that mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formats.source import Source
from bench.formats.start_failure import FORMS
from bench.judge.foreign import start_causes
from bench.records import Finding, Reading, StartFailure
from tests.judge.evidence import judged_from

DATA = Path(__file__).resolve().parents[1] / "data"


def written(text: str) -> Reading:
    return judged_from(Source.of_text(text, "out.txt"))


def serious(reading: Reading) -> Finding:
    (finding,) = [one for one in reading.findings if one.severity in ("degraded", "broken")]
    return finding


@pytest.mark.parametrize(
    ("name", "code", "kind", "words"),
    [
        ("no_mpi_header.txt", "first-fault", "build", "MPI_HOME/include has no mpi.h"),
        (
            "older_nccl_than_built_for.txt",
            "first-fault",
            "version-mismatch",
            "ncclCommRegister came with NCCL 2.19",
        ),
        ("driver_too_old.txt", "measurement-failed", None, "The NVIDIA driver is older than"),
        ("unhandled_system_error.txt", "measurement-failed", None, "/dev/shm is too small"),
        ("nccl1_unhandled_cuda_error.txt", "measurement-failed", None, "built for another CUDA"),
    ],
)
def test_posted_failures_are_told_once_and_mended(
    name: str, code: str, kind: str | None, words: str
) -> None:
    reading = judged_from(Source.open(DATA / "start_failure" / name))
    finding = serious(reading)
    assert (finding.code, finding.kind, finding.severity) == (code, kind, "broken")
    assert words in finding.summary
    assert finding.remedy
    assert reading.verdict == "broken"


def test_a_library_that_is_not_found_names_the_path_to_set() -> None:
    text = "./a_perf: error while loading shared libraries: libnccl.so.2: cannot open shared x\n"
    finding = serious(written(text))
    assert finding.kind == "library-missing"
    assert (finding.remedy or "").startswith("export LD_LIBRARY_PATH=")


def test_a_gpu_that_a_host_does_not_have_names_the_host() -> None:
    text = "node01: Test CUDA failure common.cu:1003 'invalid device ordinal'\n"
    finding = serious(written(text))
    assert (finding.kind, finding.where.host) == ("gpu-count", "node01")


def test_later_failures_are_evidence() -> None:
    text = (
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'\n"
        "/usr/bin/ld: cannot find -lnccl\n"
    )
    finding = serious(written(text))
    assert finding.kind == "build"
    assert any("later: out.txt:2" in each.text for each in finding.evidence)


def test_what_nccl_says_itself_is_not_told_again() -> None:
    text = (
        "a:1:1 [0] NCCL WARN Failed to CUDA malloc 4194304 bytes\n"
        "a:1:1 [0] NCCL INFO init.cc:1 -> 1\n"
        "a: Test NCCL failure common.cu:959 'unhandled cuda error'\n"
    )
    assert serious(written(text)).kind == "oom"


def test_code_for_another_gpu_is_fatal_unless_nccl_went_on() -> None:
    log = (DATA / "nccl_log" / "2.21-no-code-for-this-gpu.log").read_text()
    finding = serious(written(log))
    assert (finding.kind, finding.where.host) == ("gpu-code", "hostA")
    formed = (
        "hostA:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0x2 - Init "
        "COMPLETE\n"
    )
    assert written(log + formed).verdict == "healthy"


@pytest.mark.parametrize("kind", sorted({form.kind for form in FORMS}))
def test_every_form_has_a_cause_with_a_line_to_paste(kind: str) -> None:
    for subject in (None, "libnccl.so.2", "ncclMemAlloc", "mpi.h", "16", "unhandled cuda error"):
        cause = start_causes.of(
            StartFailure(file="f", line=1, kind=kind, text="x", subject=subject)
        )
        assert cause.kind and cause.check
        assert "\n" not in cause.check
