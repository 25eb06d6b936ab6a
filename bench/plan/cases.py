"""The order of work, and what it will cost: candidates × sessions, shuffled and interleaved.

In: plan settings and candidates. Out: the candidates that the budget has room for, and a Plan
whose rounds hold each of them once, so that slow drift of a machine or a neighbour's traffic falls
on all alike, with its cost in seconds and GPU hours. BadInput where the settings make no sense or
the budget has no room for a comparison.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from difflib import get_close_matches
from typing import Literal

import msgspec

from bench.plan.amounts import screen_s
from bench.plan.cost import FIXED_S, copies_s, costs_s, gpu_hours, rate_of
from bench.plan.naming import expected_network
from bench.plan.sizes import format_bytes, ladder, parse_bytes
from bench.plan.volumes import COLLECTIVES, DTYPES
from bench.records import (
    Backend,
    BadInput,
    Candidate,
    Case,
    Fabric,
    HostFacts,
    Plan,
    PlanSettings,
)

Locate = Literal["auto", "never", "always"]

CLOSING_S = 4.0  # of the budget, kept for fit, judgement and page


def validate(settings: PlanSettings, *, file: str | None = None) -> PlanSettings:
    """The settings themselves, when a sweep can be made of them; else BadInput in one sentence."""
    try:
        _validate(settings)
    except BadInput as error:
        raise BadInput(error.sentence, file=error.file or file, line=error.line) from None
    return settings


def _validate(settings: PlanSettings) -> None:
    if not settings.collectives:
        raise BadInput("collectives names none; a plan sweeps at least one, such as all_reduce")
    _known(settings.collectives, COLLECTIVES, "collective")
    _known((settings.dtype,), DTYPES, "dtype")
    if len(set(settings.collectives)) < len(settings.collectives):
        raise BadInput("collectives names one twice; each is swept once")
    ladder(settings)  # sizes in order, a step that is one, not too many
    whole = {
        "sessions": (settings.sessions, 1),
        "min_iterations": (settings.min_iterations, 1),
        "max_iterations": (settings.max_iterations, settings.min_iterations),
    }
    for key, (value, least) in whole.items():
        if value < least:
            which = " (min_iterations)" if key == "max_iterations" else ""
            raise BadInput(f"{key} is {value}, expected at least {least}{which}")
    for key, seconds in {"cell_s": settings.cell_s, "budget_s": settings.budget_s}.items():
        if not 0 < seconds < 1e7:
            raise BadInput(f"{key} is {seconds:g}, expected a number of seconds above 0")
    if not 0 < settings.half_width < 1:
        raise BadInput(
            f"half_width is {settings.half_width:g}, expected a fraction such as 0.01 (1 %)"
        )
    if settings.gpu_hours is not None and not settings.gpu_hours > 0:
        raise BadInput(f"gpu_hours is {settings.gpu_hours:g}, expected a number above 0")


def _known(names: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise BadInput(f"unknown {what} {name!r}; {hint}")


def afford(
    settings: PlanSettings,
    candidates: Sequence[Candidate],
    hosts: Sequence[HostFacts],
    *,
    backend: Backend,
    ranks: int,
    fabric: Fabric | None = None,
) -> tuple[Candidate, ...]:
    """The candidates, in their order; those of which not one session has room have outcome
    "skipped" and say so.

    What fits is kept: the default, socket networks (data networks first, then by claimed rate),
    RDMA over all rails, GPU paths, single rails. BadInput when the default and one network do not
    fit into the budget of seconds or GPU hours.
    """
    validate(settings)
    planned = _planned(candidates)
    costs = costs_s(settings, planned, hosts, backend, ranks, fabric)
    limit_s, limit = _limit(settings, backend, ranks)
    urgent = sorted(planned, key=lambda c: _urgency(c, hosts, fabric))
    check_s = copies_s(settings, hosts, backend, limit_s)
    kept = _kept(urgent, costs, limit_s - FIXED_S - check_s)
    if check_s and _least_s(planned, costs, kept) is not None:
        kept = _kept(urgent, costs, limit_s - FIXED_S)  # then without the copies
    least_s = _least_s(planned, costs, kept)
    if least_s is not None:
        hours = f" ({gpu_hours(ranks, least_s):.2g} GPU hours)" if backend == "nccl" else ""
        largest = format_bytes(parse_bytes(settings.max_bytes))
        raise BadInput(
            f"plan {settings.name!r} needs about {least_s:.0f} s{hours} for one session of the "
            f"default and of one network, more than the {limit}; sweep fewer collectives or sizes "
            f"below {largest}, or raise it"
        )
    return tuple(
        candidate
        if candidate.outcome != "planned" or candidate.name in kept
        else msgspec.structs.replace(
            candidate, outcome="skipped", reason=f"no room in the {limit}"
        )
        for candidate in candidates
    )


def schedule(
    settings: PlanSettings,
    candidates: Sequence[Candidate],
    hosts: Sequence[HostFacts],
    *,
    backend: Backend,
    ranks: int,
    seed: int,
    fabric: Fabric | None = None,
    locate: Locate = "auto",
) -> Plan:
    """One case per session of each candidate whose outcome is "planned", in rounds: every
    candidate once per round, in a new order drawn from `seed`.

    `locate` is when pairs of hosts are measured. `estimate_s` counts wall seconds from the facts
    to the report; `gpu_hours` is that times `ranks`, None over gloo. More sessions than fit are
    no error: the estimate is rough, and `fits` leaves out what there is no time for.
    """
    validate(settings)
    planned = _planned(candidates)
    draw = random.Random(seed)
    cases: list[Case] = []
    for session in range(settings.sessions):
        for candidate in draw.sample(planned, len(planned)):
            cases.append(Case(number=len(cases), candidate=candidate.name, session=session))
    costs = costs_s(settings, planned, hosts, backend, ranks, fabric)
    limit_s, _ = _limit(settings, backend, ranks)
    check_s = copies_s(settings, hosts, backend, limit_s)
    if FIXED_S + check_s + sum(costs.values()) > limit_s:
        check_s = 0.0
    pairs_s = 0.0 if locate == "never" else screen_s(backend, hosts=len(hosts), limit_s=limit_s)
    estimate_s = FIXED_S + check_s + settings.sessions * sum(costs.values()) + pairs_s
    return Plan(
        settings=settings,
        backend=backend,
        ranks=ranks,
        hosts=len(hosts),
        seed=seed,
        sizes_bytes=ladder(settings, ranks),
        cases=tuple(cases),
        copies_s=round(check_s, 1),
        locate_s=round(pairs_s, 1),
        estimate_s=round(estimate_s, 1),
        gpu_hours=round(gpu_hours(ranks, estimate_s), 4) if backend == "nccl" else None,
    )


def time_limit_s(plan: Plan) -> float:
    """The tighter of the plan's limits, in seconds of this many ranks."""
    return _limit(plan.settings, plan.backend, plan.ranks)[0]


