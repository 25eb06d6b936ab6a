"""Hardware in sentences, and who sits where: from fake hosts, read as real ones are."""

from __future__ import annotations

from typing import Any

import msgspec

from bench.records import GpuFabric, HostFacts, RankPlacement, Service
from bench.report import hardware_words, page, rank_map, surroundings
from bench.report.host_screen import screen


def words(host: HostFacts) -> dict[str, str]:
    return {name: sentence(host) for name, sentence in hardware_words.ROWS}


def changed(host: HostFacts, /, **fields: Any) -> HostFacts:
    return msgspec.structs.replace(host, **fields)


def test_a_healthy_host_has_one_sentence_for_eight_equal_gpus(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    told = words(gpu_hosts["healthy"])
    assert told["GPUs"] == "8 × NVIDIA H100 80GB HBM3"
    assert told["NVLinks"] == "18 NVLinks (4.0) at 26.6 GB/s each way on every GPU"
    assert told["pairs"] == "18 NVLinks between all 28 pairs"
    assert told["P2P"] == "OK between all 28 pairs"
    assert told["fabric"] == "completed on every GPU"
    assert told["ACS"] == "redirects at 0 of 32 bridges"
    assert told["GPUDirect"] == "nvidia_peermem"
    assert told["machine"].startswith("NVIDIA DGXH100 · 2 × Intel(R) Xeon(R)")


def test_links_that_are_down_are_named_by_number(gpu_hosts: dict[str, HostFacts]) -> None:
    told = words(gpu_hosts["links-down"])
    assert told["NVLinks"].endswith(
        "; 16 NVLinks (4.0) at 26.6 GB/s each way on GPU3; down: 7+12 of GPU3"
    )
    assert "16 NVLinks between 7 pairs (0-3, 1-3, 2-3, 3-4 … 3 more)" in told["pairs"]


def test_acs_before_pcie_peers_is_told_with_its_bridges(gpu_hosts: dict[str, HostFacts]) -> None:
    told = words(gpu_hosts["acs"])
    assert told["NVLinks"] == ""
    assert told["pairs"] == "PIX between all 6 pairs"
    assert told["ACS"].startswith("redirects at 6 of 7 bridges: 0000:40:01.0, 0000:42:00.0")
    assert told["IOMMU"] == "dmar0, dmar1 · 12 groups DMA-FQ · intel_iommu=on"
    assert told["GPUDirect"] == "no peer-memory module loaded"


def test_acs_that_cannot_be_read_is_not_called_off(gpu_hosts: dict[str, HostFacts]) -> None:
    host = gpu_hosts["acs"]
    hidden = changed(
        host,
        pci_devices=tuple(msgspec.structs.replace(d, acs=None) for d in host.pci_devices),
        unreadable={"acs": "7 of 7 bridges: to root only"},
    )
    assert words(hidden)["ACS"] == "not readable: 7 of 7 bridges: to root only"


def test_a_gpu_that_is_not_registered_and_a_one_way_pair_stand_out(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    host = gpu_hosts["healthy"]
    ill = GpuFabric(state="in progress", status="Unknown Error", health=("route unhealthy",))
    cards = (msgspec.structs.replace(host.gpus[0], fabric=ill), *host.gpus[1:])
    pairs = (
        msgspec.structs.replace(host.gpu_pairs[0], p2p_back={"write": "CNS"}),
        *host.gpu_pairs[1:],
    )
    told = words(changed(host, gpus=cards, gpu_pairs=pairs))
    assert told["fabric"].startswith("in progress, Unknown Error, route unhealthy on GPU0; ")
    assert told["P2P"].startswith("OK one way only between 1 pair (0-1); OK between 27 pairs")


def test_services_that_could_not_be_read_share_their_reason() -> None:
    host = HostFacts(
        host="h", hostname="h", identity="x",
        services=(
            Service(name="fabric-manager", state="active"),
            Service(name="imex", why="no systemd here"),
            Service(name="persistence", why="no systemd here"),
        ),
    )  # fmt: skip
    assert words(host)["services"] == (
        "fabric-manager active · imex, persistence not readable: no systemd here"
    )


def test_dma_buf_is_possible_with_open_modules_only(gpu_hosts: dict[str, HostFacts]) -> None:
    host = gpu_hosts["acs"]
    for is_open, end in ((True, "open: dma-buf possible"), (False, "closed")):
        software = msgspec.structs.replace(host.software, driver_open=is_open)
        assert words(changed(host, software=software))["GPUDirect"].endswith(f"modules {end}")


def test_counters_above_zero_are_named_with_their_owner(gpu_hosts: dict[str, HostFacts]) -> None:
    assert words(gpu_hosts["healthy"])["errors"] == ""
    host = gpu_hosts["links-down"]
    port = msgspec.structs.replace(
        host.rdma_ports[0], counters={"port_xmit_data": 9, "symbol_error": 12, "port_xmit_wait": 5}
    )
    bridge = msgspec.structs.replace(host.pci_devices[0], errors={"correctable": 7})
    ill = changed(
        host, rdma_ports=(port,), pci_devices=(bridge,), error_counters={"xid79@0000:17:00": 2}
    )
    assert words(ill)["errors"] == (
        "GPU3 nvlink_recoveries 82, mlx5_0:1 symbol_error 12, 0000:10:01.0 PCIe correctable 7, "
        "xid79@0000:17:00 2"
    )


def test_a_host_without_gpus_has_no_such_words() -> None:
    bare = HostFacts(host="h", hostname="h", identity="x")
    assert set(words(bare).values()) == {""}
    assert rank_map.seats(bare) == []


def test_ranks_are_mapped_to_gpu_node_mask_and_nic(gpu_hosts: dict[str, HostFacts]) -> None:
    host = changed(
        gpu_hosts["healthy"],
        placements=(
            RankPlacement(rank=12, local_rank=5, cpus="0-47", numa_nodes=(0,), gpu=5),
            RankPlacement(rank=13, local_rank=6, cpus=None),
        ),
    )
    first, second = rank_map.seats(host)
    assert (first.rank, first.gpu, first.numa, first.cpus, first.cpu_nodes, first.nics) == (
        "12", "5", "1", "0-47", "0", "mlx5_5 (PIX)",
    )  # fmt: skip
    assert (second.gpu, second.cpus, second.cpu_nodes) == ("6", "–", "–")
    assert "12      5" in screen(host)


def test_a_host_alone_lists_gpus_as_local_ranks_would_take_them(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    host = changed(gpu_hosts["healthy"], environment={"CUDA_VISIBLE_DEVICES": "5,4"})
    seats = rank_map.seats(host)
    assert [(s.rank, s.gpu) for s in seats if s.rank != "–"] == [("1", "4"), ("0", "5")]
    assert seats[5].nics == "mlx5_5 (PIX)"


def test_the_screen_fits_says_what_rests_and_names_refusals_once(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    for host in gpu_hosts.values():
        assert max(map(len, screen(host).splitlines())) <= 80
    text = screen(gpu_hosts["acs"])
    assert "gen 1 x16 of gen 4 x16 (at rest)" in text
    assert "gpu0-3.fabric: Not Supported" in text


def test_equal_hosts_share_their_hardware_and_the_one_that_differs_is_named(
    gpu_hosts: dict[str, HostFacts],
) -> None:
    hosts = [gpu_hosts["healthy"], gpu_hosts["links-down"]]
    told = dict(surroundings.hardware(hosts))
    assert told["GPUs"] == [surroundings.Alike("8 × NVIDIA H100 80GB HBM3", "all hosts")]
    assert [value.hosts for value in told["NVLinks"]] == ["h100-a", "h100-b"]
    assert told["RDMA"][0].value == (
        "8 × 400 Gbit/s InfiniBand ACTIVE firmware 28.39.1002 board MT_0000000838"
    )


def test_the_page_shows_hardware_and_who_sits_where(
    gpu_hosts: dict[str, HostFacts], made: Any
) -> None:
    host = changed(
        gpu_hosts["healthy"],
        placements=(RankPlacement(rank=3, local_rank=3, cpus="0-47", numa_nodes=(0,), gpu=3),),
    )
    text = page.render(msgspec.structs.replace(made.healthy, hosts=(host,), lines=()))
    assert "Who sits where" in text
    assert "<td>mlx5_3 (PIX)</td>" in text
    assert "18 NVLinks between all 28 pairs" in text
    assert "gpu0-7.c2c_links" in text


def test_only_the_first_ranks_of_very_many_are_listed(gpu_hosts: dict[str, HostFacts]) -> None:
    hosts = [
        changed(
            gpu_hosts["healthy"],
            host=f"h{node}",
            placements=tuple(
                RankPlacement(rank=8 * node + i, local_rank=i, gpu=i) for i in range(8)
            ),
        )
        for node in range(100, 0, -1)
    ]
    listed, more = surroundings.ranks(hosts)
    assert [int(seat.rank) for _, seat in listed] == list(range(8, 72))
    assert more == 736
