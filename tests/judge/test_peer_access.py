"""Peer access: the driver's word, ACS, hangs, and copies that acquit."""

from __future__ import annotations

import signal

import pytest

from bench.judge.verdict import judge
from bench.records import Fabric, FabricGpus, RankOutcome

OK = {"read": "OK", "write": "OK"}
NO = {"read": "CNS", "write": "CNS"}


def test_a_pair_that_nvlinks_join_and_the_driver_parts_is_named(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).pair(2, 5, p2p=NO)
    (found,) = scene.findings()
    assert (found.code, found.severity) == ("p2p-blocked", "degraded")
    assert found.where.link == ("GPU2", "GPU5") and "CNS" in found.summary


def test_a_gpu_common_to_all_refused_pairs_is_named(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"])
    for other in range(8):
        if other != 4:
            scene.pair(*sorted((4, other)), p2p=NO)
    (found,) = scene.findings()
    assert found.where.gpu == 4 and found.where.link == ()


def test_a_refusal_in_one_direction_counts(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).pair(0, 1, p2p=OK, p2p_back={"write": "TNS"})
    (found,) = scene.findings()
    assert "TNS" in found.summary


def test_one_pair_of_many_as_near_is_odd_and_a_tie_is_not(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=())
    scene.pair(0, 3, p2p=NO)
    (found,) = scene.findings(at_least="warning")
    assert found.where.link == ("GPU0", "GPU3")
    scene.pair(0, 1, p2p=NO).pair(0, 2, p2p=NO)
    assert scene.findings(at_least="warning") == []


def test_the_fabric_file_may_expect_peer_access_over_pcie(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=()).pairs(p2p=NO)
    assert scene.findings(at_least="warning") == []
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(path="pcie"))
    (found,) = scene.findings(at_least="warning")
    assert "6 pairs of GPUs" in found.summary
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(path="none"))
    assert scene.findings(at_least="warning") == []


# ----------------------------------------------------------------------------------- ACS


def test_copies_between_neighbours_acquit_acs_or_convict_it(gpu_scene, gpu_hosts):
    pairs = {(0, 1): 25.0, (1, 0): 25.0}
    (found,) = [
        f for f in gpu_scene(gpu_hosts["acs"]).between(pairs).findings() if f.code == "p2p-blocked"
    ]
    assert found.severity == "info" and "not held up" in found.summary
    (found,) = gpu_scene(gpu_hosts["acs"]).between({(0, 1): 11.0}).findings(at_least="degraded")
    assert found.confidence == "measured" and "35 %" in " ".join(e.text for e in found.evidence)


def test_acs_above_gpus_that_nvlink_joins_is_no_matter_between_them(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).pairs(nvlinks=4).every_gpu(nvlinks_active=4)
    assert scene.findings(at_least="warning") == []


def test_acs_at_root_ports_alone_is_what_kernels_set(gpu_scene, gpu_hosts):
    roots = tuple(d for d in gpu_hosts["acs"].pci_devices if d.port != "downstream")
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=roots)
    assert scene.findings(at_least="warning") == []


# ------------------------------------------------------------------------------ does not end


def hung(host: str, **of_first: object) -> list[RankOutcome]:
    first = {"outcome": "hung", "phase": "first", **of_first}
    return [RankOutcome(rank=0, host=host, **first)] + [  # type: ignore[arg-type]
        RankOutcome(rank=n, host=host, outcome="hung", phase="first") for n in (1, 2, 3)
    ]


def test_peer_to_peer_that_hangs_where_shared_memory_works_is_the_cause(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).measured("shm", 12.0)
    scene.session("p2p", "hung", hung("l40s-a")).session("(default)", "hung", hung("l40s-a"))
    report = judge(scene.report())
    (found,) = [f for f in report.findings if f.severity == "broken"]
    assert (found.code, found.where.host, report.verdict) == ("p2p-blocked", "l40s-a", "broken")
    assert "hangs where shared memory" in found.summary
    told = " ".join(evidence.text for evidence in found.evidence)
    assert "ReqRedir" in told and "session 1 of (default) hung" in told


def test_where_what_users_get_ends_a_path_that_hangs_breaks_nothing(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).measured("shm", 12.0).measured("(default)", 12.0)
    scene.session("p2p", "hung", hung("l40s-a"))
    (found,) = scene.findings(at_least="degraded")
    assert (found.code, found.severity) == ("p2p-blocked", "degraded")


def test_a_rank_that_was_killed_explains_the_hang_better(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).facts(pci_devices=()).measured("shm", 12.0)
    scene.session("p2p", "failed", hung("l40s-a", outcome="died", signal=signal.SIGKILL))
    assert scene.findings(at_least="degraded") == []


@pytest.mark.parametrize("shm", ["hung", "planned"])
def test_without_shared_memory_that_works_nothing_is_known(gpu_scene, gpu_hosts, shm):
    scene = gpu_scene(gpu_hosts["healthy"]).session("p2p", "hung", hung("h100-a"))
    if shm == "hung":
        scene.session("shm", "hung", hung("h100-a"))
    assert scene.findings() == []


def test_a_copy_that_never_ended_names_the_two_gpus(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).check(stuck=(1, 2))
    (found,) = scene.findings(at_least="degraded")
    assert (found.severity, found.where.link) == ("broken", ("GPU1", "GPU2"))