def fits(plan: Plan, case: Case, *, elapsed_s: float, mean_case_s: float) -> bool:
    """Whether to start `case` `elapsed_s` after the sweep began, when a session of its candidate
    takes `mean_case_s`.

    The first session always runs: a candidate without any would be a hole in the report, and each
    phase of it has a deadline of its own. Later ones only add precision, and wait for a longer
    budget. Some seconds are kept for the report, and for the rounds of pairs.
    """
    if case.session == 0:
        return True
    ends_s = elapsed_s + mean_case_s + plan.locate_s + CLOSING_S
    limit = plan.settings.gpu_hours
    if plan.backend == "nccl" and limit is not None and gpu_hours(plan.ranks, ends_s) > limit:
        return False
    return ends_s <= plan.settings.budget_s


# ------------------------------------------------------------------------------------ choice


def _planned(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.outcome == "planned"]


def _urgency(
    candidate: Candidate, hosts: Sequence[HostFacts], fabric: Fabric | None
) -> tuple[int, int, float]:
    """What is measured first where not everything can be: what users get, then what they could
    have instead, then what explains it. Smaller is more urgent."""
    if candidate.kind == "default":
        return 0, 0, 0.0
    if candidate.kind == "gpu-path":
        return 2, 0, 0.0
    if candidate.transport == "rdma":
        return (5 if candidate.ranks else 1), 0, 0.0
    expected = expected_network(fabric, candidate.interfaces, candidate.addresses)
    turn = 3 if expected is None else 1 if expected.role == "data" else 4
    return turn, 1, -(rate_of(candidate, hosts, fabric) or 0.0)


def _kept(urgent: Sequence[Candidate], costs: Mapping[str, float], room_s: float) -> set[str]:
    """Names of those that fit one after the other, the most urgent first."""
    kept: set[str] = set()
    for candidate in urgent:
        if costs[candidate.name] <= room_s:
            room_s -= costs[candidate.name]
            kept.add(candidate.name)
    return kept


def _limit(settings: PlanSettings, backend: Backend, ranks: int) -> tuple[float, str]:
    """The tighter limit in seconds, and what it is called."""
    hours = settings.gpu_hours
    if backend == "nccl" and hours is not None and gpu_hours(ranks, settings.budget_s) > hours:
        return hours * 3600 / ranks, f"budget of {hours:g} GPU hours"
    return settings.budget_s, f"budget of {settings.budget_s:g} s"


def _least_s(
    planned: Sequence[Candidate], costs: Mapping[str, float], kept: Set[str]
) -> float | None:
    """None where what users get is kept and something to hold it against, as far as they are
    planned at all; else the seconds that the cheapest of each would take."""
    least_s, lacking = FIXED_S, False
    for kind in ("default", "network"):
        names = [candidate.name for candidate in planned if candidate.kind == kind]
        least_s += min((costs[name] for name in names), default=0.0)
        lacking |= bool(names) and kept.isdisjoint(names)
    return least_s if lacking else None
