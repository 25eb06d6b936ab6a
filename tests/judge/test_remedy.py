"""Lines to paste mean the same to every shell, whatever interfaces are called."""

from __future__ import annotations

import subprocess

import pytest

from bench.judge.networks import Networks
from bench.judge.remedy import export_line, quoted, recommendation
from bench.judge.verdict import judge
from bench.plan.rails import rails
from bench.records import RdmaPort


def value_after(line: str, *, hostname: str = "host1", name: str = "NCCL_SOCKET_IFNAME") -> str:
    """What the variable holds after a shell has read the line, on a host of that name."""
    script = f'hostname() {{ echo {quoted(hostname)}; }}\n{line}\nprintf %s "${name}"'
    return subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=10, check=True
    ).stdout


def test_one_name_everywhere(make_scene):
    scene = make_scene({"data": 500})
    assert export_line(Networks(scene.report()), scene.candidates["data"]) == (
        "export NCCL_SOCKET_IFNAME='=data0'"
    )


@pytest.mark.parametrize("name", ["data0", "eth0:1", "o'neill", "$(reboot)", "a b", "`x`", "é"])
def test_odd_names_survive_the_shell(make_scene, name):
    scene = make_scene({"data": 500}, names={"data": [name] * 4})
    line = export_line(Networks(scene.report()), scene.candidates["data"])
    assert value_after(line) == f"={name}"


def test_a_list_of_exact_names_serves_hosts_that_name_it_differently(make_scene):
    scene = make_scene({"data": 500}, names={"data": ["a", "b"]}, hosts=2)
    net = Networks(scene.report())
    assert value_after(export_line(net, scene.candidates["data"])) == "=a,b"
    assert recommendation(scene.candidates["data"]).per_host == {
        "host1": {"NCCL_SOCKET_IFNAME": "=a"},
        "host2": {"NCCL_SOCKET_IFNAME": "=b"},
    }


def test_crossed_names_need_a_case_on_the_host(make_scene):
    names = {"mgmt": ["a", "b"], "data": ["b", "a"]}
    scene = make_scene({"mgmt": 100, "data": 500}, names=names, hosts=2)
    line = export_line(Networks(scene.report()), scene.candidates["data"])
    assert value_after(line, hostname="host1") == "=b"
    assert value_after(line, hostname="host2") == "=a"


def test_settings_that_only_forced_the_measurement_are_not_advised(misselected):
    advice = judge(misselected.report()).recommendation
    assert set(advice.environment) == {"NCCL_SOCKET_IFNAME"}


# ------------------------------------------------------------------------------------ RDMA


def with_rails(scene, *devices: tuple[str, ...]):
    """Hosts with active ports of these names, and the candidate of all of them."""
    for host, names in zip(scene.names, devices, strict=True):
        ports = tuple(
            RdmaPort(device=name, port=1, state="ACTIVE", link_layer="InfiniBand")
            for name in names
        )
        scene.facts(host, rdma_ports=ports)
    return rails(list(scene.hosts.values()))[0]


def test_adapters_that_hosts_name_differently_are_listed_once_for_all(make_scene):
    scene = make_scene({"data": 500}, hosts=2)
    candidate = with_rails(scene, ("mlx5_0", "mlx5_1"), ("mlx5_2", "mlx5_3"))
    line = export_line(Networks(scene.report()), candidate)
    for hostname in ("host1", "host2"):
        value = value_after(line, hostname=hostname, name="NCCL_IB_HCA")
        assert value == "=mlx5_0,mlx5_1,mlx5_2,mlx5_3"
    assert "NCCL_SOCKET_IFNAME" not in line


def test_adapters_of_other_networks_under_these_names_need_a_case_on_the_host(make_scene):
    scene = make_scene({"data": 500}, hosts=2)
    candidate = with_rails(scene, ("mlx5_0",), ("mlx5_1",))
    storage = RdmaPort(device="mlx5_1", port=1, state="ACTIVE", link_layer="Ethernet")
    scene.facts("host1", rdma_ports=(*scene.hosts["host1"].rdma_ports, storage))
    net = Networks(scene.report())
    for hostname, value in (("host1", "=mlx5_0"), ("host2", "=mlx5_1")):
        line = export_line(net, candidate, {"NCCL_NET": "IB"})
        assert value_after(line, hostname=hostname, name="NCCL_IB_HCA") == value
        assert value_after(line, hostname=hostname, name="NCCL_NET") == "IB"
