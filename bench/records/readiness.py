"""What a job needs to start at all: names, limits, shared memory, a place where ranks meet."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Fact, Record


class Readiness(Fact, frozen=True, kw_only=True):
    """Of one host, as a process sees it that the launcher has started there.

    `name_addresses` is what the host's own name resolves to (gloo listens there where
    GLOO_SOCKET_IFNAME is unset), `name_trouble` why it resolves to nothing. Limits are the soft
    ones, None where unlimited. Shared memory is /dev/shm: NCCL's and the data loaders'.
    """

    name_addresses: tuple[str, ...] = ()
    name_trouble: str | None = None
    open_files: int | None = None
    locked_bytes: int | None = None
    processes: int | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None


MeetingOutcome = Literal[
    "store",  # a store of torch answers
    "stranger",  # something listens that is none
    "silent",  # something accepts and says nothing
    "refused",  # the host answers that nobody listens
    "no-answer",  # nothing at all comes back
    "no-route",  # this host's own kernel sends nothing there
    "unresolved",  # the name has no address here
    "free",  # it is this host's address, and the port can be opened
    "taken",  # it is this host's address, and the port cannot be opened
]


class Meeting(Record, frozen=True, kw_only=True):
    """The place where ranks meet (MASTER_ADDR, MASTER_PORT), seen from one host.

    `addresses` is what the name resolves to, `own` whether one of them is this host's, `interface`
    by which the kernel leaves towards it; `neighbour`, of an address on a network of this host's
    own: whether anybody there has answered for it. `detail`: what the kernel or the stranger said.
    """

    host: str
    port: int
    outcome: MeetingOutcome
    seen_from: str
    addresses: tuple[str, ...] = ()
    own: bool = False
    interface: str | None = None
    neighbour: Literal["present", "absent"] | None = None
    rtt_s: float | None = None
    detail: str | None = None
