"""Lines to paste mean the same to every shell, whatever interfaces are called."""

from __future__ import annotations

import subprocess

import pytest

from bench.judge.networks import Networks
from bench.judge.remedy import export_line, quoted, recommendation
from bench.judge.verdict import judge


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
