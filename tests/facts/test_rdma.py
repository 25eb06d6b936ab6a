"""RDMA ports from a fake sysfs tree: no RDMA hardware is at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.facts import errors, ethtool, rdma
from bench.records import HostFacts

SAMPLE = (Path(__file__).parents[1] / "data/facts/infiniband.txt").read_text()


def test_ports_are_read_with_state_rate_and_counters(fake_tree: Callable[[str], Path]) -> None:
    ports, unreadable = rdma.read(fake_tree(SAMPLE))
    assert [(p.device, p.port) for p in ports] == [
        ("mlx4_0", 1), ("mlx4_0", 2), ("mlx5_0", 1), ("roce_0", 1),
    ]  # fmt: skip
    first = ports[0]
    assert (first.state, first.rate_gbit, first.link_layer) == ("ACTIVE", 40.0, "InfiniBand")
    assert first.firmware == "2.31.5050"
    assert first.counters["port_xmit_data"] == 26509113295
    assert ports[2].counters["local_ack_timeout_err"] == 131
    assert "mlx4_0:1.counters" not in unreadable


def test_a_roce_port_names_its_interface_and_gid_types(fake_tree: Callable[[str], Path]) -> None:
    roce = rdma.read(fake_tree(SAMPLE))[0][-1]
    assert roce.interface == "ens1f0np0"
    assert roce.gid_types == ("IB/RoCE v1", "RoCE v2")
    assert (roce.state, roce.numa_node) == ("DOWN", 1)


def test_refused_counters_are_unreadable_and_never_zero(fake_tree: Callable[[str], Path]) -> None:
    ports, unreadable = rdma.read(fake_tree(SAMPLE), tools=False)
    assert ports[-1].counters == {}
    assert unreadable["rdma.roce_0:1.counters"] == "no byte counters in sysfs"
    assert unreadable["rdma.roce_0:1.pauses"].startswith("the driver of ens1f0np0 tells no pause")
    assert unreadable["rdma.mlx4_0:1.hw_counters"] == "the adapter's own counters are not in sysfs"
    assert not any(key.startswith("rdma.mlx5_0:1") for key in unreadable)


def test_a_device_without_ports_is_named(fake_tree: Callable[[str], Path]) -> None:
    ports, unreadable = rdma.read(fake_tree("mlx5_9/fw_ver = 1"))
    assert not ports
    assert list(unreadable) == ["rdma.mlx5_9"]


def test_a_host_without_rdma_has_no_ports_and_no_complaint(tmp_path: Path) -> None:
    assert rdma.read(tmp_path / "absent") == ((), {})


def test_names_and_the_cables_state_are_told(gpu_hosts: dict[str, HostFacts]) -> None:
    port = gpu_hosts["healthy"].rdma_ports[0]
    assert (port.state, port.physical_state, port.lid) == ("ACTIVE", "LinkUp", 0x1F)
    assert (port.driver, port.board_id) == ("mlx5_core", "MT_0000000838")
    assert port.node_guid == "a088:c203:0000:0001"
    assert port.port_guid == "a088:c203:0001:0001"
    assert port.gid_count == 1


def test_gids_in_use_are_counted_and_a_zero_gid_names_no_port(
    fake_tree: Callable[[str], Path],
) -> None:
    empty = "roce_0/ports/1/gids/0 = 0000:0000:0000:0000:0000:0000:0000:0000"
    roce = rdma.read(fake_tree(SAMPLE + empty))[0][-1]
    assert (roce.gid_count, roce.port_guid) == (3, None)
    assert rdma.read(fake_tree(SAMPLE))[0][0].gid_count is None  # mlx4_0's tree shows none


DEVINFO = """\
hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tnode_guid:\t\t\ta088:c203:00a1:b2c3
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)

hca_id:\tmlx5_1
\t\tport:\t2
\t\t\tactive_mtu:\t\tinvalid MTU (0)
"""  # the form of rdma-core's libibverbs/examples/devinfo.c


def test_the_active_mtu_is_what_ibv_devinfo_prints() -> None:
    assert rdma.active_mtus(DEVINFO) == {("mlx5_0", 1): 1024}


def test_without_ibv_devinfo_the_active_mtu_is_unreadable(
    fake_tree: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    ports, unreadable = rdma.read(fake_tree(SAMPLE))
    assert ports[0].active_mtu is None
    assert unreadable["rdma.active_mtu"] == "ibv_devinfo is not installed"


def test_pause_frames_are_summed_and_times_are_no_frames() -> None:
    told = ethtool.pauses_of({
        "rx_packets": 9, "rx_prio3_pause": 5, "rx_prio3_pause_duration": 800,
        "rx_pause_ctrl_phy": 2, "tx_prio3_pause": 0, "tx_pause_storm_warning_events": 1,
    })  # fmt: skip
    assert (told["rx_pauses"], told["tx_pauses"]) == (7, 0)
    assert told["rx_prio3_pause_duration"] == 800
    assert "rx_packets" not in told
    assert ethtool.pauses_of({"rx_packets": 9}) == {}


def test_an_interface_that_counts_no_pauses_or_is_nowhere_tells_none() -> None:
    assert ethtool.pauses("lo") == {}
    assert ethtool.pauses("no-such0") == {}


def test_xid_messages_are_counted_per_device_and_number(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,1,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.\n"
        "6,2,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1\n"
        "6,3,3,-;NVRM: Xid (PCI:0000:65:00): 48, pid=2\n6,4,4,-;eth0: link up\n"
        "2,5,5,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32\n"
    )
    assert errors.xid(log)[0] == {
        "xid79@0000:17:00": 2, "xid48@0000:65:00": 1, "sxid12028@0000:c1:00.0": 1,
    }  # fmt: skip


def test_an_unreadable_kernel_log_says_why(tmp_path: Path) -> None:
    counts, unreadable = errors.xid(tmp_path / "absent")
    assert counts == {}
    assert "No such file" in unreadable["xid"]
