"""What the preflight says of each candidate: go on, or settled before a group is ever formed.

In: candidates as planned and the probes of all pairs. Out: candidates whose outcome is settled as
`unreachable` with the reason, the others untouched. The default case is never settled here: it is
what users get, so its failure is measured too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from bench.records import Candidate, PreflightPair


def settle(
    candidates: Sequence[Candidate], pairs: Sequence[PreflightPair]
) -> tuple[Candidate, ...]:
    """Candidates with their outcome where the probes decide it; order is kept."""
    by_candidate: dict[str, list[PreflightPair]] = defaultdict(list)
    for pair in pairs:
        if pair.outcome != "ok":
            by_candidate[pair.candidate].append(pair)
    return tuple(
        msgspec.structs.replace(
            candidate,
            outcome="unreachable",
            reason=_reason(by_candidate[candidate.name], candidate.reason),
        )
        if candidate.outcome == "planned"
        and candidate.kind == "network"
        and by_candidate[candidate.name]
        else candidate
        for candidate in candidates
    )


def _reason(failed: Sequence[PreflightPair], shared_address: str | None) -> str:
    """One clause: what happens, and the host that all failing pairs share, if one does.

    `shared_address` is what the search for candidates noted about an address of several hosts.
    """
    first = failed[0]
    if all(pair.outcome == "wrong-host" for pair in failed):
        if shared_address is not None:
            return shared_address
        return f"{first.destination}'s address {first.address} is answered by another host"
    shared = set.intersection(*({pair.source, pair.destination} for pair in failed))
    who = f"{first.source} and {first.destination}"
    if len(failed) > 1 and len(shared) == 1:
        who = f"{shared.pop()} and the others"
    return {
        "mtu-blackhole": f"large segments vanish between {who}",
        "timeout": f"no answer between {who}",
        "refused": f"connections are refused between {who}",
        "no-route": f"no route between {who}",
        "wrong-host": f"another host answers between {who}",
    }.get(first.outcome, first.outcome)
