"""Every fault of a link does what it says, to real TCP, and to nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from bench.records import BadInput

pytestmark = [pytest.mark.lab, pytest.mark.measures]

THREE_HOSTS = """
hosts = 3
[[network]]
name = "data"
rate_mbit = 200
[[network]]
name = "other"
[[fault]]
host = 3
network = "data"
"""


def sinks(ground: Any, network: str = "data", port: int = 7000) -> None:
    for host in (1, 2, 3):
        ground.sink(host, network, port)


def test_a_slow_host_is_slow_both_ways_and_the_others_are_not(
    up: Callable[[str], Any], payload_mbit: Callable[[float], float]
) -> None:
    ground = up(THREE_HOSTS + 'kind = "rate"\nrate_mbit = 50\n')
    sinks(ground)
    for source, target, rate in ((1, 3, 50), (3, 1, 50), (1, 2, 200)):
        assert ground.rate_mbit(source, target, "data") == pytest.approx(
            payload_mbit(rate), rel=0.03
        )


def test_a_rate_can_be_cut_in_one_direction(
    up: Callable[[str], Any], payload_mbit: Callable[[float], float]
) -> None:
    ground = up(THREE_HOSTS + 'kind = "rate"\nrate_mbit = 50\ndirection = "receive"\n')
    sinks(ground)
    assert ground.rate_mbit(1, 3, "data") == pytest.approx(payload_mbit(50), rel=0.03)
    assert ground.rate_mbit(3, 1, "data") == pytest.approx(payload_mbit(200), rel=0.03)


def test_a_rate_can_be_cut_for_one_pair_only(
    up: Callable[[str], Any], payload_mbit: Callable[[float], float]
) -> None:
    ground = up(THREE_HOSTS + 'kind = "rate"\nrate_mbit = 50\npeer = 1\n')
    sinks(ground)
    for source, target, rate in ((1, 3, 50), (3, 1, 50), (2, 3, 200), (3, 2, 200)):
        assert ground.rate_mbit(source, target, "data") == pytest.approx(
            payload_mbit(rate), rel=0.04
        )


def test_a_host_may_have_a_slow_link_to_each_of_several_peers(
    up: Callable[[str], Any], payload_mbit: Callable[[float], float]
) -> None:
    second = '[[fault]]\nhost = 3\nnetwork = "data"\nkind = "rate"\nrate_mbit = 80\npeer = 2\n'
    ground = up(THREE_HOSTS + 'kind = "rate"\nrate_mbit = 50\npeer = 1\n' + second)
    sinks(ground)
    for source, target, rate in ((1, 3, 50), (3, 1, 50), (2, 3, 80), (3, 2, 80), (1, 2, 200)):
        assert ground.rate_mbit(source, target, "data") == pytest.approx(
            payload_mbit(rate), rel=0.04
        )


def test_a_small_mtu_at_the_switch_is_a_black_hole(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "mtu"\nmtu = 1400\nat = "switch"\n')
    sinks(ground)
    for source, target in ((1, 3), (3, 1)):
        assert ground.once(source, target, "data", 1000) == "ok"
        assert ground.once(source, target, "data", 100_000) == "timeout"
    assert ground.once(1, 2, "data", 100_000) == "ok"
    ground.sink(3, "other", 7001)
    assert ground.once(1, 3, "other", 100_000, 7001) == "ok"


def test_a_small_mtu_at_the_host_is_told_and_works(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "mtu"\nmtu = 1400\n')
    assert ground.inside(3, "cat", "/sys/class/net/data0/mtu").strip() == "1400"
    sinks(ground)
    assert ground.once(1, 3, "data", 100_000) == "ok"


def test_an_interface_that_is_down_is_down(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "down"\n')
    shown = ground.inside(3, "ip", "-brief", "link", "show", "data0")
    assert "DOWN" in shown
    ground.sink(1, "data")
    assert ground.once(3, 1, "data", 10) == "Network is unreachable"


def test_a_firewall_drops_everything_without_a_word(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "firewall"\n')
    sinks(ground)
    assert ground.once(1, 3, "data", 10) == "timeout"
    assert ground.once(3, 1, "data", 10) == "timeout"
    assert ground.once(1, 2, "data", 10) == "ok"
    ground.sink(3, "other", 7001)
    assert ground.once(1, 3, "other", 10, 7001) == "ok"


def test_a_firewall_can_drop_one_port(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "firewall"\nport = 7001\n')
    sinks(ground)
    ground.sink(3, "data", 7001)
    assert ground.once(1, 3, "data", 10) == "ok"
    assert ground.once(1, 3, "data", 10, 7001) == "timeout"


def test_lost_packets_are_sent_again(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "loss"\npercent = 3.0\n')
    sinks(ground)

    def retransmitted(host: int) -> int:
        lines = ground.inside(host, "cat", "/proc/net/snmp").splitlines()
        names, values = (line.split() for line in lines if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])

    ground.rate_mbit(1, 2, "data")
    assert retransmitted(1) == 0
    ground.rate_mbit(1, 3, "data")
    assert retransmitted(1) > 0
    ground.rate_mbit(3, 2, "data")
    assert retransmitted(3) > 0


def test_a_duplicate_address_is_held_by_two_hosts(up: Callable[[str], Any]) -> None:
    ground = up(THREE_HOSTS + 'kind = "duplicate-address"\npeer = 2\n')
    for host in (2, 3):
        shown = ground.inside(host, "ip", "-brief", "-4", "address", "show", "data0")
        assert "10.1.0.2/24" in shown
        assert "10.1.0.3/24" not in shown


def test_delay_works_or_the_kernel_is_named_as_lacking_it(up: Callable[[str], Any]) -> None:
    text = THREE_HOSTS + 'kind = "delay"\ndelay_ms = 50\n'
    try:
        ground = up(text)
    except BadInput as bad:
        refusal = bad.sentence
    else:
        code = (
            "import socket, time; t = time.monotonic()\n"
            "try: socket.create_connection(('10.1.0.1', 9), timeout=5)\n"
            "except ConnectionRefusedError: print(time.monotonic() - t)"
        )
        assert 0.1 <= float(ground.inside(3, sys.executable, "-c", code)) < 0.5
        return
    assert refusal.startswith("this kernel has no netem (module sch_netem)")
    assert "modprobe" in refusal
