"""Queue pairs that could not be joined: a matter of the NICs, not of where the ranks meet."""

from __future__ import annotations

import pytest

from bench.formats.nccl_log import read
from bench.formats.source import Source
from bench.hang import own_faults
from bench.judge.docket import Docket
from bench.judge.foreign import fault_kinds, logs
from bench.records import Dossier, Finding, LogEvent

HEAD = (
    "hostA:11:11 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
    "hostA:11:22 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
    "hostA:11:22 [0] NCCL INFO Using network IB\n"
    "hostA:11:22 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 "
    "busId 1000 commId 0x9 - Init START\n"
)
GIDS = "on dev mlx5_4:1, curr state INIT, next state RTR, local GID index 3, local GID {}, "
GIDS += "remote GID {}"


def judged(text: str) -> dict[str, Finding]:
    line = f"hostA:11:33 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed {text}\n"
    docket = Docket()
    logs.judge(Dossier(logs=(read(Source.of_text(HEAD + line, file="a.log")),)), docket)
    return {finding.code: finding for finding in docket.findings}


@pytest.mark.parametrize(
    "text",
    [
        "with error No route to host",
        "with error Connection timed out",
        "with error Network is unreachable",
        "with 110 Connection timed out, " + GIDS.format("::ffff:10.1.0.1", "::ffff:10.2.0.1"),
        "with 113 No route to host, " + GIDS.format("::ffff:xxx.xx.xx", "::ffff:xxx.xx.xxx"),
    ],
)
def test_nics_that_do_not_reach_each_other_say_nothing_of_the_bootstrap(text: str) -> None:
    findings = judged(text)
    assert "interface-unreachable" not in findings
    first = findings["first-fault"]
    assert (first.kind, first.severity) == ("rdma-connection", "broken")
    assert "the two NICs" in first.summary
    assert "do not reach each other" in first.summary
    assert "export NCCL_CROSS_NIC='0'" in (first.remedy or "")


def test_addresses_of_the_message_are_those_to_try() -> None:
    ends = GIDS.format("::ffff:10.1.0.1", "::ffff:10.2.0.1")
    first = judged(f"with 110 Connection timed out, {ends}")["first-fault"]
    assert "(local 10.1.0.1, remote 10.2.0.1)" in first.summary
    assert (first.remedy or "").startswith("ping -c 3 -I 10.1.0.1 10.2.0.1   #")
    assert "mlx5_4" in (first.remedy or "")
    assert "GID_INDEX" not in (first.remedy or "")


def test_redacted_addresses_are_not_shown_in_half() -> None:
    ends = GIDS.format("::ffff:xxx.xx.xx.xx", "::ffff:xxx.xx.xxx.xx")
    first = judged(f"with 110 Connection timed out, {ends}")["first-fault"]
    assert "NICs do not" in first.summary
    assert (first.remedy or "").startswith("show_gids; ping -c 3 -I NETDEV ADDRESS")
    assert "GID_INDEX" not in (first.remedy or "")


def test_an_index_that_is_in_force_is_not_advised() -> None:
    first = judged("with 61 No data available, " + GIDS.format("::", "::ffff:10.2.0.1"))
    assert "The local NIC has no GID at the index" in first["first-fault"].summary
    assert "unset NCCL_IB_GID_INDEX" in (first["first-fault"].remedy or "")
    assert "'3'" not in (first["first-fault"].remedy or "")
    mapped = judged("with 22 Invalid argument, " + GIDS.format("::ffff:10.1.0.1", "fe80::1"))
    assert "GID_INDEX" not in (mapped["first-fault"].remedy or "")


def test_without_a_gid_in_the_message_an_index_is_advised() -> None:
    first = judged("with error Invalid argument")["first-fault"]
    assert "export NCCL_IB_GID_INDEX='3'" in (first.remedy or "")


def test_a_socket_without_a_route_is_still_the_interface_s_matter() -> None:
    docket = Docket()
    line = (
        "hostA:11:33 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
        "10.9.0.2<44221> failed : No route to host\n"
    )
    logs.judge(Dossier(logs=(read(Source.of_text(HEAD + line, file="a.log")),)), docket)
    assert {"interface-unreachable", "first-fault"} <= {f.code for f in docket.findings}


def test_the_rank_that_says_so_may_not_be_the_one_to_blame() -> None:
    text = "Call to ibv_modify_qp failed with error Connection timed out"
    kind = fault_kinds.of(LogEvent(severity="error", text=text, line=1, file="a.log"))
    assert kind is not None
    assert kind.name in own_faults.FROM_PEERS
