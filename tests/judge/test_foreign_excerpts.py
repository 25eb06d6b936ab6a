"""Excerpts as people post them: few lines, no prefix, one rank of many. What they prove is said,
and what they leave open accuses nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formats import file_walk, recognition
from bench.formats.source import Source
from bench.judge.foreign.verdict import judge
from bench.records import Finding, Reading
from tests.judge.evidence import judged_from

DATA = Path(__file__).resolve().parents[1] / "data"
LOGS = DATA / "nccl_log"


def posted(name: str) -> Reading:
    return judged_from(Source.open(LOGS / name))


def written(text: str) -> Reading:
    return judged_from(Source.of_text(text, "log.txt"))


def found(reading: Reading, code: str) -> Finding:
    (finding,) = [finding for finding in reading.findings if finding.code == code]
    return finding


def codes(reading: Reading) -> set[str]:
    return {finding.code for finding in reading.findings}


# --- logs of other ages and programs ------------------------------------------------------------


def test_a_log_of_2_2_that_does_not_name_nccl_is_read() -> None:
    reading = posted("2.2-connect-timed-out.log")
    (log,) = reading.dossier.logs
    assert (log.versions, log.hosts) == (("2.2.13+cuda9.0",), ("gpu-bql-144-103",))
    unreachable = found(reading, "interface-unreachable")
    assert (unreachable.severity, unreachable.where.interface) == ("broken", "enp3s0")
    assert found(reading, "first-fault").where.rank == 0


def test_lines_of_other_programs_with_info_in_them_are_no_log() -> None:
    text = "2026-11-30 10:00:00 INFO [main] starting\nworker:1 [0] INFO of a kind\n"
    assert recognition.read(Source.of_text(text))[0] == []


def test_the_last_error_that_an_exception_quotes_is_a_fault() -> None:
    first = found(posted("2.18-torch-last-error.log"), "first-fault")
    assert (first.kind, first.severity) == ("rdma-error", "broken")
    assert "IBV_WC_RETRY_EXC_ERR" in first.summary
    text = (
        "[rank3]: ncclInternalError: Internal check failed.\n[rank3]: Last error:\n"
        "[rank3]: Bootstrap : no socket interface found\n"
    )
    nothing = found(written(text), "interface-no-match")
    assert (nothing.severity, nothing.where.rank) == ("broken", 3)


@pytest.mark.parametrize("end", ["\n", "Exception raised from getNCCLComm at x.cpp:1\n", ""])
def test_an_exception_that_quotes_no_error_tells_none(end: str) -> None:
    text = "hostA:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\nLast error:\n" + end
    assert codes(written(text)) == set()


def test_the_last_words_of_a_test_that_quote_nccl_are_judged_as_its_own() -> None:
    text = (
        "hostA: Test NCCL failure common.cu:1057 'unhandled system error (run with "
        "NCCL_DEBUG=INFO for details) / socketStartConnect: Connect to 169.254.0.1<36125> failed "
        ": Connection refused'\n .. hostA pid 21423: Test failure common.cu:922\n"
    )
    reading = written(text)
    assert found(reading, "interface-link-local").severity == "broken"
    assert "pid None" not in found(reading, "first-fault").summary


# --- interfaces ---------------------------------------------------------------------------------


def test_a_setting_is_named_although_another_process_said_what_failed() -> None:
    nothing = found(posted("2.27-interface-that-is-not-there.log"), "interface-no-match")
    assert nothing.summary.startswith("NCCL_SOCKET_IFNAME=eth2 leaves no usable interface")
    text = (
        "NCCL INFO NCCL_SOCKET_IFNAME set by environment to ib0\n"
        "NCCL WARN Bootstrap : no socket interface found\n"
    )
    assert "NCCL_SOCKET_IFNAME=ib0" in found(written(text), "interface-no-match").summary


def test_two_settings_leave_open_whose_failed() -> None:
    text = "".join(
        f"h{n}:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth{n}\n" for n in (1, 2)
    )
    text += "NCCL WARN Bootstrap : no socket interface found\n"
    assert "eth" not in found(written(text), "interface-no-match").summary


def test_an_address_of_nccl_comm_id_in_no_network_is_told_once() -> None:
    reading = posted("2.18-comm-id-in-no-subnet.log")
    nothing = found(reading, "interface-no-match")
    assert nothing.summary.startswith("NCCL_COMM_ID names a.b.c.d0")
    assert (nothing.remedy or "").startswith("unset NCCL_COMM_ID")
    assert found(reading, "first-fault").severity == "info"


def test_containers_behind_their_bridges_that_cannot_connect_are_broken() -> None:
    text = (
        "c1:1:1 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.2<0>\n\n"
        "c1:1:9 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.17.0.2<38847> "
        "failed : Software caused connection abort\n"
    )
    bridge = found(written(text), "interface-virtual")
    assert (bridge.severity, bridge.where.interface) == ("broken", "eth0")


VPN = """\
a:1:1 [0] NCCL INFO NET/Socket : Using [0]tailscale0:100.101.22.3<0> [1]enp5s0:192.168.10.5<0>
a:1:1 [0] NCCL INFO Using network Socket
a:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
a:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0xab - Init COMPLETE
"""


def test_data_over_a_vpn_beside_a_wired_port_is_a_warning() -> None:
    detour = found(written(VPN), "interface-virtual")
    assert (detour.severity, detour.where.interface) == ("warning", "tailscale0")
    assert (detour.remedy or "").startswith("export NCCL_SOCKET_IFNAME='=enp5s0'")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[1]enp5s0:192.168.10.5<0>", ""),  # the VPN is the only way
        ("[1]enp5s0:192.168.10.5<0>", "[1]virbr0:192.168.122.1<0>"),
        ("tailscale0:100.101.22.3", "cni0:10.42.0.1"),  # a pod's network may be the way out
        ("NET/Socket/0", "NET/Socket/1"),
    ],
)
def test_other_ways_of_a_job_that_formed_accuse_nobody(old: str, new: str) -> None:
    assert "interface-virtual" not in codes(written(VPN.replace(old, new)))


# --- what carries the data ----------------------------------------------------------------------


def test_a_device_that_a_container_may_not_open_is_why_sockets_carry_the_data() -> None:
    reading = posted("2.8-device-closed-in-container.log")
    sockets = found(reading, "fallback-to-sockets")
    assert sockets.severity == "degraded"
    assert "mlx5_bond_0 cannot be opened" in sockets.summary
    assert "hca-set-differs" not in codes(reading)  # nothing is known of another host
    assert found(reading, "first-fault").severity == "info"


def test_a_plugin_that_found_no_device_is_a_remark_until_there_are_several_hosts() -> None:
    sockets = found(posted("2.17-plugin-without-devices.log"), "fallback-to-sockets")
    assert sockets.severity == "info"
    assert sockets.summary.startswith("Between hosts NCCL would carry data by TCP sockets")
    text = (LOGS / "2.17-plugin-without-devices.log").read_text()
    text += "hostA:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
    assert codes(written(text)) == set()


def two_hosts_with_an_idle_plugin() -> str:
    text = (LOGS / "2.17-plugin-without-devices.log").read_text()
    return text + text.replace("hostA", "hostB").replace("10.220.178.201", "10.220.178.202")


def test_an_idle_plugin_on_two_hosts_without_devices_is_still_a_remark() -> None:
    sockets = found(written(two_hosts_with_an_idle_plugin()), "fallback-to-sockets")
    assert sockets.severity == "info"
    assert "NCCL RDMA Plugin was loaded and found no device" in sockets.summary
    assert (sockets.remedy or "").startswith("ls /sys/class/infiniband")


@pytest.mark.parametrize(
    ("old", "new", "severity", "why"),
    [
        ("ens5f0np0", "ib0", "degraded", "ib0 is one of InfiniBand ports used as IP interfaces"),
        ("NET/IB : No device found.", "NET/IB : No IP interface found.", "degraded", "not used"),
        ("NCCL RDMA Plugin (v5)", "Libfabric (v5)", "degraded", "Libfabric was loaded but is not"),
        ("hostB:7839:7911 [0] NCCL INFO Using network Socket",
         "hostB:7839:7911 [0] NCCL INFO Using network IBext", "degraded", "hostB uses IBext"),
    ],
)  # fmt: skip
def test_an_idle_plugin_beside_other_signs_of_rdma_is_a_fallback(
    old: str, new: str, severity: str, why: str
) -> None:
    text = two_hosts_with_an_idle_plugin()
    assert old in text
    sockets = found(written(text.replace(old, new)), "fallback-to-sockets")
    assert (sockets.severity, why in sockets.summary) == (severity, True), sockets.summary


def test_a_plugin_that_refused_is_a_warning_in_an_excerpt_of_one_rank() -> None:
    sockets = found(posted("2.26-ofi-refused-on-p4d.log"), "fallback-to-sockets")
    assert sockets.severity == "warning"
    assert "aws-ofi-nccl" in sockets.summary


def test_a_list_of_devices_that_leaves_none_is_named() -> None:
    text = (
        "n:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx5_9\n"
        "n:1:1 [0] NCCL INFO NET/IB : No device found.\n"
        "n:1:1 [0] NCCL INFO NET/Socket : Using [0]eno1:10.3.0.4<0>\n"
        "n:1:1 [0] NCCL INFO Using network Socket\n"
        "n:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
    )
    sockets = found(written(text), "fallback-to-sockets")
    assert sockets.severity == "degraded"
    assert "NCCL_IB_HCA=mlx5_9 leaves no RDMA device" in sockets.summary
    assert (sockets.remedy or "").startswith("unset NCCL_IB_HCA")


def test_hosts_of_a_cloud_without_rdma_are_left_alone() -> None:
    text = "".join(
        f"ip-172-31-{n}:1:1 [0] NCCL INFO NET/IB : No device found.\n"
        f"ip-172-31-{n}:1:1 [0] NCCL INFO NET/Socket : Using [0]ens3:172.31.0.{n}<0>\n"
        for n in range(4)
    )
    assert codes(written(text)) == set()


# --- runs that end where the text ends ----------------------------------------------------------


def test_loopback_on_one_host_is_healthy_although_the_test_printed_no_row() -> None:
    reading = posted("2.4-lo-one-host.log")
    assert (reading.verdict, reading.findings) == ("healthy", ())


def test_a_group_of_one_rank_waits_for_nobody() -> None:
    text = (
        "w:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:172.26.190.235<0>\n"
        "w:1:1 [0] NCCL INFO ncclCommInitAll comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId "
        "1000 commId 0x89 - Init START\n"
    )
    assert (written(text).verdict, codes(written(text))) == ("healthy", set())
    several = text.replace("nranks 1 ", "nranks 2 ")
    assert written(several).verdict == "inconclusive"


def test_a_rank_that_asks_for_a_finished_communicator_has_an_old_id() -> None:
    hang = found(posted("2.26-old-unique-id.log"), "hang-init")
    assert (hang.severity, hang.where.host, hang.where.rank) == ("broken", "trainer-0", 1)
    assert "0x139a27671bffc886 waits for rank 1" in hang.summary
    assert "ncclUniqueId is an old one" in hang.summary
    facts = [fact for fact in posted("2.26-old-unique-id.log").facts if "took the network" in fact]
    assert facts == ["NCCL took the network Socket; its devices: eth0"]


def test_a_retry_in_a_finished_communicator_alone_is_no_old_id() -> None:
    lines = (LOGS / "2.26-old-unique-id.log").read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if "0x139a27671bffc886" not in line)
    assert "hang-init" not in codes(written(text))


def test_a_header_without_rows_still_leaves_open_whether_the_test_hung() -> None:
    text = (
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0\n# Using devices\n"
        "#  Rank  0 Group  0 Pid  11 on  a device  0 [0x01] NVIDIA A40\n"
        "#  Rank  1 Group  0 Pid  11 on  a device  1 [0x02] NVIDIA A40\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
        "time   algbw   busbw #wrong\n"
    )
    assert found(written(text), "not-determinable").kind == "hang"


# --- tables -------------------------------------------------------------------------------------


def table_of(name: str) -> Reading:
    return judged_from(Source.open(DATA / "nccl_tests" / name))


def test_rows_that_take_turns_are_two_programs() -> None:
    reading = table_of("two-programs-rows-only.txt")
    (table,) = reading.dossier.tables
    assert table.runs == 2
    launched = found(reading, "launcher-world-size")
    assert launched.severity == "warning"
    assert launched.summary.startswith("2 independent runs, each with ranks of its own")


def row(size: int, busbw_gbs: float) -> str:
    time = f"{size * 1.75 / busbw_gbs / 1e3:10.2f} {busbw_gbs / 1.75:7.2f} {busbw_gbs:7.2f}      0"
    return f"{size:12d} {size // 4:12d}     float     sum      -1 {time} {time}\n"


HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
    "   algbw   busbw #wrong\n"
)
SIZES = [1 << power for power in range(20, 33)]


def curve(busbw: dict[int, float]) -> Reading:
    return written(HEADER + "".join(row(size, busbw.get(size, 180.0)) for size in SIZES))


def test_a_test_that_goes_through_its_sizes_again_takes_no_turns() -> None:
    rows = "".join(row(size, 180.0) for size in SIZES)
    assert written(HEADER + rows + rows).dossier.tables[0].runs == 1


def test_one_size_that_is_slow_within_a_plateau_is_a_warning() -> None:
    dip = found(curve({1 << 28: 135.0}), "bandwidth-collapse")
    assert (dip.severity, dip.where.size_bytes) == ("warning", 1 << 28)
    assert curve({1 << 28: 160.0}).findings == ()


def test_one_size_that_is_slow_between_two_levels_is_a_switch_and_no_dip() -> None:
    low = dict.fromkeys(SIZES[:8], 90.0)
    assert "warning" not in {f.severity for f in curve({**low, SIZES[8]: 75.0}).findings}


def test_a_posted_dip_and_an_error_of_one_in_place() -> None:
    dip = found(table_of("p4d-dip-at-64M.txt"), "bandwidth-collapse")
    assert dip.where.size_bytes == 1 << 26
    reading = table_of("alltoall-in-place-error-1.txt")
    assert reading.findings == ()
    assert reading.dossier.tables[1].ranks == 64


def test_a_list_of_devices_with_a_gap_tells_hosts_at_least() -> None:
    devices = "".join(
        f"#  Rank {rank:2d} Group  0 Pid {100 + rank} on node{host} device {rank % 8:2d} [0x0a] "
        "NVIDIA H800\n"
        for rank, host in ((0, 1), (1, 1), (6, 4), (7, 4))
    )
    text = f"# Using devices\n{devices}{HEADER}" + "".join(row(size, 180.0) for size in SIZES)
    assert "8 ranks on at least 2 hosts" in written(text).dossier.files[0].summary


# --- GPUs of a host -----------------------------------------------------------------------------


def test_peer_access_that_changes_nothing_is_not_in_effect() -> None:
    reading = judged_from(Source.open(DATA / "peer_matrix" / "rtx3090_both_ways.txt"))
    blocked = found(reading, "p2p-blocked")
    assert blocked.severity == "warning"
    assert "6.11-8.63 GB/s" in blocked.summary
    (peers,) = reading.dossier.peers
    assert (peers.both_ways_gbs["4-0"], peers.staged_both_ways_gbs["4-0"]) == (8.58, 8.57)


def test_peer_access_that_is_told_or_faster_is_left_alone() -> None:
    on = "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n"
    on += "   D\\D 0 1\n 0 800 50.1\n 1 50.0 801\n"
    off = on.replace("Enabled", "Disabled")
    assert codes(written(off.replace("50.", "20.") + on)) == set()
    can = "Device=0 CAN Access Peer Device=1\nDevice=1 CAN Access Peer Device=0\n"
    assert codes(written(can + off + on)) == set()
    assert codes(written(off + on)) == {"p2p-blocked"}


SHM = """\
a:1:1 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC
a:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
a:1:2 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct
"""


def test_p2p_that_was_switched_off_is_a_remark_and_a_fault_beside_nvlinks(tmp_path: Path) -> None:
    wished = found(written(SHM), "gpu-path-unexpected")
    assert wished.severity == "info"
    assert "NCCL_P2P_LEVEL=LOC" in wished.summary
    assert codes(written(SHM.replace("LOC", "SYS"))) == set()
    links = "".join(f"\t Link {link}: 25 GB/s\n" for link in range(12))
    status = "".join(
        f"GPU {gpu}: NVIDIA A100-SXM4-80GB (UUID: GPU-{gpu})\n{links}" for gpu in (0, 1)
    )
    (tmp_path / "run.log").write_text(SHM)
    (tmp_path / "nvlink.txt").write_text(status)
    both = judge(recognition.gather(file_walk.files([str(tmp_path)])))
    kept_off = found(both, "gpu-path-unexpected")
    assert (kept_off.severity, kept_off.remedy) == (
        "degraded",
        "unset NCCL_P2P_LEVEL   # else: nvidia-smi topo -p2p r",
    )


def test_numbers_behind_names_alone_decide_nothing() -> None:
    reading = written("first thing 12.5\nsecond thing 13.5\nthird thing 14\n")
    assert reading.verdict == "inconclusive"
