"""The preflight between real hosts: network namespaces on a bridge, each with its own listener."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.measure.echo import HELLO, Listener
from bench.measure.preflight import Peer, peers_of, probe
from bench.records import Candidate

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]

# What runs inside a host: one JSON command a line, one JSON answer a line; ends with its input.
HOST = """
import json, sys, time
import msgspec
from bench.measure.preflight import Listener, Peer, probe
listener = None
print("here", flush=True)
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "listen":
        listener = Listener({a: a for a in command["addresses"]}, command["identity"])
        answer = {"ports": listener.ports}
    elif command["do"] == "probe":
        began = time.monotonic()
        pairs = probe(command["me"], msgspec.convert(command["peers"], tuple[Peer, ...]))
        answer = {"pairs": msgspec.to_builtins(pairs), "took": time.monotonic() - began}
    print(json.dumps(answer), flush=True)
if listener is not None:
    listener.close()
"""


class Host:
    """A process in a network namespace of its own; the namespace ends with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.addresses: dict[str, str] = {}
        self._process = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", HOST],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "here\n"  # before, it is in our own namespace
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: str) -> None:
        subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", *command], check=True, timeout=20,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait(10)


class Fabric:
    """Hosts h1..hn, each with data0 10.9.0.i on one bridge, itself in a namespace of its own."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self.switch = Host("switch")
        stack.callback(self.switch.close)
        self.switch.run("ip", "link", "add", "switch0", "type", "bridge")
        self.switch.run("ip", "link", "set", "switch0", "up")
        self.hosts = []
        for i in range(1, count + 1):
            host = Host(f"h{i}")
            stack.callback(host.close)
            self.hosts.append(host)
            self.attach(host, "data0", f"10.9.0.{i}/24")

    def attach(self, host: Host, interface: str, address: str) -> None:
        port = f"{interface}-{host.name}"
        host.run("ip", "link", "add", interface, "type", "veth", "peer", "name", port,
                 "netns", str(self.switch.pid))  # fmt: skip
        self.switch.run("ip", "link", "set", port, "master", "switch0", "up")
        # a merged (GSO) packet passes any MTU inside one kernel; a wire knows only segments
        host.run("ip", "link", "set", interface, "gso_max_segs", "1")
        host.run("ip", "addr", "add", address, "dev", interface)
        host.run("ip", "link", "set", interface, "up")
        host.addresses["data"] = address.partition("/")[0]

    def preflight(self) -> tuple[dict[tuple[str, str], dict[str, Any]], float]:
        """All hosts listen, then all probe at once: (source, destination) -> pair; seconds."""
        names = sorted({name for host in self.hosts for name in host.addresses})
        ports = {}
        for host in self.hosts:
            host.send(
                do="listen", addresses=list(host.addresses.values()), identity=f"id-{host.name}"
            )
            ports[host.name] = host.answer()["ports"]
        found = [
            Candidate(
                name=name,
                kind="network",
                addresses={h.name: h.addresses[name] for h in self.hosts if name in h.addresses},
            )
            for name in names
        ]
        peers = peers_of(found, ports, {h.name: f"id-{h.name}" for h in self.hosts})
        began = time.monotonic()
        for host in self.hosts:
            calls = [
                {f: getattr(p, f) for f in Peer.__struct_fields__}
                for p in peers.get(host.name, ())
            ]
            host.send(do="probe", me=host.name, peers=calls)
        pairs = [pair for host in self.hosts for pair in host.answer()["pairs"]]
        took = time.monotonic() - began
        return {(p["source"], p["destination"]): p for p in pairs}, took


@contextmanager
def fabric(count: int) -> Iterator[Fabric]:
    with ExitStack() as stack:
        yield Fabric(stack, count)


def outcomes(pairs: dict[tuple[str, str], dict[str, Any]]) -> dict[tuple[str, str], str]:
    return {ends: pair["outcome"] for ends, pair in pairs.items()}


@pytest.fixture
def pair_of_hosts() -> Iterator[Fabric]:
    with fabric(2) as made:
        yield made


def test_every_pair_of_healthy_hosts_is_ok_with_its_egress_and_round_trip() -> None:
    with fabric(4) as made:
        pairs, took = made.preflight()
    assert len(pairs) == 12
    assert set(outcomes(pairs).values()) == {"ok"}
    assert {pair["egress"] for pair in pairs.values()} == {"data0"}
    assert all(0 < pair["rtt_s"] < 0.1 for pair in pairs.values())
    assert took < 1.5


def test_a_rejecting_firewall_is_refused_at_once(pair_of_hosts: Fabric) -> None:
    pair_of_hosts.hosts[1].run(
        "iptables", "-A", "INPUT", "-i", "data0", "-p", "tcp", "-j", "REJECT",
        "--reject-with", "tcp-reset",
    )  # fmt: skip
    pairs, took = pair_of_hosts.preflight()
    assert pairs["h1", "h2"]["outcome"] == "refused"
    assert took < 3.5


def test_a_dropping_firewall_is_a_timeout_within_three_seconds(pair_of_hosts: Fabric) -> None:
    pair_of_hosts.hosts[1].run("iptables", "-A", "INPUT", "-i", "data0", "-j", "DROP")
    pairs, took = pair_of_hosts.preflight()
    assert set(outcomes(pairs).values()) == {"timeout"}
    assert "no answer to 3 connection attempts" in pairs["h1", "h2"]["detail"]
    assert 1.9 < took < 3.0


def test_a_host_without_a_route_is_told_from_a_silent_one(pair_of_hosts: Fabric) -> None:
    pair_of_hosts.hosts[1].addresses["data"] = "10.77.0.2"
    pair_of_hosts.hosts[1].run("ip", "addr", "add", "10.77.0.2/24", "dev", "data0")
    pairs, _ = pair_of_hosts.preflight()
    assert pairs["h1", "h2"]["outcome"] == "no-route"
    assert pairs["h1", "h2"]["egress"] is None


def test_the_egress_is_what_the_kernel_routes_by_not_the_interface_meant(
    pair_of_hosts: Fabric,
) -> None:
    h1, h2 = pair_of_hosts.hosts
    for i, host in enumerate((h1, h2), start=1):
        pair_of_hosts.attach(host, "data1", f"10.8.0.{i}/24")
    h1.run("ip", "route", "add", "10.8.0.2/32", "dev", "data0")
    h2.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.data1.rp_filter=0")
    pairs, _ = pair_of_hosts.preflight()
    assert (pairs["h1", "h2"]["outcome"], pairs["h1", "h2"]["egress"]) == ("ok", "data0")
    assert pairs["h2", "h1"]["egress"] == "data1"


def test_ipv6_is_probed_as_ipv4_is(pair_of_hosts: Fabric) -> None:
    for i, host in enumerate(pair_of_hosts.hosts, start=1):
        host.run("ip", "addr", "add", f"fd00:9::{i}/64", "dev", "data0", "nodad")
        host.addresses["data"] = f"fd00:9::{i}"
    pairs, _ = pair_of_hosts.preflight()
    assert set(outcomes(pairs).values()) == {"ok"}
    assert {pair["egress"] for pair in pairs.values()} == {"data0"}


def test_an_address_that_every_host_has_leads_to_oneself() -> None:
    with fabric(3) as made:
        for host in made.hosts:
            host.run("ip", "link", "add", "docker0", "type", "bridge")
            host.run("ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
            host.run("ip", "link", "set", "docker0", "up")
            host.addresses = {"docker": "172.17.0.1"}
        pairs, took = made.preflight()
    assert set(outcomes(pairs).values()) == {"wrong-host"}
    assert pairs["h1", "h2"]["detail"] == "172.17.0.1 is h1's own address"
    assert took < 0.5


def test_an_address_that_two_others_share_is_told_as_the_wrong_host() -> None:
    with fabric(3) as made:
        made.hosts[2].run("ip", "addr", "flush", "dev", "data0")
        made.hosts[2].run("ip", "addr", "add", "10.9.0.2/24", "dev", "data0")
        made.hosts[2].addresses["data"] = "10.9.0.2"
        pairs, _ = made.preflight()
    told = outcomes(pairs)
    # h1 reaches whichever of the two answers its ARP; one of the two is the wrong one, or both
    # where the answers take turns.
    reached = {told["h1", "h2"], told["h1", "h3"]}
    assert "wrong-host" in reached <= {"ok", "wrong-host"}
    assert told["h2", "h3"] == told["h3", "h2"] == "wrong-host"


def test_another_host_behind_the_address_is_known_by_its_identity() -> None:
    with Listener({"x": "127.0.0.9"}, "id-somebody") as listener:
        peer = Peer(
            host="h2", candidate="data", address="127.0.0.9", port=listener.ports["x"],
            identity="id-h2",
        )  # fmt: skip
        (pair,) = probe("h1", [peer])
    assert (pair.outcome, pair.detail) == ("wrong-host", "another host answers at 127.0.0.9")


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_switch_port_with_a_smaller_mtu_is_a_black_hole_for_its_host_only(mtu: int) -> None:
    with fabric(3) as made:
        for host in made.hosts:
            host.run("ip", "link", "set", "data0", "mtu", str(mtu))
            small = str(mtu * 2 // 3 if host.name == "h3" else mtu)
            made.switch.run("ip", "link", "set", f"data0-{host.name}", "mtu", small)
        pairs, took = made.preflight()
    told = outcomes(pairs)
    assert told["h1", "h2"] == told["h2", "h1"] == "ok"
    assert {told[ends] for ends in told if "h3" in ends} == {"mtu-blackhole"}
    assert "h1 to h3" in pairs["h1", "h3"]["detail"]
    assert took < 3.5


def test_a_black_hole_in_one_direction_names_that_direction(pair_of_hosts: Fabric) -> None:
    pair_of_hosts.hosts[1].run(
        "iptables", "-A", "INPUT", "-i", "data0", "-p", "tcp", "-m", "length",
        "--length", "600:65535", "-j", "DROP",
    )  # fmt: skip
    pairs, _ = pair_of_hosts.preflight()
    assert set(outcomes(pairs).values()) == {"mtu-blackhole"}
    for pair in pairs.values():
        assert "from h1 to h2" in pair["detail"]
        assert "from h2 to h1" not in pair["detail"]


def test_packet_loss_is_not_taken_for_a_wall() -> None:
    with fabric(4) as made:
        for host in made.hosts:
            host.run(
                "iptables", "-A", "INPUT", "-i", "data0", "-m", "statistic", "--mode", "random",
                "--probability", "0.02", "-j", "DROP",
            )  # fmt: skip
        for _ in range(5):
            pairs, took = made.preflight()
            assert set(outcomes(pairs).values()) == {"ok"}
            assert took < 7


def test_all_pairs_at_once_pass_over_a_slow_link() -> None:
    with fabric(6) as made:
        for host in made.hosts:
            for where, port in ((host, "data0"), (made.switch, f"data0-{host.name}")):
                where.run("tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", "10mbit",
                          "burst", "32kb", "latency", "400ms")  # fmt: skip
        pairs, took = made.preflight()
    assert set(outcomes(pairs).values()) == {"ok"}
    assert took < 4


def test_a_stopped_listener_accepts_but_says_nothing() -> None:
    with socket.create_server(("127.0.0.9", 0)) as mute:
        peer = Peer(
            host="h2", candidate="data", address="127.0.0.9", port=mute.getsockname()[1],
            identity="id-h2",
        )  # fmt: skip
        (pair,) = probe("h1", [peer], deadline_s=0.5)
    assert (pair.outcome, pair.detail) == (
        "timeout", "accepts connections but says nothing in 0.5 s",
    )  # fmt: skip


def test_a_peer_that_could_not_listen_is_refused_without_a_call() -> None:
    peer = Peer(host="h2", candidate="data", address="127.0.0.9", port=None, identity="id-h2")
    (pair,) = probe("h1", [peer])
    assert (pair.outcome, pair.detail) == ("refused", "h2 does not listen on it")


def test_the_listener_leaves_out_what_it_cannot_bind_and_drops_strangers() -> None:
    with Listener({"mine": "127.0.0.1", "not": "203.0.113.7", "six": "::1"}, "id") as listener:
        assert set(listener.ports) == {"mine", "six"}
        for words in (b"GET / HTTP/1.1\r\n\r\n", HELLO + b"x", b"\x00" * 100_000):
            with socket.create_connection(("127.0.0.1", listener.ports["mine"]), 2) as stranger:
                stranger.settimeout(2)
                try:
                    stranger.sendall(words)
                    while stranger.recv(1000):
                        pass
                except ConnectionError:
                    pass
        peer = Peer(
            host="h2", candidate="c", address="::1", port=listener.ports["six"], identity="id"
        )
        assert probe("h1", [peer])[0].detail == "::1 is h1's own address"
    listener.close()


def test_hundreds_of_peers_are_called_in_waves_within_seconds() -> None:
    addresses = {str(i): f"127.0.1.{i}" for i in range(1, 251)}
    with Listener(addresses, "id") as listener:
        peers = [
            Peer(
                host=f"h{k}", candidate="c", address=address, port=listener.ports[k], identity="id"
            )
            for k, address in addresses.items()
        ]
        began = time.monotonic()
        pairs = probe("h0", peers * 2)
        took = time.monotonic() - began
    assert [pair.outcome for pair in pairs] == ["ok"] * 500
    assert [pair.destination for pair in pairs] == [peer.host for peer in peers] * 2
    assert took < 10


@pytest.mark.parametrize(("hosts", "calls"), [(2, 1), (64, 63), (65, 5), (512, 5)])
def test_above_64_hosts_each_calls_five_and_is_called_by_five(hosts: int, calls: int) -> None:
    names = [f"h{i}" for i in range(hosts)]
    candidate = Candidate(
        name="data",
        kind="network",
        addresses={name: f"10.0.{i // 250}.{i % 250 + 1}" for i, name in enumerate(names)},
    )
    ports = {name: {candidate.addresses[name]: 1000 + i} for i, name in enumerate(names)}
    peers = peers_of([candidate], ports, {name: f"id-{name}" for name in names}, seed=7)
    assert {len(mine) for mine in peers.values()} == {calls}
    called = [peer.host for mine in peers.values() for peer in mine]
    assert {called.count(name) for name in names} == {calls}
    assert all(peer.host != host for host, mine in peers.items() for peer in mine)
    assert peers == peers_of([candidate], ports, {name: f"id-{name}" for name in names}, seed=7)


def test_only_planned_socket_networks_are_probed() -> None:
    both = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
    settled = [
        Candidate(name="down", kind="network", addresses=both, outcome="skipped"),
        Candidate(name="rdma", kind="network", transport="rdma"),
        Candidate(name="(default)", kind="default"),
        Candidate(name="six", kind="network", addresses={"h1": "fe80::1", "h2": "fe80::2"}),
    ]
    assert peers_of(settled, {}, {"h1": "a", "h2": "b"}) == {}
