"""RDMA ports from a fake sysfs tree: no RDMA hardware is at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.facts import errors, rdma

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
    ports, unreadable = rdma.read(fake_tree(SAMPLE))
    assert ports[-1].counters == {}
    assert unreadable == {"rdma.roce_0:1.counters": "no byte counters in sysfs"}


def test_a_device_without_ports_is_named(fake_tree: Callable[[str], Path]) -> None:
    ports, unreadable = rdma.read(fake_tree("mlx5_9/fw_ver = 1"))
    assert not ports
    assert list(unreadable) == ["rdma.mlx5_9"]


def test_a_host_without_rdma_has_no_ports_and_no_complaint(tmp_path: Path) -> None:
    assert rdma.read(tmp_path / "absent") == ((), {})


def test_error_counters_leave_the_traffic_out(fake_tree: Callable[[str], Path]) -> None:
    counters = errors.collect(rdma.read(fake_tree(SAMPLE))[0], ())
    assert counters["mlx5_0:1.out_of_sequence"] == 1
    assert counters["mlx4_0:1.symbol_error"] == 0
    assert not any("port_xmit_data" in name for name in counters)


def test_xid_messages_are_counted_per_device_and_number(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "6,1,1,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.\n"
        "6,2,2,-;NVRM: Xid (PCI:0000:17:00): 79, pid=1\n"
        "6,3,3,-;NVRM: Xid (PCI:0000:65:00): 48, pid=2\n6,4,4,-;eth0: link up\n"
    )
    assert errors.xid(log) == ({"xid79@0000:17:00": 2, "xid48@0000:65:00": 1}, {})


def test_an_unreadable_kernel_log_says_why(tmp_path: Path) -> None:
    counts, unreadable = errors.xid(tmp_path / "absent")
    assert counts == {}
    assert "No such file" in unreadable["xid"]
