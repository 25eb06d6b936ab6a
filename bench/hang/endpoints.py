"""Where ranks looked for the store, by their own words: the same place, and one that can be right?

In: a Crew. Out: the places with who looked there, the check of them as evidence, and a command to
paste that asks the place itself. A name that is part of a command has letters that need no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bench.hang.crew import Crew
from bench.judge.words import listed
from bench.records import Evidence, NodeLaunch

# "… while trying to connect to (10.0.0.1, 29500).", "connect to host 10.0.0.1, port: 29500"
ENDPOINT = re.compile(
    r"connect(?:ing)?(?: to)? ?(?:host )?\(?"
    r"([\w.:%\[\]-]{1,64})(?:, (?:port: )?|:)(\d{2,5})\b"
)
Place = tuple[str, str]  # host, port


def places(crew: Crew) -> dict[Place, list[str]]:
    """Who looked where."""
    found: dict[Place, list[str]] = {}
    for sign in [*crew.launcher, *(s for m in crew.members.values() for s in m.signs)]:
        for match in ENDPOINT.finditer(sign.text):
            who = f"rank {sign.rank}" if sign.rank is not None else sign.file
            found.setdefault((match[1].strip("[]"), match[2]), []).append(who)
    return found


def only(crew: Crew) -> Place | None:
    """The place, if all looked at the same."""
    found = list(places(crew))
    return found[0] if len(found) == 1 else None


def check(crew: Crew) -> list[Evidence]:
    """Different places, or one that every host has."""
    found = places(crew)
    evidence = []
    if len(found) > 1:
        told = "; ".join(f"{host}:{port} by {listed(by)}" for (host, port), by in found.items())
        text = f"checked: ranks look for the store at different places: {told}"
        evidence.append(Evidence(basis="asked", text=text))
    for host, port in found:
        if is_own(host):
            text = f"checked: {host}:{port} is every host's own address, or none"
            evidence.append(Evidence(basis="inferred", text=text))
    if len(found) == 1 and not evidence:
        (host, port), by = next(iter(found.items()))
        text = f"checked: the store was looked for at {host}:{port} only, by {listed(by)}"
        evidence.append(Evidence(basis="asked", text=text))
    return evidence


def compared(crew: Crew, launches: Iterable[NodeLaunch]) -> list[Evidence]:
    """The places against the one that the launch files name. Static meetings only: with others
    torch publishes a second store, at a port and under a name of its own. A name and an address
    may be the same host."""
    named = {
        (launch.address, str(launch.port))
        for launch in launches
        if launch.rendezvous == "static" and (launch.nodes or 1) > 1 and launch.address
    }
    found = list(places(crew))
    if len(named) != 1 or len(found) != 1:
        return []
    (host, port), (wanted, wanted_port) = found[0], named.pop()
    if (host, port) == (wanted, wanted_port):
        text = f"checked: {host}:{port} is the place that the launch files name"
    elif port != wanted_port or _is_numeric(host) == _is_numeric(wanted):
        text = (
            f"checked: the launch files name {wanted}:{wanted_port}, and the ranks looked at "
            f"{host}:{port}: other files, or another setting, started this job"
        )
    else:
        return []
    return [Evidence(basis="inferred", text=text)]


def _is_numeric(host: str) -> bool:
    return re.fullmatch(r"[0-9.]+|[0-9A-Fa-f:]+:[0-9A-Fa-f:]*", host) is not None


def is_own(host: str) -> bool:
    """Whether the address means another host on each host, or nothing."""
    return host.startswith("127.") or host in ("localhost", "::1", "0.0.0.0", "None")  # noqa: S104


def unanswered(crew: Crew) -> str:
    """ " Nobody answered at 10.0.0.1:29500.", with what such an address means."""
    place = only(crew)
    if place is None:
        return ""
    host, port = place
    own = ", which is every host's own address" if is_own(host) else ""
    return f" Nobody answered at {host}:{port}{own}."


def remedy(crew: Crew) -> str | None:
    """What asks the place, from the hosts that could not reach it."""
    place = only(crew)
    if place is None or is_own(place[0]):
        return None
    host, port = place
    return (
        f"getent hosts {host}; ip route get {host}; nc -vz {host} {port}   # on the host that "
        "could not; on rank 0's host: ss -ltn, its firewall"
    )
