"""Clocks of the hosts against each other, from the times in the first probes' answers.

In: preflight pairs. Out: clock-offset, where logs of the hosts cannot be put in order. An offset
is known to half a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from bench.judge.docket import Docket
from bench.judge.words import listed
from bench.records import Evidence, Finding, PreflightPair, Where

# Steps of a job that dies are that far apart; hosts that follow NTP are within milliseconds.
MOST_OFFSET_S = 0.5


def offsets(pairs: Sequence[PreflightPair]) -> dict[str, tuple[float, float]]:
    """Host -> its clock ahead of the middle one and how far that may be wrong, in seconds. Hosts
    that no probe joins to the first one's are left out."""
    ways: dict[str, dict[str, tuple[float, float]]] = {}
    for pair in pairs:
        if pair.ahead_s is not None:
            error = (pair.rtt_s or 0.0) / 2
            ways.setdefault(pair.source, {})[pair.destination] = pair.ahead_s, error
            ways.setdefault(pair.destination, {})[pair.source] = -pair.ahead_s, error
    if not ways:
        return {}
    first = next(iter(ways))
    known = {first: (0.0, 0.0)}
    reached = [first]
    for host in reached:
        for other, (ahead, error) in ways[host].items():
            if other not in known:
                known[other] = known[host][0] + ahead, known[host][1] + error
                reached.append(other)
    middle = median_low([ahead for ahead, _ in known.values()])
    return {host: (ahead - middle, error) for host, (ahead, error) in known.items()}


def judge(pairs: Sequence[PreflightPair], docket: Docket) -> None:
    """One finding for all hosts whose clock is another's by more than half a second."""
    known = offsets(pairs)
    off = {
        host: (ahead, error)
        for host, (ahead, error) in known.items()
        if abs(ahead) - error > MOST_OFFSET_S
    }
    if not off:
        return
    # Of two hosts, either may be the wrong one; so may half of them.
    named = tuple(off) if len(off) * 2 < len(known) else ()
    docket.add(
        Finding(
            code="clock-offset",
            severity="warning",
            summary=f"The clocks of {listed(named or known)} differ by "
            f"{max(abs(ahead) for ahead, _ in off.values()):.1f} s"
            f"{' from the other hosts' if named else ''}: what "
            "happened first cannot be read off their logs.",
            where=Where(hosts=named),
            evidence=tuple(
                Evidence(
                    basis="measured", text=f"{host}: {ahead:+.3f} s (± {error * 1000:.1f} ms)"
                )
                for host, (ahead, error) in list(off.items())[:4]
            ),
            remedy="chronyc tracking || timedatectl timesync-status   # on these hosts",
        )
    )
