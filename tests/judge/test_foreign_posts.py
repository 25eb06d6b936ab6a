"""Lines as people post them: quoted, shortened, of one host of two, of a plugin that gives up."""

from __future__ import annotations

import pytest

from bench.formats.source import Source
from bench.records import Finding, Reading
from tests.judge.evidence import judged_from


def written(text: str) -> Reading:
    return judged_from(Source.of_text(text, "log.txt"))


def found(reading: Reading, code: str) -> Finding:
    (finding,) = [finding for finding in reading.findings if finding.code == code]
    return finding


def test_a_warning_without_its_speaker_is_read() -> None:
    line = (
        "include/socket.h:344 WARN Socket creation failed : Address family not supported by "
        "protocol\n"
    )
    fault = found(written(line), "first-fault")
    assert (fault.kind, fault.severity) == ("address-family", "broken")


def test_what_rccl_cannot_read_of_sysfs_is_no_fault() -> None:
    remark = "> \n> n:9:10 [2] /src/misc/alt_rsmi.cc:694 NCCL WARN Could not read node # 5\n"
    start = "> n:9:9 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>\n"
    assert written(start + remark).findings == ()
    real = (
        "> n:9:11 [0] /src/graph/paths.cc:120 NCCL WARN Failed to find reverse path from remNode "
        "0/200000 nlinks 3 to node 0/700000\n> n:9:11 [0] NCCL INFO graph/paths.cc:190 -> 3\n"
    )
    fault = found(written(start + remark + real), "first-fault")
    assert (fault.kind, fault.where.gpu) == ("topology-search", 0)


def test_a_port_that_lost_its_link_is_degraded_until_something_fails() -> None:
    line = (
        "[2026-02-02 12:15:56] gpu7:3:4 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_3:1 "
    )
    line += "Got non-fatal async event: port error(10)\n"
    fault = found(written(line), "first-fault")
    assert (fault.kind, fault.severity, fault.where.host) == ("port-down", "degraded", "gpu7")
    ended = line + "gpu7:3:4 [0] NCCL INFO transport/net.cc:1298 -> 6\n"
    assert found(written(ended), "first-fault").severity == "broken"


PLUGIN = """\
a3:1:1 [0] NCCL INFO Bootstrap: Using enp0s12:10.128.0.7<0>
a3:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin FasTrak (v8)
a3:1:2 [0] NCCL WARN NET/FasTrak core.cc:88 Could not find ctrl interface eth0
"""


def test_a_plugin_that_ends_the_process_is_no_mere_warning() -> None:
    assert found(written(PLUGIN), "first-fault").severity == "warning"
    ends = "a3:1:2 [0] NCCL WARN NET/FasTrak Plug-in core initialization failed, aborting\n"
    fault = found(written(PLUGIN + ends), "first-fault")
    assert (fault.kind, fault.severity) == ("plugin", "broken")
    assert (fault.remedy or "").startswith("export NCCL_NET_PLUGIN='none'")


def test_a_version_that_a_plugin_cannot_ask_for_is_no_fault() -> None:
    line = "algo-1:46:58 [0] configure_nvls_option:287 NCCL WARN NET/OFI Could not find "
    reading = written("NCCL version 2.17.1+cuda11.8\n" + line + "ncclGetVersion symbol\n")
    assert reading.findings == ()


# --- interfaces ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "severity"),
    [("ip6tnl0", "degraded"), ("vethab12cd3", "degraded"), ("ib0", "warning")],
)
def test_link_local_of_a_tunnel_never_reaches_another_host(name: str, severity: str) -> None:
    text = "".join(
        f"{host}:9:9 [0] NCCL INFO Bootstrap : Using [0]{name}:fe80::{n}%{name}<0> "
        f"[1]eth0:2a02:6b8::{n}<0>\n"
        for n, host in enumerate(("hostA", "hostB"), start=1)
    )
    assert found(written(text), "interface-link-local").severity == severity


def test_an_address_that_a_host_itself_does_not_reach_is_its_own_fault() -> None:
    text = (
        "n1:7:7 [0] NCCL INFO Bootstrap : Using ib1:fe80::966d:ae03:b2:62c4%ib1<0>\n"
        "n1:7:8 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to "
        "fe80::966d:ae03:b2:62c4%7<41923> failed : Software caused connection abort\n"
    )
    finding = found(written(text), "interface-link-local")
    assert (finding.where.host, finding.where.interface) == ("n1", "ib1")
    assert "meets on ib1, whose only address is IPv6 link-local" in finding.summary


def test_a_host_that_does_not_answer_itself_has_a_firewall() -> None:
    text = (
        "w:4:4 [0] NCCL INFO Bootstrap : Using [0]eth0:10.244.3.17<0>\n"
        "w:4:5 [0] include/socket.h:390 NCCL WARN Connect to 10.244.3.17<41091> failed : "
        "Connection timed out\n"
    )
    assert "no answer from itself" in found(written(text), "interface-unreachable").summary


# --- tests and matrices -------------------------------------------------------------------------

STARTED = "# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20\n"


def test_the_host_that_gave_up_is_named() -> None:
    text = (
        f"{STARTED}# Using devices\n"
        "#  Rank  0 Group  0 Pid 37 on hostA416 device  0 [0x01] NVIDIA RTX A6000\n"
        "#  Rank  1 Group  0 Pid 31 on    hostA device  0 [0x01] NVIDIA RTX A6000\n"
        "hostA: Test NCCL failure common.cu:959 'internal error - please report this / '\n"
        " .. hostA pid 31: Test failure common.cu:844\n"
    )
    assert found(written(text), "measurement-failed").where.host == "hostA"


def test_gpus_that_were_told_to_use_the_network_are_a_test_of_it() -> None:
    text = (
        f"{STARTED}# Using devices\n"
        "#   Rank  0 Pid  8 on  k6 device  0 [0x52] A100-SXM4-40GB\n"
        "#   Rank  1 Pid  8 on  k6 device  1 [0x57] A100-SXM4-40GB\n"
        "k6:8:8 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC\n"
        "SHM"
        "k6:8:9 [0] NCCL INFO Channel 00 : 1[57000] -> 0[52000] [receive] via NET/IB/1\n"
        "k6:8:10 [1] NCCL INFO Channel 00 : 0[52000] -> 1[57000] [receive] via NET/IB/1\n"
    )
    shm = "k6:8:8 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.\n"
    assert found(written(text.replace("SHM", shm)), "gpu-path-unexpected").severity == "warning"
    assert found(written(text.replace("SHM", "")), "gpu-path-unexpected").severity == "degraded"


def test_a_matrix_whose_last_columns_were_shortened_is_a_matrix() -> None:
    text = (
        "        GPU0    GPU1    GPU2    ...\n"
        "GPU0     X      NV4     SYS     ...\n"
        "GPU1    NV4      X      SYS     ...\n"
        "GPU2    SYS     SYS      X      ...\n"
    )
    (matrix,) = written(text).dossier.matrices
    assert matrix.gpus == ("GPU0", "GPU1", "GPU2")
    assert {link.nvlinks for link in matrix.links if link.kind == "NV"} == {4}
