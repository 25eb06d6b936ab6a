"""Whether NCCL goes between GPUs by the way it should, and by the way a candidate means.

In: NCCL's own channel lines of the unset case and of p2p, shm and net, what the hardware claims
between each two GPUs, and what was measured. Out: gpu-path-unexpected. Shared memory is right
between GPUs that nothing joins, and so is the network where NCCL models it as faster; that is why
a pair is accused only where NVLink, a common switch or the fabric file speak for peer to peer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bench.judge import channels, expected
from bench.judge.channels import Edge, Told
from bench.judge.docket import Docket
from bench.judge.gpu import ways as gpu_ways
from bench.judge.gpu.fleet import path, peers_of
from bench.judge.gpu.ways import Wanted
from bench.judge.networks import Networks
from bench.judge.ratio import quotient, times, told
from bench.judge.words import listed
from bench.records import Candidate, Evidence, Finding, HostFacts, Interval, Where

MEANT = {"p2p": "P2P", "shm": "SHM", "net": "NET"}
WORDS = {"P2P": "peer to peer", "SHM": "shared memory", "NET": "the network"}
# NVLink moves two to twenty times what shared memory does; a ratio surely below this is no NVLink.
LEAST_GAIN = 1.2
# What a user may have set that forbids peer to peer (src/graph/paths.cc).
SETTINGS = {"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("LOC", "0")}
SHOWN = 4


def judge(net: Networks, docket: Docket, edges: Told) -> None:
    """Add gpu-path-unexpected: what users get, then what p2p took, then candidates that were not
    measured by the way they are named after."""
    for facts in net.report.hosts:
        if channels.shares_gpus(facts) or len(facts.ranks) < 2:
            continue
        unexpected = [
            (candidate, edge, wanted)
            for candidate in _what_users_get(net, facts)
            for edge in edges.get(candidate.name, {}).get(facts.host, ())
            if edge.local
            and (wanted := _wanted_instead(net, facts, edge)) is not None
        ]  # fmt: skip
        if unexpected:
            _accuse(net, docket, facts, unexpected)
        else:
            _no_faster(net, docket, facts)
    _as_named(net, docket, edges)


def _what_users_get(net: Networks, facts: HostFacts) -> list[Candidate]:
    both = [net.default, path(net, facts.host, "p2p")]
    return [c for c in both if c is not None and c.outcome == "measured"]


def _wanted_instead(net: Networks, facts: HostFacts, edge: Edge) -> Wanted | None:
    """Peer to peer, where an edge goes another way without a reason NCCL might have."""
    if edge.line.transport not in ("SHM", "NET") or edge.gpu is None or edge.peer_gpu is None:
        return None
    wanted = gpu_ways.wanted(net.report.fabric, facts, edge.gpu, edge.peer_gpu)
    if wanted is None:
        return None
    modelled_faster = edge.line.transport == "NET" and wanted.over == "pcie"
    return None if modelled_faster and wanted.basis != "expected" else wanted


def _accuse(
    net: Networks,
    docket: Docket,
    facts: HostFacts,
    unexpected: Sequence[tuple[Candidate, Edge, Wanted]],
) -> None:
    lines = [
        Evidence(basis="asked", text=f"NCCL in {candidate.name} on {facts.host}: {edge.text}")
        for candidate, edge, _ in unexpected[:SHOWN]
    ]
    settings = _settings(facts)
    proof = [*lines, *_gain(net, facts), *(text for _, text in settings)]
    key = peers_of(facts.host)
    if docket.explains(key):
        for evidence in proof:
            docket.attach(key, evidence)
        return
    candidate, edge, wanted = unexpected[0]
    by_p2p = any(c.kind == "gpu-path" for c, _, _ in unexpected)
    pairs = sorted({tuple(sorted((e.gpu or 0, e.peer_gpu or 0))) for _, e, _ in unexpected})
    ways = dict.fromkeys(WORDS.get(e.line.transport, e.line.transport) for _, e, _ in unexpected)
    whom = f"GPU {pairs[0][0]} and GPU {pairs[0][1]}" if len(pairs) == 1 else (
        f"{len(pairs)} pairs of GPUs"
    )  # fmt: skip
    because = (
        f": {settings[0][0]} is set" if settings and candidate.kind == "default" and not by_p2p
        else ""
    )  # fmt: skip
    way = "NVLink" if wanted.over == "nvlink" else "PCIe peer to peer"
    docket.add(
        Finding(
            code="gpu-path-unexpected",
            severity="degraded",
            summary=f"Between {whom} on {facts.host} NCCL goes by {listed(ways)}, where {way} is "
            f"to be expected{because}.",
            where=Where(
                host=facts.host,
                candidate=candidate.name,
                gpu=None,
                link=tuple(f"GPU{n}" for n in pairs[0]) if len(pairs) == 1 else (),
                ranks=(edge.rank, edge.peer) if len(pairs) == 1 else (),
            ),
            evidence=(Evidence(basis=wanted.basis, text=wanted.text), *proof),
            remedy=_remedy(facts) if because else "nvidia-smi topo -p2p r; nvidia-smi topo -m",
            confidence="asked",
        ),
        explains=[key, *dict.fromkeys(c.name for c, _, _ in unexpected)],
    )


def _settings(facts: HostFacts) -> list[tuple[str, Evidence]]:
    """What is set on a host that forbids peer to peer, and where: the environment goes before
    files, as NCCL has it."""
    found = []
    places = [("environment", facts.environment)]
    places += [(conf.path, conf.settings) for conf in facts.nccl_conf]
    for name, values in SETTINGS.items():
        place, value = next(((p, s[name]) for p, s in places if name in s), ("", ""))
        if value in values:
            text = f"{name}={value} in {place} on {facts.host}"
            found.append((f"{name}={value}", Evidence(basis="claimed", text=text)))
    return found


def _remedy(facts: HostFacts) -> str:
    """Out of the environment, or over what a file says."""
    lines = []
    for setting, _ in _settings(facts):
        name = setting.partition("=")[0]
        free = "export NCCL_P2P_DISABLE='0'" if name == "NCCL_P2P_DISABLE" else (
            "export NCCL_P2P_LEVEL='PXB'"
        )  # fmt: skip
        lines.append(f"unset {name}" if name in facts.environment else free)
    return "; ".join(lines)


# --------------------------------------------------------------------------------- measured


def _ratios(net: Networks, facts: HostFacts) -> dict[str, Interval]:
    """How many times faster p2p is than shm, by collective, from two fitted lines."""
    p2p, shm = path(net, facts.host, "p2p"), path(net, facts.host, "shm")
    found = {}
    for collective in expected.RING_COLLECTIVES if p2p and shm else ():
        fast, slow = net.line(p2p, collective), net.line(shm, collective)  # type: ignore[arg-type]
        if fast and slow and fast.busbw_gbs and slow.busbw_gbs and slow.busbw_gbs.low > 0:
            found[collective] = quotient(fast.busbw_gbs, slow.busbw_gbs)
    return found


def _gain(net: Networks, facts: HostFacts) -> list[Evidence]:
    return [
        Evidence(
            basis="measured",
            text=f"p2p is {times(ratio.value)} times as fast as shm in {collective} {told(ratio)}",
        )
        for collective, ratio in list(_ratios(net, facts).items())[:1]
    ]


def _no_faster(net: Networks, docket: Docket, facts: HostFacts) -> None:
    """NVLinks join all GPUs, NCCL may even name P2P, and yet it is no faster than host memory."""
    ratios = _ratios(net, facts)
    gpus = gpu_ways.ring_gpus(facts)
    wanted = [
        gpu_ways.wanted(None, facts, a.index, b.index) for a, b in itertools.combinations(gpus, 2)
    ]
    all_joined = bool(wanted) and all(w is not None and w.over == "nvlink" for w in wanted)
    if not ratios or not all_joined or any(gpu_ways.has_c2c(gpu) for gpu in gpus):
        return  # over NVLink-C2C host memory is nearly as fast as a peer's
    if any(ratio.high >= LEAST_GAIN for ratio in ratios.values()):
        return
    key, evidence = peers_of(facts.host), _gain(net, facts)
    if docket.explains(key):
        for line in evidence:
            docket.attach(key, line)
        return
    p2p = path(net, facts.host, "p2p")
    ratio = next(iter(ratios.values()))
    docket.add(
        Finding(
            code="gpu-path-unexpected",
            severity="degraded",
            summary=f"On {facts.host} peer to peer is no faster than shared memory "
            f"({times(ratio.value)} times), though NVLinks join its {len(gpus)} GPUs.",
            where=Where(host=facts.host, candidate=p2p.name if p2p else None),
            evidence=(
                *evidence,
                *(Evidence(basis=w.basis, text=w.text) for w in wanted[:1] if w is not None),
            ),
            remedy="nvidia-smi nvlink -s; nvidia-smi topo -m",
        ),
        explains=[key, *([p2p.name] if p2p else [])],
    )


# ---------------------------------------------------------------------------------- as named


def _as_named(net: Networks, docket: Docket, told_edges: Told) -> None:
    """A remark on candidates whose figures are of another way than they are called after: NCCL
    takes no peer to peer where it must not, and the network where it thinks that faster."""
    for candidate in net.report.candidates:
        if candidate.kind != "gpu-path" or candidate.outcome != "measured":
            continue
        host, name = next(iter(candidate.interfaces.items()), ("", ""))
        if docket.explains(peers_of(host)) or name not in MEANT:
            continue
        edges = [edge for edge in told_edges.get(candidate.name, {}).get(host, ()) if edge.local]
        other = [e for e in edges if e.line.transport in WORDS and
                 e.line.transport != MEANT[name]]  # fmt: skip
        if not other:
            continue
        ways = dict.fromkeys(WORDS[edge.line.transport] for edge in other)
        part = "" if len(other) == len(edges) else f" in {len(other)} of {len(edges)} edges"
        docket.add(
            Finding(
                code="gpu-path-unexpected",
                severity="info",
                summary=f"{candidate.name} went by {listed(ways)}{part} between its "
                f"{len(candidate.ranks) or len(net.hosts[host].ranks)} ranks: its figures are of "
                "that way.",
                where=Where(host=host, candidate=candidate.name),
                evidence=tuple(
                    Evidence(basis="asked", text=f"NCCL in {candidate.name}: {edge.text}")
                    for edge in other[:SHOWN]
                ),
                confidence="asked",
            )
        )
