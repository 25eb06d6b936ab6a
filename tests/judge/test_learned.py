"""What is slower than good runs were, where no network of its own is to blame."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge.verdict import judge
from bench.records import Candidate, Fabric, FabricBusbw, Interval, Report

SIZE = 1024 * 1024


def entry(candidate: str, busbw_gbs: float, **more: object) -> FabricBusbw:
    return FabricBusbw(
        collective="all_reduce", hosts=4, candidate=candidate, backend="gloo",
        busbw_gbs=busbw_gbs, tolerance=0.04, **more,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def good(make_scene):
    """A healthy cluster whose default rides the data network, both as in good runs."""
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data")
    scene.expects(
        ("data", "data", 0.5), ("mgmt", "management", 0.1),
        busbw=(entry("data", 0.0596), entry("(default)", 0.0596)),
    )  # fmt: skip
    return scene.all_measured()


def again(scene, name: str, gbs: float):
    """The candidate measured at another bandwidth."""
    scene.lines[:] = [line for line in scene.lines if line.candidate != name]
    return scene.measured(name, gbs)


def serious(report: Report) -> list[tuple[str, str | None]]:
    return [
        (f.code, f.where.candidate)
        for f in report.findings
        if f.severity in ("degraded", "broken")
    ]


def test_as_fast_as_the_good_runs_is_healthy(good):
    report = judge(good.report())
    assert serious(report) == []
    assert report.verdict == "healthy"


def test_a_default_slower_than_ever_while_its_network_is_not(good):
    report = judge(again(good, "(default)", 0.0540).report())
    assert serious(report) == [("below-expectation", "(default)")]
    finding = next(f for f in report.findings if f.code == "below-expectation")
    assert (
        "NCCL as it is reaches 91 % of the expected 0.0596 GB/s in all_reduce" in finding.summary
    )
    assert {line.basis for line in finding.evidence} == {"measured", "expected"}


def test_a_slow_network_is_told_once_with_the_default_as_evidence(good):
    again(again(good, "data", 0.0500), "(default)", 0.0500)
    report = judge(good.report())
    assert serious(report) == [("link-degraded", "data")]
    assert sum("0.05 GB/s" in e.text for f in report.findings for e in f.evidence) >= 2


def test_five_percent_below_a_learned_figure_is_found_where_the_default_tolerance_is_ten(good):
    again(again(good, "data", 0.0566), "(default)", 0.0566)
    assert serious(judge(good.report())) == [("link-degraded", "data")]
    lenient = msgspec.structs.replace(good.the_fabric, busbw=())
    good.the_fabric = lenient
    assert serious(judge(good.report())) == []


def test_the_interval_protects_a_noisy_line(good):
    good.lines[:] = [line for line in good.lines if line.candidate == "mgmt"]
    good.measured("data", 0.0560, spread=0.05).measured("(default)", 0.0560, spread=0.05)
    assert serious(judge(good.report())) == []


def test_a_gpu_path_slower_than_ever_is_found_on_its_host(make_scene):
    scene = make_scene({"data": 500}, hosts=2, backend="nccl").chooses("data")
    path = Candidate(
        name="p2p@host1", kind="gpu-path", transport="gpu", interfaces={"host1": "p2p"},
        ranks=(0, 1),
    )  # fmt: skip
    for name in ("p2p@host1", "shm@host1"):
        short = name.partition("@")[0]
        scene.candidates[name] = msgspec.structs.replace(
            path, name=name, interfaces={"host1": short}
        )
        scene.measured(name, 300.0 if short == "p2p" else 10.0)
    stated = [
        FabricBusbw(collective="all_reduce", hosts=1, ranks_per_host=2, candidate=name,
                    backend="nccl", busbw_gbs=gbs, tolerance=0.05, runs=5)
        for name, gbs in (("p2p", 370.0), ("shm", 14.0))
    ]  # fmt: skip
    scene.the_fabric = Fabric(name="lab", busbw=tuple(stated))
    scene.all_measured()
    found = [f for f in judge(scene.report()).findings if f.code == "below-expectation"]
    assert [(f.where.candidate, f.where.host, f.severity) for f in found] == [
        ("p2p@host1", "host1", "degraded"), ("shm@host1", "host1", "warning"),
    ]  # fmt: skip


def test_latency_beyond_its_learned_tolerance_is_found(good):
    stated = (entry("data", 0.0596, latency_us=600.0, latency_tolerance=0.2),)
    good.the_fabric = msgspec.structs.replace(good.the_fabric, busbw=stated)
    assert serious(judge(good.report())) == []
    slow = Interval(value=1.2e-3, low=1.1e-3, high=1.3e-3)
    good.lines[:] = [
        msgspec.structs.replace(line, latency_s=slow) if line.candidate == "data" else line
        for line in good.lines
    ]
    report = judge(good.report())
    assert serious(report) == [("latency-degraded", "data")]
    (finding,) = (f for f in report.findings if f.code == "latency-degraded")
    assert "2.0 times as long as expected in all_reduce" in finding.summary
    wide = Interval(value=1.2e-3, low=0.7e-3, high=1.9e-3)
    good.lines[:] = [msgspec.structs.replace(line, latency_s=wide) for line in good.lines]
    assert serious(judge(good.report())) == []


def test_hints_accuse_nobody(good):
    good.the_fabric = msgspec.structs.replace(good.the_fabric, hint=True)
    again(again(good, "data", 0.0200), "(default)", 0.0200)
    assert serious(judge(good.report())) == []
