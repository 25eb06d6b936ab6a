"""One rank's part in a sweep, rank 0's included: say what it is, probe its peers, run its workers.

What crosses between ranks, and under which keys, is in `messages`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec
import torch
import torch.distributed as dist

from bench.facts import errors, gpus, nccl, placement
from bench.facts import host as host_facts
from bench.measure import copy_check, counters, nccl_log, preflight
from bench.measure.agent import BEAT_S, Agent, CaseEnd
from bench.measure.control import Control, StoreGone
from bench.measure.launcher import Seat
from bench.measure.messages import Arrival, Layout, Order, Pairs, Part, Probed, Setting
from bench.measure.nursery import Nursery
from bench.measure.transfers import PairRequest
from bench.measure.worker import Request
from bench.records import Case, CopyCheck

# Rank 0 gathers everybody's facts first, and gives up on the absent before this.
_LAYOUT_S, _LAYOUT_PER_RANK_S = 60.0, 0.1
_BEATS_MISSED = 5
_NEXT_CASE_S = 60.0  # without any sign of life; rank 0 is between cases for milliseconds


class Pulse:
    """Whether the case that is going on somewhere still gives signs of life."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._beats, self._at = control.add("beat", 0), time.monotonic()

    def moved(self) -> bool:
        """True until the beat has stood still for several of its periods."""
        beats, now = self._control.add("beat", 0), time.monotonic()
        if beats != self._beats:
            self._beats, self._at = beats, now
        return now - self._at < _BEATS_MISSED * BEAT_S


