"""NVLinks that are down: who is named, and by whose word."""

from __future__ import annotations

import msgspec

from bench.judge.verdict import judge
from bench.records import Fabric, FabricBusbw, FabricGpus, GpuFabric, HostEvidence, Nvlink, Service


def test_the_fabric_file_counts_where_all_gpus_are_alike(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(nvlinks_active=16, nvlinks_inactive=2)
    assert scene.findings() == []
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(nvlinks=18))
    (found,) = scene.findings()
    assert (found.where.host, found.where.gpu) == ("h100-a", None)
    assert "16 of 18 active" in found.summary
    assert any(evidence.basis == "expected" for evidence in found.evidence)


def test_a_fabric_file_of_other_gpus_says_nothing(gpu_scene, gpu_hosts):
    other = Fabric(name="other", gpus=FabricGpus(model=("*B200*",), nvlinks=18))
    scene = gpu_scene(gpu_hosts["healthy"], fabric=other)
    assert scene.every_gpu(nvlinks_active=16).findings() == []


def test_a_host_that_differs_from_most_hosts_is_one_finding(gpu_scene, gpu_hosts):
    names = ("a", "b", "c")
    hosts = [msgspec.structs.replace(gpu_hosts["healthy"], host=n, hostname=n) for n in names]
    scene = gpu_scene(*hosts)
    for gpu in range(8):
        scene.gpu(gpu, host=1, nvlinks_active=12, nvlinks_inactive=6)
    (found,) = scene.findings()
    assert (found.where.host, found.where.gpu) == ("b", None)
    assert "12 of 18" in found.summary


def test_both_ends_of_a_link_without_a_switch_are_one_finding(gpu_scene, gpu_hosts):
    straight = (Nvlink(links=(0, 1, 2, 3, 4, 5), active=True, version="2.2", remote="gpu"),)
    broken = (
        Nvlink(links=(0, 1, 2, 3, 4), active=True, version="2.2", remote="gpu"),
        Nvlink(links=(5,), active=False),
    )
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(
        name="Tesla V100-SXM2-16GB", nvlinks=straight, nvlinks_active=6, nvlinks_inactive=0
    )
    for gpu in (1, 6):
        scene.gpu(gpu, nvlinks=broken, nvlinks_active=5, nvlinks_inactive=1)
    (found,) = scene.findings()
    assert found.where.link == ("GPU1", "GPU6") and found.where.gpu is None


def test_a_gpu_that_lost_all_links_into_the_switches_is_degraded(gpu_scene, gpu_hosts):
    dead = (Nvlink(links=tuple(range(18)), active=False),)
    scene = gpu_scene(gpu_hosts["healthy"]).gpu(
        2, nvlinks=dead, nvlinks_active=0, nvlinks_inactive=18,
        fabric=GpuFabric(state="in progress"),
    )  # fmt: skip
    scene.facts(services=(Service(name="fabric-manager", state="failed"),))
    (found,) = scene.findings(at_least="degraded")
    assert found.where.gpu == 2
    told = " ".join(evidence.text for evidence in found.evidence)
    assert "fabric in progress" in told and "Fabric Manager is failed" in told


def test_a_card_without_links_beside_bridged_ones_is_only_a_warning(gpu_scene, gpu_hosts):
    bridge = (Nvlink(links=(0, 1, 2, 3), active=True, version="3.0", remote="gpu"),)
    scene = gpu_scene(gpu_hosts["acs"]).every_gpu(nvlinks=bridge, nvlinks_active=4)
    scene.pairs(nvlinks=4).gpu(3, nvlinks=(), nvlinks_active=0, nvlinks_inactive=4)
    (found,) = [f for f in scene.findings() if f.code == "nvlink-inactive"]
    assert (found.severity, found.where.gpu) == ("warning", 3)


def test_links_that_went_down_during_a_session_are_told_with_the_candidate(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"])
    moved = HostEvidence(host="h100-a", changed={"gpu6.nvlinks_active": (18, 17)})
    scene.session("(default)", evidence=[moved]).session("(default)", evidence=[moved])
    (found,) = scene.findings()
    assert (found.where.gpu, found.where.candidate) == (6, "(default)")
    assert found.confidence == "measured" and "17 of 18" in found.summary


def test_what_the_links_explain_is_not_told_again_as_a_slow_path(gpu_scene, gpu_hosts):
    learned = FabricBusbw(collective="all_reduce", hosts=1, busbw_gbs=360, candidate="p2p",
                          tolerance=0.05, runs=5)  # fmt: skip
    scene = gpu_scene(gpu_hosts["links-down"], fabric=Fabric(name="mine", busbw=(learned,)))
    scene.measured("p2p", 310)
    serious = [f.code for f in judge(scene.report()).findings if f.severity == "degraded"]
    assert serious == ["nvlink-inactive"]
