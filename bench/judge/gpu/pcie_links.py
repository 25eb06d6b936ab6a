"""PCIe links of GPUs that are narrower or slower than they should be.

In: what NVML says of each link, and what copies over it reached. Out: pcie-downgraded. A link at
rest lowers its generation to save power, so that alone is never held against it: only what was
read while it worked. Most of the same model, or the fabric file, say what is right; a whole model
with half its lanes is how a board was built. Copies overrule a claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.gpu import fleet, pcie_copies
from bench.judge.gpu.fleet import Drop
from bench.judge.gpu.pcie_copies import WAYS, Link, Links
from bench.judge.networks import Networks
from bench.judge.words import listed, percent
from bench.records import Evidence, Finding, Severity, Where

# The next narrower link gives half. Memory on the other socket costs up to a third, a busy host
# some more: what is below 0.6 of its like is another link.
ODD_SHARE = 0.6
TOGETHER = 0.5  # of a host's GPUs: when more are affected it is the host's fault, told once
SHOWN = 4


@dataclass(frozen=True)
class Wrong:
    """A link, what it should be in words and by whose word. `sure` is False for a generation that
    was read on a GPU awake, but not while anything crossed its link."""

    link: Link
    than: str
    right: Evidence
    sure: bool


def judge(net: Networks, docket: Docket) -> None:
    """Add pcie-downgraded, each GPU once: by the fabric file, by its like, by its copies."""
    links = Links(net)
    wrong: dict[tuple[str, int], Wrong] = {}
    for one in (*_below_stated(net, links), *_below_most(links)):
        wrong.setdefault(_key(one.link), one)
    for group in _grouped(net, list(wrong.values())):
        host = group[0].link.seat.host.host
        docket.add(_finding(group, links), explains=fleet.slowed(net, host, *_over_pcie(group)))
    told = set(wrong)
    for link in links.all:
        finding = None if _key(link) in told else _slow_copies(link, links)
        if finding is not None:
            told.add(_key(link))
            docket.add(finding)
    for drop in fleet.dropped(net, "pcie_width"):
        if (drop.host, drop.gpu) not in told:
            told.add((drop.host, drop.gpu))
            docket.add(_lost(drop))
    quiet = [link for link in links.all if _key(link) not in told]
    _undecided(quiet, links, docket)
    _remarks(quiet, links, docket)


def _key(link: Link) -> tuple[str, int]:
    return link.seat.host.host, link.seat.gpu.index


def _below_stated(net: Networks, links: Links) -> Iterator[Wrong]:
    for link in links.all:
        stated = fleet.stated(net.report.fabric, link.seat.gpu).pcie or ""
        generation, _, lanes = stated.partition("x")
        if not (generation.isdigit() and lanes.isdigit()) or link.refuted:
            continue
        able = link.seat.gpu.pcie_max_generation
        narrow = link.width is not None and link.width < int(lanes)
        unable = able is not None and able < int(generation)  # GPU and slot together, at any time
        slow = link.loaded and link.generation is not None and link.generation < int(generation)
        if narrow or unable or slow:
            right = f"generation {generation} x{lanes}"
            proof = Evidence(basis="expected", text=f"the fabric file expects {right}")
            yield Wrong(link, f"of {right}", proof, narrow or unable or link.copied_over)


def _below_most(links: Links) -> Iterator[Wrong]:
    by_key = {_key(link): link for link in links.all}
    seats = [link.seat for link in links.all]
    for odd in fleet.below_most(seats, lambda s: by_key[s.host.host, s.gpu.index].rate):
        link = by_key[odd.seat.host.host, odd.seat.gpu.index]
        like = next(x for x in links.of_model[link.seat.gpu.name] if x.rate == odd.usual)
        if link.refuted:
            continue
        text = f"{odd.votes} other {link.seat.gpu.name or 'GPUs'} run at {like.state}"
        narrow = (link.width or 0) < (like.width or 0)
        yield Wrong(
            link,
            f"where {odd.votes} of its model run at {like.state}",
            Evidence(basis="claimed", text=text),
            narrow or link.copied_over,
        )


def _grouped(net: Networks, wrong: Sequence[Wrong]) -> Iterator[list[Wrong]]:
    for host, facts in net.hosts.items():
        own = [one for one in wrong if one.link.seat.host.host == host]
        if len(own) > max(1, TOGETHER * len(facts.gpus)):
            yield own
        else:
            yield from ([one] for one in own)


def _over_pcie(group: Sequence[Wrong]) -> tuple[str, ...]:
    """The GPU paths that cross these links: shared memory always, peer to peer without NVLink."""
    straight = any(one.link.seat.gpu.nvlinks_active for one in group)
    return ("shm",) if straight else ("shm", "p2p")


def _finding(group: Sequence[Wrong], links: Links) -> Finding:
    link = group[0].link
    gpu, host = link.seat.gpu, link.seat.host.host
    seats = [one.link.seat for one in group]
    many = len(group) > 1
    slow = any((links.share(one.link, way) or 1) < ODD_SHARE for one in group for way in WAYS)
    proof = pcie_copies.proof(link, links)
    return Finding(
        code="pcie-downgraded",
        severity="degraded" if slow or any(one.sure for one in group) else "warning",
        summary=f"{fleet.told(seats)} {'have' if many else 'has'} "
        f"{'their' if many else 'its'} PCIe link at {link.state} {group[0].than}.",
        where=Where(
            host=host,
            gpu=None if many else gpu.index,
            device=None if many else gpu.pci_address,
        ),
        evidence=(*(_claim(one.link) for one in group[:SHOWN]), group[0].right, *proof),
        remedy=_look(link),
        confidence="measured" if slow else "inferred",
    )


def _claim(link: Link) -> Evidence:
    how = "read awake" if link.loaded else "read at rest; the width does not fall at rest"
    if link.copied_over:
        how = "read while copies ran"
    text = f"NVML on {link.seat.host.host}: GPU {link.seat.gpu.index} at {link.text}"
    return Evidence(basis="claimed", text=f"{text} of {link.best}, {how}")


def _look(link: Link) -> str:
    address = link.seat.gpu.pci_address
    if address is None:
        return f"nvidia-smi -q -i {link.seat.gpu.index} | grep -A 14 'GPU Link Info'"
    return f"sudo lspci -vv -s {address} | grep -E 'LnkCap|LnkSta'"


def _slow_copies(link: Link, links: Links) -> Finding | None:
    """Copies far below those of its like, whatever the link claims: a switch or riser above it
    may be what is narrow."""
    shares = {
        way: part
        for way in WAYS
        if (part := links.share(link, way)) is not None and part < ODD_SHARE
    }
    if not shares:
        return None
    gpu, host = link.seat.gpu, link.seat.host.host
    ways = listed("from the host" if way == "to-device" else "to the host" for way in shares)
    why = ", with memory on another NUMA node" if link.far else ""
    lies = Evidence(
        basis="inferred",
        text=f"its own link claims {link.text} of {link.best}: what is slow lies above or beside",
    )
    return Finding(
        code="pcie-downgraded",
        severity="warning" if link.far else "degraded",
        summary=f"Copies {ways} of GPU {gpu.index} on {host} reach "
        f"{percent(min(shares.values()))} of what others of its model reach{why}.",
        where=Where(host=host, gpu=gpu.index, device=gpu.pci_address),
        evidence=(*pcie_copies.proof(link, links), lies),
        remedy=_look(link),
    )


def _lost(drop: Drop) -> Finding:
    return Finding(
        code="pcie-downgraded",
        severity="degraded",
        summary=f"The PCIe link of GPU {drop.gpu} on {drop.host} lost lanes during the sweep: "
        f"x{drop.after} of x{drop.before}.",
        where=Where(host=drop.host, gpu=drop.gpu, candidate=drop.candidate),
        evidence=(
            Evidence(
                basis="measured",
                text=f"NVML before a session of {drop.candidate}: x{drop.before}, after it: "
                f"x{drop.after}",
            ),
        ),
        remedy="sudo journalctl -k --since -1h --grep 'NVRM: Xid|AER'",
    )


def _undecided(quiet: Sequence[Link], links: Links, docket: Docket) -> None:
    """Copies that differ as much as between two kinds of links, and no majority: a warning that
    names the slow ones, for half of a host behind one narrow switch looks just so."""
    groups: dict[tuple[str, str | None], list[Link]] = {}
    for link in quiet:
        if link.copied("to-device") is not None:
            groups.setdefault((link.seat.host.host, link.seat.gpu.name), []).append(link)
    for (host, _), group in groups.items():
        rates = [link.copied("to-device") or 0.0 for link in group]
        slow = [x for x, rate in zip(group, rates, strict=True) if rate < ODD_SHARE * max(rates)]
        if not slow:
            continue
        docket.add(
            Finding(
                code="pcie-downgraded",
                severity="warning",
                summary=f"Copies from the host reach {min(rates):.3g} to {max(rates):.3g} GB/s on "
                f"{len(group)} GPUs of one model on {host}, with no majority to say which is "
                f"right; slow: {fleet.told([link.seat for link in slow])}.",
                where=Where(host=host, gpu=slow[0].seat.gpu.index if len(slow) == 1 else None),
                evidence=tuple(line for link in slow for line in pcie_copies.proof(link, links))[
                    :SHOWN
                ],
                remedy=_look(slow[0]),
            )
        )


def _remarks(quiet: Sequence[Link], links: Links, docket: Docket) -> None:
    """Links below their own best on all of a model: how some boards are built, a note. Where it is
    the only one, or others do better without a majority, nobody can tell: a warning."""
    groups: dict[str | None, list[Link]] = {}
    for link in quiet:
        gpu = link.seat.gpu
        narrow = (link.width or 99) < (gpu.pcie_max_width or 0)
        slow = link.loaded and (link.generation or 99) < (gpu.pcie_max_generation or 0)
        if (narrow or slow) and not link.refuted:
            groups.setdefault(gpu.name, []).append(link)
    for name, group in groups.items():
        others = len(links.of_model[name]) - len(group)
        alike = len(group) > 1 and not others
        seats = [link.seat for link in group]
        hosts = list(dict.fromkeys(seat.host.host for seat in seats))
        severity: Severity = "info" if alike else "warning"
        built = (
            ", all of their model alike: some boards are built so." if alike
            else f"; {others} of its model {'does' if others == 1 else 'do'} better." if others
            else "; there is no other of its model to tell whether that is right."
        )  # fmt: skip
        docket.add(
            Finding(
                code="pcie-downgraded",
                severity=severity,
                summary=f"{fleet.told(seats)}: PCIe at {group[0].state} of {group[0].best}{built}",
                where=Where(
                    host=hosts[0] if len(hosts) == 1 else None,
                    hosts=tuple(hosts) if len(hosts) > 1 else (),
                    gpu=seats[0].gpu.index if len(seats) == 1 else None,
                ),
                evidence=tuple(_claim(link) for link in group[:SHOWN]),
                remedy=_look(group[0]),
                confidence="inferred",
            )
        )
