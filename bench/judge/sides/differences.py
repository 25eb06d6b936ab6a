"""What differs between two sides: half of the answer to why their figures do.

In: the topics of both sides. Out: Differences, sentences on what confounds them, and what may be
called equal. A topic that one side's files do not tell is neither alike nor different. Nothing is
blamed here: one changed factor is a suspect, two are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.sides.topics import CLOCKS, THROTTLING
from bench.judge.words import listed
from bench.records import Difference, Side, Topic

# What follows from another thing that differs is told with it, not beside it.
FOLLOWS: dict[str, tuple[str, ...]] = {
    "CUDA driver": ("driver",),
    "driver's kind": (),
    "mapped libraries": ("NCCL",),
    "nvidia-nccl-cu11": ("NCCL",),
    "nvidia-nccl-cu12": ("NCCL",),
    "nvidia-nccl-cu13": ("NCCL",),
    "triton": ("torch",),
    "NCCL meets on": ("NCCL_SOCKET_IFNAME",),
    "kernel modules": ("kernel", "driver"),
    "highest clocks": ("GPUs", "driver"),
    "interfaces of (default)": ("NCCL_SOCKET_IFNAME",),
    "VBIOS": ("GPUs",),
}
# What NCCL made of it all: consequences that explain, not factors that somebody changed.
OUTCOMES = (
    "channels", "ring orders", "carriers", "network", "network devices", "GPUDirect RDMA", "NVLS",
    "PXN", "net plugin", "NCCL meets on", "choice for ",
)  # fmt: skip
# Variables that change what is written down and nothing else.
HARMLESS = (
    "NCCL_DEBUG", "TORCH_CPP_LOG_LEVEL", "TORCH_SHOW_CPP_STACKTRACES", "GLOO_LOG",
    "NCCL_INSPECTOR",
)  # fmt: skip
# Kinds of files of which a variable that is not there was not set.
TELLS_VARIABLES = {"report", "log"}
CLOCKS_APART = 0.03
SHOWN = 3  # values of a side in a sentence
LONGEST = 60  # characters of a value in a sentence
OF_HOSTS = ("driver", "kernel", "NIC firmware")  # what a table's head never tells


@dataclass(frozen=True)
class Contrasted:
    """`equal` says what is alike, in words; `confounders` are sentences."""

    differences: tuple[Difference, ...]
    equal: str
    confounders: tuple[str, ...]

    @property
    def factors(self) -> tuple[Difference, ...]:
        """What somebody may have changed: not outcomes, not logging."""
        return tuple(d for d in self.differences if is_factor(d))


def is_factor(difference: Difference) -> bool:
    name = difference.name
    return difference.kind == "factor" and not name.startswith((*OUTCOMES, *HARMLESS))


def contrast(before: Side, after: Side, *, cohort: bool = False) -> Contrasted:
    """All that both sides tell and that is not alike."""
    first, second = _merged(before.topics), _merged(after.topics)
    found: list[Difference] = []
    for name in dict.fromkeys((*first, *second)):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            silent = before if one is None else after
            absent = _unset(name, one, other) if TELLS_VARIABLES & set(silent.told) else None
            if absent is not None:
                found.append(absent)
            continue
        difference = _difference(one, other, cohort=cohort)
        if difference is not None:
            found.append(difference)
    told = {difference.name for difference in found}
    kept = [d for d in found if not set(FOLLOWS.get(d.name, ())) & told]
    kept.sort(key=lambda d: ("factor", "setting", "circumstance").index(d.kind))
    ours = "report" in before.told and "report" in after.told
    result = Contrasted(tuple(kept), _equal(first, second, kept, ours=ours), ())
    mixed = (*_mixed("before", before), *_mixed("after", after))
    return Contrasted(
        result.differences, result.equal, (*_confounders(result, cohort=cohort), *mixed)
    )


def _merged(topics: Sequence[Topic]) -> dict[str, Topic]:
    """Topics by name, with the values of all sessions of the side."""
    found: dict[str, Topic] = {}
    values: dict[str, dict[str, dict[str, None]]] = {}
    for topic in topics:
        found.setdefault(topic.name, topic)
        hosts = values.setdefault(topic.name, {})
        for host, own in topic.values.items():
            hosts.setdefault(host, {}).update(dict.fromkeys(own))
    return {
        name: Topic(
            name=name,
            kind=topic.kind,
            basis=topic.basis,
            values={host: tuple(own) for host, own in values[name].items()},
        )
        for name, topic in found.items()
    }


def _unset(name: str, one: Topic | None, other: Topic | None) -> Difference | None:
    """A variable that only one side knows of is unset on the other, where that one tells its
    environment at all; of everything else nothing is concluded."""
    there = one or other
    assert there is not None, "a name of one of both"
    if not name.isupper() or "_" not in name or there.basis == "inferred":
        return None
    told = _values(there)
    if told == ("unset",):
        return None
    words = _words(told)
    return Difference(
        name=name,
        kind=there.kind,
        before=words if one else "unset",
        after=words if other else "unset",
        basis=there.basis,
    )


def _difference(one: Topic, other: Topic, *, cohort: bool) -> Difference | None:
    """By host where both sides have the same hosts, else by the distinct values."""
    common = [host for host in one.values if host in other.values]
    if common and not cohort:
        differ = [h for h in common if not _alike(one.name, one.values[h], other.values[h])]
        if not differ:
            return None
        before = tuple(dict.fromkeys(v for h in differ for v in one.values[h]))
        after = tuple(dict.fromkeys(v for h in differ for v in other.values[h]))
        some = tuple(h for h in differ if h) if len(differ) < len(common) else ()
    else:
        before, after, some = _values(one), _values(other), ()
        if set(before) == set(after):
            return None
    return Difference(
        name=one.name,
        kind=one.kind,
        before=_words(before),
        after=_words(after),
        hosts=some,
        basis="inferred" if "inferred" in (one.basis, other.basis) else one.basis,
    )


def _alike(name: str, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Clocks are never quite the same; all else is, or is not."""
    if name != CLOCKS:
        return set(one) == set(other)
    first, second = (sum(float(v.split()[0]) for v in own) / len(own) for own in (one, other))
    return abs(first - second) <= CLOCKS_APART * max(first, second)


