"""What a forked worker is for: one rank of a session, one end of a pair, or a host's copies."""

from __future__ import annotations

from typing import Any

from bench.measure import copies, transfers, worker


def serve(message: dict[str, Any], pipe: int) -> None:
    """Do what the request asks for; the pipe carries the answers."""
    if "copies" in message:
        copies.serve(message["copies"], pipe)
    elif "amounts" in message:
        transfers.serve(message, pipe)
    else:
        worker.serve(message, pipe)
