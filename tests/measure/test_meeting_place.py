"""What listens where ranks are to meet: real stores of torch, real strangers, nobody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from torch.distributed import TCPStore

from bench.measure import meeting_place


@pytest.mark.parametrize("libuv", [True, False])
def test_a_store_of_torch_is_known_and_left_as_it_was(libuv: bool) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=libuv)
    store.set("key", "value")
    before = store.num_keys()
    found = meeting_place.look("127.0.0.1", store.port)
    assert (found.outcome, found.own, found.interface) == ("store", True, "lo")
    assert store.num_keys() == before and store.get("key") == b"value"


def test_a_free_port_of_this_host_is_free_and_a_bound_one_is_taken() -> None:
    with socket.socket() as bound:
        bound.bind(("0.0.0.0", 0))
        port = bound.getsockname()[1]
        assert meeting_place.look("127.0.0.1", port).outcome == "taken"
    assert meeting_place.look("127.0.0.1", port).outcome == "free"


def test_a_name_without_an_address_is_unresolved() -> None:
    found = meeting_place.look("nowhere.invalid", 29500)
    assert found.outcome == "unresolved" and found.detail and not found.addresses


@pytest.fixture(params=["banner", "answer", "eight bytes", "hangs up"])
def stranger(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            if request.param == "banner":
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\x1b[31m")
            connection.recv(64)
            if request.param == "answer":
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            if request.param == "eight bytes":
                connection.sendall(b"\xff" * 8)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield request.param, listener.getsockname()[1]
    thread.join(5)
    listener.close()


def test_a_stranger_is_told_with_what_it_said(stranger: tuple[str, int]) -> None:
    kind, port = stranger
    found = meeting_place.look("127.0.0.1", port)
    assert found.outcome == "stranger" and found.detail and found.detail.isprintable()
    said = {"banner": "SSH-2.0", "answer": "HTTP/1.1 400", "hangs up": "hung up"}
    assert said.get(kind, "it said") in found.detail


def test_one_that_says_nothing_is_silent_after_two_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = meeting_place.look("127.0.0.1", listener.getsockname()[1])
    assert found.outcome == "silent"