class Member:
    """Joins a sweep. `stop()` turns true when this rank was told to leave."""

    def __init__(
        self, seat: Seat, control: Control, nursery: Nursery, stop: Callable[[], bool]
    ) -> None:
        self.seat, self._control, self._nursery, self._stop = seat, control, nursery, stop
        self._listener: preflight.Listener | None = None
        self._layout: Layout | None = None
        self._kernel_log: errors.KernelLog | None = None
        self._pci: tuple[str, ...] = ()

    def arrive(self) -> None:
        """Say where this rank runs; the leading rank of a node also publishes the host's facts
        and starts to answer probes."""
        where = placement.read(self.seat.rank, self.seat.local_rank)
        where = msgspec.structs.replace(where, visible=os.environ.get("CUDA_VISIBLE_DEVICES"))
        self._control.put(f"placement/{self.seat.rank}", where)
        if not self.seat.leads:
            return
        facts = host_facts.gather(node_rank=self.seat.node, ranks=self.seat.node_ranks)
        self._pci = tuple(device.address for device in facts.pci_devices)
        if facts.gpus:
            self._kernel_log = errors.KernelLog()
        addresses = [
            address.address
            for interface in facts.interfaces
            if interface.up and interface.kind != "loopback"
            for address in interface.addresses
            if address.scope == "global"
        ]
        self._listener = preflight.Listener({a: a for a in addresses}, facts.identity)
        arrival = Arrival(
            facts=facts,
            nccl=torch.version.cuda is not None and dist.is_nccl_available(),
            ports=dict(self._listener.ports),
        )
        self._control.put(f"facts/{self.seat.node}", arrival)

    def learn(self) -> Layout | None:
        """This host's layout; None when rank 0 ended the sweep or never answered."""
        deadline_s = _LAYOUT_S + _LAYOUT_PER_RANK_S * self.seat.ranks
        self._layout = self._control.get(f"layout/{self.seat.node}", Layout, deadline_s=deadline_s)
        return self._layout

    def probe(self) -> None:
        """The leading rank probes its peers and asks NCCL about each candidate's setting."""
        layout = self._layout
        if layout is None or not self.seat.leads:
            return
        pairs = preflight.probe(layout.host, layout.peers)
        choices = tuple(
            nccl.ask(setting.ask)
            for setting in layout.settings.values()
            if setting.ask is not None
        )
        self._control.put(f"probed/{self.seat.node}", Probed(pairs=pairs, choices=choices))

    def attend(self) -> str | None:
        """Run every case that rank 0 orders, until it says the end.

        Returns a sentence when the sweep ended in another way, None otherwise.
        """
        number = 0
        while not self._stop():
            order = self._next(number)
            if order is None:
                if self._stop():
                    break
                if self._control.has("bye"):
                    return None
                return f"rank 0 gave no sign of life for {_NEXT_CASE_S:g} s: it is stopped or gone"
            if order.copies:
                self.copy()
            elif order.pairs is not None:
                self.pair(number, order.pairs)
            elif order.case is None:
                return None
            else:
                self.run(order)
            number += 1
        self.leave()
        return None

    def _next(self, number: int) -> Order | None:
        """The next order. Others' cases may take long: as long as they beat, this rank waits."""
        return self._control.gather(
            [f"case/{number}"], Order, deadline_s=_NEXT_CASE_S, alive=Pulse(self._control).moved
        )[0]

    def copy(self) -> CopyCheck | None:
        """The copies of this host, by the rank that stands for it; None for all others."""
        layout = self._layout
        if layout is None or not (self.seat.leads and layout.leads):
            return None
        check = copy_check.run(
            self._nursery,
            layout.host,
            visible=layout.visible,
            stop=self._stop,
            beat=lambda: self._control.add("beat", 1),
        )
        self._control.put(f"copies/{self.seat.node}", check)
        return check

    def pair(self, number: int, pairs: Pairs) -> CaseEnd | None:
        """This rank's end of a pair in a round; None where it sits the round out."""
        layout = self._layout
        part = self._control.peek(f"pair/{number}/{self.seat.rank}", Part)
        if part is None or layout is None:
            return None
        store = self._control.address
        name = f"{number}/{part.pair}"
        request = PairRequest(
            rank=part.end,
            ranks=2,
            global_rank=self.seat.rank,
            local_rank=layout.ranks.index(self.seat.rank),
            shares_gpu=layout.shares_gpu,
            backend=layout.backend,
            environment={**layout.settings[pairs.candidate].environment, **pairs.environment},
            store_host=store.host,
            store_port=store.port,
            prefix=f"{store.prefix}/pair/{name}",
            amounts=pairs.amounts,
            repeats=pairs.repeats,
        )
        agent = Agent(self._control, self._nursery, layout.host)
        end = agent.run(name, request, pairs.deadlines, self._stop)
        end = msgspec.structs.replace(end, nccl_log=(), mapped=())
        self._control.put(f"end/{number}/{self.seat.rank}", end)
        return end

    def run(self, order: Order) -> CaseEnd | None:
        """This rank's part of one case: worker, outcome, and the host's counters around it.

        What this rank reports is also returned; None where it has no part in the case.
        """
        case, layout = order.case, self._layout
        assert case is not None and layout is not None and order.plan and order.deadlines
        setting = layout.settings[case.candidate]
        among = setting.ranks or tuple(range(self.seat.ranks))
        counts = self.seat.leads and layout.leads
        before = self._counters() if counts else None
        end: CaseEnd | None = None
        if self.seat.rank in among:
            request = self._request(order, setting, among)
            agent = Agent(self._control, self._nursery, layout.host)
            end = agent.run(case.number, request, order.deadlines, self._stop)
            # one log a host is enough, and the host's leader has its own
            speaks = not counts and self.seat.rank == min(set(among) & set(layout.ranks))
            told = end if speaks else msgspec.structs.replace(end, nccl_log=_edges(case, end))
            self._control.put(f"end/{case.number}/{self.seat.rank}", told)
        if before is not None:
            log = end.nccl_log if end is not None else self._log_of_others(order, among)
            evidence = counters.difference(before, self._counters(), layout.host)
            evidence = msgspec.structs.replace(evidence, nccl_log=log)
            self._control.put(f"evidence/{case.number}/{self.seat.node}", evidence)
        return end

    def _log_of_others(self, order: Order, among: tuple[int, ...]) -> tuple[str, ...]:
        """Wait for this host's ranks that take part; the log that one of them sent."""
        case, layout, deadlines = order.case, self._layout, order.deadlines
        assert case is not None and layout is not None and deadlines is not None
        mine = sorted(set(among) & set(layout.ranks))
        if not mine:
            return ()
        ends = self._control.gather(
            [f"end/{case.number}/{rank}" for rank in mine],
            CaseEnd,
            deadline_s=deadlines.longest,
            alive=Pulse(self._control).moved,
        )
        return next((end.nccl_log for end in ends if end is not None and end.nccl_log), ())

    def _counters(self) -> counters.Snapshot:
        """This host's counters; the GPUs' too where they are measured (NVML takes its time)."""
        with_gpus = self._layout is not None and self._layout.backend == "nccl"
        watch = counters.Watch(
            gpus=gpus.pulse if with_gpus else None, pci=self._pci, log=self._kernel_log
        )
        return counters.snapshot(watch)

    def _request(self, order: Order, setting: Setting, among: tuple[int, ...]) -> Request:
        layout, case, plan = self._layout, order.case, order.plan
        assert layout is not None and case is not None and plan is not None
        store = self._control.address
        return Request(
            rank=among.index(self.seat.rank),
            ranks=len(among),
            global_rank=self.seat.rank,
            local_rank=layout.ranks.index(self.seat.rank),
            shares_gpu=layout.shares_gpu,
            backend=layout.backend,
            environment=setting.environment,
            store_host=store.host,
            store_port=store.port,
            prefix=f"{store.prefix}/group/{case.number}",
            settings=plan,
            ladders=order.ladders,
            devices=setting.devices,
        )

    def leave(self) -> None:
        """Tell rank 0 that this rank was ended from outside, if it can still be told."""
        try:
            self._control.put(f"left/{self.seat.rank}", True)
            self._control.add("leaving", 1)
        except StoreGone:
            pass

    def close(self) -> None:
        if self._kernel_log is not None:
            self._kernel_log.close()
        if self._listener is not None:
            self._listener.close()


def _edges(case: Case, end: CaseEnd) -> tuple[str, ...]:
    """What a rank tells of its neighbours on the host, in a candidate's first session: the others
    are wired alike, and ten thousand ranks would say it again each time."""
    return nccl_log.local_edges(end.nccl_log) if case.session == 0 else ()
