"""Known systems: which one a table was run on, and what it should show there.

In: GPU names as tables and logs print them, PCI buses, ranks and hosts. Out: the fabrics that fit,
best first, and the plateau that one of them states for a collective, with its source, tolerance
and what is not known. Shipped fabrics are other people's numbers: hints, never gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from bench.formats import shipped, toml_file
from bench.plan.default_case import DEFAULT
from bench.records import Fabric, FabricBusbw

VENDORS = ("nvidia ", "amd ")  # drivers since 470 print them before the name, older ones do not
ALIASES = {"sendrecv": "send_recv", "alltoall": "all_to_all"}
# A ring moves these two alike, one the other way round.
SIBLINGS = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
# With a ring (no NVLS, no tree) every one of these fills the same links with its busbw.
RING_ALIKE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


@dataclass(frozen=True)
class BusbwExpectation:
    """The plateau of one collective on one system, busbw in 1e9 bytes/s.

    `exact` is False where the number is a sibling collective's. `hint`: from a shipped file, so it
    may be said and not gated on. `unknown` are sentences: what decides and was not told.
    """

    fabric: Fabric
    entry: FabricBusbw
    busbw_gbs: float
    tolerance: float
    system: str
    basis_text: str
    source: str | None
    from_bytes: int | None
    latency_us: float | None
    hint: bool
    exact: bool
    unknown: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def known() -> tuple[Fabric, ...]:
    """The shipped fabrics of real systems, by name."""
    files = sorted(shipped.folder("fabrics").glob("*.toml"))
    fabrics = (toml_file.load(file, Fabric) for file in files)
    return tuple(fabric for fabric in fabrics if fabric.hint)


def match(
    names: Sequence[str],
    ranks_per_host: int | None = None,
    hosts: int | None = None,
    fabric: Fabric | None = None,
    *,
    bus_ids: Sequence[str] = (),
) -> tuple[Fabric, ...]:
    """The fabrics that GPUs of these names may belong to, best first; empty where none does.

    The user's own `fabric` comes first and is believed unless it names other GPUs. Among shipped
    ones: PCI buses (of one host, in device order) that agree go first and those that contradict
    are left out; then as many GPUs as there are ranks on a host; then what is no cloud's shape.
    """
    mine = () if fabric is None or not fits(fabric, names) else (fabric,)
    if not names:
        return mine
    seen = tuple(_bus(text) for text in bus_ids)
    found = []
    for candidate in known():
        buses = _agreement(candidate, seen)
        per_host = candidate.gpus.per_host
        crowded = ranks_per_host is not None and per_host is not None and ranks_per_host > per_host
        alone = candidate.gpus.model and fits(candidate, names)
        if not alone or crowded or buses < 0 or candidate.name in {own.name for own in mine}:
            continue
        whole = ranks_per_host is None or per_host == ranks_per_host
        told = any(entry.hosts == hosts for entry in candidate.busbw)
        found.append(
            ((-buses, not whole, bool(candidate.provider), not told, candidate.name), candidate)
        )
    return (*mine, *(candidate for _, candidate in sorted(found, key=lambda pair: pair[0])))


def expectation(
    fabric: Fabric, collective: str, hosts: int | None, ranks: int | None
) -> BusbwExpectation | None:
    """What `fabric` states for a collective over so many hosts and ranks; None where it states
    nothing: fewer ranks than GPUs, or more than two hosts without an entry for many, are other
    systems. Of what was learned from sweeps only NCCL with nothing set is meant here."""
    wanted = ALIASES.get(collective, collective)
    hosts = _hosts_of_a_domain(fabric, ranks) if hosts is None else hosts
    if hosts is None or ranks is None or hosts < 1 or ranks < 2 or ranks % hosts:
        return None
    fitting = [
        entry
        for entry in fabric.busbw
        if _as_it_comes(entry) and _of_size(entry, fabric, hosts, ranks // hosts)
    ]
    fitting.sort(key=lambda entry: entry.hosts == "many")
    for exact, entry in _by_collective(wanted, fitting):
        return _stated(fabric, entry, hosts, exact, wanted)
    return None


def fits(fabric: Fabric, names: Sequence[str]) -> bool:
    """Whether every name is one of the fabric's GPUs; a fabric that names none fits all."""
    globs = [" ".join(glob.lower().split()) for glob in fabric.gpus.model]
    return not globs or all(any(_same(name, glob) for glob in globs) for name in names)


