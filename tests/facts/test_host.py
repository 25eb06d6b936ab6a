"""Facts of this host, and labels for hosts with odd or equal names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.facts import host, libraries, placement, software
from bench.records import Gpu, HostFacts, RankPlacement


def facts(name: str, identity: str, **fields: Any) -> HostFacts:
    return HostFacts(host=name, hostname=name, identity=identity, **fields)


def test_a_host_is_gathered_quickly_and_survives_json() -> None:
    host.gather()  # modules are imported once
    start = time.monotonic()
    found = host.gather(node_rank=2, ranks=[5], local_ranks=[1])
    assert time.monotonic() - start < 20  # 0.03 s on an idle machine
    assert (found.node_rank, found.ranks, found.placements[0].local_rank) == (2, (5,), 1)
    assert found.boot_id
    assert found.boot_id in found.identity
    assert found.congestion_control
    assert found.nccl_choices[0].basis == "asked"
    again = msgspec.json.decode(msgspec.json.encode(found), type=HostFacts)
    assert again == found


def test_without_a_driver_the_report_says_so_and_shows_no_gpu() -> None:
    found = host.gather(ask_nccl=False)
    if not Path("/proc/driver/nvidia/version").exists():
        assert found.gpus == ()
        assert "no NVIDIA driver" in found.unreadable["nvml"]
    assert found.nccl_choices[0].basis == "predicted"


def test_without_libnccl_the_choice_is_predicted_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libraries, "find_nccl", lambda: None)
    found = host.gather()
    assert found.nccl_choices[0].basis == "predicted"
    assert "predicted, not asked" in found.unreadable["nccl"]


@pytest.mark.lab
def test_two_namespaces_of_one_machine_are_two_hosts(
    in_namespace: Callable[..., dict[str, Any]],
) -> None:
    inside, outside = in_namespace([], gather=True)["host"], host.gather()
    assert inside["boot_id"] == outside.boot_id
    assert inside["hostname"] == outside.hostname
    assert inside["identity"] != outside.identity


def test_records_of_one_host_are_united() -> None:
    hosts = host.label_hosts(
        [
            facts("b", "2", node_rank=1, ranks=(2,)),
            facts("a", "1", ranks=(1,), placements=(RankPlacement(rank=1, local_rank=1),)),
            facts("a", "1", ranks=(0,), placements=(RankPlacement(rank=0, local_rank=0),)),
            facts("a", "1", ranks=(3,), gpus=(Gpu(index=0, uuid="G0"),), unreadable={"x": "y"}),
        ]
    )
    assert [(h.host, h.ranks) for h in hosts] == [("a", (0, 1, 3)), ("b", (2,))]
    assert [p.rank for p in hosts[0].placements] == [0, 1]
    assert hosts[0].gpus[0].uuid == "G0"
    assert hosts[0].unreadable == {"x": "y"}


def test_equal_names_are_numbered_in_node_rank_order() -> None:
    hosts = host.label_hosts(
        [facts("node", str(i), node_rank=3 - i, ranks=(i,)) for i in range(3)]
    )
    assert [h.host for h in hosts] == ["node", "node#2", "node#3"]
    assert [h.node_rank for h in hosts] == [1, 2, 3]
    assert {h.hostname for h in hosts} == {"node"}


def test_a_number_never_takes_a_name_that_another_host_has() -> None:
    names = ["a", "a", "a#2", "a"]
    hosts = host.label_hosts([facts(n, str(i), node_rank=i) for i, n in enumerate(names)])
    assert [h.host for h in hosts] == ["a", "a#3", "a#2", "a#4"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("node-1.cluster.local", "node-1.cluster.local"),
        ("b\x1b[31mad", "b?[31mad"),
        ("tab\tname\n", "tab?name"),
        ("Knoten-\u00fc", "Knoten-\u00fc"),
        ("right\u202eleft", "right?left"),
        ("bytes\udcff", "bytes?"),
        ("", "(no name)"),
        (" \n", "(no name)"),
    ],
)
def test_odd_names_become_printable(name: str, shown: str) -> None:
    (labelled,) = host.label_hosts([facts(name, "1")])
    assert labelled.host == shown
    assert host.gather(hostname=name, ask_nccl=False).hostname == shown


def test_names_that_print_alike_still_get_labels_of_their_own() -> None:
    hosts = host.label_hosts([facts("a\x01", "1"), facts("a\x02", "2", node_rank=1)])
    assert [h.host for h in hosts] == ["a?", "a?#2"]


def test_only_the_allow_listed_environment_is_kept() -> None:
    kept = software.environment(
        {
            "NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_PKEY": "1", "LD_PRELOAD": "x",
            "TORCH_HOME": "t", "AWS_SECRET_ACCESS_KEY": "no", "HOME": "no",
            "NCCL_SOCKET_MAGIC": "no",
            "TORCH_HUB_TOKEN": "no", "FI_PROVIDER": "efa\udcff", "SLURM_JOB_ID": "7",
            "SLURM_JWT": "no", "HF_TOKEN": "no",
        }
    )  # fmt: skip
    assert kept == {
        "FI_PROVIDER": "efa?", "LD_PRELOAD": "x", "NCCL_IB_PKEY": "1",
        "NCCL_SOCKET_IFNAME": "eth0", "SLURM_JOB_ID": "7", "TORCH_HOME": "t",
    }  # fmt: skip


def test_versions_come_from_metadata_without_importing_torch() -> None:
    import subprocess
    import sys

    code = "import sys; from bench.facts import host; host.gather(); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "False"
    assert software.version("msgspec")
    assert software.version("no-such-package") is None


def test_the_driver_version_is_read_from_its_proc_file(tmp_path: Path) -> None:
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023\n"
        "GCC version:  gcc version 11.4.0\n"
    )
    assert software.driver(tmp_path) == "535.104.05"
    assert software.driver_open(tmp_path) is False
    (tmp_path / "driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n"
    )
    assert (software.driver(tmp_path), software.driver_open(tmp_path)) == ("570.86.10", True)
    assert software.driver_open(tmp_path / "absent") is None
    assert software.driver(tmp_path / "absent") is None


def test_a_mask_is_written_as_the_kernel_writes_it(tmp_path: Path) -> None:
    assert placement.cpu_list({0, 1, 2, 8, 10, 11}) == "0-2,8,10-11"
    assert placement.parse_cpu_list("0-2,8,10-11") == {0, 1, 2, 8, 10, 11}
    for node, cpus in ((0, "0-3"), (1, "4-7")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}/cpulist").write_text(cpus + "\n")
    assert placement.numa_nodes({3, 4}, tmp_path) == (0, 1)
    assert placement.numa_nodes({5}, tmp_path) == (1,)


def test_the_placement_is_the_mask_of_the_process() -> None:
    found = placement.read(3, 1, process=os.getpid())
    assert placement.parse_cpu_list(found.cpus or "") == os.sched_getaffinity(0)
    assert placement.read(0, 0, process=2**22 + 1).cpus is None  # above the largest pid


def test_mapped_libraries_are_named_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/maps").write_text(
        "7f00-7f01 r-xp 00000000 08:01 1   /opt/nccl/lib/libnccl.so.2.27.7\n"
        "7f01-7f02 r-xp 00000000 08:01 1   /opt/nccl/lib/libnccl.so.2.27.7\n"
        "7f02-7f03 r-xp 00000000 08:01 2   /opt/aws/lib/libnccl-net-ofi.so\n"
        "7f03-7f04 r-xp 00000000 08:01 3   /usr/lib/libc.so.6\n7f04-7f05 rw-p 0 00:00 0\n"
    )
    assert libraries.mapped(7, tmp_path) == (
        "/opt/aws/lib/libnccl-net-ofi.so",
        "/opt/nccl/lib/libnccl.so.2.27.7",
    )
    assert libraries.mapped(8, tmp_path) == ()


def test_a_preloaded_library_comes_before_the_installed_one(tmp_path: Path) -> None:
    own = tmp_path / "libnccl.so.2"
    own.touch()
    assert libraries.find_nccl({"LD_PRELOAD": f"/x/y.so:{own}"}) == own
    assert libraries.find_nccl({"LD_PRELOAD": "/absent/libnccl.so"}) != own


def test_a_plugin_is_found_by_its_names_and_can_be_refused(tmp_path: Path) -> None:
    path = {"LD_LIBRARY_PATH": f":{tmp_path}"}
    assert libraries.find_plugin({"NCCL_NET_PLUGIN": "none", **path}) is None
    ofi = tmp_path / "libnccl-net-ofi.so"
    ofi.touch()
    assert libraries.find_plugin({"NCCL_NET_PLUGIN": "ofi", **path}) == ofi
    assert libraries.find_plugin({"NCCL_NET_PLUGIN": "absent,ofi", **path}) == ofi
    assert libraries.find_plugin({"NCCL_NET_PLUGIN": str(ofi)}) == ofi
    usual = tmp_path / "libnccl-net.so"
    usual.touch()
    assert libraries.find_plugin(path) == usual
