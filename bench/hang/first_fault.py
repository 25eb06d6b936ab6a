"""Which fault came first: one rank's own, before the others' waits and lost peers.

In: a Crew, Clocks and TimeOuts. Out: a Choice: one sign, the same sign of several ranks at once,
or several that no evidence puts in order. A kernel's line and the fault that its rank then sees
are one. A fault that is level with the others' time-outs counts only if nobody else was absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from bench.hang import fault_words, own_faults
from bench.hang.crew import Crew
from bench.hang.host_clocks import Clocks, moment
from bench.hang.time_outs import TimeOuts
from bench.records import RankSign


@dataclass(frozen=True)
class Choice:
    """`one`: the first fault; `joint`: the same fault of several ranks, none of them earlier;
    `level`: faults of different kinds that no evidence orders. `others` are later faults,
    `survived` those that their rank survived."""

    how: Literal["one", "joint", "level"]
    signs: tuple[RankSign, ...]
    others: tuple[RankSign, ...] = ()
    survived: tuple[RankSign, ...] = ()
    quotes: tuple[RankSign, ...] = ()  # of others that tell of the same: a kernel's, a launcher's
    unordered: bool = False  # whether the others' time-outs came before no clock tells
    torn: bool = False  # whether it may as well follow from what a log that is not at hand tells


def choose(crew: Crew, clocks: Clocks, waits: TimeOuts) -> Choice | None:
    """The first fault of the job; None where no rank tells one of its own."""
    faults = own_faults.sorted_out(crew, clocks, waits)
    candidates = faults.strong or faults.weak
    if not candidates:
        return None
    firsts = _earliest(candidates, clocks)
    quotes = tuple(sign for sign in firsts if sign.rank is None)
    ranked = [sign for sign in firsts if sign.rank is not None]
    if ranked and quotes:
        firsts, quotes = _by_kernel(*_joined(ranked, quotes, clocks))
    else:
        firsts, quotes = _owned(firsts, candidates, clocks)
    others = [s for s in (*candidates, *faults.late) if s not in firsts and s not in quotes]
    kinds = {(fault_words.kind_of(sign), _words(sign)) for sign in firsts}
    how: Literal["one", "joint", "level"] = "one"
    if len(firsts) > 1:
        how = "joint" if len({kind for kind, _ in kinds}) == 1 and _alike(firsts) else "level"
    unordered = any(_with_time_outs(sign, clocks, waits) for sign in firsts)
    if unordered and not _only_absent(firsts, crew, waits):
        how = "level"  # it may as well have failed when the others tore the job down
    torn = bool(crew.missing) and all(own_faults.may_follow(sign) for sign in firsts)
    if torn:
        how = "level"
    return Choice(
        how=how,
        signs=tuple(firsts),
        others=tuple(others),
        survived=tuple(faults.survived),
        quotes=tuple(quotes),
        unordered=unordered,
        torn=torn,
    )


def outside(crew: Crew) -> RankSign | None:
    """Who ended the job from outside, by a scheduler's, an agent's or the user's own word."""
    signs = [*crew.launcher, *(s for m in crew.members.values() for s in m.signs)]
    order = ("cancelled", "interrupted", "terminated")
    told = [sign for sign in signs if sign.role == "outside"]
    return min(told, key=lambda sign: order.index(sign.kind), default=None)


def _with_time_outs(sign: RankSign, clocks: Clocks, waits: TimeOuts) -> bool:
    """Whether a fault and the others' giving up cannot be told apart in time."""
    told = waits.told
    if told is None or sign.time_s is None or told.low_s is None or told.owner == sign.rank:
        return False
    when = moment(sign)
    gap = clocks.seconds_between(when, told)
    return gap is not None and abs(gap) <= clocks.tolerance_s(when, told)


