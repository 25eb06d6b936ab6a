"""What NCCL's logs prove: where jobs meet, what carries the data, who failed first; and silence
where a log is healthy. Posted logs first, then the same kinds in other clothes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from bench.formats.nccl_log import read
from bench.formats.source import Source
from bench.judge.catalogue import CATALOGUE
from bench.judge.docket import Docket
from bench.judge.foreign import logs
from bench.records import (
    CollectiveTable,
    Dossier,
    Finding,
    MatrixLink,
    TableDevice,
    TopologyMatrix,
    Variables,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl_log"
SERIOUS = ("degraded", "broken")


def posted(*names: str, **more) -> Dossier:
    return Dossier(logs=tuple(read(Source.open(DATA / name)) for name in names), **more)


def written(*texts: str, **more) -> Dossier:
    return Dossier(
        logs=tuple(read(Source.of_text(t, file=f"rank{i}.log")) for i, t in enumerate(texts)),
        **more,
    )


def judged(dossier: Dossier) -> tuple[Finding, ...]:
    docket = Docket()
    logs.judge(dossier, docket)
    assert all(finding.code in CATALOGUE for finding in docket.findings)
    return docket.findings


def one(findings: tuple[Finding, ...], code: str) -> Finding:
    (found,) = [finding for finding in findings if finding.code == code]
    return found


def serious(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.code for finding in findings if finding.severity in SERIOUS}


def proof(finding: Finding) -> str:
    return "\n".join(evidence.text for evidence in finding.evidence)


# --- where a job meets --------------------------------------------------------------------------


def test_loopback_forced_in_a_job_of_two_hosts() -> None:
    findings = judged(posted("2.7-ifname-lo.log"))
    found = one(findings, "interface-loopback")
    assert found.severity == "broken"
    assert (found.where.interface, found.where.rank, found.where.host) == ("lo", 1, "hostB")
    assert "NCCL_SOCKET_IFNAME=lo" in found.summary
    assert "Connection refused, retrying (4 times)" in proof(found)
    assert found.remedy.startswith("unset NCCL_SOCKET_IFNAME")
    assert one(findings, "first-fault").severity == "info"  # told once


def test_loopback_first_in_the_list_of_2_3_names_the_interface_that_would_do() -> None:
    findings = judged(posted("2.3-loopback-first.log"))
    found = one(findings, "interface-loopback")
    assert found.where.hosts == ("hostA", "hostB")
    assert "eth1" in found.summary
    assert found.remedy == "export NCCL_SOCKET_IFNAME='=eth0'"
    first = one(findings, "first-fault")
    assert (first.kind, first.where.host, first.where.gpu) == ("connection", "hostB", 1)


def test_loopback_on_one_host_is_fine() -> None:
    assert judged(posted("2.4-lo-one-host.log")) == ()


def test_runs_of_one_host_each_in_one_file_are_no_job_of_two() -> None:
    line = (
        "{0}:1:{1} [{1}] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n"
        "{0}:1:{1} [{1}] NCCL INFO ncclCommInitRank comm 0x{1} rank {1} nranks 2 cudaDev {1} "
        "nvmlDev {1} busId {1}000 commId 0x{2} - Init START\n"
    )
    text = "".join(line.format(h, r, n) for n, h in ((7, "a"), (8, "b")) for r in (0, 1))
    assert "interface-loopback" not in {f.code for f in judged(written(text))}
    one_job = text.replace("commId 0x8", "commId 0x7").replace("nranks 2", "nranks 4")
    assert "interface-loopback" in {f.code for f in judged(written(one_job))}


def test_an_exclusion_that_forgets_lo_is_called_a_trap() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ^docker0\n"
        "a:1:1 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n"
        "b:1:1 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n"
    )
    found = one(judged(written(text)), "interface-loopback")
    assert "lo is taken again" in proof(found)


def test_a_tunnel_with_a_link_local_address_and_the_interface_to_use_instead() -> None:
    findings = judged(posted("2.5-ipv6-tunnel-first.log"))
    found = one(findings, "interface-link-local")
    assert (found.where.interface, found.where.hosts) == ("ip6tnl0", ("hostA", "hostB"))
    assert "IPv6 link-local" in found.summary
    assert found.remedy == "export NCCL_SOCKET_IFNAME='=veth0'"
    assert "interface-virtual" not in {f.code for f in findings}


def test_a_peer_that_offers_a_link_local_address_is_at_fault_not_the_host_that_logs_it() -> None:
    findings = judged(posted("2.21-peer-link-local.log"))
    found = one(findings, "interface-link-local")
    assert found.where.host is None
    assert "169.254.20.10" in found.summary
    assert "bond0 (172.31.10.31), is right" in found.summary
    assert found.remedy.startswith("export NCCL_SOCKET_IFNAME='=bond0'")
    mixed = one(findings, "hca-set-differs")
    assert (mixed.kind, mixed.severity) == ("mixed-ports", "warning")
    assert "ib6s200p0" in mixed.summary
    assert "mlx5_bond_0 (RoCE)" in mixed.summary
    assert "ib6s200p0" not in mixed.remedy


def test_a_link_local_list_entry_is_nothing_where_another_network_carries_the_data() -> None:
    assert serious(judged(posted("2.6-efa-eni-interfaces.log"))) == set()


def test_a_link_local_bootstrap_over_which_a_communicator_formed_is_not_accused() -> None:
    text = "".join(
        f"{h}:1:1 [0] NCCL INFO Bootstrap: Using usb0:169.254.3.{n}<0>\n"
        f"{h}:1:1 [0] NCCL INFO ncclCommInitRank comm 0x{n} rank {n} nranks 2 cudaDev 0 nvmlDev 0 "
        "busId 1000 commId 0xab - Init COMPLETE\n"
        for n, h in enumerate("ab")
    )
    assert serious(judged(written(text))) == set()


def test_two_hosts_with_one_container_address_lead_nowhere() -> None:
    text = (
        "a:1:1 [0] NCCL INFO Bootstrap: Using docker0:172.17.0.1<0>\n"
        "b:1:1 [0] NCCL INFO Bootstrap: Using docker0:172.17.0.1<0>\n"
        "b:1:1 [0] NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1<0> [1]eno1:10.2.0.9<0>\n"
    )
    found = one(judged(written(text)), "interface-virtual")
    assert found.where.interface == "docker0"
    assert found.remedy == "export NCCL_SOCKET_IFNAME='=eno1'"


def test_a_range_that_docker_likes_condemns_no_lan() -> None:
    text = (
        "a:1:1 [0] NCCL INFO Bootstrap: Using eno1:172.18.40.41<0>\n"
        "b:1:1 [0] NCCL INFO Bootstrap: Using eno1:172.18.40.42<0>\n"
        "a:1:1 [0] NCCL INFO NET/Socket : Using [0]eno1:172.18.40.41<0>\n"
        "a:1:1 [0] NCCL INFO Using network Socket\n"
    )
    assert judged(written(text)) == ()


def test_hosts_that_meet_on_different_networks_and_cannot_connect() -> None:
    text = (
        "a:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
        "b:1:1 [0] NCCL INFO Bootstrap: Using ens9:192.168.5.2<0>\n"
        "b:1:1 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.1<4711> "
        "failed : No route to host\n"
    )
    found = one(judged(written(text)), "interface-differs")
    assert found.severity == "broken"
    assert "a eth0 (10.0.0.1) and b ens9 (192.168.5.2)" in found.summary
    one_each = text.replace("ens9:192.168.5.2", "ens9:10.0.7.2")  # one /16, other names
    assert "interface-differs" not in {f.code for f in judged(written(one_each))}


def test_two_hosts_behind_bridges_of_dockers_own_range() -> None:
    text = (
        "a:1:1 [0] NCCL INFO Bootstrap: Using eth0:172.17.0.3<0>\n"
        "a:1:1 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.2<4711> "
        "failed : No route to host\n"
    )
    found = one(judged(written(text)), "interface-virtual")
    assert found.where.interface == "eth0"
    assert "--network=host" in found.remedy
    lan = text.replace("172.17.", "172.18.")
    assert {f.code for f in judged(written(lan))} == {"interface-unreachable", "first-fault"}


def test_no_answer_between_ordinary_addresses_is_the_network_and_a_refusal_is_not() -> None:
    text = (
        "b:1:1 [0] NCCL INFO Bootstrap: Using bond0:10.0.0.2<0>\n"
        "b:1:1 [0] misc/socket.cc:484 NCCL WARN socketPollConnect: connect to 10.0.0.1<4711> "
        "returned Connection timed out, exceeded error retry count after 35 attempts\n"
    )
    found = one(judged(written(text)), "interface-unreachable")
    assert (found.where.host, found.where.interface) == ("b", "bond0")
    assert "10.0.0.1" in found.summary
    refused = text.replace("Connection timed out", "Connection refused")
    assert {f.code for f in judged(written(refused))} == {"first-fault"}


def test_a_setting_that_matches_nothing_is_named_with_its_value() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ens1f0\n"
        "a:1:1 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n"
        "a:1:1 [0] NCCL INFO init.cc:80 -> 5\n"
    )
    findings = judged(written(text))
    found = one(findings, "interface-no-match")
    assert found.severity == "broken"
    assert "NCCL_SOCKET_IFNAME=ens1f0" in found.summary


def test_a_prefix_that_takes_two_interfaces_is_ambiguous_for_sockets_only() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth1\n"
        "a:1:1 [0] NCCL INFO Bootstrap: Using eth1:10.0.0.1<0>\n"
        "b:1:1 [0] NCCL INFO Bootstrap: Using eth1:10.0.0.2<0>\n"
        "a:1:1 [0] NCCL INFO NET/Socket : Using [0]eth1:10.0.0.1<0> [1]eth10:10.9.0.1<0>\n"
        "a:1:1 [0] NCCL INFO Using network Socket\n"
    )
    found = one(judged(written(text)), "interface-ambiguous")
    assert found.severity == "warning"
    assert found.remedy == "export NCCL_SOCKET_IFNAME='=eth1'"
    exact = text.replace("environment to eth1", "environment to =eth1,eth10")
    assert judged(written(exact)) == ()
    assert judged(written(text.replace("network Socket", "network IB"))) == ()


# --- what carries the data ----------------------------------------------------------------------


def test_a_channel_over_a_veth_is_found_behind_a_good_bootstrap() -> None:
    found = one(judged(posted("2.6-veth-link-local.log")), "interface-link-local")
    assert (found.where.interface, found.where.rank) == ("veth25f2e72", 1)
    assert "Bootstrap is on eno1 (172.18.40.41), but channel 00" in found.summary
    assert "NET/Socket/1" in found.summary
    assert found.remedy == "export NCCL_SOCKET_IFNAME='=eno1'"


def test_slingshot_ports_used_by_tcp_for_want_of_the_plugin() -> None:
    dossier = posted("rccl-2.16-slingshot-sockets.log")
    findings = judged(dossier)
    found = one(findings, "fallback-to-sockets")
    assert found.severity == "degraded"
    assert "hsn0 (NET/Socket/1) and hsn1 (NET/Socket/2)" in found.summary
    assert "librccl-net.so was not found" in found.summary
    assert "bond0 (10.64.4.21) and bond0 (10.64.4.23)" in found.summary
    assert "aws-ofi-rccl" in found.remedy
    first = one(findings, "first-fault")
    assert (first.where.rank, first.where.host) == (3, "hostA")
    assert "channel 01 and 03 via NET/Socket/2 = hsn1 to rank 6" in proof(first)
    assert any("HSA_FORCE_FINE_GRAIN_PCIE=1" in fact for fact in logs.facts(dossier))


def test_a_plugin_that_found_no_provider_and_the_wait_for_late_ranks() -> None:
    dossier = posted("2.27-efa-no-provider.log")
    findings = judged(dossier)
    found = one(findings, "fallback-to-sockets")
    assert (found.where.interface, found.where.host) == ("eth0", "node-0-0")
    assert "NET/OFI No eligible providers were found" in proof(found)
    assert "Loaded net plugin Libfabric" in proof(found)
    assert "Using network Socket" in proof(found)
    assert {f.code for f in findings} == {"fallback-to-sockets"}  # the job went on
    assert any("waited 59.8 s of 59.98 s" in fact for fact in logs.facts(dossier))


def test_no_plugin_found_is_no_finding_and_rdma_in_use_is_healthy() -> None:
    text = (
        "a:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "a:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal\n"
        "a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB "
        "eth0:10.0.0.1<0>\n"
        "a:1:1 [0] NCCL INFO Using network IB\n"
        "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
        "a:1:1 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
    )
    assert judged(written(text)) == ()


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ("NET/Socket : Using [0]ib0:10.1.0.1<0>", "degraded"),
        ("NET/Socket : Using [0]eno1:10.1.0.1<0>", None),
        (
            "NCCL_IB_DISABLE set by environment to 1.\nNET/Socket : Using [0]ib0:10.1.0.1<0>",
            "warning",  # wished, but perhaps by a template that nobody has read
        ),
    ],
)
def test_infiniband_as_an_ip_interface_is_a_fallback_unless_it_is_wished(lines, severity) -> None:
    text = (
        "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    )
    text += "".join(f"a:1:1 [0] NCCL INFO {line}\n" for line in lines.splitlines())
    text += "a:1:1 [0] NCCL INFO Using network Socket\n"
    found = [f for f in judged(written(text)) if f.code == "fallback-to-sockets"]
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_one_host_needs_no_network() -> None:
    assert judged(posted("2.27-workstation-shm.log")) == ()


def test_libfabric_over_tcp_is_a_fallback_although_the_plugin_is_used() -> None:
    text = (DATA / "2.12-efa-mpijob.log").read_text()
    assert serious(judged(written(text))) == set()
    found = one(judged(written(text.replace("is efa", "is tcp;ofi_rxm"))), "fallback-to-sockets")
    assert "tcp;ofi_rxm" in found.summary


def test_sockets_between_hosts_of_gpus_that_come_with_rdma_are_a_warning() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NET/IB : No device found.\n"
        "a:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
        "a:1:1 [0] NCCL INFO Using network Socket\n"
        "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    )
    devices = tuple(
        TableDevice(rank=i, host=h, pid=1, device=0, bus_id="1b", name="NVIDIA H100 80GB HBM3")
        for i, h in enumerate("ab")
    )
    table = CollectiveTable(
        file="rank0.log", line=1, last_line=2, hosts=("a", "b"), devices=devices
    )
    found = one(judged(written(text, tables=(table,))), "fallback-to-sockets")
    assert found.severity == "warning"
    assert "fallback-to-sockets" not in {f.code for f in judged(written(text))}


# --- RDMA devices -------------------------------------------------------------------------------


def test_a_device_that_one_host_cannot_open() -> None:
    masked = Variables(file="env.txt", variables={"NCCL_IGNORE_NET_MISMATCH": "1"})
    names = ("2.31-hca-missing-rank0.log", "2.31-hca-missing-rank1.log")
    findings = judged(posted(*names, variables=(masked,)))
    found = next(f for f in findings if f.code == "hca-set-differs")
    assert (found.where.host, found.where.rank, found.where.device) == ("hostB", 1, "erdma_1")
    assert "channels 01 and 03, which hostA places on NET/IB/1" in found.summary
    assert "NCCL_IGNORE_NET_MISMATCH=1 silences" in proof(found)
    assert found.remedy.startswith("export NCCL_IB_HCA='=erdma_0'")
    first = one(findings, "first-fault")
    assert (first.where.rank, first.where.host) == (1, "hostB")
    assert "NET/IB/1 goes without GPUDirect RDMA while NET/IB/0 has it" in (
        one(findings, "gdr-disabled").summary
    )


def test_channels_without_a_partner_tell_it_without_any_warning() -> None:
    texts = [
        "\n".join(line for line in (DATA / name).read_text().splitlines() if "WARN" not in line)
        for name in ("2.31-hca-missing-rank0.log", "2.31-hca-missing-rank1.log")
    ]
    found = one(judged(written(*texts)), "hca-set-differs")
    assert found.where.host == "hostB"
    assert found.severity == "degraded"
    assert found.confidence == "inferred"
    even = [text.replace("NET/IB/1", "NET/IB/0") for text in texts]
    assert "hca-set-differs" not in {f.code for f in judged(written(*even))}


def test_lists_of_different_length_name_the_host_and_the_missing_device() -> None:
    line = "{}:1:1 [0] NCCL INFO NET/IB : Using {} [RO]; OOB eth0:10.0.0.1<0>\n"
    full = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(4))
    less = " ".join(f"[{i}]mlx5_{n}:1/IB" for i, n in enumerate((0, 1, 3)))
    text = line.format("a", full) + line.format("b", less) + line.format("c", full)
    found = one(judged(written(text)), "hca-set-differs")
    assert (found.where.host, found.where.device) == ("b", "mlx5_2")
    assert found.remedy.startswith("export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_3'")
    assert judged(written(line.format("a", full) + line.format("b", full))) == ()


def test_other_names_of_as_many_devices_are_no_finding() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        "b:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_4:1/IB [RO]; OOB eth0:10.0.0.2<0>\n"
    )
    assert judged(written(text)) == ()


# --- settings -----------------------------------------------------------------------------------


def test_variables_that_mpirun_does_not_hand_on_and_a_host_without_a_line() -> None:
    script = Variables(
        file="launch.sh",
        exported=("NCCL_DEBUG", "NCCL_IB_DISABLE", "PATH"),
        launched_on=("hostA", "hostB"),
        launcher="mpirun -H hostA:8,hostB:8 -np 16 ./all_reduce_perf",
    )
    names = ("2.21-wrong-socket-type.log", "2.21-async-fatal-events.log")
    findings = judged(posted(*names, variables=(script,)))
    found = one(findings, "setting-not-exported")
    assert found.where.host == "hostB"
    assert "NCCL_DEBUG and NCCL_IB_DISABLE" in found.summary
    assert "no line of hostB" in found.summary
    assert found.remedy.startswith("mpirun -x NCCL_DEBUG -x NCCL_IB_DISABLE")
    wrong = next(f for f in findings if f.kind == "settings-differ")
    assert (wrong.where.rank, wrong.where.host) == (0, "hostA")
    event = next(f for f in findings if f.kind == "rdma-error")
    assert "mlx5_3:1 async fatal event" in event.summary


def test_a_script_that_forwards_its_variables_is_not_accused() -> None:
    script = Variables(
        file="launch.sh",
        exported=("NCCL_IB_DISABLE",),
        forwarded=("NCCL_IB_DISABLE",),
        launched_on=("hostA", "hostB"),
        launcher="mpirun -x NCCL_IB_DISABLE …",
    )
    findings = judged(posted("2.21-async-fatal-events.log", variables=(script,)))
    assert "setting-not-exported" not in {f.code for f in findings}


def test_two_values_of_one_variable_and_names_that_may_differ() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"
        "b:1:1 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n"
        "a:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ens1\n"
        "b:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to enp65s0\n"
    )
    found = one(judged(written(text)), "setting-not-exported")
    assert "NCCL_PROTO=LL on a" in found.summary
    assert "NCCL_PROTO=Simple on b" in found.summary


def test_a_value_that_another_place_overrides() -> None:
    text = "a:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    listed = Variables(file="env.txt", variables={"NCCL_IB_DISABLE": "0"})
    found = one(judged(written(text, variables=(listed,))), "setting-overridden")
    assert "NCCL_IB_DISABLE=0" in found.summary
    assert found.severity == "warning"


# --- GPUs ---------------------------------------------------------------------------------------


def test_every_process_on_device_0() -> None:
    findings = judged(posted("2.12-duplicate-gpu.log"))
    found = one(findings, "duplicate-gpu")
    assert found.where.ranks == (0, 1, 2, 4, 5)
    assert (found.where.host, found.where.device, found.where.rank) == ("hostA", "1000", 2)
    assert "every process opened device 0" in found.summary
    first = one(findings, "first-fault")
    assert (first.where.rank, first.where.line) == (2, 4)
    assert "also failed: rank 3" in proof(first)


def test_words_of_2_30_for_two_ranks_on_one_gpu() -> None:
    own = "h:{0}:{0} [0] NCCL INFO comm 0x{0} rank {1} nranks 2 cudaDev 0 nvmlDev 0 "
    own += "busId 1b000 commId 0x9 - Init START\n"
    text = own.format(7, 0) + own.format(8, 1)
    text += (
        "h:7:7 [0] init.cc:9 NCCL WARN Multiple Ranks are using the same GPU/Partition. Set X\n"
    )
    found = one(judged(written(text)), "duplicate-gpu")
    assert (found.where.ranks, found.where.device) == ((0, 1), "1b000")


def test_shared_memory_between_gpus_of_a_class_that_nvlink_always_joins() -> None:
    text = (DATA / "2.27-workstation-shm.log").read_text()
    for name, expected in (("NVIDIA H100 80GB HBM3", True), ("NVIDIA GeForce RTX 3090 Ti", False)):
        device = TableDevice(rank=0, host="hostA", pid=1, device=0, bus_id="1b", name=name)
        table = CollectiveTable(file="rank0.log", line=1, last_line=2, devices=(device,))
        findings = judged(written(text, tables=(table,)))
        assert ("gpu-path-unexpected" in serious(findings)) == expected


def test_gpus_of_one_host_that_talk_over_the_network() -> None:
    text = "".join(
        f"h:{r + 7}:9 [{r}] NCCL INFO Channel 00/0 : {r}[{r}] -> {1 - r}[{1 - r}] [send] via "
        "NET/Socket/0\n"
        for r in (0, 1)
    )
    text += "h:7:9 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"
    found = one(judged(written(text)), "gpu-path-unexpected")
    assert found.severity == "warning"
    assert "NCCL_P2P_DISABLE=1" in found.summary


def test_a_fabric_that_is_not_registered_or_degraded() -> None:
    assert judged(posted("2.26-mnnvl.log")) == ()
    text = (DATA / "2.26-mnnvl.log").read_text()
    late = one(judged(written(text.replace("state 3", "state 2", 1))), "gpu-path-unexpected")
    assert (late.severity, late.where.host) == ("warning", "hostR")
    weak = text.replace("healthMask 0xaa", "healthMask 0xaa degradedBw True", 1)
    assert serious(judged(written(weak))) == {"gpu-path-unexpected"}


def test_gpudirect_that_nccl_disabled_without_any_channel_line() -> None:
    text = (
        "h:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        "h:1:1 [0] NCCL INFO Using network IB\n"
        "h:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    )
    found = one(judged(written(text)), "gdr-disabled")
    assert (found.severity, found.where.device) == ("warning", "mlx5_0")


def test_shared_memory_between_gpus_that_a_matrix_joins_by_nvlink() -> None:
    matrix = TopologyMatrix(
        file="topo.txt",
        gpus=("GPU0", "GPU1"),
        links=(MatrixLink(source="GPU0", destination="GPU1", kind="NV", nvlinks=4),),
    )
    findings = judged(posted("2.27-workstation-shm.log", matrices=(matrix,)))
    found = one(findings, "gpu-path-unexpected")
    assert found.severity == "degraded"
    assert found.where.link == ("GPU0", "GPU1")


# --- the first fault ----------------------------------------------------------------------------


def test_a_full_dev_shm_is_counted_out() -> None:
    findings = judged(posted("2.4-shm-full.log"))
    found = one(findings, "first-fault")
    assert (found.kind, found.where.rank, found.severity) == ("shm-full", 1, "broken")
    assert "9637888 bytes" in found.summary
    assert "64 MiB 6 fit" in found.summary
    assert "--shm-size" in found.remedy
    assert one(findings, "gpu-path-unexpected").severity == "info"
    newer = one(judged(posted("2.19-shm-too-small.log")), "first-fault")
    assert newer.kind == "shm-full"


@pytest.mark.parametrize(
    "text",
    [
        "NET/IB : Got completion with error 12, opcode 1, len 32478, vendor err 129",
        "NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0 vendor err 129",
        "NET/IB: Got completion with status=IBV_WC_RETRY_EXC_ERR(12) vendor_err=129 qp_num=5",
    ],
)
def test_error_12_of_every_version_points_to_the_gid(text: str) -> None:
    found = one(judged(written(f"h:1:1 [0] x.cc:1 NCCL WARN {text}\n")), "first-fault")
    assert found.kind == "rdma-error"
    assert "IBV_WC_RETRY_EXC_ERR" in found.summary
    assert "vendor error 129 is its timeout" in found.summary
    assert found.remedy.startswith("export NCCL_IB_GID_INDEX='3'")


def test_the_first_in_the_file_is_not_the_first_fault() -> None:
    dossier = posted("2.3-address-family.log")
    found = one(judged(dossier), "first-fault")
    assert (found.kind, found.where.rank, found.where.host) == ("address-family", 4, "hostB")
    assert "also failed: rank 0 on hostA" in proof(found)
    assert any("NET/IB/1/GDRDMA" in fact for fact in logs.facts(dossier))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error: network Sockett not found.", "no-network"),
        ("Cuda failure 2 'out of memory'", "oom"),
        ("Cuda failure 700 'an illegal memory access was encountered'", "cuda"),
        ("Call to ibv_reg_mr failed", "rdma-memory"),
        ("Could not enable P2P between dev 0(=1000) and dev 1(=2000)", "p2p"),
        ("NET/Socket : peer 10.0.0.1<5> message truncated : receiving 8 bytes instead of 4",
         "settings-differ"),
        ("something that nobody knows", "unknown"),
    ],
)  # fmt: skip
def test_kinds_of_faults(text: str, kind: str) -> None:
    said = f"h:1:1 [0] x.cc:1 NCCL WARN {text}\nh:1:1 [0] NCCL INFO init.cc:5 -> 3\n"
    found = one(judged(written(said)), "first-fault")
    assert (found.kind, found.severity) == (kind, "broken")


def test_ranks_that_load_different_libraries() -> None:
    text = (
        "a:1:1 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n"
        "b:1:1 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n"
        "b:1:1 [0] init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 version 21805 "
        "rank 1 version 22005\n"
    )
    findings = judged(written(text))
    found = one(findings, "software-differs")
    assert found.severity == "broken"
    assert "2.18.5+cuda12.2 on a; 2.20.5+cuda12.4 on b" in found.summary
    assert one(findings, "first-fault").kind == "version-mismatch"


@pytest.mark.parametrize(
    ("words", "summary"),
    [
        ("Bootstrap Root : mismatch in rank count from procs 16 : 8", "16 and 8"),
        ("Bootstrap Root : rank 3 of 8 ranks has already checked in", "as rank 3 of 8"),
    ],
)
def test_the_root_of_the_meeting_tells_miscounted_ranks(words: str, summary: str) -> None:
    found = one(
        judged(written(f"h:1:1 [0] bootstrap.cc:1 NCCL WARN {words}\n")), "launcher-world-size"
    )
    assert summary in found.summary


def test_processes_of_a_launcher_that_are_all_rank_0_of_1() -> None:
    line = "[1,{0}]<stdout>:h:{1}:{1} [0] NCCL INFO comm 0x{1} rank 0 nranks 1 cudaDev 0 "
    line += "- Init COMPLETE\n"
    found = one(judged(written(line.format(0, 7) + line.format(1, 8))), "launcher-world-size")
    assert "2 processes on h each formed a job of one rank" in found.summary


def test_remarks_and_consequences_alone_are_no_first_fault() -> None:
    text = (
        'h:1:1 [0] init.cpp:1 NCCL WARN Missing "iommu=pt" from kernel command line\n'
        "h:1:1 [0] misc/socket.cc:57 NCCL WARN Connection closed by remote peer x<1>\n"
    )
    assert judged(written(text)) == ()


# --- initialisation, versions -------------------------------------------------------------------


def test_the_rank_that_never_completes_while_others_do() -> None:
    found = one(judged(posted("2.26-one-init-open.log")), "hang-init")
    assert found.severity == "broken"
    assert (found.where.rank, found.where.gpu, found.where.line) == (1, 5, 14)
    assert "0x2f3b88bb02" in found.summary
    assert "pid 7005" in found.summary
    assert found.remedy.startswith("export NCCL_CUMEM_ENABLE='0'")


def test_a_log_that_ends_during_initialisation_may_be_cut() -> None:
    found = one(judged(posted("rccl-2.30-four-in-one-process.log")), "hang-init")
    assert found.severity == "info"
    assert "or the log was cut" in found.summary


def test_an_abort_alone_is_neither_fault_nor_health() -> None:
    text = "h:1:2 [3] NCCL INFO comm 0x1 rank 3 nranks 4 cudaDev 3 busId 70 - Abort COMPLETE\n"
    found = one(judged(written(text)), "not-determinable")
    assert (found.severity, found.where.rank) == ("info", 3)
    whole = text + text.replace("Abort", "Init")
    assert judged(written(whole)) == ()


def test_a_log_per_rank_is_one_job() -> None:
    lines = (DATA / "2.26-one-init-open.log").read_text().splitlines()
    pids = sorted({line.split(":")[1] for line in lines})
    texts = ["\n".join(line for line in lines if f":{pid}:" in line) for pid in pids]
    findings = judged(written(*texts))
    found = one(findings, "hang-init")
    assert "3 of 4 ranks completed" in found.summary
    assert found.where.file == "rank5.log"


def test_two_runs_under_one_name_are_not_taken_together() -> None:
    a = "h:1:1 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"
    b = "h:2:2 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n"  # the same GPU again
    assert judged(written(a, b)) == ()


def test_fewer_channels_under_a_newer_version() -> None:
    names = ("2.18-eight-rings.log", "2.26-two-rings.log", "2.26-tree-search-failed.log")
    findings = judged(posted(*names))
    found = one(findings, "regressed")
    assert "2 channels" in found.summary
    assert "they used 8" in found.summary
    assert found.severity == "warning"  # two hosts, two names: nothing says it is one job
    first = one(findings, "first-fault")
    assert first.kind == "topology-search"
    assert "Could not find NET with id 0" in proof(first)


def channels(version: str, number: int, *hosts: str, settings: str = "", nodes: int = 0) -> str:
    """Eight ranks on these hosts, with rings of as many channels."""
    told = f"{hosts[0]}:100:100 [0] NCCL INFO NCCL version {version}+cuda12.4\n"
    if settings:
        told += f"{hosts[0]}:100:100 [0] NCCL INFO {settings}\n"
    each = 8 // len(hosts)
    for rank in range(8):
        head = f"{hosts[rank // each]}:{100 + rank}:{200 + rank} [{rank % each}] NCCL INFO"
        comm = (
            f"comm 0x{rank} rank {rank} nranks 8 cudaDev {rank % each} nvmlDev {rank % each} "
            f"busId {rank % each}000 commId 0x{number}"
        )
        told += f"{head} ncclCommInitRank {comm} - Init START\n"
        if nodes:
            told += f"{head} comm 0x{rank} rank {rank} nRanks 8 nNodes {nodes} localRanks 8\n"
        if rank == 0:
            for at in range(number):
                told += f"{head} Channel {at:02d}/{number:02d} : 0 1 2 3 4 5 6 7\n"
        told += f"{head} ncclCommInitRank {comm} - Init COMPLETE\n"
    return told


def test_fewer_channels_on_one_host_say_nothing_of_nics() -> None:
    found = one(judged(written(channels("2.18.3", 24, "n1"), channels("2.21.5", 2, "n1"))),
                "regressed")  # fmt: skip
    assert found.severity == "degraded"  # the same host in both
    assert "NIC" not in found.summary
    assert "PXN" not in (found.remedy or "")


@pytest.mark.parametrize(
    "newer",
    [
        channels("2.21.5", 2, "n1", "n2"),
        channels("2.21.5", 2, "n1", nodes=2),
        channels("2.21.5", 2, "n1", settings="NCCL_MAX_NCHANNELS set by environment to 4."),
        channels("2.21.5", 2, "n1", settings="NCCL_P2P_DISABLE set by environment to 1."),
        channels("2.21.5", 2, "n1", settings="NCCL_MAX_CTAS set by environment to 2."),
    ],
)
def test_fewer_channels_of_another_job_are_no_regression(newer: str) -> None:
    older = channels("2.18.3", 24, "n1")
    assert "regressed" not in {f.code for f in judged(written(older, newer))}


def test_a_setting_that_both_jobs_have_hides_no_regression() -> None:
    wish = "NCCL_ALGO set by environment to Ring."
    texts = channels("2.18.3", 24, "n1", settings=wish), channels("2.21.5", 2, "n1", settings=wish)
    assert "regressed" in {f.code for f in judged(written(*texts))}


# --- no false alarms ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "2.4-lo-one-host.log", "2.6-efa-eni-interfaces.log", "2.12-efa-mpijob.log",
        "2.26-mnnvl.log", "2.27-workstation-shm.log", "2.30-two-nodes.log",
        "rccl-2.30-four-in-one-process.log",
    ],
)  # fmt: skip
def test_healthy_logs_are_accused_of_nothing(name: str) -> None:
    assert serious(judged(posted(name))) == set()


def _printer():
    path = Path(__file__).resolve().parents[1] / "formats" / "nccl_log_printer.py"
    spec = importlib.util.spec_from_file_location("nccl_log_printer", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["nccl_log_printer"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


printer = _printer()


@settings(max_examples=80, deadline=None)
@given(printer.jobs())
def test_a_job_that_formed_is_accused_of_nothing_but_sockets_over_fast_ports(job) -> None:
    """Whatever the version, the launcher, the interfaces and the way between GPUs."""
    found = serious(judged(written(printer.printed(job))))
    names = {name for name, _ in job.sockets}
    over_ports = job.network == "Socket" and bool(names & {"ib0", "hsn1"})
    assert found <= ({"fallback-to-sockets"} if over_ports else set())
