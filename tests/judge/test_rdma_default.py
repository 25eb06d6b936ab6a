"""A default case over RDMA: NCCL meets on an interface, and its data goes by ports of adapters."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge.networks import Networks
from bench.judge.verdict import judge
from bench.plan.rails import rails
from bench.records import (
    DataPath,
    HostEvidence,
    NcclConf,
    PairFigure,
    PairTime,
    RdmaPort,
    Report,
    Sample,
)

DEFAULT = "(default)"
SIZE, CALLS = 2**26, 20
MOVED = SIZE * CALLS
FAST = 100.0  # GB/s of all ports


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def infiniband(make_scene, *used: int, ports: int = 8, ranks: int = 8, gbs: float = FAST):
    """Four hosts with so many ports, eno1 of 10 Gbit/s to meet on; the default case went by
    `used` ports."""
    names = {"eno1": ["eno1"] * 4}
    scene = make_scene({"eno1": 10_000}, names=names, kinds={"eno1": "physical"}, backend="nccl")
    for number, host in enumerate(scene.names):
        scene.facts(
            host,
            rdma_ports=tuple(
                RdmaPort(device=f"mlx5_{n}", port=1, state="ACTIVE", link_layer="InfiniBand")
                for n in range(ports)
            ),
            ranks=tuple(range(number * ranks, (number + 1) * ranks)),
        )
    for candidate in rails(list(scene.hosts.values())):
        scene.candidates[candidate.name] = candidate
    scene.chooses("eno1", path=[f"mlx5_{n}:1" for n in used], transport="rdma")
    scene.measured("eno1", 1.1).measured("rdma", FAST).measured(DEFAULT, gbs)
    counted(scene, "rdma", range(ports))
    return counted(scene, DEFAULT, used)


def counted(scene, name, ports, *, bootstrap: int = 10**6, moved: int = MOVED):
    """What the counters of every host say of a candidate's session."""
    share = moved // max(len(tuple(ports)), 1)
    evidence = [
        HostEvidence(host=h, rdma={f"mlx5_{n}:1": {"port_rcv_bytes": share} for n in ports})
        for h in scene.names
    ]
    scene.session(name, hosts=evidence)
    sample = Sample(collective="all_reduce", size_bytes=SIZE, times_s=(1e-3,) * CALLS)
    scene.sessions[-1] = msgspec.structs.replace(scene.sessions[-1], samples=(sample,))
    carried = {host: {"eno1": bootstrap, "lo": 10**7} for host in scene.names}
    return scene.outcome(name, "measured", carried=carried)


def test_the_path_is_what_the_ports_counted_by_the_names_of_candidates(make_scene):
    scene = infiniband(make_scene, *range(8))
    net = Networks(scene.report())
    assert net.path("host1") == tuple(f"mlx5_{n}" for n in range(8))
    assert net.basis("host1") == "measured"
    assert [c.name for c in net.networks if net.carries(c)][:2] == ["rdma", "rdma/mlx5_0"]
    assert net.chosen(scene.candidates["eno1"]) and not net.bears(scene.candidates["eno1"])
    report = judge(scene.report())
    assert (report.verdict, report.findings) == ("healthy", ())
    assert [c.name for c in report.candidates if c.default_choice] == ["rdma"]


def test_a_device_with_two_ports_has_them_told_apart(make_scene):
    scene = infiniband(make_scene, 0)
    port = scene.hosts["host1"].rdma_ports[0]
    two = (port, msgspec.structs.replace(port, port=2, state="DOWN"))
    scene.everywhere(rdma_ports=two)
    assert Networks(scene.report()).path("host1") == ("mlx5_0:1",)


def test_where_ports_counted_nothing_the_path_is_predicted_and_not_the_meeting_place(make_scene):
    scene = infiniband(make_scene, *range(8))
    scene.sessions.clear()
    net = Networks(scene.report())
    assert net.path("host1") == tuple(f"mlx5_{n}" for n in range(8))
    assert net.basis("host1") == "predicted"
    assert judge(scene.report()).findings == ()


