"""Who takes part: torchrun's nodes on one side, hosts with labels on the other.

In: what the nodes' leading ranks said of themselves (Arrival), and later of their peers (Probed).
Out: hosts as the rest of the sweep knows them, and one Layout per node. Two nodes of one machine
are one host; the first of them probes for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bench.facts import gpus
from bench.facts import host as host_facts
from bench.facts.placement import gpu_of, visible_gpus
from bench.measure.messages import Arrival, Layout, Probed, Setting
from bench.measure.preflight import peers_of
from bench.records import Backend, BadInput, Candidate, HostFacts, PreflightPair, RankPlacement

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Roster:
    """Built from the arrivals, one per node in order, None for a node that stayed silent."""

    def __init__(
        self, arrived: Sequence[Arrival | None], placements: Mapping[int, RankPlacement]
    ) -> None:
        came = {node: arrival for node, arrival in enumerate(arrived) if arrival is not None}
        hosts = host_facts.label_hosts([arrival.facts for arrival in came.values()])
        self.hosts = tuple(
            msgspec.structs.replace(host, placements=_placed(host, placements)) for host in hosts
        )
        label = {host.identity: host.host for host in hosts}
        self._host_of = {node: label[a.facts.identity] for node, a in came.items()}
        self._leader: dict[str, int] = {}
        self._ports: dict[str, dict[str, int]] = {}
        for node, host in self._host_of.items():
            if self._leader.setdefault(host, node) == node:
                self._ports[host] = came[node].ports
        self.with_nccl = {label[a.facts.identity] for a in came.values() if a.nccl}
        self.silent = tuple(node for node, arrival in enumerate(arrived) if arrival is None)

    def backend(self, wanted: Backend | None, *, guess: bool = False) -> Backend:
        """nccl where every host has a GPU and a torch with NCCL, else gloo.

        BadInput where nccl is wanted and cannot be, or where a driver that gave no answer leaves
        open which it is: a sweep over another backend than the last would be held against that.
        With `guess` it is gloo then.
        """
        unable = [host for host in self.hosts if not host.gpus or host.host not in self.with_nccl]
        if wanted == "nccl" and unable:
            raise BadInput(
                "--backend nccl needs a GPU and a torch built with NCCL on every host; "
                f"{unable[0].host} lacks one of them"
            )
        silent = [host for host in self.hosts if gpus.no_answer(host)]
        if wanted is None and silent and not guess:
            raise BadInput(
                f"NVML on {silent[0].host} {silent[0].unreadable['nvml']}, so whether it has GPUs "
                "is not known; nvidia-smi -pm 1 keeps the driver awake, --backend gloo does "
                "without GPUs"
            )
        return wanted or ("gloo" if unable else "nccl")

    def layouts(self, candidates: Sequence[Candidate], backend: Backend) -> dict[int, Layout]:
        """What each node is told: its host's label, its settings, and whom its leader probes."""
        identities = {host.host: host.identity for host in self.hosts}
        ranks = {host.host: host.ranks for host in self.hosts}
        shared = {host.host: _shares(host) for host in self.hosts}
        visible = {host.host: _visible(host) for host in self.hosts}
        peers = peers_of(candidates, self._ports, identities)
        return {
            node: Layout(
                host=host,
                leads=node == self._leader[host],
                ranks=ranks[host],
                shares_gpu=shared[host],
                visible=visible[host],
                backend=backend,
                settings=_settings(host, candidates),
                peers=peers.get(host, ()) if node == self._leader[host] else (),
            )
            for node, host in self._host_of.items()
        }

    def informed(
        self, probed: Sequence[Probed | None]
    ) -> tuple[tuple[HostFacts, ...], tuple[PreflightPair, ...], tuple[str, ...]]:
        """Hosts with NCCL's answers added, all probes, and the hosts that sent none."""
        answers = {
            host: one.choices
            for host, node in self._leader.items()
            if (one := probed[node]) is not None
        }
        hosts = tuple(
            msgspec.structs.replace(
                host, nccl_choices=(*host.nccl_choices, *answers.get(host.host, ()))
            )
            for host in self.hosts
        )
        pairs = tuple(pair for one in probed if one is not None for pair in one.pairs)
        silent = tuple(host.host for host in self.hosts if host.host not in answers)
        return hosts, pairs, silent


def _shares(host: HostFacts) -> bool:
    """Whether ranks must share a GPU: by the GPU that each takes, else by their numbers."""
    taken = [place.gpu for place in host.placements if place.gpu is not None]
    if len(taken) == len(host.ranks):
        return len(set(taken)) < len(taken)
    seen = visible_gpus(host.gpus, host.environment.get(VISIBLE))
    return len(host.ranks) > len(host.gpus if seen is None else seen) > 0


def _visible(host: HostFacts) -> str | None:
    """All that the host's ranks may see, each entry once; None where nothing limits them."""
    values = [place.visible for place in host.placements if place.visible is not None]
    entries = (entry.strip() for value in values for entry in value.split(","))
    return ",".join(dict.fromkeys(entries)) if values else None


def _placed(host: HostFacts, placements: Mapping[int, RankPlacement]) -> tuple[RankPlacement, ...]:
    """Where the host's ranks run, each with the GPU that its workers take: of those that it sees
    itself. The host's own variable stands in for a rank that told none."""
    everybody = host.environment.get(VISIBLE)
    return tuple(
        msgspec.structs.replace(
            place, gpu=gpu_of(i, host.gpus, everybody if place.visible is None else place.visible)
        )
        for i, rank in enumerate(host.ranks)
        if (place := placements.get(rank)) is not None
    )


def _settings(host: str, candidates: Sequence[Candidate]) -> dict[str, Setting]:
    return {
        candidate.name: Setting(
            environment={**candidate.environment, **candidate.per_host.get(host, {})},
            ranks=candidate.ranks,
            devices=candidate.devices,
            ask=_question(host, candidate),
        )
        for candidate in candidates
    }


def _question(host: str, candidate: Candidate) -> str | None:
    """What to ask NCCL of this candidate on this host, None where the answer means nothing."""
    is_network = candidate.kind == "network" and candidate.transport == "socket"
    name = candidate.interfaces.get(host) if is_network else None
    return f"={name}" if name else None
