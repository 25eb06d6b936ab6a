"""The room "GPU path" through the whole judge: four hosts that NVML plays, and healthy systems
of many kinds on which nothing may be found."""

from __future__ import annotations

import subprocess

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.judge.catalogue import CATALOGUE
from bench.judge.verdict import judge
from bench.records import (
    Fabric,
    FabricGpus,
    Gpu,
    GpuPair,
    HostFacts,
    Iommu,
    Nvlink,
    RankOutcome,
    RankPlacement,
)
from bench.report import tables


def made_host(name: str, *gpus: Gpu, **more: object) -> HostFacts:
    return HostFacts(host=name, hostname=name, identity=name, gpus=gpus, **more)  # type: ignore[arg-type]


def cards(number: int, name: str | None, **more: object) -> tuple[Gpu, ...]:
    return tuple(Gpu(index=n, name=name, **more) for n in range(number))  # type: ignore[arg-type]


def all_pairs(number: int, **more: object) -> tuple[GpuPair, ...]:
    return tuple(
        GpuPair(gpus=(a, b), **more)  # type: ignore[arg-type]
        for a in range(number)
        for b in range(a + 1, number)
    )


# ------------------------------------------------------------------- four hosts, four answers


def test_a_healthy_nvlink_host_gives_no_finding_at_all(gpu_scene, gpu_hosts):
    assert gpu_scene(gpu_hosts["healthy"]).findings() == []


def test_two_links_down_are_named_with_host_gpu_and_links(gpu_scene, gpu_hosts):
    (found,) = gpu_scene(gpu_hosts["links-down"]).findings()
    assert (found.code, found.severity) == ("nvlink-inactive", "degraded")
    assert (found.where.host, found.where.gpu) == ("h100-b", 3)
    assert "links 7 and 12 are down, 16 of 18 active" in found.summary


def test_a_gpu_in_a_narrow_slot_is_named(gpu_scene, gpu_hosts):
    (found,) = gpu_scene(gpu_hosts["narrow-slot"]).findings()
    assert (found.code, found.severity) == ("pcie-downgraded", "degraded")
    assert (found.where.host, found.where.gpu) == ("h100-c", 5)
    assert "x8" in found.summary and "x16" in found.summary


def test_acs_above_gpus_without_nvlink_is_named_with_a_line_that_clears_it(gpu_scene, gpu_hosts):
    (found,) = gpu_scene(gpu_hosts["acs"]).findings(at_least="warning")
    assert (found.code, found.severity, found.where.host) == ("p2p-blocked", "degraded", "l40s-a")
    told = " ".join(evidence.text for evidence in found.evidence)
    assert "ReqRedir" in told and "DMA-FQ" in told
    assert "ECAP_ACS+0x6.w=0000" in (found.remedy or "")
    subprocess.run(["sh", "-n", "-c", found.remedy], check=True, timeout=10)


def test_all_four_in_one_run_accuse_the_three_that_are_ill_and_show_it_on_the_screen(
    gpu_scene, gpu_hosts
):
    scene = gpu_scene(*gpu_hosts.values())
    report = judge(scene.report())
    serious = [f for f in report.findings if f.severity == "degraded"]
    assert {(f.code, f.where.host, f.where.gpu) for f in serious} == {
        ("nvlink-inactive", "h100-b", 3),
        ("pcie-downgraded", "h100-c", 5),
        ("p2p-blocked", "l40s-a", None),
    }
    assert report.verdict == "degraded"
    screen = tables.screen(report)
    for words in ("! nvlink-inactive", "GPU 5 on h100-c", "ACS sends what 4 GPUs on l40s-a"):
        assert words in screen


def test_every_finding_is_in_the_catalogue_has_evidence_and_a_line_sh_can_read(
    gpu_scene, gpu_hosts
):
    scene = gpu_scene(*gpu_hosts.values())
    scene.gpu(1, host=0, pcie_width=4, nvlinks_active=0).pair(0, 1, host=0, p2p={"read": "CNS"})
    scene.copies(dict.fromkeys(range(8), 50.0)).copies({2: 9.0}, host=1)
    for finding in scene.findings():
        assert finding.code in CATALOGUE
        assert finding.evidence and finding.summary.endswith("."), finding
        assert any(letter.isdigit() for letter in finding.summary)
        if finding.remedy:
            subprocess.run(["sh", "-n", "-c", finding.remedy], check=True, timeout=10)


# ------------------------------------------------------------------------------ false alarms

AT_REST = {"pcie_generation": 1, "pcie_max_generation": 5, "pcie_width": 16,
           "pcie_max_width": 16, "pcie_idle": True}  # fmt: skip
OK = {"read": "OK", "write": "OK"}
NO = {"read": "CNS", "write": "CNS"}


