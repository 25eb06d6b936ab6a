"""torch's worker server and debug server: dumps and stacks of ranks over HTTP.

In: host and port, or the path of a socket. Out: bytes, or a sentence why not. The debug server's
page names the worker server of every rank, which then is asked itself. Answers have a deadline and
a limit.
Source: torch/csrc/distributed/c10d/control_plane, torch/distributed/debug/_frontend.py.
"""

from __future__ import annotations

import http.client
import re
import socket

DEADLINE_S = 5.0
MAX_BYTES = 64 << 20
# A rank's address on the debug server's pages; the server itself waits for slow ranks.
PAGE_S = 15.0
_RANK = re.compile(r"Rank (\d{1,7}): http://(\[[0-9a-fA-F:.]{1,64}\]|[\w.-]{1,253}):(\d{1,5})/")
HANDLERS = {
    "gloo": "fr_trace_json",
    "nccl": "dump_nccl_trace_json",
    "stacks": "dump_traceback",
}


class Refused(Exception):
    """One sentence: it does not answer (`is_mute`), or answers something else."""

    is_mute = False


class Server:
    """One HTTP server. `place` is "host:port" or the path of a socket."""

    def __init__(self, place: str) -> None:
        self.place = place

    def ask(self, handler: str) -> bytes:
        """The answer of a worker server's handler."""
        return self._request("POST", f"/handler/{handler}", DEADLINE_S)

    def page(self, path: str) -> bytes:
        """A page of the debug server."""
        return self._request("GET", path, PAGE_S)

    def _request(self, method: str, path: str, deadline_s: float) -> bytes:
        connection = self._connection(deadline_s)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            data = answer.read(MAX_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            slow = isinstance(error, TimeoutError)
            why = f"no answer in {deadline_s:g} s" if slow else _why(error)
            refused = Refused(f"{self.place}: {path}: {why}")
            refused.is_mute = slow
            raise refused from None
        finally:
            connection.close()
        if answer.status != http.client.OK or len(data) > MAX_BYTES:
            raise Refused(f"{self.place}: {path}: HTTP status {answer.status}")
        return data

    def _connection(self, deadline_s: float) -> http.client.HTTPConnection:
        if self.place.startswith("/"):
            connection = http.client.HTTPConnection("localhost", timeout=deadline_s)
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(deadline_s)
            try:
                link.connect(self.place)
            except OSError as error:
                link.close()
                raise Refused(f"{self.place}: {_why(error)}") from None
            connection.sock = link
            return connection
        host, _, port = self.place.rpartition(":")
        return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=deadline_s)


def workers(page: bytes) -> dict[int, str]:
    """The worker server of each rank, from a page of the debug server."""
    text = page.decode("utf-8", "replace")
    return {int(rank): f"{host}:{port}" for rank, host, port in _RANK.findall(text)}


def _why(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).lower().splitlines()[0][:200]