def test_a_plugins_path_is_not_known_from_where_nccl_meets(make_scene):
    scene = infiniband(make_scene, *range(8))
    scene.everywhere(data_path=DataPath(transport="plugin", why="a plugin"))
    scene.sessions.clear()
    assert Networks(scene.report()).path("host1") == ()
    assert serious(judge(scene.report())) == []


def test_data_that_fell_back_to_sockets_is_seen_by_its_bytes(make_scene):
    scene = infiniband(make_scene, *range(8), gbs=1.1)
    scene.sessions = [s for s in scene.sessions if s.case.candidate != DEFAULT]
    counted(scene, DEFAULT, (), bootstrap=2 * MOVED)
    net = Networks(scene.report())
    assert (net.path("host1"), net.basis("host1")) == (("eno1",), "measured")
    report = judge(scene.report())
    assert serious(report) == ["interface-misselected"]
    assert "sends its data there" in report.findings[0].summary


def test_a_slow_port_where_nccl_only_meets_wakes_nobody(make_scene):
    scene = infiniband(make_scene, *range(8))
    for host in scene.names:
        scene.interface(host, "eno1", speed_mbit=10_000, max_speed_mbit=10_000)
    scene.interface("host3", "eno1", speed_mbit=1000, max_speed_mbit=10_000)
    report = judge(scene.report())
    assert serious(report) == [] and report.verdict == "healthy"
    assert [(f.code, f.severity) for f in report.findings] == [("link-negotiated-down", "warning")]


def test_a_slow_network_where_nccl_only_meets_wakes_nobody(make_scene):
    scene = infiniband(make_scene, *range(8))
    for host in scene.names:
        scene.interface(host, "eno1", speed_mbit=25_000, max_speed_mbit=25_000)
    report = judge(scene.report())
    assert [(f.code, f.severity) for f in report.findings] == [("link-degraded", "warning")]
    assert report.verdict == "healthy"


def test_a_stale_list_of_adapters_is_told_as_what_it_is(make_scene):
    scene = infiniband(make_scene, 0, gbs=FAST / 8)
    scene.everywhere(environment={"NCCL_IB_HCA": "mlx5_0"})
    report = judge(scene.report())
    assert serious(report) == ["interface-misselected"]
    found = report.findings[0]
    assert found.summary.startswith(
        "With NCCL_IB_HCA=mlx5_0 NCCL meets on eno1 and sends its data over mlx5_0. "
    )
    assert found.confidence == "measured" and found.where.interface == "mlx5_0"
    hcas = "=" + ",".join(f"mlx5_{n}" for n in range(8))
    assert found.remedy == f"export NCCL_IB_HCA='{hcas}'"
    assert report.recommendation.environment == {"NCCL_IB_HCA": hcas}
    assert any("carried 100 % of the bytes" in e.text for e in found.evidence)


def test_an_rdma_default_that_is_short_hangs_on_rdmas_finding_and_not_on_the_bootstraps(
    make_scene,
):
    scene = infiniband(make_scene, *range(8))
    net = Networks(scene.report())
    carrying = {c.name for c in net.networks if net.carries(c)}
    assert "eno1" not in carrying and "rdma" in carrying


# ------------------------------------------------------------------------------ what to paste


@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_job_that_is_held_on_sockets_is_let_go(make_scene, where):
    forced = {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}
    scene = infiniband(make_scene, *range(8), gbs=1.1)
    scene.chooses("eno1").outcome(DEFAULT, "measured")
    scene.sessions = [s for s in scene.sessions if s.case.candidate != DEFAULT]
    counted(scene, DEFAULT, (), bootstrap=2 * MOVED)
    if where == "environment":
        scene.everywhere(environment=forced)
    else:
        scene.everywhere(nccl_conf=(NcclConf(path="/etc/nccl.conf", settings=forced),))
    report = judge(scene.report())
    found = next(f for f in report.findings if f.code == "interface-misselected")
    assert found.remedy.startswith(
        "export NCCL_NET='IB' NCCL_IB_DISABLE='0' NCCL_IB_HCA='=mlx5_0,"
    )
    assert report.recommendation.environment["NCCL_NET"] == "IB"


