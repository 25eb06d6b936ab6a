"""Judges of everything that shows how devices hang together, each heard once.

In: a Dossier. Out: findings (judge) and sentences without judgement that go beyond the records'
own (facts): sockets, rails, what pairs, versions and states of a list show.
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign import (
    experiments,
    gpu_settings,
    host_pairs,
    nvlinks,
    offered_nets,
    pcie_links,
    peers,
    rails,
    rdma_ports,
    redirection,
    tree_changes,
    version_steps,
)
from bench.records import Dossier


def judge(dossier: Dossier, docket: Docket) -> None:
    """Causes before what follows from them."""
    rails.judge(dossier, docket)
    rdma_ports.judge(dossier, docket)
    offered_nets.judge(dossier, docket)
    redirection.judge(dossier, docket)
    peers.judge(dossier, docket)
    gpu_settings.judge(dossier, docket)
    nvlinks.judge(dossier, docket)
    pcie_links.judge(dossier, docket)
    host_pairs.judge(dossier, docket)
    version_steps.judge(dossier, docket)


def facts(dossier: Dossier) -> tuple[str, ...]:
    """In the order of the judges."""
    return (
        *rails.sentences(dossier),
        *tree_changes.sentences(dossier),
        *gpu_settings.sentences(dossier),
        *host_pairs.sentences(dossier),
        *version_steps.sentences(dossier),
        *experiments.sentences(dossier),
    )
