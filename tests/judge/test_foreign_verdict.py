"""The verdict on foreign evidence: what counts as wrong, what as healthy, what decides nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bench.judge.foreign.verdict import in_order, judge, verdict_of
from bench.records import (
    CollectiveTable,
    Dossier,
    Finding,
    KernelHints,
    LogCommunicator,
    LogEdge,
    LogMember,
    LogNet,
    LogProcess,
    MatrixLink,
    NcclLog,
    NvlinkState,
    NvlinkStatus,
    Severity,
    Software,
    SoftwareOf,
    TableRow,
    TableTime,
    TopologyMatrix,
    Variables,
    Verdict,
)


def table(busbw_gbs: float = 92.0, ranks: int | None = 16, rows: int = 3) -> CollectiveTable:
    half = TableTime(time_s=1e-3, algbw_gbs=1.0, busbw_gbs=busbw_gbs)
    row = TableRow(size_bytes=1 << 20, count=1 << 18, dtype="float", out_of_place=half)
    return CollectiveTable(file="t", line=1, last_line=9, ranks=ranks, rows=(row,) * rows)


def log(*members: LogMember, edges: int = 0) -> NcclLog:
    edge = LogEdge(channel=0, source=0, destination=1, transport="NET")
    found = LogCommunicator(id="0x1", members=members, edges=(edge,) * edges)
    return NcclLog(file="l", communicators=(found,) if members or edges else ())


def member(rank: int, *, started: bool = True, completed: bool = True) -> LogMember:
    return LogMember(rank=rank, host="a", pid=rank, started=started, completed=completed)


def process() -> LogProcess:
    return LogProcess(host="a", pid=1, bootstrap=LogNet(name="eth0"), network="IB")


def finding(
    severity: Severity = "degraded", code: str = "link-degraded", remedy: str | None = None
) -> Finding:
    return Finding(code=code, severity=severity, summary="it is so", remedy=remedy)


HEALTHY = Dossier(tables=(table(),))


@pytest.mark.parametrize(
    "dossier",
    [
        HEALTHY,
        Dossier(tables=(table(busbw_gbs=0.0, ranks=1),)),
        Dossier(logs=(log(member(0), member(1)),)),
        Dossier(logs=(log(edges=2),)),
        Dossier(logs=(NcclLog(file="l", processes=(process(),)),)),
        Dossier(
            matrices=(
                TopologyMatrix(
                    file="m", links=(MatrixLink(source="GPU0", destination="GPU1", kind="NV"),)
                ),
            )
        ),
        Dossier(
            nvlinks=(
                NvlinkStatus(file="n", line=1, gpu=0, links=(NvlinkState(link=0, active=True),)),
            )
        ),
    ],
    ids=[
        "table",
        "one rank to its end",
        "log",
        "excerpt of a log",
        "choices",
        "matrix",
        "nvlinks",
    ],
)
def test_evidence_without_a_finding_is_healthy(dossier: Dossier) -> None:
    assert verdict_of(dossier, ()) == "healthy"
    assert verdict_of(dossier, (finding("info", "noisy"), finding("warning"))) == "healthy"


@pytest.mark.parametrize(
    "dossier",
    [
        Dossier(),
        Dossier(tables=(table(rows=0),)),
        Dossier(tables=(replace(table(busbw_gbs=0.0, ranks=1), complete=False),)),
        Dossier(tables=(table(busbw_gbs=9.0, ranks=1),)),
        Dossier(logs=(log(),)),
        Dossier(logs=(log(member(0), member(1, completed=False)),)),
        Dossier(kernels=(KernelHints(file="k", iommu="translated"),)),
        Dossier(software=(SoftwareOf(file="s", software=Software(torch="2.9")),)),
        Dossier(variables=(Variables(file="v", variables={"NCCL_DEBUG": "INFO"}),)),
    ],
    ids=[
        "nothing",
        "a header without rows",
        "one rank, cut off",
        "one rank with a bandwidth",
        "a log of versions",
        "a communicator that did not come about",
        "kernel",
        "software",
        "variables",
    ],
)
def test_what_could_not_have_shown_a_fault_is_inconclusive(dossier: Dossier) -> None:
    assert verdict_of(dossier, ()) == "inconclusive"


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([finding("degraded")], "degraded"),
        ([finding("broken", "hang-init")], "broken"),
        ([finding("degraded", "interface-misselected", "export X=1")], "misconfigured"),
        ([finding("broken", "interface-loopback", "export X=1")], "misconfigured"),
        ([finding("broken", "launcher-world-size", "make MPI=1")], "misconfigured"),
        ([finding("broken", "interface-loopback")], "broken"),
        (
            [
                finding("degraded", "interface-virtual", "export X=1"),
                finding("broken", "hang-end"),
            ],
            "broken",
        ),
        ([finding("info", "not-determinable")], "inconclusive"),
        ([finding("info", "not-determinable"), finding("degraded")], "degraded"),
    ],
)
def test_the_worst_that_no_setting_mends_decides(
    findings: list[Finding], expected: Verdict
) -> None:
    assert verdict_of(HEALTHY, findings) == expected


def test_findings_come_worst_first_then_surest() -> None:
    guessed = Finding(code="host-slow", severity="broken", summary="", confidence="inferred")
    seen = Finding(code="rail-slow", severity="broken", summary="", confidence="measured")
    note = finding("info", "noisy")
    assert in_order([note, finding("degraded"), guessed, seen]) == (
        seen,
        guessed,
        finding("degraded"),
        note,
    )


def test_a_reading_keeps_the_dossier() -> None:
    reading = judge(HEALTHY)
    assert reading.dossier == HEALTHY
    assert reading.verdict == "healthy"
