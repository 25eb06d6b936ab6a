"""GPUs among their like: who differs from the others, and what the operator expects of each.

In: a report's hosts. Out: GPUs with their host, and those below what most of the same model have.
One that differs is named; where all are alike, or no majority exists, nobody is: that is how these
machines are built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.judge import systems
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import Candidate, Fabric, FabricGpus, Gpu, HostFacts

LEAST_ALIKE = 2  # one other GPU that has more is no majority


@dataclass(frozen=True)
class Seat:
    """A GPU in its host."""

    host: HostFacts
    gpu: Gpu

    @property
    def name(self) -> str:
        return f"GPU {self.gpu.index} on {self.host.host}"


@dataclass(frozen=True)
class Odd:
    """A GPU that has less than most of its model: `usual` of `votes` others."""

    seat: Seat
    value: float
    usual: float
    votes: int


@dataclass(frozen=True)
class Drop:
    """What a GPU had before a session of a candidate, and less of it afterwards."""

    host: str
    gpu: int
    before: int
    after: int
    candidate: str


def seats(hosts: Iterable[HostFacts]) -> list[Seat]:
    return [Seat(host, gpu) for host in hosts for gpu in host.gpus]


def below_most(found: Sequence[Seat], value: Callable[[Seat], float | None]) -> list[Odd]:
    """GPUs with less than most of their model have, first among those of their own host, then
    among all hosts; `value` None takes no part."""
    known = [(seat, told) for seat in found if (told := value(seat)) is not None]
    odd: dict[tuple[str, int], Odd] = {}
    by_model: dict[str | None, list[tuple[Seat, float]]] = {}
    by_host: dict[tuple[str, str | None], list[tuple[Seat, float]]] = {}
    for seat, told in known:
        by_model.setdefault(seat.gpu.name, []).append((seat, told))
        by_host.setdefault((seat.host.host, seat.gpu.name), []).append((seat, told))
    for group in (*by_host.values(), *by_model.values()):
        for one in _odd(group):
            odd.setdefault((one.seat.host.host, one.seat.gpu.index), one)
    return [odd[key] for key in sorted(odd)]


def _odd(group: Sequence[tuple[Seat, float]]) -> list[Odd]:
    (usual, votes) = Counter(told for _, told in group).most_common(1)[0]
    if votes < LEAST_ALIKE or 2 * votes <= len(group):
        return []
    return [Odd(seat, told, usual, votes) for seat, told in group if told < usual]


def stated(fabric: Fabric | None, gpu: Gpu) -> FabricGpus:
    """What the fabric file says of a GPU; nothing where it speaks of others, or is a hint: other
    people's systems accuse nobody."""
    if fabric is None or fabric.hint or not systems.fits(fabric, [gpu.name or ""]):
        return FabricGpus()
    return fabric.gpus


def told(found: Sequence[Seat]) -> str:
    """ "GPU 3 on host1", "GPUs 3 and 5 on host1", "GPU 3 on host1 and GPU 4 on host2"."""
    if len({seat.host.host for seat in found}) > 1:
        return listed(seat.name for seat in found)
    numbers = listed(str(seat.gpu.index) for seat in found)
    return f"GPU{'s' if len(found) > 1 else ''} {numbers} on {found[0].host.host}"


def by_host(found: Sequence[Seat]) -> dict[str, list[Seat]]:
    groups: dict[str, list[Seat]] = {}
    for seat in found:
        groups.setdefault(seat.host.host, []).append(seat)
    return groups


def path(net: Networks, host: str, name: str) -> Candidate | None:
    """A host's candidate p2p, shm or net."""
    return next(
        (
            candidate
            for candidate in net.report.candidates
            if candidate.kind == "gpu-path" and candidate.interfaces.get(host) == name
        ),
        None,
    )


def slowed(net: Networks, host: str, *names: str) -> list[str]:
    """A host's GPU paths of these names that were measured: what a slow link explains."""
    found = (path(net, host, name) for name in names)
    return [c.name for c in found if c is not None and c.outcome == "measured"]


def peers_of(host: str) -> str:
    """How the docket knows what is wrong between a host's GPUs, so that it is told once."""
    return f"peers of {host}"


def dropped(net: Networks, item: str) -> Iterator[Drop]:
    """Where an item that should stand still ("nvlinks_active") fell during a session."""
    for session in net.report.sessions:
        for evidence in session.hosts:
            for key, (before, after) in evidence.changed.items():
                name, _, which = key.partition(".")
                number = name.removeprefix("gpu")
                if which == item and after < before and number.isdigit():
                    yield Drop(evidence.host, int(number), before, after, session.case.candidate)
