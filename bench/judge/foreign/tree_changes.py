"""What changed between two topologies of one host: before and after an update.

In: a Dossier with two trees of one host, or with a diff of them. Out: sentences. NCCL tunes by
what these files say, so a CPU that is called otherwise moves the sizes at which it switches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import Dossier, TopologyTree, XmlGpu, XmlNet

SHOWN = 4


def sentences(dossier: Dossier) -> tuple[str, ...]:
    """Empty where there are not exactly two trees that belong together."""
    trees = dossier.trees
    if len(trees) != 2:
        return ()
    before, after = trees
    diff = (before.side, after.side) == ("before", "after")
    same_host = before.host_hash is not None and before.host_hash == after.host_hash
    if not diff and not same_host:
        return ()
    changes = list(_changes(before, after, whole=not diff))
    if not changes:
        return (f"{place(before.file)} and {place(after.file)} show the same",) if not diff else ()
    names = place(before.file) if diff else f"{place(before.file)} and {place(after.file)}"
    return tuple(f"{names}: {change}" for change in changes)


def _changes(before: TopologyTree, after: TopologyTree, *, whole: bool) -> Iterator[str]:
    if before.model != after.model and before.model and after.model:
        text = "CPU family and model {} became {}; NCCL plans with the bandwidth of that CPU"
        yield text.format(before.model, after.model)
    if whole:
        for word, one, other in (
            ("CPUs (NUMA nodes)", before.cpus, after.cpus),
            ("PCI switches", before.switches, after.switches),
            ("GPUs", len(before.gpus), len(after.gpus)),
        ):
            if one != other:
                yield f"{word}: {one} became {other}"
        yield from _nets(before, after)
    yield from _each(_by_bus(before), _by_bus(after), _gpu)


def _nets(before: TopologyTree, after: TopologyTree) -> Iterator[str]:
    one, other = ({net.name: net for net in tree.nets} for tree in (before, after))
    gone, new = [n for n in one if n not in other], [n for n in other if n not in one]
    if gone:
        yield f"no longer offered: {listed(gone)}"
    if new:
        yield f"newly offered: {listed(new)}"
    yield from _each(one, other, _net)


def _by_bus(tree: TopologyTree) -> dict[str, XmlGpu]:
    return {gpu.bus_id: gpu for gpu in tree.gpus if gpu.bus_id}


def _each(
    one: Mapping[str, XmlGpu] | Mapping[str, XmlNet],
    other: Mapping[str, XmlGpu] | Mapping[str, XmlNet],
    words: Callable[[XmlGpu | XmlNet], str],
) -> Iterator[str]:
    changed = [
        f"{name} {words(one[name])} became {words(other[name])}"
        for name in one
        if name in other and words(one[name]) != words(other[name])
    ]
    if changed:
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        yield "; ".join(changed[:SHOWN]) + more


def _gpu(gpu: XmlGpu | XmlNet) -> str:
    assert isinstance(gpu, XmlGpu), "asked of GPUs"
    links = sum(link.count for link in gpu.nvlinks)
    return f"{links} {gpu.link_kind}s, x{gpu.link_width}, GDR {'on' if gpu.gdr else 'off'}"


def _net(net: XmlNet | XmlGpu) -> str:
    assert isinstance(net, XmlNet), "asked of networks"
    return f"{net.speed_mbit} Mbit/s, GDR {'on' if net.gdr else 'off'}"
