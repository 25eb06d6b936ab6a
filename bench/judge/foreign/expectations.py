"""What is known of a table's system: numbers that its plateau may be held against.

In: a table, its run, the user's fabric file if any. Out: expectations, best match first, or a
sentence that says why there is none. The user's own file decides alone; where it states rates and
no busbw, a ring at those rates stands in; else the shipped systems with such GPUs.
"""

from __future__ import annotations

import dataclasses

from bench.judge import expected, limits, systems
from bench.judge.foreign.amounts import gbs
from bench.judge.foreign.surroundings import Run
from bench.judge.systems import BusbwExpectation
from bench.judge.words import percent
from bench.records import CollectiveTable, Fabric, FabricBusbw

MANY = 3  # hosts: from here on a fabric's "many" holds
PORT_RATES_GBPS = (10, 25, 40, 50, 100, 200, 400, 800)
PORT_FULL = (0.82, 0.99)  # of a port's rate: what NCCL makes of one, over TCP or RDMA
MORE = 1.25  # of a shipped number: beyond, the run was on something better than that system


def known(
    table: CollectiveTable, run: Run, fabric: Fabric | None
) -> tuple[BusbwExpectation, ...] | str:
    """What is known, best match first; or a sentence that says why nothing is."""
    if run.shared:
        return f"several ranks share {run.shared}"
    if table.collective is None:
        return "which collective it is, is not told"
    if not run.names and fabric is None:
        return "the table names no GPUs"
    if run.over_sockets and (run.hosts or 1) > 1 and fabric is None:
        return f"{run.over_sockets}, and what its Ethernet is, is not told"
    stated = [_stated(one, table.collective, run) for one in matches(run, fabric)]
    found = tuple(one for one in stated if one is not None)
    own = tuple(one for one in found if not one.hint)
    if own:
        return own[:1]
    wire = _of_the_wire(None if fabric and fabric.hint else fabric, table.collective, run)
    if wire is not None:
        return (wire,)
    if not found:
        names = ", ".join(run.names) or "unnamed GPUs"
        return f"no public number of {table.collective} with {run.words} of {names}"
    return found


def matches(run: Run, fabric: Fabric | None) -> tuple[Fabric, ...]:
    """The systems that the run's GPUs may belong to, best first."""
    return systems.match(run.names, run.per_host, run.hosts, fabric, bus_ids=run.bus_ids)


def _stated(fabric: Fabric, collective: str, run: Run) -> BusbwExpectation | None:
    """A fabric's number; for two hosts, where it has none, that of many: a ring loads the same
    ports, a tree reaches more. As it is another size's number it is not exact. Where a ring was
    forced, numbers of other algorithms say nothing, and the ports' rate does."""
    if run.ring_forced and fabric.hint and run.hosts is not None and run.hosts > 1:
        whole = run.per_host is not None and run.per_host == fabric.gpus.per_host
        return _of_the_wire(fabric, collective, run) if whole else None
    found = systems.expectation(fabric, collective, run.hosts, run.ranks)
    if found is not None or run.hosts != 2 or run.per_host is None:
        return found
    found = systems.expectation(fabric, collective, MANY, MANY * run.per_host)
    if found is None or found.entry.hosts != "many":
        return None
    text = f"{found.system}, {collective} over many hosts: {found.busbw_gbs:g} GB/s"
    return dataclasses.replace(
        found, exact=False, basis_text=f"{text} (two reach as much or more)"
    )


def ports(collective: str | None, run: Run, busbw_gbs: float, fabric: Fabric | None) -> str | None:
    """What a figure is in ports, for hosts whose ports are not known: the rate that one rank a
    host seems to have, or the share of a known system's ports. None inside one host."""
    if run.hosts is None or run.hosts < 2 or run.shared:
        return None
    if run.per_host == 1:
        for rate in PORT_RATES_GBPS:
            share = busbw_gbs * 8 / rate
            if PORT_FULL[0] <= share <= PORT_FULL[1]:
                port = f"{percent(share)} of one port of {rate} Gbit/s"
                return f"{gbs(busbw_gbs)} is {port}, if that is what each of these hosts uses"
        return None
    for one in matches(run, fabric)[:1] if collective and not run.over_sockets else ():
        limit = limits.limit(one, collective or "", run.hosts, run.ranks)
        if limit is not None:
            told = f"{percent(busbw_gbs / limit.ring_gbs)} of what {one.title or one.name} has"
            return f"{gbs(busbw_gbs)} is {told}: {limit.links}"
    return None


def _of_the_wire(fabric: Fabric | None, collective: str, run: Run) -> BusbwExpectation | None:
    """What a ring makes of the rates that a fabric states; None inside one host. Not exact: over
    many hosts NCCL reaches 75-97 % of them."""
    if fabric is None or run.hosts == 1 or (run.names and not systems.fits(fabric, run.names)):
        return None
    limit = limits.limit(fabric, collective, run.hosts, run.ranks)
    if limit is None:
        return None
    busbw = round(limit.ring_gbs * expected.payload_share(1500, on_wire=True), 2)
    entry = FabricBusbw(
        collective=collective, hosts=run.hosts or 1, busbw_gbs=busbw, algorithm="Ring"
    )
    name = fabric.title or fabric.name
    return BusbwExpectation(
        fabric=fabric,
        entry=entry,
        busbw_gbs=busbw,
        tolerance=fabric.tolerance.bandwidth,
        system=name,
        basis_text=f"the {gbs(busbw)} of a ring over {limit.links} ({name})",
        source=None,
        from_bytes=None,
        latency_us=None,
        hint=fabric.hint,
        exact=False,
        unknown=("calculated from the ports' rate: over many hosts NCCL reaches 75-97 % of it",),
    )


def chosen(plateau_gbs: float, known: tuple[BusbwExpectation, ...]) -> BusbwExpectation:
    """The best match that the plateau fits; else the best that it does not exceed, else the
    fastest."""
    for one in known:
        if (1 - one.tolerance) * one.busbw_gbs <= plateau_gbs <= MORE * one.busbw_gbs:
            return one
    for one in known:
        if plateau_gbs <= one.busbw_gbs:
            return one
    return max(known, key=lambda one: one.busbw_gbs)
