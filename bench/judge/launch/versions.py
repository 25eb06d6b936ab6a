"""Versions that have to be equal on all hosts of a job.

In: facts. Out: software-differs, one finding for all of them. A version that one host does not
tell is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.docket import Docket
from bench.judge.words import listed
from bench.records import Evidence, Finding, HostFacts, Where

# NCCL and torch speak their own protocols between ranks; CUDA and driver decide what they can do.
BETWEEN_RANKS = ("NCCL", "torch")
HARMLESS = ("Linux",)


def judge(hosts: Sequence[HostFacts], docket: Docket) -> None:
    """One finding; its severity is that of the worst difference."""
    told, odd, between = [], dict[str, None](), False
    for name, versions in _versions(hosts).items():
        by_version: dict[str, list[str]] = {}
        for host, version in versions.items():
            if version:
                by_version.setdefault(version, []).append(host)
        if len(by_version) < 2:
            continue
        told.append(
            f"{name}: "
            + "; ".join(f"{version} on {listed(names)}" for version, names in by_version.items())
        )
        between |= name in BETWEEN_RANKS
        groups = sorted(by_version.values(), key=len)
        if len(groups[0]) < len(groups[1]):
            odd |= dict.fromkeys(groups[0])
    if not told:
        return
    names = listed(line.partition(":")[0] for line in told)
    serious = any(line.partition(":")[0] not in HARMLESS for line in told)
    docket.add(
        Finding(
            code="software-differs",
            severity="degraded" if between else "warning" if serious else "info",
            summary=f"{names} {'is' if len(told) == 1 else 'are'} not the same on all "
            f"{len(hosts)} hosts.",
            where=Where(hosts=tuple(odd)),
            evidence=tuple(Evidence(basis="measured", text=text) for text in told),
            remedy=None,
        )
    )


def _versions(hosts: Sequence[HostFacts]) -> dict[str, dict[str, str | None]]:
    fields = {
        "NCCL": "nccl", "torch": "torch", "CUDA": "cuda", "driver": "driver", "Python": "python",
        "Linux": "kernel",
    }  # fmt: skip
    return {
        name: {host.host: getattr(host.software, field) for host in hosts}
        for name, field in fields.items()
    }
