"""The control plane: agents speak through torchrun's own TCPStore, never without a deadline.

`TCPStore.get` blocks in C++ where no Python signal handler runs, so every wait is a series of
short ones. Traffic is O(ranks): each rank writes small keys, rank 0 reads them, and what rank 0
publishes is read once by each. The store listens where torchrun put it; no port is opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import msgspec
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore

from bench.records import BadInput

T = TypeVar("T")

_SLICE_S = 0.5  # the longest stretch without looking at signals and deadlines
_POLL_S = 0.01  # between looks at one key that is about to appear
_CONNECT_S = 60.0  # torchrun starts the store before us; 60 s is its own patience


class StoreAddress(msgspec.Struct, frozen=True):
    """Where the store listens, and the prefix of this run's keys in it."""

    host: str
    port: int
    prefix: str


class StoreGone(Exception):
    """The store does not answer: its host, or torchrun on it, has ended."""


class Control:
    """Typed keys over a PrefixStore. Raises StoreGone when the store's host has gone."""

    def __init__(self, store: Store, address: StoreAddress, *, rank: int, ranks: int) -> None:
        self._store, self.address, self.rank, self.ranks = store, address, rank, ranks
        self.stop: Callable[[], bool] = lambda: False

    @classmethod
    def from_torchrun(cls) -> Control:
        """Join through the variables that torchrun set; BadInput where it did not start us."""
        try:
            rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        except (KeyError, ValueError) as error:
            raise BadInput(
                "start it through torchrun, as in: torchrun --nproc-per-node 2 bench/sweep.py "
                f"(the environment lacks a usable {error})"
            ) from None
        serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        try:
            store = TCPStore(
                host, port, is_master=serves, wait_for_workers=False, multi_tenant=True,
                timeout=timedelta(seconds=_CONNECT_S),
            )  # fmt: skip
        except dist.DistError as error:
            raise BadInput(
                f"torchrun's store at {host}:{port} cannot be reached: {error}"
            ) from None
        run = os.environ.get("TORCHELASTIC_RUN_ID", "0")
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        prefix = f"bench/{run}/{restart}"
        address = StoreAddress(host, port, prefix)
        return cls(PrefixStore(prefix, store), address, rank=rank, ranks=ranks)

    def put(self, key: str, value: object) -> None:
        try:
            self._store.set(key, msgspec.json.encode(value).decode())
        except (dist.DistError, RuntimeError) as error:
            raise StoreGone(str(error)) from None

    def has(self, key: str) -> bool:
        try:
            return bool(self._store.check([key]))
        except (dist.DistError, RuntimeError) as error:
            raise StoreGone(str(error)) from None

    def get(self, key: str, type_: type[T], *, deadline_s: float) -> T | None:
        """The value of `key`; None when it is not there in time, or when we must stop."""
        return self.gather([key], type_, deadline_s=deadline_s)[0]

    def peek(self, key: str, type_: type[T]) -> T | None:
        """The value of `key` if it is there now."""
        return msgspec.json.decode(self._read([key])[0], type=type_) if self.has(key) else None

    def gather(
        self,
        keys: Sequence[str],
        type_: type[T],
        *,
        deadline_s: float,
        settle_s: float | None = None,
    ) -> list[T | None]:
        """Values in the order of `keys`, None for those absent when time is up.

        With `settle_s`, waiting for the rest ends that long after the last one arrived: one rank
        that is gone must not cost the whole deadline when all others have answered.
        """
        missing = list(range(len(keys)))
        values: list[T | None] = [None] * len(keys)
        end = time.monotonic() + deadline_s
        while missing and not self.stop():
            left = end - time.monotonic()
            wanted = [keys[i] for i in missing]
            if left <= 0 or self._wait(wanted, min(left, _SLICE_S)):
                here = missing if left > 0 else [i for i in missing if self.has(keys[i])]
            else:
                here = [i for i in missing if self.has(keys[i])]
            for i, raw in zip(here, self._read([keys[i] for i in here]), strict=True):
                values[i] = msgspec.json.decode(raw, type=type_)
            missing = [i for i in missing if values[i] is None]
            if left <= 0:
                break
            if here and settle_s is not None:
                end = min(end, time.monotonic() + settle_s)
        return values

    def drop(self, keys: Iterable[str]) -> None:
        """Forget keys that everybody has read, so that a long night does not fill the store."""
        for key in keys:
            try:
                self._store.delete_key(key)
            except (dist.DistError, RuntimeError) as error:
                raise StoreGone(str(error)) from None

    def _wait(self, keys: list[str], timeout_s: float) -> bool:
        try:
            self._store.wait(keys, timedelta(seconds=max(timeout_s, _POLL_S)))
        except dist.DistStoreError:
            return False
        except (dist.DistError, RuntimeError) as error:
            raise StoreGone(str(error)) from None
        return True

    def _read(self, keys: list[str]) -> list[bytes]:
        if not keys:
            return []
        try:
            return [bytes(value) for value in self._store.multi_get(keys)]
        except (dist.DistError, RuntimeError) as error:
            raise StoreGone(str(error)) from None
