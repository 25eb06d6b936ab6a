"""`nvidia-smi nvlink --status`: each NVLink of each GPU with its speed, or inactive.

In: the command's output (or that of -R), of one or several hosts. Out: one NvlinkStatus per GPU.
"all links are inActive" (the driver's spelling) tells no number of links.
"""

from __future__ import annotations

import re

from bench.formats.source import Source
from bench.formats.streams import by_process
from bench.records import BadInput, NvlinkState, NvlinkStatus

KIND = "nvidia-smi nvlink --status"

MAX_LINK = 255  # 18 is the most that any GPU has
MAX_GPUS = 4096

_GPU = re.compile(
    r"\s{0,16}GPU (?P<gpu>\d{1,4}):\s{0,4}(?P<name>[^()]{0,120}?)\s{0,4}"
    r"(?:\(UUID:\s{0,4}(?P<uuid>[\w.-]{1,80})\)?)?\s{0,80}\Z"
)
_LINK = re.compile(r"\s{0,16}Link (?P<link>\d{1,3}):\s{0,8}(?P<state>\S.{0,60})")
_RATE = re.compile(r"(?P<rate>\d{1,5}(?:\.\d{1,6})?)\s{0,2}GB/s", re.IGNORECASE)
_INACTIVE = re.compile(r"<?(?:inactive|in-active|down|off|disabled)>?(?![a-z])", re.IGNORECASE)
_ALL = re.compile(r"all links are inactive", re.IGNORECASE)


def likeness(head: str, name: str) -> float:
    """1 where a GPU's line is followed by a link with its speed or state."""
    under_gpu = False
    for line in head.split("\n"):
        if "GPU " not in line and "ink" not in line:
            continue
        at = max(line.find("GPU "), 0) if "GPU " in line else max(line.find("Link "), 0)
        text = line[at:]
        if under_gpu and (_ALL.search(line) or _state(text) is not None):
            return 1.0
        under_gpu = bool(_GPU.match(text)) or (under_gpu and bool(_LINK.match(text)))
    return 0.0


def read(source: Source) -> tuple[NvlinkStatus, ...]:
    """All GPUs in order; BadInput where no GPU shows a link."""
    readers = by_process(source, lambda host: _Reader(source.file, host))
    found = [status for reader in readers for status in reader.statuses()]
    if not found:
        raise BadInput("holds no GPU with NVLinks of nvidia-smi nvlink --status", file=source.file)
    return tuple(found)


def _state(text: str) -> NvlinkState | None:
    match = _LINK.match(text)
    if not match or int(match["link"]) > MAX_LINK:
        return None
    rate = _RATE.match(match["state"])
    if rate:
        value = float(rate["rate"])
        return NvlinkState(
            link=int(match["link"]), active=value > 0, rate_gbs=value if value > 0 else None
        )
    if _INACTIVE.match(match["state"]):
        return NvlinkState(link=int(match["link"]), active=False)
    state = match["state"].strip().lower()
    # nvlink -R names the other end of each link that is up.
    if state in ("active", "up", "enabled") or state.startswith("remote device "):
        return NvlinkState(link=int(match["link"]), active=True)
    return None  # nvlink -c, -e: other questions


class _Reader:
    """The lines of one host: a GPU's line, then its links."""

    def __init__(self, file: str, host: str | None) -> None:
        self.file, self.host = file, host
        self._gpu: tuple[int, int, str | None, str | None] | None = None
        self._links: dict[int, NvlinkState] = {}
        self._all_inactive = False
        self._done: list[NvlinkStatus] = []

    def feed(self, number: int, text: str) -> None:
        gpu = _GPU.match(text) if "GPU " in text else None
        if gpu:
            self._close()
            self._gpu = number, int(gpu["gpu"]), gpu["name"] or None, gpu["uuid"]
        elif self._gpu is not None and "ink" in text:
            if _ALL.search(text):
                self._all_inactive = True
            elif state := _state(text):
                self._links[state.link] = state

    def statuses(self) -> list[NvlinkStatus]:
        self._close()
        return self._done

    def _close(self) -> None:
        if self._gpu and (self._links or self._all_inactive) and len(self._done) < MAX_GPUS:
            line, gpu, name, uuid = self._gpu
            self._done.append(
                NvlinkStatus(
                    file=self.file,
                    line=line,
                    gpu=gpu,
                    host=self.host,
                    name=name,
                    uuid=uuid,
                    links=tuple(self._links[link] for link in sorted(self._links)),
                    all_inactive=self._all_inactive and not self._links,
                )
            )
        self._gpu, self._links, self._all_inactive = None, {}, False
