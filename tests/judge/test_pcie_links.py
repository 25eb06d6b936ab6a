"""PCIe links: claims at rest, claims under load, copies that confirm or refute them."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge.gpu.pcie_copies import raw_gbs
from bench.records import Fabric, FabricGpus, HostEvidence

IDLE = {"pcie_generation": 1, "pcie_idle": True}


@pytest.mark.parametrize(
    ("generation", "width", "gbs"),
    [(3, 16, 15.76), (4, 16, 31.5), (5, 16, 63.0), (5, 8, 31.5), (None, 16, None), (9, 16, None)],
)
def test_raw_rates_are_those_of_the_standard(generation, width, gbs):
    assert raw_gbs(generation, width) == (None if gbs is None else pytest.approx(gbs, rel=1e-3))


def test_a_width_is_believed_at_rest_and_a_generation_is_not(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(**IDLE)
    scene.gpu(4, pcie_generation=3)  # higher or lower at rest: it says nothing
    assert scene.findings() == []
    scene.gpu(4, pcie_width=8)
    (found,) = scene.findings()
    assert found.where.gpu == 4 and "at rest" in found.evidence[0].text
    assert "generation" not in found.summary


def test_a_generation_below_its_like_under_load_is_degraded(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(**IDLE)
    rates = dict.fromkeys(range(8), 53.0) | {6: 12.3}
    for gpu, rate in rates.items():
        scene.copies({gpu: rate}, pcie_generation=3 if gpu == 6 else 5, pcie_width=16)
    (found,) = scene.findings()
    assert (found.where.gpu, found.severity, found.confidence) == (6, "degraded", "measured")
    told = " ".join(evidence.text for evidence in found.evidence)
    assert "while copies ran" in told and "12.3 GB/s" in told


def test_a_generation_read_awake_but_not_under_copies_is_only_a_warning(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).gpu(4, pcie_generation=4, pcie_idle=False)
    (found,) = scene.findings()
    assert (found.where.gpu, found.severity) == (4, "warning")
    assert "read awake" in found.evidence[0].text


def test_a_slot_that_cannot_do_what_the_fabric_file_says_needs_no_load(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(pcie_max_generation=4, **IDLE)
    assert scene.findings() == []
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(pcie="5x16"))
    (found,) = scene.findings(at_least="degraded")
    assert found.where.host == "h100-a"


def test_copies_that_are_faster_than_the_claimed_link_acquit_it(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["narrow-slot"])
    assert len(scene.findings()) == 1
    scene.copies(dict.fromkeys(range(8), 53.0))
    assert scene.findings() == [], "eight lanes of generation 5 carry 31.5 GB/s at most"


def test_a_slow_copy_shows_what_the_link_itself_hides(gpu_scene, gpu_hosts):
    """Claims are all x16: the switch above the GPU is what is narrow."""
    scene = gpu_scene(gpu_hosts["healthy"])
    scene.copies(dict.fromkeys(range(8), 53.0) | {2: 26.0}, pcie_generation=5, pcie_width=16)
    (found,) = scene.findings()
    assert (found.code, found.where.gpu, found.severity) == ("pcie-downgraded", 2, "degraded")
    assert "49 %" in found.summary


def test_one_direction_is_enough(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).copies(dict.fromkeys(range(8), 53.0))
    check = scene.checks["h100-a"]
    figures = tuple(
        msgspec.structs.replace(f, bandwidth_gbs=20.0)
        if (f.gpu, f.way) == (5, "from-device")
        else f
        for f in check.figures
    )
    scene.checks["h100-a"] = msgspec.structs.replace(check, figures=figures)
    (found,) = scene.findings()
    assert found.where.gpu == 5 and "Copies to the host of" in found.summary


@pytest.mark.parametrize(
    "rates",
    [
        dict.fromkeys(range(8), 53.0),
        {n: 53.0 - 2 * n for n in range(8)},  # scatter
        dict.fromkeys(range(7), 53.0) | {7: 38.0},  # memory on the other socket: a third
        dict.fromkeys(range(8), 4.0),  # bounce buffers of confidential computing, all alike
    ],
)
def test_copies_that_only_scatter_accuse_nobody(gpu_scene, gpu_hosts, rates):
    assert gpu_scene(gpu_hosts["healthy"]).copies(rates).findings(at_least="warning") == []


@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ({n: 53.0 if n < 4 else 24.0 for n in range(8)}, "GPUs 4, 5, 6 and 7 on h100-a"),
        ({0: 53.0, 1: 20.0}, "GPU 1 on h100-a"),
    ],
)
def test_without_a_majority_the_slow_ones_are_named_and_not_accused(
    gpu_scene, gpu_hosts, rates, slow
):
    (found,) = gpu_scene(gpu_hosts["healthy"]).copies(rates).findings()
    assert found.severity == "warning" and found.summary.endswith(f"slow: {slow}.")


def test_far_memory_makes_a_slow_copy_a_warning(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"])
    scene.copies({n: 53.0 for n in range(8) if n != 3}, near=True).copies({3: 26.0}, near=False)
    (found,) = scene.findings()
    assert (found.where.gpu, found.severity) == (3, "warning")


def test_the_same_gpu_is_accused_once_with_all_proof(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["narrow-slot"])
    scene.copies(dict.fromkeys(range(8), 53.0) | {5: 26.0}, pcie_generation=5)
    (found,) = scene.findings()
    assert found.where.gpu == 5 and found.confidence == "measured"
    assert [e.basis for e in found.evidence] == ["claimed", "claimed", "measured", "measured"]


def test_the_fabric_file_decides_where_all_are_alike(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["healthy"]).every_gpu(pcie_width=8)
    assert [f.severity for f in scene.findings()] == ["info"]
    scene.fabric = Fabric(name="mine", gpus=FabricGpus(pcie="5x16"))
    (found,) = scene.findings(at_least="degraded")
    assert found.where.gpu is None and "GPUs 0, 1, 2, 3 and 4 more on h100-a" in found.summary
    assert any(e.basis == "expected" for e in found.evidence)


def test_a_single_narrow_gpu_is_a_warning_for_nobody_can_tell(gpu_scene, gpu_hosts):
    alone = msgspec.structs.replace(
        gpu_hosts["narrow-slot"], gpus=gpu_hosts["narrow-slot"].gpus[5:6], gpu_pairs=()
    )
    (found,) = gpu_scene(alone).findings()
    assert found.severity == "warning" and "no other of its model" in found.summary


def test_lanes_lost_during_a_session_are_told_once(gpu_scene, gpu_hosts):
    moved = HostEvidence(host="h100-a", changed={"gpu6.pcie_width": (16, 4)})
    scene = gpu_scene(gpu_hosts["healthy"]).session("shm", evidence=[moved])
    (found,) = scene.session("net", evidence=[moved]).findings()
    assert (found.where.gpu, found.where.candidate) == (6, "shm") and "x4 of x16" in found.summary


# --------------------------------------------------------------------------- above the GPUs


def test_a_switch_with_a_narrow_way_up_is_named_with_the_gpus_below(
    gpu_scene, fake_nvml, fake_sysfs, tmp_path
):
    host = fake_nvml.h100_nvlink(tmp_path)
    gpu = host.facts().gpus[2]
    upstream = gpu.pci_path[2]
    folder = (tmp_path / "sys/bus/pci/devices" / upstream).resolve()
    (folder / "current_link_width").write_text("8\n")
    (found,) = gpu_scene(host.facts()).findings()
    assert (found.code, found.severity) == ("pcie-downgraded", "degraded")
    assert found.where.device == upstream and "GPU 2" in found.summary


def test_a_narrow_nic_is_a_warning_and_named_as_rdma_knows_it(gpu_scene, fake_nvml, tmp_path):
    host = fake_nvml.h100_nvlink(tmp_path)
    port = host.facts().rdma_ports[1]
    folder = (tmp_path / "sys/bus/pci/devices" / port.pci_address).resolve()
    (folder / "current_link_width").write_text("8\n")
    (found,) = gpu_scene(host.facts()).findings()
    assert (found.severity, found.where.device) == ("warning", port.device)
    (folder / "max_link_width").write_text("8\n")
    assert gpu_scene(host.facts()).findings() == [], "a card of eight lanes has them all"
