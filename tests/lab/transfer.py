"""Stand-alone traffic for the lab's tests: a TCP sink, and a sender that prints what it reached.

transfer.py sink ADDRESS PORT
transfer.py send ADDRESS PORT SECONDS      -> payload Mbit/s, the first fifth left out
transfer.py once ADDRESS PORT BYTES LIMIT  -> "ok", "timeout" or "refused"
"""

from __future__ import annotations

import socket
import sys
import threading
import time


def sink(address: str, port: int) -> None:
    """Take everything; answer each connection with its byte count and rate once it is done."""
    with socket.create_server((address, port)) as server:
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=take, args=(connection,), daemon=True).start()


def take(connection: socket.socket) -> None:
    """One connection; a stalled one must not hold up the others."""
    with connection:
        total, marks = 0, [(time.monotonic(), 0)]
        while data := connection.recv(1 << 18):
            total += len(data)
            marks.append((time.monotonic(), total))
        first, last = marks[len(marks) // 5], marks[-1]
        rate = (last[1] - first[1]) * 8e-6 / max(last[0] - first[0], 1e-9)
        try:
            connection.sendall(f"{total} {rate:.3f}".encode())
        except OSError:
            pass  # the sender gave up: its own business


def send(address: str, port: int, seconds: float) -> None:
    """Send for `seconds` and print the rate that the sink saw."""
    with socket.create_connection((address, port), timeout=20) as connection:
        end, block = time.monotonic() + seconds, bytes(1 << 18)
        while time.monotonic() < end:
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
        print(connection.recv(64).decode().split()[1])


def once(address: str, port: int, size: int, limit: float) -> None:
    """Send `size` bytes and wait for the count."""
    try:
        with socket.create_connection((address, port), timeout=limit) as connection:
            connection.sendall(bytes(size))
            connection.shutdown(socket.SHUT_WR)
            print("ok" if connection.recv(64).split()[0] == str(size).encode() else "wrong")
    except TimeoutError:
        print("timeout")
    except ConnectionError:
        print("refused")
    except OSError as error:
        print(error.strerror)


if __name__ == "__main__":
    job, where, number, *rest = sys.argv[1:]
    if job == "sink":
        sink(where, int(number))
    elif job == "send":
        send(where, int(number), float(rest[0]))
    else:
        once(where, int(number), int(rest[0]), float(rest[1]))
