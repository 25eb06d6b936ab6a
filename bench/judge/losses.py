"""Packets lost on a network, told as a rate.

In: a report's sessions with what the hosts' counters moved. Out: link-lossy, and the one host on
which errors count up. Healthy runs retransmit too (BBR probes: 15-16 segments a session with no
drop, facts: lab), so some are forgiven and the rest is a share of what was sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.networks import Networks, interfaces_of
from bench.judge.pairs import located
from bench.judge.words import carrier, listed, percent, single
from bench.records import Candidate, Evidence, Finding, Where

FORGIVEN = (
    20  # retransmitted segments a session: what a healthy BBR run was seen to need, and 25 %
)
MIN_EXCESS = 50  # beyond those; fewer make no rate
# One flow over 100 µs of round trip falls below 2 Gbit/s at 0.5 % (Mathis: 1.22 MSS / (RTT √p)).
LOSSY = 0.005
LOSSY_IF_SLOW = 0.002  # enough to explain a shortfall that was measured
MIN_ERRORS = 10  # a link that flaps once may leave a few
# Frames of unknown protocols count as dropped, about one a second: drops mean something only
# where they make up a good part of what was sent again.
DROPS_SHARE = 0.1
OTHERS_SHARE = 0.1


@dataclass(frozen=True)
class Loss:
    """What one host sent again during a candidate's sessions."""

    host: str
    sent: int
    again: int
    sessions: int

    @property
    def excess(self) -> int:
        return max(self.again - FORGIVEN * self.sessions, 0)

    @property
    def rate(self) -> float:
        return self.excess / self.sent if self.sent else 0.0


def lossy(
    net: Networks, docket: Docket, candidate: Candidate, shortfall: tuple[Evidence, ...]
) -> bool:
    """Add link-lossy; True where it explains the shortfall whose evidence is given."""
    losses = [loss for loss in _losses(net, candidate) if loss.excess >= MIN_EXCESS]
    losses.sort(key=lambda loss: -loss.rate)
    if not losses or losses[0].rate < LOSSY_IF_SLOW or docket.explains(candidate.name):
        return False
    worst = losses[0]
    degraded = (worst.rate >= LOSSY or bool(shortfall)) and net.matters(candidate)
    dropped = errors(net, candidate, drops=True)
    again = sum(loss.excess for loss in losses)
    host = standing_out(dropped, at_least=max(MIN_ERRORS, DROPS_SHARE * again))
    slow = located.lone_host(net, candidate) if host is None else None
    lines = [
        Evidence(
            basis="measured",
            text=f"{loss.host} sent {loss.again:,} of {loss.sent:,} segments again "
            f"({loss.again / loss.sent:.2%})".replace("%)", " %)"),
        )
        for loss in losses[:4]
    ]
    lines += [
        Evidence(basis="measured", text=f"{h}: {count:,} errors and drops on its interface")
        for h, count in sorted(dropped.items(), key=lambda entry: -entry[1])[:2]
        if count >= MIN_ERRORS
    ]
    name = single(candidate.interfaces.values())
    told = name is not None and candidate.transport == "socket" and "+" not in name
    end = f"; {host}'s own counters show the drops" if host else "; which end loses is not told"
    if slow:
        end = f"; of all pairs of hosts those with {slow} are slow"
    docket.add(
        Finding(
            code="link-lossy",
            severity="degraded" if degraded else "warning",
            summary=f"{carrier(candidate)} loses packets: {listed(x.host for x in losses)} sent "
            f"up to {percent(worst.again / worst.sent)} of the segments again{end}.",
            where=Where(candidate=candidate.name, interface=name, host=host or slow),
            evidence=(*lines, *shortfall),
            remedy=f"ip -s -s link show dev {name}; ethtool -S {name}" if told else None,
        ),
        explains=[candidate.name] if shortfall else [],
    )
    return bool(shortfall)


def _losses(net: Networks, candidate: Candidate) -> list[Loss]:
    found: dict[str, Loss] = {}
    for session in net.report.sessions:
        if session.case.candidate != candidate.name:
            continue
        for evidence in session.hosts:
            if evidence.tcp_segments_out is None or evidence.tcp_retransmits is None:
                continue
            before = found.get(evidence.host) or Loss(evidence.host, 0, 0, 0)
            found[evidence.host] = Loss(
                evidence.host,
                before.sent + evidence.tcp_segments_out,
                before.again + evidence.tcp_retransmits,
                before.sessions + 1,
            )
    return list(found.values())


def errors(net: Networks, candidate: Candidate, *, drops: bool) -> dict[str, int]:
    """Errors (and drops) on each host's own interface during a candidate's sessions."""
    found: dict[str, int] = {}
    for session in net.report.sessions:
        if session.case.candidate != candidate.name:
            continue
        for evidence in session.hosts:
            for name in interfaces_of(candidate, evidence.host):
                moved = evidence.interfaces.get(name)
                if moved is not None:
                    count = moved.rx_errors + moved.tx_errors
                    if drops:
                        count += moved.rx_dropped + moved.tx_dropped
                    found[evidence.host] = found.get(evidence.host, 0) + count
    return found


def standing_out(counts: dict[str, int], *, at_least: float = MIN_ERRORS) -> str | None:
    """The one host that counts errors while the others do not."""
    ordered = sorted(counts.items(), key=lambda entry: -entry[1])
    if len(ordered) < 2 or ordered[0][1] < at_least:
        return None
    return ordered[0][0] if ordered[1][1] <= OTHERS_SHARE * ordered[0][1] else None