def test_an_ambiguous_socket_name_is_mended_by_a_socket_name(make_scene):
    scene = infiniband(make_scene, *range(8)).sets("eno")
    choice = msgspec.structs.replace(
        scene.hosts["host1"].nccl_choices[0], interfaces=("eno1", "eno2")
    )
    scene.everywhere(nccl_choices=(choice,))
    report = judge(scene.report())
    found = next(f for f in report.findings if f.code == "interface-ambiguous")
    assert found.remedy == "export NCCL_SOCKET_IFNAME='=eno1'"


def test_a_setting_that_matches_nothing_is_mended_by_a_socket_name(make_scene):
    scene = infiniband(make_scene, *range(8)).chooses(path=[], transport="unknown")
    scene.outcome(DEFAULT, "skipped", "NCCL finds no interface")
    report = judge(scene.report())
    assert report.findings[0].code == "interface-no-match"
    assert report.findings[0].remedy == "export NCCL_SOCKET_IFNAME='=eno1'"
    assert report.recommendation.environment == {"NCCL_SOCKET_IFNAME": "=eno1"}


# --------------------------------------------------------------------------------- how much


def expecting(make_scene, *, ranks: int, ports: int = 8):
    scene = infiniband(make_scene, *range(min(ranks, ports)), ports=ports, ranks=ranks)
    scene.expects(("eno1", "management", None))
    network = msgspec.structs.replace(
        scene.the_fabric.network[0], name="ib", role="data", interfaces=("mlx5_*",),
        rate_gbps=400.0,
    )  # fmt: skip
    scene.the_fabric = msgspec.structs.replace(
        scene.the_fabric, network=(*scene.the_fabric.network, network)
    )
    scene.lines.clear()
    return scene


@pytest.mark.parametrize(("ranks", "gbs"), [(1, 48.0), (4, 120.0), (8, 380.0)])
def test_gpus_that_are_fewer_than_ports_are_not_asked_for_all_of_them(make_scene, ranks, gbs):
    scene = expecting(make_scene, ranks=ranks)
    scene.measured("rdma", gbs).measured(DEFAULT, gbs)
    assert serious(judge(scene.report())) == []


@pytest.mark.parametrize(("ranks", "gbs"), [(1, 20.0), (8, 48.0)])
def test_what_is_sure_of_the_ports_is_still_asked_for(make_scene, ranks, gbs):
    scene = expecting(make_scene, ranks=ranks)
    scene.measured("rdma", gbs).measured(DEFAULT, gbs)
    report = judge(scene.report())
    assert serious(report) == ["link-degraded"]
    assert report.findings[0].remedy == "ibstat; rdma link show"


def test_a_slow_host_on_one_adapter_has_its_adapter_looked_at(make_scene):
    from bench.judge.pairs.evidence import Context
    from bench.judge.pairs.findings import of_suspect
    from bench.records import Interval, Location, Suspect

    figure = PairFigure(
        round=0, stage="screen", hosts=("host1", "host2"),
        times=(PairTime(forward_s=1.0, backward_s=1.0),),
    )  # fmt: skip
    suspect = Suspect(host="host1", slowdown=Interval(value=1.5, low=1.4, high=1.6))
    location = Location(hosts=("host1", "host2"), figures=(figure,), suspects=(suspect,))
    lines = {
        ("mlx5_0", "rdma"): "ibstat mlx5_0; rdma link show",
        ("mlx5_0+mlx5_1", "rdma"): "ibstat; rdma link show",
        ("data0", "socket"): "ethtool data0; ip -s -s link show dev data0",
        ("a+b", "socket"): None,
    }
    for (interface, transport), line in lines.items():
        context = Context(interface=interface, transport=transport)
        assert of_suspect(location, suspect, context).remedy == line
