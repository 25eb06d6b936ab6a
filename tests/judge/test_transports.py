"""NCCL's own channel lines against the way that GPUs should talk."""

from __future__ import annotations

import pytest

from bench.judge.verdict import judge
from bench.records import Fabric, FabricGpus, NcclConf, RankPlacement

P2P = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"
SHM = "Channel 00/0 : 2[2] -> 5[5] via SHM/direct/direct"
NET = "Channel 00/0 : 2[2] -> 5[5] [send] via NET/IB/0/GDRDMA"


def test_gpus_that_nvlinks_join_and_that_share_memory_instead_are_named(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).log("(default)", P2P, SHM, gbs=40.0)
    (found,) = scene.findings()
    assert (found.code, found.severity) == ("gpu-path-unexpected", "degraded")
    assert (found.where.host, found.where.link) == ("h100-a", ("GPU2", "GPU5"))
    assert found.where.ranks == (2, 5) and found.confidence == "asked"
    told = {evidence.basis: evidence.text for evidence in found.evidence}
    assert "2[2] -> 5[5] via SHM/direct/direct" in told["asked"]
    assert "18 active NVLinks join GPU 2 and GPU 5" in told["claimed"]


def test_the_network_between_nvlinked_gpus_is_unexpected_too(gpu_scene, gpu_hosts):
    (found,) = (
        gpu_scene(gpu_hosts["healthy"]).log("p2p", NET, gbs=40.0).findings(at_least="degraded")
    )
    assert "by the network" in found.summary and found.where.candidate == "p2p"


def test_a_users_setting_is_named_with_the_line_that_takes_it_back(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).log("p2p", P2P, gbs=300.0)
    scene.facts(environment={"NCCL_P2P_DISABLE": "1"}).log("(default)", SHM, gbs=20.0)
    (found,) = scene.findings()
    assert "NCCL_P2P_DISABLE=1 is set" in found.summary
    assert found.remedy == "unset NCCL_P2P_DISABLE"
    conf = NcclConf(path="/etc/nccl.conf", settings={"NCCL_P2P_DISABLE": "1"})
    (found,) = scene.facts(environment={}, nccl_conf=(conf,)).findings()
    assert found.remedy == "export NCCL_P2P_DISABLE='0'"
    assert any("/etc/nccl.conf" in evidence.text for evidence in found.evidence)
    overruled = {"NCCL_P2P_DISABLE": "0"}
    (found,) = scene.facts(environment=overruled).findings()
    assert "is set" not in found.summary, "the environment goes before files"


def test_shared_memory_is_right_where_nothing_joins_the_gpus(gpu_scene, gpu_hosts):
    """Beyond PXB NCCL takes no peer to peer over PCIe, whatever the driver allows."""
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=()).pairs(pci_path="PHB")
    scene.log("(default)", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", gbs=9.0)
    scene.log("p2p", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", gbs=9.0)
    assert scene.findings(at_least="warning") == []
    (note,) = scene.findings()
    assert (note.severity, note.where.candidate) == ("info", "p2p")
    assert "shared memory" in note.summary


def test_below_one_switch_peer_to_peer_is_expected_but_the_network_may_be_faster(
    gpu_scene, gpu_hosts
):
    edge = "Channel 00/0 : 0[0] -> 1[1] {}"
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=())
    scene.log("(default)", edge.format("[send] via NET/IB/1/GDRDMA"), gbs=20.0)
    assert scene.findings() == []
    scene.sessions.clear()
    scene.log("(default)", edge.format("via SHM/direct/direct"), gbs=9.0)
    (found,) = scene.findings(at_least="degraded")
    assert found.evidence[0].basis == "predicted" and "PIX" in found.evidence[0].text


def test_the_fabric_file_decides_what_is_expected(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=()).pairs(pci_path="SYS")
    scene.log("(default)", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", gbs=9.0)
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(path="pcie"))
    (found,) = scene.findings(at_least="degraded")
    assert found.evidence[0].basis == "expected"
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(path="none"))
    assert scene.findings(at_least="warning") == []


