"""NCCL's RAS asked over its port: the status of all communicators of a job, from any of its hosts.

In: host and port (NCCL_RAS_ADDR, localhost:28028). Out: the answer as NCCL wrote it, JSON where
the version knows that (2.28.7), else text; or a sentence why not.
Source: src/ras/client_support.cc, rasClientEventLoop: one command a line.
"""

from __future__ import annotations

import socket
import time

PORT = 28028
HOST = "localhost"
VARIABLE = "NCCL_RAS_ADDR"
CONNECT_S, HELLO_S = 2.0, 2.0
COLLECT_S = 5  # RAS's own patience for silent peers, and ours with a margin
MARGIN_S = 3.0
MAX_BYTES = 64 << 20


class Refused(Exception):
    """One sentence."""


def address(text: str) -> tuple[str, int]:
    """("host", port) of NCCL_RAS_ADDR's forms: host:port, host, :port."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(PORT)
    return host.strip("[]") or HOST, int(port) if port.isdigit() else PORT


def status(host: str, port: int) -> bytes:
    """One answer."""
    try:
        with socket.create_connection((host, port), timeout=CONNECT_S) as link:
            return _ask(link)
    except TimeoutError:
        raise Refused(f"{host}:{port}: no answer of NCCL's RAS in time") from None
    except OSError as error:
        raise Refused(f"{host}:{port}: {(error.strerror or str(error)).lower()}") from None


def _ask(link: socket.socket) -> bytes:
    link.settimeout(HELLO_S)
    link.sendall(b"CLIENT PROTOCOL 2\n")
    hello = _line(link)
    if not hello.upper().startswith(b"SERVER PROTOCOL"):
        raise OSError(0, "something else than NCCL's RAS listens there")
    link.sendall(f"TIMEOUT {COLLECT_S}\n".encode())
    _line(link)
    link.sendall(b"SET FORMAT json\n")
    _line(link)  # OK; an older one says ERROR and goes on in text
    link.sendall(b"VERBOSE STATUS\n")
    end = time.monotonic() + COLLECT_S + MARGIN_S
    answer = b""
    while (left := end - time.monotonic()) > 0 and len(answer) <= MAX_BYTES:
        link.settimeout(left)
        data = link.recv(1 << 16)
        if not data:
            return answer
        answer += data
    raise TimeoutError


def _line(link: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < 1024:
        data = link.recv(1)
        if not data:
            break
        line += data
    return line