def _only_absent(firsts: Sequence[RankSign], crew: Crew, waits: TimeOuts) -> bool:
    """Whether all ranks but these waited in vain: then it is they who did not come."""
    ranks = {sign.rank for sign in firsts}
    waited = {rank for rank, one in waits.first.items() if one.timed_out}
    size = crew.world_size or 0
    return None not in ranks and not ranks & waited and size == len(ranks) + len(waited)


# --- which of them ---------------------------------------------------------------------------


def _earliest(signs: Sequence[RankSign], clocks: Clocks) -> list[RankSign]:
    """Those that no other is surely before; of one rank its first only."""
    by_owner: dict[object, RankSign] = {}
    for sign in signs:
        owner = sign.rank if sign.rank is not None else (sign.file, sign.host, sign.kind)
        known = by_owner.get(owner)
        if known is None or _is_earlier(sign, known, clocks):
            by_owner[owner] = sign
    firsts = list(by_owner.values())
    return [
        sign
        for sign in firsts
        if not any(
            clocks.before(moment(other), moment(sign)) for other in firsts if other is not sign
        )
    ]


def _is_earlier(sign: RankSign, known: RankSign, clocks: Clocks) -> bool:
    """Of one rank: by time, else by line; a kind that says more before an exit's bare code."""
    if "exit" in (sign.stream, known.stream):
        return known.stream == "exit" and sign.stream != "exit"
    if clocks.before(moment(sign), moment(known)):
        return True
    return sign.file == known.file and sign.line < known.line


def _joined(
    ranked: list[RankSign], loose: Iterable[RankSign], clocks: Clocks
) -> tuple[list[RankSign], tuple[RankSign, ...]]:
    """A kernel's or launcher's line (an Xid, the OOM killer) with the rank of its host that it
    explains; what belongs to another host stands beside them."""
    quotes, own = [], list(ranked)
    for sign in loose:
        hosts = {
            s.rank: s.host or clocks.hosts.get(s.rank if s.rank is not None else -1) for s in own
        }
        same = [s for s in own if sign.host is not None and hosts[s.rank] == sign.host]
        if same or sign.host is None:
            quotes.append(sign)
        else:
            own.append(sign)
    return own, tuple(quotes)


def _by_kernel(
    firsts: list[RankSign], quotes: tuple[RankSign, ...]
) -> tuple[list[RankSign], tuple[RankSign, ...]]:
    """An Xid is the cause of the CUDA error that its GPU's rank then sees."""
    xid = next((quote for quote in quotes if quote.kind == "xid"), None)
    if xid is None or len(firsts) != 1 or firsts[0].kind != "cuda":
        return firsts, quotes
    own = firsts[0]
    cause = msgspec.structs.replace(xid, rank=own.rank, host=xid.host or own.host)
    return [cause], (own, *(quote for quote in quotes if quote is not xid))


OF_HOST = ("xid", "killed")  # what a kernel says before the rank notices


def _owned(
    firsts: list[RankSign], candidates: Sequence[RankSign], clocks: Clocks
) -> tuple[list[RankSign], tuple[RankSign, ...]]:
    """A kernel's line with the only rank of its host that has a fault of its own behind it."""
    if len(firsts) != 1 or firsts[0].rank is not None or firsts[0].kind not in OF_HOST:
        return firsts, ()
    sign = firsts[0]
    own = {s.rank: s for s in candidates if s.rank is not None}
    hosts = {rank: each.host or clocks.hosts.get(rank) for rank, each in own.items()}
    ranks = [rank for rank, host in hosts.items() if host is None or sign.host in (None, host)]
    if len(ranks) != 1:
        return firsts, ()
    return [msgspec.structs.replace(sign, rank=ranks[0])], (own[ranks[0]],)


def _alike(signs: Sequence[RankSign]) -> bool:
    """The same fault on several ranks: exceptions only with the same type."""
    return len({_words(sign) for sign in signs}) == 1


def _words(sign: RankSign) -> str:
    if sign.kind == "exception":
        return sign.text.partition(":")[0]
    return fault_words.kind_of(sign)
