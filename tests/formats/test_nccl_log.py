"""Logs as people posted them: what each tells must come out, whatever its age and launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.formats import description
from bench.formats.nccl_log import likeness, read
from bench.formats.source import Source
from bench.records import BadInput, NcclLog

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl_log"


def log_of(name: str) -> NcclLog:
    return read(Source.open(DATA / name))


def log_from(text: str | bytes) -> NcclLog:
    return read(Source.of_text(text))


def process(log: NcclLog, host: str, pid: int):
    return next(p for p in log.processes if (p.host, p.pid) == (host, pid))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.log")), ids=lambda path: path.name)
def test_every_posted_log_is_recognised_and_read(path: Path) -> None:
    source = Source.open(path)
    assert likeness(source.head(), path.name) >= 0.5
    log = read(source)
    assert log.nccl_lines > 0
    assert log.lines == len(path.read_text().splitlines())


# --- interfaces ---------------------------------------------------------------------------------


def test_a_list_before_2_8_gives_bootstrap_and_all_candidates_with_ipv6_scopes() -> None:
    log = log_of("2.5-ipv6-tunnel-first.log")
    told = process(log, "hostA", 97)
    assert (told.bootstrap.name, told.bootstrap.address) == (
        "ip6tnl0", "fe80::a466:19ff:fe1e:1001%ip6tnl0",
    )  # fmt: skip
    assert [(n.index, n.name, n.address) for n in told.bootstrap_candidates][1] == (
        1, "veth0", "2001:db8:fc1d:3606:0:4457:edef:600a",
    )  # fmt: skip
    assert told.environment == {"NCCL_IB_DISABLE": "1"}
    assert log.versions == ("2.5.6+cuda10.0",)


def test_interfaces_of_2_3_come_one_a_line_or_as_names_only() -> None:
    log = log_of("2.3-loopback-first.log")
    told = process(log, "hostB", 4152)
    assert [(n.index, n.name, n.address) for n in told.nets] == [
        (0, "lo", "127.0.0.1"),
        (1, "eth0", "10.151.40.240"),
        (2, "eth1", "fe80::215:5dff:fe33:6006%eth1"),
    ]
    assert told.bootstrap.name == "lo"
    other = process(log, "hostA", 4289)
    assert [n.name for n in other.nets] == ["lo", "eth0", "eth1"]
    assert other.bootstrap.address is None


def test_the_socket_list_names_what_net_socket_1_means() -> None:
    log = log_of("rccl-2.16-slingshot-sockets.log")
    assert log.flavour == "rccl"
    assert log.versions == ("2.16.5+hip5.6 HEAD:3dcebc7+",)
    told = process(log, "hostA", 11143)
    assert told.bootstrap.name == "bond0"
    assert {n.index: n.name for n in told.nets} == dict(
        enumerate(("bond0", "hsn0", "hsn1", "hsn2", "hsn3"))
    )
    assert (told.network, told.rdma) == ("Socket", False)
    assert (told.plugin, told.plugin_outcome) == ("librccl-net.so", "not-found")
    assert told.quotes["network"].line == 13


def test_rdma_devices_keep_index_port_and_link_layer_and_the_meeting_interface() -> None:
    told = process(log_of("2.21-peer-link-local.log"), "hostA", 14139)
    assert [(n.index, n.name, n.port, n.link_layer) for n in told.nets][1] == (
        1, "ib6s200p0", 1, "IB",
    )  # fmt: skip
    assert told.nets[9].link_layer == "RoCE"
    assert (told.oob.name, told.oob.address) == ("bond0", "172.31.10.31")
    assert (told.network, told.plugin_outcome) == ("IBext_v8", "used")


def test_fused_ports_are_one_device_with_parts_and_a_vlan_keeps_its_dot() -> None:
    told = process(log_of("2.21-fused-ports.log"), "hostA", 1884)
    assert [(n.index, n.name, n.parts) for n in told.nets] == [
        (0, "mlx5_2+mlx5_3", ("mlx5_2:1", "mlx5_3:1")),
        (1, "mlx5_0+mlx5_1", ("mlx5_0:1", "mlx5_1:1")),
    ]
    assert told.bootstrap.name == "bond0.526"


def test_an_empty_device_list_is_no_rdma_device() -> None:
    told = process(log_of("2.27-efa-no-provider.log"), "node-0-0", 152)
    assert told.rdma is False
    assert [n.network for n in told.nets] == ["Socket"]


# --- plugins and settings -----------------------------------------------------------------------


def test_a_loaded_plugin_that_found_no_provider_has_failed() -> None:
    told = process(log_of("2.27-efa-no-provider.log"), "node-0-0", 152)
    assert (told.plugin, told.plugin_outcome, told.plugin_wanted) == ("Libfabric", "failed", True)
    assert told.quotes["plugin-failed"].text == "NET/OFI No eligible providers were found"
    assert told.network == "Socket"


def test_a_plugin_in_use_is_used_although_symbols_of_other_versions_were_missing() -> None:
    told = process(log_of("2.12-efa-mpijob.log"), "test-nccl-efa-worker-0", 21)
    assert (told.network, told.plugin_outcome) == ("AWS Libfabric", "used")


def test_a_setting_loses_the_full_stop_of_its_sentence_and_no_other() -> None:
    log = log_from(
        "h:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
        "h:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to bond0.526\n"
        "h:1:1 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1\n"
    )
    assert log.processes[0].environment == {
        "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "bond0.526", "NCCL_IB_HCA": "mlx5_0,mlx5_1",
    }  # fmt: skip


# --- communicators, ranks, edges ----------------------------------------------------------------


def test_an_initialisation_that_never_completes_is_told_with_its_last_line() -> None:
    log = log_of("2.26-one-init-open.log")
    good, bad = log.communicators
    assert all(member.completed for member in good.members)
    assert bad.id == "0x2f3b88bb02"
    (open_,) = [m for m in bad.members if m.started and not m.completed]
    assert (open_.rank, open_.pid, open_.device, open_.bus_id) == (1, 7005, 5, "6000")
    assert open_.last_line == "Imported shareable buffer device 5 size 10485760 ptr 0x302000000"
    assert open_.last_line_number == 14


def test_lazily_connected_channels_of_another_thread_find_their_communicator() -> None:
    (group,) = log_of("2.27-efa-no-provider.log").communicators
    assert group.carriers == {"NET/Socket/0": 4}
    assert {(e.source, e.destination, e.direction) for e in group.edges} == {
        (3, 0, "receive"), (0, 1, "send"),
    }  # fmt: skip
    assert (group.pxn, group.gdr) == (False, False)
    member = group.members[0]
    assert (member.init_s, member.bootstrap_s, member.bootstrap_receive_s) == (
        59.98, 59.82702, 59.819732,
    )  # fmt: skip
    assert group.channels == {"coll": 2, "collnet": 2, "nvls": 0, "p2p": 2, "p2p per peer": 2}


def test_rccl_names_the_communicator_in_every_line_and_ranks_come_from_the_edges() -> None:
    log = log_of("rccl-2.16-slingshot-sockets.log")
    (group,) = log.communicators
    assert group.ranks == 8
    assert process(log, "hostA", 11146).ranks == (3,)
    assert process(log, "hostB", 1263988).ranks == (7,)
    edge = next(e for e in group.edges if (e.source, e.destination) == (3, 6))
    assert (edge.network, edge.device, edge.gdr, edge.source_device) == (
        "Socket",
        2,
        None,
        "ce000",
    )
    assert group.rings[0] == (0, 2, 3, 1, 4, 6, 7, 5)


def test_edges_without_brackets_and_with_a_proxy_rank() -> None:
    log = log_of("2.3-address-family.log")
    (group,) = log.communicators
    edge = next(e for e in group.edges if (e.source, e.direction) == (1, "send"))
    assert (edge.network, edge.device, edge.gdr) == ("IB", 1, True)
    assert edge.source_device is None
    text = "h:1:1 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/0(3)/GDRDMA/Shared\n"
    (edge,) = log_from(text).communicators[0].edges
    assert (edge.proxy_rank, edge.kind, edge.gdr) == (3, "Shared", True)


def test_nodes_that_are_pairs_of_gpus_are_told_as_nccl_counts_them() -> None:
    (group,) = log_of("2.30-four-nodes-of-pairs.log").communicators
    assert (group.ranks, group.nodes, group.local_ranks) == (8, 4, 2)


def test_four_gpus_of_one_process_are_four_ranks() -> None:
    log = log_of("rccl-2.30-four-in-one-process.log")
    assert log.processes[0].ranks == (0, 1, 2, 3)
    assert [m.bus_id for m in log.communicators[0].members] == ["b000", "e000", "1b000", "1e000"]


def test_the_launchers_tag_is_a_rank_where_nothing_else_tells_it() -> None:
    log = log_of("2.3-address-family.log")
    assert process(log, "hostA", 1407).ranks == (0,)


def test_the_nvlink_fabric_of_several_nodes() -> None:
    log = log_of("2.26-mnnvl.log")
    told = {(p.fabric["uuid"], p.fabric["cliqueId"], p.fabric["state"]) for p in log.processes}
    assert told == {("1111222233334444.5555666677778888", "0x7ffe", "3")}


def test_rings_in_columns_and_with_single_blanks() -> None:
    before, after = log_of("2.18-eight-rings.log"), log_of("2.26-two-rings.log")
    assert before.communicators[0].ring_channels == 8
    assert before.communicators[0].rings[2] == (0, 3, 6, 5, 4, 7, 2, 1)
    assert after.communicators[0].ring_channels == 2


# --- events -------------------------------------------------------------------------------------


def test_the_first_fault_stands_before_the_first_line_of_a_cut_log() -> None:
    log = log_of("2.12-duplicate-gpu.log")
    first = log.events[0]
    assert (first.rank, first.line, first.place) == (2, 4, "init.cc:497")
    assert first.trace == ("init.cc:867 -> 5", "init.cc:903 -> 5", "init.cc:916 -> 5")
    assert first.severity == "error"
    cut = process(log, "hostA", 29881)
    assert (cut.failed.line, cut.ranks) == (1, (3,))


def test_remarks_of_healthy_machines_come_last_and_consequences_behind_their_cause() -> None:
    events = log_of("rccl-2.16-slingshot-sockets.log").events
    assert [e.role for e in events] == ["fault", *["consequence"] * 2, *["remark"] * 3]
    assert events[0].text == (
        "[Proxy Service 3] Failed to execute operation Connect from rank 3, retcode 2"
    )
    assert (events[0].rank, events[0].host, events[0].pid) == (3, "hostA", 11146)
    assert events[0].trace == ("misc/socket.cpp:572 -> 2", "transport/net_socket.cpp:336 -> 2")


def test_a_rank_is_marked_as_inferred_where_only_gpu_numbers_give_it() -> None:
    first = log_of("2.21-wrong-socket-type.log").events[0]
    assert (first.rank, first.rank_basis, first.pid) == (0, "inferred", 5109)


def test_retries_are_counted_and_are_no_fault_of_their_own() -> None:
    (retry, remark) = log_of("2.7-ifname-lo.log").events
    assert (retry.role, retry.count, retry.line, retry.last_line) == ("retry", 4, 13, 16)
    assert remark.role == "remark"
    text = "".join(
        f"h:1:1 [0] NCCL INFO socketPollConnect: connect to 10.0.0.2<4711> returned Connection "
        f"timed out, retrying ({n}/34) after sleep for {n}00 msec\n"
        for n in range(1, 4)
    )
    (event,) = log_from(text).events
    assert event.count == 3


def test_times_order_faults_where_all_of_them_have_one() -> None:
    late = "[2025-01-01 10:00:09] b:2:2 [0] misc/socket.cc:1 NCCL WARN Connect to x failed\n"
    early = "[2025-01-01 10:00:03] a:1:1 [0] init.cc:2 (commAlloc) NCCL WARN Cuda failure 2\n"
    first = log_from(late + early).events[0]
    assert (first.host, first.function, first.time) == ("a", "commAlloc", "2025-01-01 10:00:03")
    first = log_from(late + early.replace("[2025-01-01 10:00:03] ", "")).events[0]
    assert first.host == "b"


def test_a_warning_without_any_prefix_is_kept_without_a_host() -> None:
    events = log_of("2.31-hca-missing-rank0.log").events
    assert events[0].host is None
    assert events[0].text.startswith("Rank 1 on hostB could not open erdma_1")


def test_a_level_of_2_32_and_a_function_instead_of_a_file() -> None:
    log = log_from(
        "h:1:1 [0] plugin/net.cc:12 (ncclNetInit) NCCL ATTN No usable plugin\n"
        "h:1:1 [0] int nccl_net_ofi_create_plugin(nccl_net_ofi_plugin_t**):259 NCCL WARN NET/OFI\n"
    )
    assert [(e.place, e.function) for e in log.events] == [
        ("plugin/net.cc:12", "ncclNetInit"),
        ("nccl_net_ofi_create_plugin:259", "nccl_net_ofi_create_plugin"),
    ]


# --- what files do to lines ---------------------------------------------------------------------


def test_two_messages_written_into_one_line_are_both_read() -> None:
    log = log_from(
        "[1,0]<stdout>:a:1:9 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via P2P/IPC"
        "[1,1]<stdout>:b:2:8 [0] NCCL INFO Channel 00 : 1[2000] -> 0[1000] via P2P/IPC\n"
        "a:1:9 [0] NCCL INFO Using network IBb:2:8 [0] misc/socket.cc:5 NCCL WARN Trouble\n"
    )
    assert {(e.source, e.host) for e in log.communicators[0].edges} == {(0, "a"), (1, "b")}
    assert process(log, "a", 1).network == "IB"
    assert log.events[0].host == "b"


def test_lines_pasted_without_prefix_still_tell_networks_and_channels() -> None:
    log = log_from(
        "NET/IB : Using [0]mlx5_9:1/RoCE [RO]; OOB eth0\n"
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IBext_v8/0/GDRDMA\n"
        "NCCL INFO Bootstrap: Using eth0:172.29.0.2<0>\n"
    )
    assert log.communicators[0].carriers == {"NET/IBext_v8/0/GDRDMA": 1}
    assert log.processes[0].bootstrap.name == "eth0"
    assert log.processes[0].nets[0].name == "mlx5_9"


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,3]<stdout>:", "[1]<stderr>:", "3: ", " 3: ", "[rank3]: ", "[default3]:", "node7: ",
        "(RayWorkerWrapper pid=627, ip=10.244.1.107) ", "[pod/job-worker-0/main] ",
        "2025-11-30T10:44:14.123456789Z ", "[2025-11-30 10:44:14] ", "# MAGIC ", "> ",
    ],
)  # fmt: skip
def test_no_launchers_prefix_hides_who_speaks(prefix: str) -> None:
    lines = (DATA / "2.26-one-init-open.log").read_text().splitlines()
    log = log_from("".join(f"{prefix}{line}\r\n" for line in lines))
    plain = log_of("2.26-one-init-open.log")
    assert [[m.pid for m in g.members] for g in log.communicators] == [
        [m.pid for m in g.members] for g in plain.communicators
    ]
    assert log.hosts == ("hostA",)


def test_a_file_without_nccl_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match="no line of NCCL"):
        log_from("nothing of interest\n" * 3)
    assert likeness("epoch 1 loss 0.3\nNCCL is a library\n", "train.log") == 0


def test_damaged_bytes_and_endless_lines_cost_little() -> None:
    junk = b"h:1:1 [0] NCCL INFO \xff\xfe\x00 Channel \x00\n" + b"NCCL WARN " + b"a:" * 400_000
    junk += b"\nh:1:1 [0] NCCL INFO Using network IB\n"
    log = log_from(junk)
    assert process(log, "h", 1).network == "IB"
    assert len(log.events[0].text) <= 1000


# --- limits -------------------------------------------------------------------------------------


def test_beyond_the_limit_edges_are_counted_by_carrier_only(monkeypatch) -> None:
    monkeypatch.setattr("bench.formats.nccl_log.groups.MOST_EDGES", 10)
    text = "".join(
        f"h:1:1 [0] NCCL INFO Channel {c:02d}/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
        for c in range(25)
    )
    (group,) = log_from(text).communicators
    assert len(group.edges) == 10
    assert group.edges_left_out == 15
    assert group.carriers == {"NET/IB/0/GDRDMA": 25}


def test_events_beyond_the_limit_are_counted(monkeypatch) -> None:
    monkeypatch.setattr("bench.formats.nccl_log.events.MOST_EVENTS", 3)
    text = "".join(f"h:1:1 [0] init.cc:1 NCCL WARN fault {n}\n" for n in range(8))
    log = log_from(text)
    assert (len(log.events), log.events_left_out) == (3, 5)
    assert any(words.startswith("5 warnings") for words in log.missing)
    assert "5 warnings not kept" in description.of((log,))


def test_remarks_and_consequences_take_no_room_from_faults(monkeypatch) -> None:
    monkeypatch.setattr("bench.formats.nccl_log.events.MOST_EVENTS", 4)
    words = ('Missing "iommu=pt" from kernel', "Connection closed by remote peer", "fault a")
    text = "".join(
        f"h:{pid}:1 [0] init.cc:1 NCCL WARN {word}\n" for pid in range(1, 7) for word in words[:2]
    )
    for pid in (1, 9):
        text += f"h:{pid}:1 [0] net_ib.cc:9 NCCL WARN {words[2]}\n"
        text += f"h:{pid}:1 [0] NCCL INFO init.cc:903 -> {pid}\n"
    log = log_from(text)
    assert [(event.role, event.text) for event in log.events] == [
        ("fault", words[2]),
        ("fault", words[2]),
        ("consequence", words[1]),
        ("consequence", words[1]),
    ]
    assert [event.trace for event in log.events[:2]] == [
        ("init.cc:903 -> 1",),
        ("init.cc:903 -> 9",),
    ]
    assert log.events_left_out == 10
    assert not any(each.failed for each in log.processes)
