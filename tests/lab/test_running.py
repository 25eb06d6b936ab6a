"""A lab that is up: hosts with their own names, interfaces and rates, and nothing left after."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.lab import keeper
from bench.records import BadInput

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.lab


def test_hosts_have_their_own_names_interfaces_and_processes(
    up: Callable[[str], Any], two_networks: str
) -> None:
    ground = up(two_networks)
    for host, data in ((1, "data0"), (2, "ens1f0")):
        assert ground.inside(host, "hostname").strip() == f"host{host}"
        shown = ground.inside(host, "ls", "/sys/class/net").split()
        assert {"lo", "mgmt0", "docker0", data} <= set(shown)
        assert not {"eth0", "ens1f0" if host == 1 else "data0"} & set(shown)
        assert ground.inside(host, "cat", "/proc/1/comm").strip() == f"lab-host{host}"
        control = "/proc/sys/net/ipv4/tcp_congestion_control"
        assert ground.inside(host, "cat", control).strip() == "reno"


def test_getifaddrs_lists_interfaces_in_the_order_of_the_file(
    up: Callable[[str], Any], two_networks: str
) -> None:
    code = "import socket; print([name for _, name in socket.if_nameindex()])"
    listed = up(two_networks).inside(1, sys.executable, "-c", code)
    names = [name for name in ("mgmt0", "docker0", "data0") if name in listed]
    assert sorted(names, key=listed.index) == ["mgmt0", "docker0", "data0"]


def test_isolated_bridges_have_one_address_carrier_and_lead_nowhere(
    up: Callable[[str], Any], two_networks: str
) -> None:
    ground = up(two_networks)
    for host in (1, 2):
        shown = ground.inside(host, "ip", "-brief", "address", "show", "docker0").split()
        assert shown[1:3] == ["UP", "172.18.0.1/16"]
        ports = ground.inside(host, "ip", "-brief", "address", "show", "master", "docker0")
        assert "fe80" not in ports


def test_names_resolve_to_the_first_network_and_back(
    up: Callable[[str], Any], two_networks: str
) -> None:
    code = (
        "import socket; print(socket.gethostbyname(socket.gethostname()),"
        " socket.gethostbyname('host1'), socket.getnameinfo(('10.3.0.1', 0), 0)[0])"
    )
    said = up(two_networks).inside(2, sys.executable, "-c", code)
    assert said.split() == ["10.1.0.2", "10.1.0.1", "host1-data"]


@pytest.mark.measures
def test_rates_are_true_in_both_directions(
    up: Callable[[str], Any], two_networks: str, payload_mbit: Callable[[float], float]
) -> None:
    ground = up(two_networks)
    ground.sink(1, "data")
    ground.sink(2, "data")
    ground.sink(2, "mgmt")
    for source, target, network, rate in ((1, 2, "data", 200), (2, 1, "data", 200)):
        reached = ground.rate_mbit(source, target, network)
        assert reached == pytest.approx(payload_mbit(rate), rel=0.03)
    assert ground.rate_mbit(1, 2, "mgmt") == pytest.approx(payload_mbit(100), rel=0.03)


def test_two_labs_stand_side_by_side(up: Callable[[str], Any], two_networks: str) -> None:
    first, second = up(two_networks), up(two_networks)
    first.sink(2, "data")
    assert first.once(1, 2, "data", 1000) == "ok"
    assert second.once(1, 2, "data", 1000) == "refused"  # same address, another world


def test_hosts_may_all_be_called_alike(up: Callable[[str], Any]) -> None:
    ground = up('hosts = 2\nhostnames = ["node", "node"]\n[[network]]\n')
    for host in (1, 2):
        code = "import socket; print(socket.gethostbyname('node'))"
        assert ground.inside(host, sys.executable, "-c", code).strip() == f"10.1.0.{host}"


def test_closing_leaves_no_process_and_no_file(
    up: Callable[[str], Any],
    two_networks: str,
    lab_processes: Callable[[], set[int]],
    wait_for: Callable[..., bool],
) -> None:
    named = set(Path("/run/netns").glob("*"))
    ground = up(two_networks)
    ground.lab.start(ground.lab.hosts[0], ["sleep", "60"])
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    ground.lab.start(ground.lab.hosts[1], [sys.executable, "-c", stubborn])
    assert wait_for(lambda: len(lab_processes()) >= 5), "those forked last have no names yet"
    ground.lab.close()
    assert not lab_processes()
    assert set(Path("/run/netns").glob("*")) == named


def test_killing_the_owner_takes_the_lab_with_it(
    two_networks: str,
    lab_processes: Callable[[], set[int]],
    wait_for: Callable[..., bool],
    tmp_path: Path,
) -> None:
    file, scratch = tmp_path / "lab.toml", tmp_path / "scratch"
    file.write_text(two_networks)
    scratch.mkdir()
    code = (
        "import pathlib, sys, time\n"
        "from bench.lab import checks, running\n"
        "lab = running.open_lab(checks.load(pathlib.Path(sys.argv[1])))\n"
        "inner = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)'\n"
        "for host in lab.hosts: lab.start(host, [sys.executable, '-c', inner])\n"
        "print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(file)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)},
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    owner.stdout.close()
    assert len(lab_processes()) >= 5
    owner.kill()
    owner.wait(10)
    assert wait_for(lambda: not lab_processes())
    assert not list(scratch.iterdir())


def test_a_command_inside_ends_with_its_own_status(
    up: Callable[[str], Any], two_networks: str
) -> None:
    ground = up(two_networks)
    host = ground.lab.hosts[0]
    for argv, status in (
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-program"], 127),
    ):
        assert ground.lab.start(host, argv, stderr=subprocess.DEVNULL).wait(10) == status


def test_home_and_temporary_files_are_the_hosts_own(
    up: Callable[[str], Any], two_networks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = up(two_networks)
    ground.inside(1, "sh", "-c", "echo NCCL_DEBUG=INFO > $HOME/.nccl.conf; touch $TMPDIR/x")
    assert ground.inside(2, "sh", "-c", "ls -A $HOME $TMPDIR | grep -v :").strip() == ""


def test_what_must_stay_visible_is_not_covered() -> None:
    assert keeper.scratch_place(["/usr/bin", "/tmp/x"]) == "/run"
    assert keeper.scratch_place(["/run/user/1000/out"]) != "/run"
    with pytest.raises(BadInput, match="no folder of /run"):
        keeper.scratch_place([f"{place}/x" for place in keeper.SCRATCH_PLACES])
