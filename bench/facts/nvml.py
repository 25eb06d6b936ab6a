"""The door to NVML: one method per kind of question, refusals as sentences.

In: a device index (or two) and the name of an item. Out: its value in the unit its name says. The
real reader speaks pynvml (nvidia-ml-py); a test injects a fake with the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from bench.facts.nvml_items import ITEMS, PAIR_ITEMS, SYSTEM_ITEMS

NO_DRIVER = "no NVIDIA driver on this host (libnvidia-ml.so.1 not found)"


class NvmlRefused(Exception):
    """NVML did not answer; the message is its reason."""


class NvmlReader(Protocol):
    """What `gpus` needs of NVML. Every method but `close` may raise NvmlRefused."""

    def open(self) -> int:
        """Start; number of GPUs. NvmlRefused where there is no NVML."""

    def value(self, index: int, item: str) -> Any:
        """One of ITEMS of one GPU."""

    def pair(self, first: int, second: int, item: str) -> Any:
        """One of PAIR_ITEMS, from the first GPU to the second."""

    def system(self, item: str) -> Any:
        """One of SYSTEM_ITEMS of the host."""

    def close(self) -> None:
        """Let go."""


class PynvmlReader:
    """The real thing."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}

    def open(self) -> int:
        import pynvml  # a host without GPUs need not load it

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError_LibraryNotFound:
            raise NvmlRefused(NO_DRIVER) from None
        except pynvml.NVMLError as error:
            raise NvmlRefused(str(error)) from None

    def value(self, index: int, item: str) -> Any:
        return self._answer(lambda: ITEMS[item](self._nvml, self._handle(index)))

    def pair(self, first: int, second: int, item: str) -> Any:
        return self._answer(
            lambda: PAIR_ITEMS[item](self._nvml, self._handle(first), self._handle(second))
        )

    def system(self, item: str) -> Any:
        return self._answer(lambda: SYSTEM_ITEMS[item](self._nvml))

    def _handle(self, index: int) -> Any:
        if index not in self._handles:
            self._handles[index] = self._nvml.nvmlDeviceGetHandleByIndex(index)
        return self._handles[index]

    def _answer(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError as error:
            raise NvmlRefused(str(error)) from None
        except AttributeError as error:
            raise NvmlRefused(f"this nvidia-ml-py is too old: {error}") from None

    def close(self) -> None:
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            pass  # nothing more can be done with it anyway
