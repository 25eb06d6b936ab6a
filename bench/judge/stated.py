"""What a fabric file states in figures for a line of a sweep: its [[busbw]] entries.

In: the file, a candidate, its fitted line. Out: the entry that speaks of this line. Entries that
`expect --learn` wrote are for one candidate; those without one hold for NCCL as it comes, which a
sweep measures as the case with nothing set.
"""

from __future__ import annotations

from bench.records import Backend, Candidate, CostLine, Fabric, FabricBusbw

# A ladder ends when the plateau is seen, now one size earlier, now later: so far a run may end
# below the sizes that the entry is of and still be held against it.
SHORT_OF = 2


def entry_for(
    fabric: Fabric | None, candidate: Candidate, line: CostLine, *, hosts: int, backend: Backend
) -> FabricBusbw | None:
    """The entry for `line`, which was measured over `candidate` of a run on so many hosts; None
    where the file has none, or where its sizes were not reached."""
    if fabric is None:
        return None
    ours = _own_hosts(candidate, hosts)
    largest = max((point.size_bytes for point in line.points), default=0)
    fitting = [
        entry
        for entry in fabric.busbw
        if entry.collective == line.collective
        and _of(entry, candidate, backend)
        and _over(entry, fabric, ours, line.ranks)
        and largest * SHORT_OF >= (entry.from_bytes or 0)
    ]
    fitting.sort(key=lambda entry: (entry.candidate is None, entry.hosts == "many"))
    return fitting[0] if fitting else None


def path_of(candidate: Candidate) -> str:
    """What learned entries call a candidate: a GPU path is the same on every host."""
    return candidate.name.partition("@")[0] if candidate.kind == "gpu-path" else candidate.name


def _own_hosts(candidate: Candidate, hosts: int) -> int:
    return len(candidate.interfaces) if candidate.kind != "default" else hosts


def _of(entry: FabricBusbw, candidate: Candidate, backend: Backend) -> bool:
    if entry.candidate is None:  # what users get, and only over the library that it speaks of
        return candidate.kind == "default" and backend == (entry.backend or "nccl")
    return entry.candidate == path_of(candidate) and entry.backend in (None, backend)


def _over(entry: FabricBusbw, fabric: Fabric, hosts: int, ranks: int) -> bool:
    if entry.hosts != hosts and not (entry.hosts == "many" and hosts > 2):
        return False
    # A learned entry says how many ranks; another number on a host is another system.
    per_host = entry.ranks_per_host or (fabric.gpus.per_host if entry.candidate is None else None)
    return per_host is None or per_host * hosts == ranks
