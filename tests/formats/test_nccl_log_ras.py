"""Warnings of RAS, NCCL's watch over its own processes: NCCL goes on without it."""

from __future__ import annotations

import pytest

from bench.formats.nccl_log import read
from bench.formats.rank_log import signs
from bench.formats.source import Source
from bench.judge.docket import Docket
from bench.judge.foreign import logs
from bench.records import Dossier, Finding, NcclLog

PLACES = (
    "ras/client_support.cc:161",
    "src/ras/client_support.cc:161",
    "ras/client_support.cc:161 (rasClientInitSocket)",
    "/build/nccl/src/ras/client_support.cc:161",
)
BIND = "Call to bind failed: Address already in use"
REFUSED = (
    "hostA:7:9 [0] NCCL INFO RAS failed to establish a client listening socket at localhost\n"
)
FORMED = "".join(
    f"hostA:{7 + rank}:{17 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} "
    f"nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0x9 - Init {{}}\n"
    for rank in range(2)
)


def log_of(text: str) -> NcclLog:
    return read(Source.of_text(text, "a.log"))


def judged(text: str) -> dict[str, Finding]:
    docket = Docket()
    logs.judge(Dossier(logs=(log_of(text),)), docket)
    return {finding.code: finding for finding in docket.findings}


def bind(place: str) -> str:
    return f"hostA:7:9 [0] {place} NCCL WARN {BIND}\n" + REFUSED


@pytest.mark.parametrize("place", PLACES)
def test_a_port_that_ras_does_not_get_is_a_remark(place: str) -> None:
    (event,) = log_of(bind(place)).events
    assert (event.role, event.text) == ("remark", BIND)
    assert judged(bind(place) + FORMED.format("START", "START")
                  + FORMED.format("COMPLETE", "COMPLETE")) == {}  # fmt: skip
    sign, role = signs.of(f"hostA:7:9 [0] {place} NCCL WARN {BIND}") or (None, None)
    assert (sign, role) == (signs.NCCL_WARNING, "mention")


def test_the_same_call_elsewhere_is_a_fault() -> None:
    (event,) = log_of(f"hostA:7:9 [0] misc/socket.cc:430 NCCL WARN {BIND}\n").events
    assert event.role == "fault"


def test_a_fault_behind_it_is_the_first() -> None:
    text = bind(PLACES[0]) + (
        "hostA:8:18 [1] misc/shmutils.cc:80 NCCL WARN Error: failed to extend /dev/shm/nccl-x to "
        "9637892 bytes\n"
    )
    first = judged(text)["first-fault"]
    assert (first.kind, first.where.line) == ("shm-full", 3)
    assert BIND not in " ".join(evidence.text for evidence in first.evidence)


def test_a_hang_is_told_although_ras_warned() -> None:
    starts, completes = FORMED.format("START", "START"), FORMED.format("COMPLETE", "COMPLETE")
    text = bind(PLACES[0]) + starts + completes.splitlines(keepends=True)[1]
    text += "hostA:8:18 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n"
    assert judged(text)["hang-init"].where.rank == 0


def test_what_ras_returns_is_nobody_s_trace() -> None:
    text = bind(PLACES[0]) + (
        "hostA:7:9 [0] NCCL INFO ras/ras.cc:240 -> 2\n"
        "hostA:7:9 [0] misc/param.cc:30 NCCL WARN Something small\n"
    )
    (event,) = [event for event in log_of(text).events if event.role == "fault"]
    assert (event.trace, event.severity) == ((), "warning")
