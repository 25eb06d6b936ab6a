"""The control plane: agents speak through one TCPStore (rendezvous), never without a deadline.

A store call blocks in C++, where no Python signal handler runs, so every wait is a series of short
ones; and a call that does not come back at all (the store's host lost power: TCP retries for a
quarter of an hour) ends the process after `CALL_S`. Traffic is O(ranks): each rank writes small
keys, rank 0 reads them, and what rank 0 publishes is read once by each. Under torchrun no port is
opened.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import msgspec
import torch.distributed as dist
from torch.distributed import PrefixStore, Store

from bench.measure import rendezvous
from bench.measure.launcher import Launch

T = TypeVar("T")

CALL_S = 30.0  # a call takes microseconds, or the slice below; beyond this the store is gone
_SLICE_S = 0.5  # the longest stretch without looking at signals and deadlines
_POLL_S = 0.01  # between looks at one key that is about to appear
_CLOSE_S, _CLOSE_PER_RANK_S = 4.0, 0.01  # how far apart healthy ranks may leave


class StoreAddress(msgspec.Struct, frozen=True):
    """Where the store listens, and the prefix of this run's keys in it."""

    host: str
    port: int
    prefix: str


class StoreGone(Exception):
    """The store does not answer: its host, or the process that held it, has ended."""


class Control:
    """Typed keys over a PrefixStore. Raises StoreGone when the store's host has gone."""

    def __init__(
        self,
        store: Store,
        address: StoreAddress,
        *,
        rank: int,
        ranks: int,
        own_store: bool = False,
        store_name: str = "the store",
    ) -> None:
        """`own_store`: it is in rank 0's process, and ends with it."""
        self._store, self.address, self.rank, self.ranks = store, address, rank, ranks
        self.stop: Callable[[], bool] = lambda: False
        self._own_store, self.store_name = own_store, store_name
        self._called_at: float | None = None

    @classmethod
    def join(cls, launch: Launch) -> Control:
        """Meet the other ranks where the launcher says; BadInput where that cannot be done."""
        store, host = rendezvous.join(launch)
        address = StoreAddress(host, launch.port, launch.prefix)
        control = cls(
            PrefixStore(launch.prefix, store), address, rank=launch.rank, ranks=launch.ranks,
            own_store=launch.own_store, store_name=launch.store_name,
        )  # fmt: skip
        threading.Thread(target=control._guard, daemon=True).start()
        return control

    def _guard(self) -> None:
        """End this process when a store call never returns: nothing else can interrupt it."""
        while True:
            time.sleep(1.0)
            called_at = self._called_at
            if called_at is not None and time.monotonic() - called_at > CALL_S:
                where = f"{self.address.host}:{self.address.port}"
                print(
                    f"fabric-bench: rank {self.rank}: {self.store_name} at {where} has not "
                    f"answered for {CALL_S:g} s: its host is gone or stopped",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)  # workers and their nursery die with this process

    def close(self) -> None:
        """The last call. Where rank 0's process holds the store it stays until all others have
        made theirs, or as long as healthy ones may take: else they would find the store gone."""
        if not self._own_store:
            return
        try:
            if self.rank != 0:
                self.add("closed", 1)
                return
            end = time.monotonic() + _CLOSE_S + _CLOSE_PER_RANK_S * self.ranks
            while self.add("closed", 0) < self.ranks - 1 and time.monotonic() < end:
                time.sleep(_POLL_S)
        except StoreGone:
            pass  # then nobody waits for anybody

    @contextmanager
    def _call(self) -> Iterator[None]:
        self._called_at = time.monotonic()
        try:
            yield
        except (dist.DistError, RuntimeError) as error:
            raise StoreGone(str(error)) from None
        finally:
            self._called_at = None

    def put(self, key: str, value: object) -> None:
        with self._call():
            self._store.set(key, msgspec.json.encode(value).decode())

    def has(self, key: str) -> bool:
        with self._call():
            return bool(self._store.check([key]))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return it; 0 reads it."""
        with self._call():
            return int(self._store.add(key, amount))

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
        alive: Callable[[], bool] = lambda: False,
    ) -> list[T | None]:
        """Values in the order of `keys`, None for those absent when time is up.

        With `settle_s`, waiting for the rest ends that long after the last one arrived: one rank
        that is gone must not cost the whole deadline when all others have answered. While
        `alive()` is true neither runs out. What is there is read even when we must stop.
        """
        missing = list(range(len(keys)))
        values: list[T | None] = [None] * len(keys)
        end = time.monotonic() + deadline_s
        while True:
            stopping, left = self.stop(), end - time.monotonic()
            everything = [keys[i] for i in missing]
            patient = left > 0 and not stopping
            if patient and self._wait(everything, min(left, _SLICE_S)):
                here = missing
            else:
                here = [i for i in missing if self.has(keys[i])]
            for i, raw in zip(here, self._read([keys[i] for i in here]), strict=True):
                values[i] = msgspec.json.decode(raw, type=type_)
            missing = [i for i in missing if values[i] is None]
            if not missing or stopping:
                return values
            now = time.monotonic()
            if here and settle_s is not None:
                end = min(end, now + settle_s)
            if now >= end:
                if not alive():
                    return values
                end = now + _SLICE_S

    def drop(self, keys: Iterable[str]) -> None:
        """Forget keys that everybody has read, so that a long night does not fill the store."""
        for key in keys:
            with self._call():
                self._store.delete_key(key)

    def _wait(self, keys: list[str], timeout_s: float) -> bool:
        with self._call():
            try:
                self._store.wait(keys, timedelta(seconds=max(timeout_s, _POLL_S)))
            except dist.DistStoreError:
                return False
        return True

    def _read(self, keys: list[str]) -> list[bytes]:
        if not keys:
            return []
        with self._call():
            return [bytes(value) for value in self._store.multi_get(keys)]
