"""Which ranks share a host, agreed by the ranks themselves where no torchrun has numbered nodes.

In: a Launch without a seat, and the control plane. Out: the Seat. Each rank says where it runs
(`here/<rank>`), rank 0 answers each (`seat/<rank>`): O(ranks) small keys. A launcher's own numbers
would not do: mpirun tells no node, and srun and mpirun may deal ranks round the hosts.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence

import msgspec

from bench.facts import host
from bench.measure.control import Control
from bench.measure.launcher import Launch, Seat
from bench.records import BadInput

_ALL_HERE_S, _PER_RANK_S = 60.0, 0.1  # as long as a sweep waits for its layout
_ANSWER_S = 10.0  # rank 0 may have begun to wait that much later than we did
_NAMED = 8  # absent ranks that the sentence names


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's first word."""

    process: str  # nobody else's: a second job at the same port must not take our seats
    identity: str  # of the host
    hostname: str
    visible: str | None = None  # CUDA_VISIBLE_DEVICES
    node_gpus: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Rank 0's: the seat, or why there is none."""

    process: str | None = None
    seat: Seat | None = None
    refused: str | None = None


def settle(launch: Launch, control: Control) -> Seat:
    """This rank's seat; BadInput where not all ranks came or their hosts cannot be used."""
    if launch.seat is not None:
        return launch.seat
    process = uuid.uuid4().hex
    name = host.own_name()
    here = Presence(
        process=process, identity=host.identity(name), hostname=name,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"), node_gpus=launch.node_gpus,
    )  # fmt: skip
    control.put(f"here/{launch.rank}", here)
    deadline_s = _ALL_HERE_S + _PER_RANK_S * launch.ranks
    if launch.rank == 0:
        _give_out(launch, control, deadline_s)
    answer = control.get(f"seat/{launch.rank}", Answer, deadline_s=deadline_s + _ANSWER_S)
    if answer is None:
        raise BadInput(f"rank 0 gave no seat within {deadline_s + _ANSWER_S:.0f} s")
    if answer.refused is not None:
        raise BadInput(answer.refused)
    if answer.process != process or answer.seat is None:
        raise BadInput(
            f"another job's rank 0 answers at {launch.host}:{launch.port}: set another MASTER_PORT"
        )
    return answer.seat


def _give_out(launch: Launch, control: Control, deadline_s: float) -> None:
    """Rank 0: wait for all and tell each its seat."""
    keys = [f"here/{rank}" for rank in range(launch.ranks)]
    came = control.gather(keys, Presence, deadline_s=deadline_s)
    everybody = [one for one in came if one is not None]
    absent = [rank for rank, one in enumerate(came) if one is None]
    refused = _absence(launch, absent, deadline_s) if absent else _narrow(everybody)
    seats = {} if refused else assign([one.identity for one in everybody])
    for rank, one in enumerate(came):
        if one is not None:
            answer = Answer(process=one.process, seat=seats.get(rank), refused=refused)
            control.put(f"seat/{rank}", answer)


def assign(identities: Sequence[str]) -> Mapping[int, Seat]:
    """Seats of all ranks from the identities of their hosts, in the order of ranks; nodes are
    numbered by their lowest rank."""
    hosts: dict[str, list[int]] = {}
    for rank, identity in enumerate(identities):
        hosts.setdefault(identity, []).append(rank)
    return {
        rank: Seat(
            rank=rank, ranks=len(identities), local_rank=place, local_ranks=len(mates),
            node=node, nodes=len(hosts), mates=tuple(mates),
        )
        for node, mates in enumerate(hosts.values())
        for place, rank in enumerate(mates)
    }  # fmt: skip


def _absence(launch: Launch, absent: Sequence[int], deadline_s: float) -> str:
    named = ", ".join(map(str, absent[:_NAMED])) + (" …" if len(absent) > _NAMED else "")
    few = "rank" if len(absent) == 1 else "ranks"
    return (
        f"{few} {named} of {launch.ranks} did not come to {launch.host}:{launch.port} within "
        f"{deadline_s:.0f} s (rank 0, which waits there, runs on {host.own_name()})"
    )


def _narrow(everybody: Sequence[Presence]) -> str | None:
    """A sentence where a host's ranks all see the same one of its GPUs: either each has its own
    behind that number (Slurm's --gpus-per-task), or all share one. Neither is what NCCL would be
    measured on, and no rank can tell which."""
    hosts: dict[str, list[Presence]] = {}
    for one in everybody:
        hosts.setdefault(one.identity, []).append(one)
    for ranks in hosts.values():
        gpus, seen = ranks[0].node_gpus or 0, {one.visible for one in ranks}
        if len(ranks) > 1 and gpus > 1 and len(seen) == 1 and (seen.pop() or ",").isdecimal():
            return (
                f"all {len(ranks)} ranks of {ranks[0].hostname} see one GPU, number "
                f"{ranks[0].visible}, of the {gpus} that Slurm gave it: ask for GPUs by "
                "--gpus-per-node, without --gpus-per-task and --gpu-bind"
            )
    return None