def _values(topic: Topic) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for own in topic.values.values() for value in own))


def _words(values: Sequence[str]) -> str:
    kept = [v if len(v) <= LONGEST else v[: LONGEST - 1] + "…" for v in values[:SHOWN]]
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return " / ".join(kept) + more


def _equal(
    first: dict[str, Topic], second: dict[str, Topic], kept: Sequence[Difference], *, ours: bool
) -> str:
    """What may be called equal, and what nobody can tell. A report of `ours` tells all there is: a
    host without a driver has none."""
    common = {name for name in first if name in second and first[name].kind == "factor"}
    untold = [name for name in OF_HOSTS if name not in common]
    differ = any(is_factor(d) for d in kept)
    if not common:
        return "nothing is known of what the sides ran on"
    if untold and not ours:
        return (
            f"{'nothing else differs' if differ else 'nothing differs'} in what the files tell "
            f"({', '.join(untold)}: not in them)"
        )
    return "everything else equal" if differ else "everything equal"


def _confounders(found: Contrasted, *, cohort: bool) -> list[str]:
    """Why a change of figures may have another cause than the one that was meant."""
    told = []
    factors = [d.name for d in found.factors]
    if len(factors) > 1:
        told.append(
            f"{len(factors)} things changed at once ({listed(factors)}): the figures cannot say "
            "which of them did it; change one at a time"
        )
    by_name = {difference.name: difference for difference in found.differences}
    if "driver" in by_name and "boot" not in by_name:
        told.append(
            "another driver comes with a reboot or a reload of its modules, which by itself "
            "resets clocks, persistence mode and ACS"
        )
    boots = by_name.get("boot")
    if boots is not None and not cohort:
        where = f" ({listed(boots.hosts)})" if boots.hosts else ""
        told.append(
            f"the hosts were rebooted in between{where}, which by itself may change clocks, link "
            "training and placement"
        )
    for name in (CLOCKS, THROTTLING):
        if name in by_name:
            one = by_name[name]
            told.append(
                f"{name}: {one.before} before, {one.after} after; a GPU that is held down is "
                "not a slow link"
            )
    hosts = by_name.get("hosts")
    if hosts is not None and not cohort:
        told.append(
            f"other hosts: {hosts.before} before, {hosts.after} after; the difference may be "
            "theirs"
        )
    return told


def _mixed(which: str, side: Side) -> list[str]:
    """A side whose sessions are not alike: what was averaged there is of several kinds."""
    found = []
    for topic in _merged(side.topics).values():
        several = {h: own for h, own in topic.values.items() if len(own) > 1}
        skip = topic.kind == "circumstance" or topic.name.startswith((*OUTCOMES, *HARMLESS))
        if several and not skip:
            words = _words(next(iter(several.values())))
            found.append(f"the sessions {which} are not alike: {topic.name} {words}")
    return found
