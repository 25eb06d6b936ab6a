"""What pairs of hosts say in a sweep, put together with what other rules have found.

In: a report's location, findings so far, a network's shortfall. Out: findings of the pairs, each
fault once: a known cause (loss, a slow port, a hang) takes the pairs of its host as evidence, a
located host takes the ring's shortfall, and a shortfall that pairs do not explain says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bench.judge import expected
from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.pairs import hangs
from bench.judge.pairs.evidence import Context, expectation, reference
from bench.judge.pairs.findings import of_everybody, of_group, of_suspect
from bench.judge.words import carrier, listed, single
from bench.records import Candidate, Evidence, Finding, Location, Suspect

# Findings that say why a host's pairs are slow; one of a GPU, only for pairs on that GPU.
CAUSES = frozenset(
    {
        "link-lossy", "link-negotiated-down", "mtu-mismatch", "interface-unreachable",
        "mtu-blackhole", "pcie-downgraded", "gdr-disabled",
    }
)  # fmt: skip
# A ring with one slow host runs at that host's pace, give or take what the ring itself costs.
EXPLAINS_FROM = 0.7


def judge(
    net: Networks,
    docket: Docket,
    candidate: Candidate,
    *,
    share: float | None = None,
    proof: tuple[Evidence, ...] = (),
    marks: Mapping[str, Evidence] | None = None,
) -> bool:
    """Add what the pairs of a sweep on this candidate say. `share` of its expectation is what the
    ring reached, told by `proof`; True where the pairs explain that. `marks` are what counters say
    of single hosts."""
    location = net.report.location
    if location is None or location.candidate != candidate.name:
        return False
    context = _context(net, candidate)
    explained = False
    for suspect in location.suspects:
        finding = of_suspect(location, suspect, context)
        explains = suspect.quantity == "bandwidth" and _explains(location, suspect, share)
        known = _known(net, docket, suspect)
        if known is not None:
            docket.amend(known, _with(known, finding.evidence))
            continue
        if explains and not explained:
            finding = _with(finding, proof)
        mark = (marks or {}).get(suspect.host or "")
        if mark is not None:
            finding = _with(finding, (mark,))
        docket.add(finding, explains=[candidate.name] if explains else [])
        explained |= explains
    if proof and not explained and location.every_pair_slow:
        docket.add(of_everybody(location, context, proof), explains=[candidate.name])
        explained = True
    for group in location.undecided:
        docket.add(of_group(location, group, context))
    for finding in hangs.findings(location, context):
        hang = _same_hang(docket, finding)
        if hang is None:
            docket.add(finding)
        else:
            docket.amend(hang, _with(hang, finding.evidence))
    return explained and share is not None


def lone_host(net: Networks, candidate: Candidate) -> str | None:
    """The one host that the pairs on this candidate accuse, if it is one and nothing else."""
    location = net.report.location
    if location is None or location.candidate != candidate.name or location.undecided:
        return None
    slow = [s for s in location.suspects if s.quantity == "bandwidth"]
    return slow[0].host if len(slow) == 1 else None


def blame(net: Networks, candidate: Candidate) -> tuple[str, tuple[Evidence, ...]] | None:
    """What the pairs say where they explain no shortfall; None where there are none."""
    location = net.report.location
    if location is None or location.candidate != candidate.name or not location.reference_s:
        return None
    proof = (*reference(location), *expectation(location))
    if location.undecided:
        return f"; one of {listed(location.undecided[0])} is slow, at least", proof
    if location.suspects:
        return "; the slow parts that pairs of hosts show do not explain all of it", proof
    return "; no host and no link stands out among pairs of hosts", proof


def _context(net: Networks, candidate: Candidate) -> Context:
    return Context(
        name=carrier(candidate) if candidate.kind == "network" else "what NCCL takes by itself",
        interface=single(candidate.interfaces.values()) if candidate.kind == "network" else None,
        transport=candidate.transport,
        matters=candidate.kind == "default" or net.matters(candidate),
        tolerance=expected.tolerance(net.report).bandwidth,
    )


def _explains(location: Location, suspect: Suspect, share: float | None) -> bool:
    """Whether a ring with this part in it would be as slow as it was."""
    if share is None:
        return True
    pace = 1 / suspect.slowdown.value
    if location.every_pair_slow and location.expected_s and location.reference_s:
        pace *= location.expected_s / location.reference_s
    return share >= EXPLAINS_FROM * pace


def _known(net: Networks, docket: Docket, suspect: Suspect) -> Finding | None:
    """The finding that says why this host is slow, where another rule has made one."""
    facts = net.hosts.get(suspect.host or "")
    if facts is None or suspect.quantity != "bandwidth":
        return None
    gpu = suspect.rail
    if gpu is None:
        lowest = min(facts.ranks, default=None)
        gpu = next((place.gpu for place in facts.placements if place.rank == lowest), None)
    for finding in docket.findings:
        named = suspect.host in (finding.where.host, *finding.where.hosts)
        if finding.code in CAUSES and named and finding.where.gpu in (None, gpu):
            return finding
    return None


def _same_hang(docket: Docket, hang: Finding) -> Finding | None:
    """A finding that already accuses the same hosts of not getting through."""
    hosts = {hang.where.host, *hang.where.hosts} - {None}
    for finding in docket.findings:
        silent = finding.code.startswith("hang-") or finding.code in CAUSES
        if silent and hosts & {finding.where.host, *finding.where.hosts}:
            return finding
    return None


def _with(finding: Finding, evidence: tuple[Evidence, ...]) -> Finding:
    new = tuple(line for line in evidence if line not in finding.evidence)
    return msgspec.structs.replace(finding, evidence=(*finding.evidence, *new))
