"""What two hosts of a pair move, and what a round of pairs costs in seconds.

In: the pace of the network as the sweep measured it, and as it is claimed. Out: Amounts, and
estimates. All pairs of a round run at the same time, so a round takes as long at any number of
hosts, but for the starting of its processes.
"""

from __future__ import annotations

import msgspec

from bench.plan.rounds import FEW_HOSTS, MOST_ROUNDS, SCREEN_ROUNDS
from bench.records import Backend

# A transfer lasts 30 to 60 ms at the network's pace: long beside a scheduler's hiccup and a
# shaper's burst, short enough for several on each of several connections. Sizes are powers of two,
# so that the pairs of two runs can be compared.
MOST_TRANSFER_S = 0.06
LEAST_BYTES = 64 * 2**10  # smaller ones hold more latency than bandwidth
MOST_BYTES = 256 * 2**20  # 5 ms at 400 Gbit/s; two buffers of it have room beside any job's
MOST_TIMES_SLOWER = 4.0  # beyond, the slow pairs' transfers would take most of the time
UNKNOWN_RATE = 125e6  # bytes/s, where nobody says: 1 Gbit/s

# Starting a worker and forming a group of two; for NCCL supposed (facts: a context and the search
# for the topology take seconds; a second communicator of the same process does not).
WORKER_S = {"gloo": 0.2, "nccl": 3.0}
GROUP_S = {"gloo": 0.06, "nccl": 0.5}
WORKER_S_PER_PAIR = 0.001  # all ask one store for their peers


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a repetition moves. The first transfer of each stream is not counted: it fills the
    queues on the way. `one_s` is what a transfer should take; a deadline rests on it."""

    size_bytes: int
    counted: int = 2
    both: int = 1
    pings: int = 20
    one_s: float = MOST_TRANSFER_S

    @property
    def repetition_s(self) -> float:
        """Seconds of pure transfer: there, back, both ways at once."""
        return self.one_s * (2 * (self.counted + 1) + self.both + 1)


def amounts(bytes_per_s: float | None, *, hoped: float | None = None) -> Amounts:
    """The largest power of two that a good pair moves in at most 60 ms.

    `bytes_per_s` is the pace of the ring, which is that of its slowest member; `hoped` is what a
    link should carry, where that is known: good pairs may be as fast, and then need more to move.
    """
    pace = bytes_per_s or hoped or UNKNOWN_RATE
    good = min(max(pace, hoped or pace), MOST_TIMES_SLOWER * pace)
    size = LEAST_BYTES
    while size * 2 <= min(good * MOST_TRANSFER_S, MOST_BYTES):
        size *= 2
    return Amounts(size_bytes=size, one_s=size / pace)


def round_s(moved: Amounts, *, backend: Backend, repeats: int, pairs: int) -> float:
    """Seconds of one round."""
    start_s = WORKER_S[backend] + WORKER_S_PER_PAIR * pairs
    return start_s + repeats * (GROUP_S[backend] + moved.repetition_s)


# ------------------------------------------------------------------------------------ rounds

SHARE = 0.1  # of the time budget, at most, for the rounds that run in every sweep
MOST_REPEATS = 3  # fresh connections: of three, the fastest is rarely the one that collided
# A map of all pairs has a round per host: up to here it takes no longer than a candidate's
# sessions do.
MAPPED_HOSTS = 16


def rounds_ahead(hosts: int, *, everybody: bool) -> int:
    """How many rounds are sure to be asked for (bench/judge/pairs/locating.py does): the screen,
    and what of a map is not in it."""
    every = hosts - 1 + hosts % 2  # rounds in which each pair meets once
    if hosts > FEW_HOSTS:
        return SCREEN_ROUNDS + (every if everybody else 0)
    return every if everybody else min(MOST_ROUNDS, every)


def affordable(
    moved: Amounts, *, backend: Backend, hosts: int, limit_s: float
) -> tuple[int, bool]:
    """How many repetitions of each pair, and whether every pair, stay within the share of
    `limit_s`. A slow link shows in no other way, so all pairs once come before some of them twice;
    one repetition of the screen there always is."""
    share_s = SHARE * limit_s

    def most(rounds: int) -> int:
        for repeats in range(MOST_REPEATS, 0, -1):
            each_s = round_s(moved, backend=backend, repeats=repeats, pairs=hosts // 2)
            if rounds * each_s <= share_s:
                return repeats
        return 0

    if hosts <= MAPPED_HOSTS and (repeats := most(rounds_ahead(hosts, everybody=True))):
        return repeats, True
    return max(1, most(rounds_ahead(hosts, everybody=False))), False


LEAST_COMPARED = 3  # two hosts are one pair: it has nothing to be compared with


def screen_s(backend: Backend, *, hosts: int, limit_s: float) -> float:
    """Seconds to keep for the rounds that run in every sweep, before any pace is known."""
    if hosts < LEAST_COMPARED:
        return 0.0
    usual = Amounts(size_bytes=LEAST_BYTES)
    repeats, everybody = affordable(usual, backend=backend, hosts=hosts, limit_s=limit_s)
    rounds = rounds_ahead(hosts, everybody=everybody)
    each_s = round_s(usual, backend=backend, repeats=repeats, pairs=hosts // 2)
    return rounds * each_s