def _same(name: str, glob: str) -> bool:
    plain = " ".join(name.lower().split())
    spelled = [plain, *(plain.removeprefix(vendor) for vendor in VENDORS)]
    return any(fnmatchcase(text, glob) for text in spelled)


def _bus(text: str) -> str:
    """ "1b" of "0x1b", "[0x1B]", "0000:1b:00.0" or "1b000" is left to the caller's own form."""
    plain = text.strip().strip("[]").lower().removeprefix("0x")
    return (plain.split(":")[-2] if ":" in plain else plain).lstrip("0") or "0"


def _agreement(fabric: Fabric, seen: tuple[str, ...]) -> int:
    """1 where the PCI buses are this fabric's, -1 where they are not, 0 where nothing is known."""
    stated = [_bus(text) for text in fabric.gpus.bus_ids]
    if not stated or not seen:
        return 0
    return 1 if set(seen) <= set(stated) else -1


def _of_size(entry: FabricBusbw, fabric: Fabric, hosts: int, per_host: int) -> bool:
    if entry.hosts != hosts and not (entry.hosts == "many" and hosts > 2):
        return False
    stated = entry.ranks_per_host or fabric.gpus.per_host
    return stated is None or stated == per_host


def _as_it_comes(entry: FabricBusbw) -> bool:
    """Whether an entry is of NCCL with nothing set, which is what a table shows."""
    return entry.candidate in (None, DEFAULT) and entry.backend != "gloo"


def _hosts_of_a_domain(fabric: Fabric, ranks: int | None) -> int | None:
    """A full NVLink domain spans as many hosts as it has trays: nothing else has so many ranks."""
    domain, per_host = fabric.gpus.domain, fabric.gpus.per_host
    return domain // per_host if domain and per_host and ranks == domain else None


def _by_collective(wanted: str, entries: Sequence[FabricBusbw]) -> list[tuple[bool, FabricBusbw]]:
    """Entries of the collective itself, then those whose number must be the same."""
    own = [(True, entry) for entry in entries if entry.collective == wanted]
    sibling = [(False, e) for e in entries if e.collective == SIBLINGS.get(wanted)]
    ring = [
        (False, entry)
        for entry in entries
        if wanted in RING_ALIKE and entry.collective in RING_ALIKE and entry.algorithm == "Ring"
    ]
    return [*own, *sibling, *ring]


def _stated(
    fabric: Fabric, entry: FabricBusbw, hosts: int, exact: bool, wanted: str
) -> BusbwExpectation:
    system = fabric.title or fabric.name
    over = "one host" if hosts == 1 else f"{hosts} hosts"
    text = f"{system}, {entry.collective} over {over}: {entry.busbw_gbs:g} GB/s"
    if entry.from_bytes is not None:
        text += f" from {_size(entry.from_bytes)} on"
    if entry.algorithm is not None:
        text += f" ({entry.algorithm})"
    unknown = [] if entry.note is None else [entry.note]
    if not exact:
        unknown.append(f"no number of {wanted} is known; {entry.collective} fills the same links")
    if entry.from_bytes is None:
        unknown.append("from which size on it holds is not stated")
    tolerance = fabric.tolerance.bandwidth if entry.tolerance is None else entry.tolerance
    if entry.candidate is not None:  # another program, other buffers: a few per cent apart
        tolerance = max(tolerance, fabric.tolerance.bandwidth)
        unknown.append("learned with sweeps, not with nccl-tests")
    if fabric.hint:
        unknown.append("a public number of another site: yours is what your own good runs show")
    return BusbwExpectation(
        fabric=fabric,
        entry=entry,
        busbw_gbs=entry.busbw_gbs,
        tolerance=tolerance,
        system=system,
        basis_text=text,
        source=entry.source or fabric.source,
        from_bytes=entry.from_bytes,
        latency_us=entry.latency_us,
        hint=fabric.hint,
        exact=exact,
        unknown=tuple(unknown),
    )


def _size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}"
    return f"{size_bytes} bytes"
