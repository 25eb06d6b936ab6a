"""The store in which the ranks meet: torchrun's, or where there is none, rank 0's own.

In: a Launch. Out: this rank's connection to the store and the host it goes to. Rank 0's own is
opened and first reached through plain sockets, because torch's store prints pages of C++ frames
for a port that is taken and for a host that has no address; here each is one sentence.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import TCPStore

from bench.measure.launcher import FIRST_PORT, PORTS, Launch
from bench.records import BadInput

_CONNECT_S = 60.0  # torchrun starts its store before us; 60 s is its own patience
# Without it the ranks of a large job start apart: each imports torch, often from one file system.
_CONNECT_PER_RANK_S = 0.05
_ATTEMPT_S, _PAUSE_S, _LONGEST_PAUSE_S = 5.0, 0.05, 1.0
_ANSWER_S = 20.0  # of what listens already: milliseconds, or seconds where thousands ask at once
_BACKLOG = 1024  # ranks that knock at once; the kernel cuts it to its own limit


def join(launch: Launch) -> tuple[TCPStore, str]:
    """The store and the host to reach it at; BadInput where it cannot be had in time."""
    if not launch.own_store or launch.launcher == "torchrun":
        return _torchrun(launch), launch.host
    if launch.rank == 0:
        return _open(launch), "127.0.0.1"
    _await(launch)
    return _reach(launch), launch.host


def _torchrun(launch: Launch) -> TCPStore:
    try:
        return TCPStore(
            launch.host, launch.port, is_master=launch.own_store and launch.rank == 0,
            wait_for_workers=False, multi_tenant=True, timeout=timedelta(seconds=_CONNECT_S),
        )  # fmt: skip
    except dist.DistError as error:
        raise BadInput(
            f"torchrun's store at {launch.host}:{launch.port} cannot be reached: {error}"
        ) from None


def _open(launch: Launch) -> TCPStore:
    """Rank 0's: listens on all addresses, as torchrun's does."""
    try:
        listener = _listen(launch.port)
    except OSError as error:
        derived = launch.port in range(FIRST_PORT, FIRST_PORT + PORTS)
        raise BadInput(
            f"rank 0 cannot open its store at port {launch.port}"
            f"{' (from MASTER_PORT or the job id)' if derived else ''}: "
            f"{(error.strerror or str(error)).lower()}; set MASTER_PORT to a free one"
        ) from None
    return TCPStore(
        "127.0.0.1", launch.port, is_master=True, wait_for_workers=False,
        timeout=timedelta(seconds=_CONNECT_S), master_listen_fd=listener.detach(),
    )  # fmt: skip


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
            )
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
            # the kernel knows IPv6, and it is switched off
    return socket.create_server(("", port), backlog=_BACKLOG)


def _await(launch: Launch) -> None:
    """Until rank 0 listens; its process may start later than ours."""
    patience_s = _CONNECT_S + _CONNECT_PER_RANK_S * launch.ranks
    end, pause_s = time.monotonic() + patience_s, _PAUSE_S
    while True:
        try:
            address = (launch.host, launch.port)
            socket.create_connection(address, timeout=_ATTEMPT_S).close()
            return
        except socket.gaierror:
            raise BadInput(
                f"{launch.host} (from {launch.named_by}) has no address on this host: set "
                "MASTER_ADDR to an address of rank 0's host"
            ) from None
        except OSError as error:
            if time.monotonic() > end:
                raise BadInput(
                    f"rank 0's store at {launch.host}:{launch.port} was not to be reached for "
                    f"{patience_s:.0f} s ({(error.strerror or str(error)).lower()}): rank 0 has "
                    "not started, runs elsewhere, or the port is closed"
                ) from None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _reach(launch: Launch) -> TCPStore:
    where = f"what listens at {launch.host}:{launch.port} is no store of torch"
    remedy = "set MASTER_PORT to a port that is free on rank 0's host"

    def give_up() -> None:
        words = f"fabric-bench: rank {launch.rank}: {where}: it does not answer; {remedy}\n"
        os.write(kept, words.encode())
        os._exit(2)  # the nursery dies with this process

    # torch waits without end for a listener that says nothing, deaf to signals: only a thread
    # of this process can end it. What torch's C++ writes by itself the exception says in a line.
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    timer = threading.Timer(2 * _ANSWER_S, give_up)
    timer.daemon = True
    timer.start()
    os.dup2(null, 2)
    try:
        return TCPStore(
            launch.host, launch.port, is_master=False, wait_for_workers=False,
            timeout=timedelta(seconds=_ANSWER_S),
        )  # fmt: skip
    except dist.DistError as error:
        raise BadInput(f"{where}: {error}; {remedy}") from None
    finally:
        timer.cancel()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