def test_ranks_of_the_case_are_ranks_of_the_job(gpu_scene, gpu_hosts):
    """p2p@second runs ranks 8 to 15; its log counts them from 0."""
    scene = gpu_scene(gpu_hosts["links-down"], gpu_hosts["healthy"])
    assert scene.candidates["p2p@h100-a"].ranks == tuple(range(8, 16))
    scene.log("p2p@h100-a", SHM, host=1, gbs=40.0)
    (found,) = [f for f in scene.findings() if f.code == "gpu-path-unexpected"]
    assert (found.where.host, found.where.ranks) == ("h100-a", (10, 13))
    assert found.where.link == ("GPU2", "GPU5")


def test_edges_between_hosts_are_no_matter_here(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"], gpu_hosts["links-down"])
    scene.log("(default)", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA", gbs=40.0)
    assert [f.code for f in scene.findings()] == ["nvlink-inactive"]


def test_ranks_that_share_a_gpu_go_by_the_network_and_that_is_right(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).log("(default)", NET, gbs=40.0)
    shared = tuple(RankPlacement(rank=n, local_rank=n, gpu=n // 2) for n in range(8))
    scene.facts(placements=shared)
    assert [f.code for f in scene.findings()] == ["duplicate-gpu"]


def test_blocked_peer_access_and_what_nccl_makes_of_it_are_one_finding(gpu_scene, gpu_hosts):
    no = {"read": "TNS", "write": "TNS"}
    scene = gpu_scene(gpu_hosts["healthy"]).pair(2, 5, p2p=no)
    scene.log("(default)", P2P, SHM, gbs=40.0)
    (found,) = scene.findings()
    assert found.code == "p2p-blocked"
    assert any("via SHM" in evidence.text for evidence in found.evidence)


def test_peer_to_peer_that_is_no_faster_than_shared_memory_is_none(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).measured("p2p", 20.5).measured("shm", 20.0)
    (found,) = scene.findings()
    assert (found.code, found.severity) == ("gpu-path-unexpected", "degraded")
    assert (found.confidence, found.where.host) == ("measured", "h100-a")
    assert "no faster than shared memory" in found.summary


@pytest.mark.parametrize(
    ("host", "p2p", "shm", "spread"),
    [
        ("healthy", 300.0, 20.0, 0.01),  # as it should be
        ("healthy", 21.0, 20.0, 0.4),  # too unsure
        ("acs", 12.0, 11.0, 0.01),  # PCIe: shared memory takes the same links
    ],
)
def test_a_gain_that_may_be_right_is_not_held_against_anybody(
    gpu_scene, gpu_hosts, host, p2p, shm, spread
):
    scene = gpu_scene(gpu_hosts[host]).facts(pci_devices=())
    scene.measured("p2p", p2p, spread=spread).measured("shm", shm, spread=spread)
    assert scene.findings(at_least="warning") == []


def test_over_c2c_host_memory_is_nearly_as_fast_and_accuses_nobody(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(name="NVIDIA GB200", c2c_links=10)
    assert scene.measured("p2p", 21.0).measured("shm", 20.0).findings() == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("shm", "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"),
        ("net", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"),
    ],
)
def test_a_candidate_measured_over_another_way_says_so(gpu_scene, gpu_hosts, name, line):
    (found,) = gpu_scene(gpu_hosts["healthy"]).log(name, line, gbs=9.0).findings()
    assert (found.severity, found.where.candidate) == ("info", name)


def test_candidates_measured_as_they_are_named_are_not_mentioned(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).log("p2p", P2P, gbs=300.0)
    scene.log("shm", SHM, gbs=20.0).log("net", NET, gbs=9.0)
    assert scene.findings() == []


def test_lines_that_hold_nothing_of_nccls_prove_nothing(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).log("(default)", "\0\0", "via via via", gbs=9.0)
    assert scene.findings() == []


def test_gpu_paths_are_shown_against_what_their_links_claim(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"], gpu_hosts["acs"])
    for name, gbs in {
        "p2p@h100-a": 300,
        "shm@h100-a": 20,
        "net@h100-a": 9,
        "p2p@l40s-a": 15,
    }.items():
        scene.measured(name, gbs)
    held = {line.candidate: line for line in judge(scene.report()).lines}
    assert held["p2p@h100-a"].expected_busbw_gbs == pytest.approx(18 * 20.6)
    assert held["p2p@l40s-a"].expected_busbw_gbs == pytest.approx(24.0)
    assert held["shm@h100-a"].expected_busbw_gbs == pytest.approx(22.0), "between the sockets"
    assert held["net@h100-a"].expected_busbw_gbs is None
    assert {line.expected_basis for line in held.values()} == {"claimed", None}