def straight(number: int, *, active: bool = True) -> tuple[Nvlink, ...]:
    return (Nvlink(links=tuple(range(number)), active=active, version="3.0", remote="gpu"),)


HEALTHY = {
    "GPUs at rest in generation 1": [
        made_host("a", *cards(8, "NVIDIA H100 80GB HBM3", **AT_REST, nvlinks_active=18))
    ],
    "some at rest and some not": [
        made_host("a", *cards(4, "NVIDIA L40S", **AT_REST)[:3],
                  Gpu(index=3, name="NVIDIA L40S", pcie_generation=5, pcie_max_generation=5,
                      pcie_width=16, pcie_max_width=16, pcie_idle=False))
    ],
    "MIG": [
        made_host("a", *cards(8, "NVIDIA A100-SXM4-80GB", mig_mode=True, nvlinks_active=0,
                              nvlinks_inactive=12),
                  gpu_pairs=all_pairs(8, p2p=NO, nvlinks=0, pci_path="PXB"))
    ],
    "one GPU of eight in MIG mode": [
        made_host("a", *cards(7, "NVIDIA H100 80GB HBM3", nvlinks_active=18),
                  Gpu(index=7, name="NVIDIA H100 80GB HBM3", mig_mode=True, nvlinks_active=0,
                      nvlinks_inactive=18),
                  gpu_pairs=all_pairs(8, p2p=NO))
    ],
    "items that NVML refuses": [
        made_host("a", *cards(8, None), gpu_pairs=all_pairs(8)),
        made_host("b", Gpu(index=0, unreadable={"nvlinks": "Not Supported"}),
                  unreadable={"acs": "permission denied"}),
    ],
    "an AMD host without NVML": [
        made_host("a", unreadable={"nvml": "no NVIDIA driver on this host"},
                  kernel_modules=("amdgpu",), iommu=Iommu(groups={"DMA-FQ": 40}))
    ],
    "a host without GPUs": [
        made_host("a", unreadable={"nvml": "no NVIDIA driver on this host"})
    ],
    "GB200: C2C, one PCIe lane shown, MNNVL": [
        made_host(f"tray{n}", *cards(4, "NVIDIA GB200", c2c_links=10, pcie_generation=1,
                                     pcie_max_generation=5, pcie_width=1, pcie_max_width=16,
                                     pcie_idle=False, nvlinks_active=18),
                  gpu_pairs=all_pairs(4, p2p=OK, nvlinks=18, pci_path="SYS"))
        for n in range(3)
    ],
    "one GPU, at rest, in a full slot": [made_host("a", *cards(1, "NVIDIA H100 PCIe", **AT_REST))],
    "one GPU with unused NVLinks": [
        made_host("a", *cards(1, "NVIDIA A100-PCIE-40GB", nvlinks_active=0, nvlinks_inactive=12))
    ],
    "cards without bridges": [
        made_host("a", *cards(4, "NVIDIA A100-PCIE-40GB", nvlinks_active=0, nvlinks_inactive=12),
                  gpu_pairs=all_pairs(4, p2p=OK, nvlinks=0, pci_path="SYS"))
    ],
    "two bridged cards of four": [
        made_host("a", *cards(2, "NVIDIA A40", nvlinks_active=4, nvlinks=straight(4)),
                  *(Gpu(index=n, name="NVIDIA A40", nvlinks_active=0, nvlinks_inactive=4)
                    for n in (2, 3)))
    ],
    "two bridged cards of three": [
        made_host("a", *cards(2, "NVIDIA A40", nvlinks_active=4, nvlinks=straight(4)),
                  Gpu(index=2, name="NVIDIA A40", nvlinks_active=0, nvlinks_inactive=4,
                      nvlinks=straight(4, active=False)))
    ],
    "GeForce: the driver allows no peer access": [
        made_host("a", *cards(8, "NVIDIA GeForce RTX 4090", nvlinks_active=0),
                  gpu_pairs=all_pairs(8, p2p=NO, nvlinks=0, pci_path="PIX"))
    ],
    "peer access inside each socket only": [
        made_host("a", *cards(4, "NVIDIA GeForce GTX 1080 Ti", nvlinks_active=0),
                  gpu_pairs=tuple(
                      GpuPair(gpus=(a, b), nvlinks=0, p2p=OK if (a < 2) == (b < 2) else NO,
                              pci_path="PXB" if (a < 2) == (b < 2) else "SYS")
                      for a in range(4) for b in range(a + 1, 4)))
    ],
    "a board that gives every card eight lanes": [
        made_host("a", *cards(4, "NVIDIA RTX A5000", pcie_width=8, pcie_max_width=16,
                              pcie_generation=4, pcie_max_generation=4, pcie_idle=False))
    ],
    "a workstation with x16 and x8": [
        made_host("a", *(Gpu(index=n, name="NVIDIA RTX A5000", pcie_width=width,
                             pcie_max_width=16, pcie_generation=4, pcie_max_generation=4)
                         for n, width in enumerate((16, 8))))
    ],
    "different models": [
        made_host("a", Gpu(index=0, name="NVIDIA A100-PCIE-40GB", pcie_width=16,
                           pcie_max_width=16, nvlinks_active=12),
                  Gpu(index=1, name="Tesla T4", pcie_width=8, pcie_max_width=8),
                  Gpu(index=2, name="NVIDIA A100-PCIE-40GB", pcie_width=16, pcie_max_width=16,
                      nvlinks_active=12))
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_systems_of_many_kinds_give_nothing_to_act_upon(gpu_scene, kind):
    scene = gpu_scene(*HEALTHY[kind])
    assert [f.summary for f in scene.findings(at_least="degraded")] == []


QUIET = [kind for kind in HEALTHY if kind not in ("two bridged cards of three",
                                                  "a workstation with x16 and x8")]  # fmt: skip


@pytest.mark.parametrize("kind", QUIET)
def test_where_the_evidence_is_not_even_odd_no_warning_is_given(gpu_scene, kind):
    assert [f.summary for f in gpu_scene(*HEALTHY[kind]).findings(at_least="warning")] == []


def test_a_shipped_hint_accuses_nobody(gpu_scene, gpu_hosts):
    gpus = FabricGpus(per_host=16, nvlinks=20, pcie="6x16", path="nvlink")
    scene = gpu_scene(gpu_hosts["healthy"], fabric=Fabric(name="hint", hint=True, gpus=gpus))
    assert scene.findings() == []
    scene.fabric = msgspec.structs.replace(scene.fabric, hint=False)
    codes = {f.code for f in scene.findings(at_least="degraded")}
    assert codes == {"nvlink-inactive", "pcie-downgraded", "topology-unknown"}


# ---------------------------------------------------------------------------- told here only


def test_ranks_that_share_a_gpu_on_purpose_are_a_note_and_by_mistake_a_warning(
    gpu_scene, gpu_hosts
):
    scene = gpu_scene(gpu_hosts["healthy"])
    shared = tuple(RankPlacement(rank=n, local_rank=n, gpu=0) for n in range(8))
    scene.facts(placements=shared, environment={"CUDA_VISIBLE_DEVICES": "0"})
    (found,) = scene.findings()
    assert (found.code, found.severity, found.where.gpu) == ("duplicate-gpu", "warning", 0)
    assert "CUDA_VISIBLE_DEVICES '0'" in " ".join(e.text for e in found.evidence)
    scene.facts(gpus=scene.hosts[0].gpus[:1], gpu_pairs=())
    (found,) = scene.findings()
    assert (found.code, found.severity) == ("duplicate-gpu", "info")


@pytest.mark.parametrize(
    "words",
    [
        "Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000",
        "Multiple ranks detected using the same GPU on this node",
        "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
    ],
)
def test_nccls_refusal_of_a_shared_gpu_is_the_cause_of_the_failure(gpu_scene, gpu_hosts, words):
    scene = gpu_scene(gpu_hosts["healthy"])
    ranks = [
        RankOutcome(rank=n, host="h100-a", outcome="failed", phase="init",
                    error=f"DistBackendError: NCCL error: invalid usage. Last error: {words}")
        for n in (0, 2)
    ]  # fmt: skip
    scene.session("(default)", "failed", ranks)
    report = judge(scene.report())
    (found,) = [f for f in report.findings if f.severity == "broken"]
    assert (found.code, found.confidence) == ("duplicate-gpu", "asked")
    assert found.where.ranks == (0, 2) and found.where.host == "h100-a"


def test_a_driver_that_does_not_answer_is_told_and_a_missing_driver_is_not(gpu_scene):
    mute = made_host("a", unreadable={"nvml": "Driver/library version mismatch"},
                     kernel_modules=("nvidia",))  # fmt: skip
    (found,) = gpu_scene(mute).findings()
    assert (found.code, found.severity) == ("topology-unknown", "warning")
    assert "version mismatch" in found.summary


def test_a_gpu_that_the_fabric_file_has_and_the_host_has_not_is_missing(gpu_scene, gpu_hosts):
    fabric = Fabric(name="mine", gpus=FabricGpus(per_host=8))
    scene = gpu_scene(gpu_hosts["healthy"], fabric=fabric)
    assert scene.findings() == []
    scene.facts(gpus=scene.hosts[0].gpus[:7], error_counters={"xid79@0000:b8:00": 1})
    (found,) = scene.findings()
    assert (found.code, found.kind) == ("topology-unknown", "gpu-missing")
    assert "7 of 8 GPUs" in found.summary
    assert any("xid79" in evidence.text for evidence in found.evidence)


def test_copies_that_arrive_wrong_break_the_verdict(gpu_scene, gpu_hosts):
    scene = gpu_scene(gpu_hosts["acs"]).between({(0, 1): 20.0}, wrong=4096)
    report = judge(scene.report())
    found = next(f for f in report.findings if f.code == "wrong-result")
    assert report.verdict == "broken" and found.where.link == ("GPU0", "GPU1")
    assert "4,096" in found.summary and "GPU 0 to GPU 1" in found.summary


# ------------------------------------------------------------------- all alike: no accusation

numbers = st.none() | st.integers(0, 20)
names = [None, "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090", "NVIDIA GB200"]
any_gpu = st.builds(
    Gpu,
    index=st.just(0),
    name=st.sampled_from(names),
    pcie_generation=st.none() | st.integers(1, 6),
    pcie_max_generation=st.none() | st.integers(1, 6),
    pcie_width=st.sampled_from([None, 1, 4, 8, 16]),
    pcie_max_width=st.sampled_from([None, 8, 16]),
    pcie_idle=st.none() | st.booleans(),
    nvlinks_active=numbers,
    nvlinks_inactive=numbers,
    c2c_links=st.none() | st.integers(0, 10),
    mig_mode=st.none() | st.booleans(),
    numa_node=st.none() | st.integers(0, 1),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    gpu=any_gpu,
    gpus=st.integers(1, 8),
    hosts=st.integers(1, 3),
    links=st.sampled_from([None, 0]),
    p2p=st.sampled_from([{}, OK, NO]),
    rate=st.none() | st.floats(0.1, 400),
)
def test_gpus_that_are_all_alike_are_never_accused(gpu_scene, gpu, gpus, hosts, links, p2p, rate):
    made = [
        made_host(
            f"h{n}",
            *(msgspec.structs.replace(gpu, index=index) for index in range(gpus)),
            gpu_pairs=all_pairs(gpus, nvlinks=links, p2p=p2p, pci_path="PIX"),
        )
        for n in range(hosts)
    ]
    scene = gpu_scene(*made)
    if rate is not None:
        for host in range(hosts):
            scene.copies(dict.fromkeys(range(gpus), rate), host=host)
    assert scene.findings(at_least="degraded") == []


# -------------------------------------------------------------------- bridges two by two


@pytest.fixture
def bridged():
    """Four GPUs, each joined with one neighbour by a bridge; the file says NVLink."""
    pairs = tuple(
        msgspec.structs.replace(
            pair, nvlinks=12 if pair.gpus in ((0, 1), (2, 3)) else 0, pci_path="SYS",
            p2p={"read": "OK", "write": "OK"},
        )
        for pair in all_pairs(4)
    )  # fmt: skip
    links = (Nvlink(links=tuple(range(12)), active=True, speed_gbs=25.0, remote="gpu"),)
    gpus = cards(4, "NVIDIA A100 80GB PCIe", nvlinks_active=12, nvlinks=links)
    return made_host("a100", *gpus, gpu_pairs=pairs)


NVLINK = Fabric(name="mine", gpus=FabricGpus(path="nvlink"))


def shm(a: int, b: int) -> str:
    return f"Channel 00 : {a}[{a}] -> {b}[{b}] via SHM/direct/direct"


def test_shared_memory_between_bridges_is_right_whatever_a_file_says(gpu_scene, bridged):
    scene = gpu_scene(bridged, fabric=NVLINK).log("(default)", shm(1, 2), shm(3, 0), gbs=20)
    assert scene.findings(at_least="warning") == []


def test_shared_memory_where_a_bridge_is_stays_unexpected(gpu_scene, bridged):
    scene = gpu_scene(bridged, fabric=NVLINK).log("(default)", shm(0, 1), shm(1, 2), gbs=20)
    (found,) = scene.findings(at_least="warning")
    assert (found.code, found.where.link) == ("gpu-path-unexpected", ("GPU0", "GPU1"))


def test_no_peer_access_between_bridges_is_how_the_machine_is_built(gpu_scene, bridged):
    scene = gpu_scene(bridged, fabric=NVLINK)
    for a, b in ((0, 2), (0, 3), (1, 2), (1, 3)):
        scene.pair(a, b, p2p={"read": "CNS", "write": "CNS"})
    assert scene.findings(at_least="warning") == []
    scene.pair(0, 1, p2p={"read": "CNS", "write": "CNS"})
    (found,) = scene.findings(at_least="warning")
    assert (found.code, found.where.link) == ("p2p-blocked", ("GPU0", "GPU1"))


def test_nothing_is_claimed_of_a_ring_over_bridges_and_pcie(gpu_scene, bridged):
    scene = gpu_scene(bridged).measured("p2p", 20)
    assert [line.expected_busbw_gbs for line in judge(scene.report()).lines] == [None]
