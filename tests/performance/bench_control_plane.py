"""The control plane with hundreds of agents on one store: seconds, and bytes per agent.

    python tests/performance/bench_control_plane.py --agents 128 256 512

Each agent is a thread with a store client of its own that says what a real one says: facts of a
host of its own, probes, and the end of each case (no worker runs, no packet but the store's is
sent). Rank 0 runs the sweep's own code. Bytes are loopback's, in a network namespace of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import threading
import time
from pathlib import Path

import msgspec
import psutil
import tabulate
import torch.distributed as dist

from bench.facts import host as host_facts
from bench.measure.agent import CaseEnd
from bench.measure.conductor import Conductor
from bench.measure.control import Control, StoreAddress
from bench.measure.member import Member, Seat
from bench.measure.messages import Arrival, Order, Probed
from bench.measure.stage import Stage
from bench.plan import candidates, cases
from bench.records import (
    Address,
    HostEvidence,
    HostFacts,
    Interface,
    InterfaceCounters,
    PlanSettings,
    PreflightPair,
    RankOutcome,
    Report,
    Sample,
)

SESSIONS = 3
_CLONE_NEWNET = 0x40000000
_TIMES = tuple(1e-3 + i * 1e-6 for i in range(30))


def host(template: HostFacts, node: int) -> HostFacts:
    """The facts of this machine, told as those of host `node` with two data networks."""
    interfaces = tuple(
        Interface(
            name=name, kind="physical", index=i, mtu=9000, up=True, running=True,
            speed_mbit=100_000, driver="mlx5_core",
            addresses=(
                Address(
                    family="inet", address=f"10.{i}.{node // 256}.{node % 256}", prefix_length=16
                ),
            ),
        )
        for i, name in enumerate(("mgmt0", "data0", "data1"))
    )  # fmt: skip
    return msgspec.structs.replace(
        template, host=f"gpu{node:04d}", hostname=f"gpu{node:04d}", identity=f"boot/{node}",
        node_rank=node, ranks=(node,), interfaces=interfaces,
    )  # fmt: skip


class SimulatedMember(Member):
    """A member whose host and workers are made up; what it sends is what a real one sends."""

    template: HostFacts

    def arrive(self) -> None:
        facts = host(self.template, self.seat.node)
        self._control.put(f"placement/{self.seat.rank}", {"rank": self.seat.rank, "local_rank": 0})
        ports = {a.address: 40000 for i in facts.interfaces for a in i.addresses}
        self._control.put(f"facts/{self.seat.node}", Arrival(facts=facts, ports=ports))

    def probe(self) -> None:
        layout = self._layout
        assert layout is not None
        pairs = tuple(
            PreflightPair(
                candidate=peer.candidate, source=layout.host, destination=peer.host,
                outcome="ok", address=peer.address, egress="data0", rtt_s=1e-4,
            )
            for peer in layout.peers
        )  # fmt: skip
        self._control.put(f"probed/{self.seat.node}", Probed(pairs=pairs))

    def run(self, order: Order) -> CaseEnd:
        case, layout = order.case, self._layout
        assert case is not None and layout is not None
        samples = tuple(
            Sample(collective=ladder.collective, size_bytes=size, times_s=_TIMES,
                   times_min_s=_TIMES)
            for ladder in order.ladders
            for size in ladder.sizes_bytes
        ) if self.seat.rank == 0 else ()  # fmt: skip
        rank = RankOutcome(rank=self.seat.rank, host=layout.host, outcome="ok", phase="end")
        end = CaseEnd(rank=rank, samples=samples)
        self._control.put(f"end/{case.number}/{self.seat.rank}", end)
        counted = InterfaceCounters(rx_bytes=10**9, tx_bytes=10**9)
        evidence = HostEvidence(host=layout.host, interfaces={"data0": counted})
        self._control.put(f"evidence/{case.number}/{self.seat.node}", evidence)
        return end


def sweep(agents: int, template: HostFacts) -> tuple[float, float, float, int]:
    """(seconds to facts and plan, seconds in all, bytes on loopback, sessions gathered)."""
    SimulatedMember.template = template
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started, received = time.monotonic(), psutil.net_io_counters(pernic=True)["lo"].bytes_recv

    def stage(rank: int) -> Stage:
        client = dist.TCPStore("127.0.0.1", store.port, is_master=False)
        address = StoreAddress("127.0.0.1", store.port, "simulated")
        control = Control(dist.PrefixStore("simulated", client), address, rank=rank, ranks=agents)
        seat = Seat(rank=rank, ranks=agents, local_rank=0, local_ranks=1, node=rank, nodes=agents)
        made = Stage(seat, control, None)  # type: ignore[arg-type]
        made._member = SimulatedMember(seat, control, None, made._stopped)  # type: ignore[arg-type]
        made._conductor = Conductor(control, made._member)
        return made

    threads = [
        threading.Thread(target=lambda rank=rank: stage(rank).attend(), daemon=True)
        for rank in range(1, agents)
    ]
    for thread in threads:
        thread.start()
    lead = stage(0)
    hosts = lead.facts()
    found = candidates.find(hosts, backend="gloo")
    hosts, pairs = lead.preflight(found, "gloo")
    settings = PlanSettings(name="simulated", sessions=SESSIONS, budget_s=1e6)
    plan = cases.schedule(settings, found, hosts, backend="gloo", ranks=agents, seed=1)
    planned_s = time.monotonic() - started
    report = Report(
        run="simulated", verdict="inconclusive", hosts=hosts, plan=plan, candidates=found,
        preflight=pairs,
    )  # fmt: skip
    sessions = list(lead.sessions(report, began=time.monotonic(), starting=lambda case: None))
    lead.dismiss()
    taken_s = time.monotonic() - started
    for thread in threads:
        thread.join(30)
    moved = psutil.net_io_counters(pernic=True)["lo"].bytes_recv - received
    whole = sum(s.outcome == "measured" and len(s.ranks) == agents for s in sessions)
    assert whole == len(plan.cases), [s.reason for s in sessions]
    return planned_s, taken_s, float(moved), whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, nargs="+", default=[128, 256, 512])
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    template = host_facts.gather()
    if os.geteuid() == 0 and ctypes.CDLL(None).unshare(_CLONE_NEWNET) == 0:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            route.link("set", index=1, state="up")
    rows = []
    for agents in arguments.agents:
        planned_s, taken_s, moved, sessions = sweep(agents, template)
        per_agent = moved / agents / 1024
        rows.append((agents, f"{planned_s:.1f}", f"{taken_s:.1f}", sessions, f"{per_agent:.0f}"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        tabulate.tabulate(
            rows, ("agents", "facts and plan s", "in all s", "sessions", "KiB per agent")
        )
    )
    print(
        f"peak memory of all agents together {peak:.0f} MiB; {Path('/proc/loadavg').read_text()}"
    )


if __name__ == "__main__":
    main()
