"""Peers that misbehave, and a process without descriptors: the call ends, the caller goes on."""

from __future__ import annotations

import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.measure import call
from bench.measure.echo import HELLO, Listener
from bench.measure.preflight import Peer, probe

ROOT = Path(__file__).resolve().parents[2]
NAME = b"id-h2"
ANSWER = HELLO + len(NAME).to_bytes(2, "big") + NAME


def peer(port: int, address: str = "127.0.0.9") -> Peer:
    return Peer(host="h2", candidate="data", address=address, port=port, identity="id-h2")


@contextmanager
def answering(how: Callable[[socket.socket], None]) -> Iterator[int]:
    """A peer that treats every caller like this, and resets the connection afterwards."""
    with socket.create_server(("127.0.0.9", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    how(connection)
                    connection.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_peer_that_resets_after_its_name_ends_the_call_and_nothing_else() -> None:
    with answering(lambda connection: connection.sendall(ANSWER)) as port:
        for _ in range(20):  # the reset comes before, between or after our own words
            (pair,) = probe("h1", [peer(port)], deadline_s=0.5)
            assert pair.outcome == "refused"
            assert pair.detail is not None
            assert "reset" in pair.detail or "broken pipe" in pair.detail


def test_a_peer_that_resets_every_caller_costs_no_processor_time_until_the_deadline() -> None:
    with answering(lambda connection: None) as port:
        began, worked = time.monotonic(), time.process_time()
        (pair,) = probe("h1", [peer(port)], deadline_s=1.5)
        took, work = time.monotonic() - began, time.process_time() - worked
    assert (pair.outcome, pair.detail) == ("refused", "connection reset by peer")
    assert took > 1.4 and work < 0.15


def test_an_address_family_that_this_host_lacks_is_no_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: object) -> None:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(call, "Attempt", none)
    (pair,) = probe("h1", [peer(9, "2001:db8::1")])
    assert pair.outcome == "no-route" and "family" in (pair.detail or "")


def test_who_waits_too_long_for_a_turn_is_reached_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.measure.preflight.MOST_BULKS", 0)
    monkeypatch.setattr(call, "TURN_S", 1.0)
    with Listener({"a": "127.0.0.9"}, "id-h2") as listener:
        worked = time.process_time()
        (pair,) = probe("h1", [peer(listener.ports["a"])])
    assert (pair.outcome, pair.detail) == ("ok", "no turn for a large exchange in 1 s")
    assert time.process_time() - worked < 0.5


SHORT = """
import resource, socket, time
from bench.measure.preflight import Listener, Peer, probe
with Listener({"a": "127.0.0.9"}, "id-h2") as listener:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    peer = Peer(host="h2", candidate="c", address="127.0.0.9", port=listener.ports["a"],
                identity="id-h2")
    print([pair.outcome for pair in probe("h1", [peer] * 60)].count("ok"), flush=True)
    time.sleep(0.3)  # the listener closes what its callers have left
    held = []
    try:
        while True:
            held.append(socket.socket())
    except OSError:
        pass
    (pair,) = probe("h1", [peer], deadline_s=0.3)
    print(pair.outcome, pair.detail, flush=True)
"""


def test_without_descriptors_a_call_is_said_to_be_our_own_failure() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT],
        capture_output=True, text=True, timeout=60, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "60", "refused h1 itself has no socket left: too many open files",
    ]  # fmt: skip


LIMIT = """
from bench.measure import descriptors
import resource
print(descriptors.limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(("soft", "hard", "wanted"), [(64, 4096, 4096), (300, 300, 300)])
def test_the_soft_limit_is_raised_as_far_as_it_goes(soft: int, hard: int, wanted: int) -> None:
    said = subprocess.run(
        [sys.executable, "-c", LIMIT],
        capture_output=True, text=True, timeout=60, cwd=ROOT, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    ).stdout  # fmt: skip
    assert said.split() == [str(wanted)] * 2
