"""A fabric file learned from runs: what is learned, what is refused, and that it gates."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bench.formats import fabric_file, toml_file
from bench.judge import expected
from bench.judge.learning import LATENCY_WORST, learn
from bench.judge.verdict import judge
from bench.records import (
    BadInput,
    Candidate,
    Evidence,
    Fabric,
    FabricGpus,
    FabricNetwork,
    Finding,
    Gpu,
    GpuPair,
    Interval,
    Plan,
    PlanSettings,
    RdmaPort,
    Report,
    Software,
)

WIRES = {"mgmt": "physical", "data": "physical"}


@pytest.fixture
def run(make_scene):
    """A good run of four hosts in which data carries `gbs`, mgmt a fifth and docker0 nothing."""

    def made(number: int = 1, gbs: float = 0.060, **scene_options) -> Report:
        scene = make_scene({"mgmt": 100, "data": 500, "docker": 0}, kinds=WIRES, **scene_options)
        scene.chooses("data").measured("mgmt", gbs / 5).measured("data", gbs)
        scene.measured("(default)", gbs).outcome("docker", "unreachable")
        return msgspec.structs.replace(
            scene.report(), run=f"2026-11-{number:02}T02-00-00Z", complete=True
        )

    return made


def entries(fabric: Fabric) -> dict[tuple[str | None, str], float]:
    return {(e.candidate, e.collective): e.busbw_gbs for e in fabric.busbw}


def read_back(fabric: Fabric, notes=()) -> Fabric:
    text = fabric_file.render(fabric, head=notes)
    return toml_file.load_text(text, Fabric, file="learned.toml")


# --------------------------------------------------------------------------- what is learned


def test_networks_rates_and_figures_of_what_was_measured(run) -> None:
    made = learn([run(day, 0.060 + day / 1e4) for day in range(1, 6)], name="mine")
    fabric = made.fabric
    assert fabric.name == "mine"
    assert (fabric.source, fabric.date) == (
        "5 good runs: 2026-11-01T02-00-00Z … 2026-11-05T02-00-00Z", "2026-11-05",
    )  # fmt: skip
    assert fabric.network == (
        FabricNetwork(name="mgmt", role="management", interfaces=("mgmt0",), rate_gbps=10,
                      mtu=1500, claimed=True),
        FabricNetwork(name="data", role="data", interfaces=("data0",), rate_gbps=10, mtu=1500,
                      claimed=True),
    )  # fmt: skip
    assert set(entries(fabric)) == {
        (candidate, collective)
        for candidate in ("mgmt", "data", "(default)")
        for collective in ("all_reduce", "all_gather")
    }
    assert entries(fabric)["data", "all_reduce"] == pytest.approx(0.0603, rel=1e-3)
    entry = fabric.busbw[0]
    assert (entry.hosts, entry.ranks_per_host, entry.backend, entry.runs) == (4, 1, "gloo", 5)
    assert entry.from_bytes == 4 * 2**20
    assert entry.tolerance is not None and 0.02 <= entry.tolerance < 0.05
    assert entry.note is not None and "shows in nine of ten runs" in entry.note
    assert read_back(fabric, made.notes) == fabric
    assert any("mgmt: less than half as fast" in note for note in made.notes)


def test_one_run_gives_levels_and_says_that_the_tolerance_is_only_the_default(run) -> None:
    made = learn([run()], name="mine")
    assert all(entry.tolerance is None for entry in made.fabric.busbw)
    assert all("only the default" in (entry.note or "") for entry in made.fabric.busbw)
    assert any(
        note.startswith("one run: how far runs lie apart is unknown") for note in made.notes
    )
    assert all(entry.latency_us is None for entry in made.fabric.busbw)


def test_two_runs_are_not_enough_either(run) -> None:
    made = learn([run(1), run(2, 0.061)], name="mine")
    assert all(entry.tolerance is None for entry in made.fabric.busbw)
    assert "fewer than 3, so the tolerance is only the default" in (
        made.fabric.busbw[0].note or ""
    )


def test_runs_that_lie_further_apart_give_a_wider_gate(run) -> None:
    def tolerance(step: float) -> float:
        made = learn([run(day, 0.06 * (1 + day * step)) for day in range(1, 6)], name="x")
        return made.fabric.busbw[0].tolerance or 0.0

    assert tolerance(0.001) < tolerance(0.01) < tolerance(0.05)


def test_what_the_operator_stated_is_kept(run, make_scene) -> None:
    stated = Fabric(
        name="ours",
        network=(
            FabricNetwork(name="data", role="data", interfaces=("data0",), rate_gbps=0.5),
            FabricNetwork(name="san", role="storage", interfaces=("san0",)),
        ),
        gpus=FabricGpus(per_host=8),
    )
    runs = [msgspec.structs.replace(run(day), fabric=stated) for day in (1, 2, 3)]
    fabric = learn(runs, name="mine").fabric
    by_name = {network.name: network for network in fabric.network}
    assert by_name["data"] == stated.network[0]
    assert by_name["san"].role == "storage"
    assert fabric.gpus == stated.gpus


def test_gpus_and_rdma_ports_are_learned_from_the_hosts(run) -> None:
    def with_rdma(report: Report) -> Report:
        names = [f.host for f in report.hosts]
        ports = tuple(
            RdmaPort(device=f"mlx5_{i}", port=1, state="ACTIVE", link_layer="InfiniBand",
                     rate_gbit=400.0)
            for i in range(2)
        )  # fmt: skip
        gpus = tuple(
            Gpu(index=i, name="NVIDIA H200", nvlinks_active=18, pcie_max_generation=5,
                pcie_max_width=16)
            for i in range(2)
        )  # fmt: skip
        hosts = tuple(
            msgspec.structs.replace(
                f, rdma_ports=ports, gpus=gpus, gpu_pairs=(GpuPair(gpus=(0, 1), nvlinks=18),)
            )
            for f in report.hosts
        )
        rails = Candidate(
            name="rdma", kind="network", transport="rdma", outcome="measured",
            interfaces=dict.fromkeys(names, "mlx5_0+mlx5_1"),
        )  # fmt: skip
        fast = [
            msgspec.structs.replace(
                line, candidate="rdma", busbw_gbs=Interval(value=90, low=89, high=91)
            )
            for line in report.lines
            if line.candidate == "data"
        ]
        return msgspec.structs.replace(
            report, hosts=hosts, candidates=(*report.candidates, rails),
            lines=(*report.lines, *fast),
        )  # fmt: skip

    runs = [with_rdma(run(day)) for day in (1, 2, 3)]
    fabric = learn(runs, name="mine").fabric
    (rdma,) = (network for network in fabric.network if network.name == "rdma")
    assert rdma.interfaces == ("mlx5_0", "mlx5_1")
    assert (rdma.role, rdma.rate_gbps, rdma.ports_per_host) == ("data", 400, 2)
    assert rdma.technology == "InfiniBand"
    assert fabric.gpus == FabricGpus(
        model=("NVIDIA H200",), per_host=2, path="nvlink", nvlinks=18, pcie="5x16"
    )
    assert entries(fabric)["rdma", "all_reduce"] == 90
    expected.check_fabric(fabric, runs[0].hosts)


def test_a_gpu_path_on_several_hosts_is_as_good_as_the_slowest(make_scene) -> None:
    scene = make_scene({"data": 500}, hosts=2, backend="nccl").chooses("data").all_measured()
    for host, gbs in (("host1", 370.0), ("host2", 365.0)):
        name = f"p2p@{host}"
        scene.candidates[name] = Candidate(
            name=name, kind="gpu-path", transport="gpu", interfaces={host: "p2p"}, ranks=(0, 1)
        )
        scene.measured(name, gbs)
    fabric = learn([scene.report()], name="mine").fabric
    (entry,) = (e for e in fabric.busbw if e.candidate == "p2p" and e.collective == "all_reduce")
    assert (entry.busbw_gbs, entry.hosts, entry.ranks_per_host) == (365, 1, 2)


def test_one_host_alone_teaches_its_figures_and_no_network(make_scene) -> None:
    scene = make_scene({"data": 500}, hosts=1).chooses("data").all_measured()
    fabric = learn([scene.report()], name="mine").fabric
    assert fabric.network == ()
    assert {entry.hosts for entry in fabric.busbw} == {1}


def test_latency_gates_only_where_good_runs_agree_in_it(run) -> None:
    def with_latency(report: Report, value: float) -> Report:
        lines = tuple(
            msgspec.structs.replace(
                line, latency_s=Interval(value=value, low=value * 0.9, high=value * 1.1)
            )
            for line in report.lines
        )
        return msgspec.structs.replace(report, lines=lines)

    near = [with_latency(run(day), 30e-6 * (1 + day / 100)) for day in range(1, 6)]
    entry = learn(near, name="x").fabric.busbw[0]
    assert entry.latency_us == pytest.approx(30.9, rel=0.01)
    assert entry.latency_tolerance is not None
    assert 0.1 <= entry.latency_tolerance < LATENCY_WORST
    far = [with_latency(run(day), 30e-6 * 2**day) for day in range(1, 6)]
    assert learn(far, name="x").fabric.busbw[0].latency_us is None


def test_a_way_that_some_runs_lack_is_learned_and_told(run) -> None:
    without = run(3)
    without = msgspec.structs.replace(
        without, lines=tuple(line for line in without.lines if line.candidate != "mgmt")
    )
    made = learn([run(1), run(2), without], name="x")
    assert "mgmt, all_reduce: not measured in 1 of 3 runs" in made.notes
    assert next(e for e in made.fabric.busbw if e.candidate == "mgmt").runs == 2


def test_a_run_that_is_there_twice_counts_once(run) -> None:
    made = learn([run(1), run(1), run(1)], name="x")
    assert made.fabric.busbw[0].runs == 1
    assert made.notes.count("run 2026-11-01T02-00-00Z is there twice and counts once") == 2


def test_versions_plans_and_a_single_day_are_told(run) -> None:
    def of(report: Report, nccl: str, plan: str) -> Report:
        hosts = tuple(
            msgspec.structs.replace(f, software=Software(nccl=nccl)) for f in report.hosts
        )
        return msgspec.structs.replace(
            report, hosts=hosts, plan=Plan(settings=PlanSettings(name=plan)), run=report.run[:11]
            + nccl,
        )  # fmt: skip

    runs = [of(run(1), nccl, plan) for nccl, plan in
            (("2.27", "quick"), ("2.28", "nightly"), ("2.28.1", "quick"))]  # fmt: skip
    notes = learn(runs, name="x").notes
    assert "runs differ in NCCL: 2.27, 2.28 and 2.28.1" in notes
    assert "runs differ in plan: nightly and quick" in notes
    assert any(note.startswith("all runs are of one day") for note in notes)


# --------------------------------------------------------------------------- what is refused


def with_finding(report: Report, severity: str) -> Report:
    finding = Finding(
        code="link-degraded", severity=severity, summary="slow",  # type: ignore[arg-type]
        evidence=(Evidence(basis="measured", text="x"),),
    )  # fmt: skip
    return msgspec.structs.replace(report, findings=(finding,))


def test_a_run_with_a_serious_finding_does_not_teach_unless_told_to(run) -> None:
    bad = [run(1), with_finding(run(2), "degraded"), run(3)]
    with pytest.raises(BadInput, match=r"run 2026-11-02\S+ is no good run \(link-degraded\)"):
        learn(bad, name="x")
    made = learn(bad, name="x", accept_findings=True)
    assert made.notes[0].startswith("learned in spite of findings: link-degraded in 1")
    assert learn([run(1), with_finding(run(2), "warning"), run(3)], name="x").fabric.busbw


def test_a_run_that_was_cut_short_does_not_teach(run) -> None:
    short = msgspec.structs.replace(run(), complete=False)
    with pytest.raises(BadInput, match="was cut short"):
        learn([short], name="x")
    assert learn([short], name="x", accept_findings=True).fabric.busbw


@pytest.mark.parametrize(
    ("change", "word"),
    [({"hosts": 3}, "hosts"), ({"backend": "nccl"}, "backend")],
)
def test_runs_of_different_kinds_are_not_averaged(run, change, word) -> None:
    with pytest.raises(BadInput, match=f"not alike in {word}"):
        learn([run(1), run(2, **change)], name="x")


def test_other_gpus_are_another_kind(run) -> None:
    def of(report: Report, name: str | None) -> Report:
        hosts = tuple(
            msgspec.structs.replace(f, gpus=(Gpu(index=0, name=name),)) for f in report.hosts
        )
        return msgspec.structs.replace(report, hosts=hosts)

    with pytest.raises(BadInput, match=r"in GPUs \(4 × NVIDIA H100 and 4 × unnamed\)"):
        learn([of(run(1), "NVIDIA H100"), of(run(2), None)], name="x")


def test_no_runs_and_runs_without_figures_are_bad_input(run) -> None:
    with pytest.raises(BadInput, match="there is no run"):
        learn([], name="x")
    empty = msgspec.structs.replace(run(), lines=())
    with pytest.raises(BadInput, match="nothing to learn"):
        learn([empty], name="x")


# ------------------------------------------------------------------------------- that it gates


def judged(report: Report, fabric: Fabric) -> list[str]:
    done = judge(msgspec.structs.replace(report, fabric=fabric))
    return [f.code for f in done.findings if f.severity in ("degraded", "broken")]


def test_a_gate_of_ten_runs_passes_good_runs_and_stops_ten_percent_less(run) -> None:
    """Whole reports, learned, written, read back and judged: of 100 good runs that lie 1 % apart
    at most one is accused, of 40 runs with 10 % less at most one is missed."""
    rng = np.random.default_rng(17)

    def some(share: float = 1.0) -> Report:
        return run(1, 0.06 * share * float(np.exp(0.01 * rng.standard_normal())))

    teachers = [msgspec.structs.replace(some(), run=f"2026-11-{day:02}") for day in range(1, 11)]
    fabric = read_back(learn(teachers, name="mine").fabric)
    assert sum(bool(judged(some(), fabric)) for _ in range(100)) <= 1
    found = [judged(some(0.9), fabric) for _ in range(40)]
    assert sum(codes == ["link-degraded"] for codes in found) >= 39


def test_without_learning_ten_percent_less_is_within_the_default_tolerance(run) -> None:
    """What the learned gate adds: the file's rate with its 10 % does not see it."""
    stated = Fabric(
        name="x",
        network=(FabricNetwork(name="data", interfaces=("data0",), rate_gbps=0.5),),
    )
    assert judged(run(1, 0.0588 * 0.92), stated) == []
