"""The order of work, and what it will cost: candidates × sessions, shuffled and interleaved.

In: plan settings and candidates. Out: a Plan whose rounds hold every candidate once each, so that
slow drift of a machine or a neighbour's traffic falls on all alike, and its cost in seconds and
GPU hours. BadInput where the settings make no sense or the budget allows no session.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from bench.plan.naming import expected_network
from bench.plan.sizes import format_bytes, held_out, ladder, parse_bytes
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

# Bytes each rank sends per byte of size in a ring of n; what nccl-tests calls the busbw factor.
_WIRE: Mapping[str, tuple[int, bool]] = {  # (multiple, times (n - 1) / n)
    "all_reduce": (2, True),
    "all_gather": (1, True),
    "reduce_scatter": (1, True),
    "all_to_all": (1, True),
    "broadcast": (1, False),
    "send_recv": (1, False),
    "barrier": (0, False),
}
COLLECTIVES = tuple(_WIRE)
DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8")

# What a sweep spends besides its cells; measured in the lab for gloo, supposed for NCCL (a CUDA
# context and the topology search of every fresh process take seconds).
FIXED_S = 8.0  # facts, preflight, fit, judgement, page
WORKER_S = {"gloo": 0.15, "nccl": 3.0}
GROUP_S = {"gloo": 0.05, "nccl": 1.5}
GROUP_S_PER_RANK = {"gloo": 0.004, "nccl": 0.02}
WARMUP = 1.2  # warm-up calls, agreement on when to stop and value checks, per measured second
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


def schedule(
    settings: PlanSettings,
    candidates: Sequence[Candidate],
    hosts: Sequence[HostFacts],
    *,
    backend: Backend,
    ranks: int,
    seed: int,
    fabric: Fabric | None = None,
) -> Plan:
    """One case per session of each candidate whose outcome is "planned", in rounds: every
    candidate once per round, in a new order drawn from `seed`.

    `estimate_s` counts wall seconds from the facts to the report; `gpu_hours` is that times
    `ranks`, None over gloo. BadInput when not even one session of each candidate fits the budget.
    """
    validate(settings)
    planned = [candidate for candidate in candidates if candidate.outcome == "planned"]
    draw = random.Random(seed)
    cases: list[Case] = []
    for session in range(settings.sessions):
        for candidate in draw.sample(planned, len(planned)):
            cases.append(Case(number=len(cases), candidate=candidate.name, session=session))
    sizes = ladder(settings, ranks)
    rates = {c.name: _rate(c, hosts, fabric) for c in planned}
    round_s = sum(
        _case_s(settings, sizes, rates[c.name], len(c.ranks) or ranks, backend) for c in planned
    )
    estimate_s = FIXED_S + settings.sessions * round_s
    plan = Plan(
        settings=settings,
        backend=backend,
        ranks=ranks,
        hosts=len(hosts),
        seed=seed,
        sizes_bytes=sizes,
        cases=tuple(cases),
        estimate_s=round(estimate_s, 1),
        gpu_hours=round(_gpu_hours(ranks, estimate_s), 4) if backend == "nccl" else None,
    )
    _refuse_what_cannot_fit(plan, FIXED_S + round_s)
    return plan


def fits(plan: Plan, case: Case, *, elapsed_s: float, mean_case_s: float) -> bool:
    """Whether to start `case` `elapsed_s` after the sweep began, when cases have taken
    `mean_case_s` so far.

    The first session always runs: a candidate without any would be a hole in the report, and each
    phase of it has a deadline of its own. Later ones only add precision, and wait for a longer
    budget. Some seconds are kept for the report.
    """
    if case.session == 0:
        return True
    ends_s = elapsed_s + mean_case_s + CLOSING_S
    limit = plan.settings.gpu_hours
    if plan.backend == "nccl" and limit is not None and _gpu_hours(plan.ranks, ends_s) > limit:
        return False
    return ends_s <= plan.settings.budget_s


def _gpu_hours(ranks: int, seconds: float) -> float:
    return ranks * seconds / 3600


def _case_s(
    settings: PlanSettings, sizes: Sequence[int], rate: float | None, ranks: int, backend: Backend
) -> float:
    """Seconds of one case. Without a known rate every cell takes its nominal time; on a slow
    network the few iterations it must have take longer."""
    cells_s = sum(
        _cells_s(settings, sizes, _wire_share(collective, ranks), rate)
        for collective in settings.collectives
    )
    group_s = GROUP_S[backend] + GROUP_S_PER_RANK[backend] * ranks
    return WORKER_S[backend] + group_s + WARMUP * cells_s


def _wire_share(collective: str, ranks: int) -> float:
    multiple, shared = _WIRE[collective]
    return multiple * ((ranks - 1) / ranks if shared else 1)


def _cells_s(
    settings: PlanSettings, sizes: Sequence[int], wire_share: float, rate: float | None
) -> float:
    total = 0.0
    for size in sorted({*sizes, *(held_out(sizes) if settings.held_out else ())}):
        call_s = size * wire_share / rate if rate else 0.0
        total += max(settings.cell_s, settings.min_iterations * call_s)
        if settings.early_stop and call_s > settings.cell_s:
            break  # four sizes of pure transfer lie below: the plateau is known by then
    return total


def _rate(candidate: Candidate, hosts: Sequence[HostFacts], fabric: Fabric | None) -> float | None:
    """Bytes per second that the fabric file expects or the slowest port claims; None where nobody
    says. Virtual interfaces claim nothing."""
    expected = expected_network(fabric, candidate.interfaces, candidate.addresses)
    if expected is not None and expected.rate_gbps:
        return expected.rate_gbps * 1e9 / 8
    claims = [
        card.speed_mbit
        for host in hosts
        for card in host.interfaces
        if card.kind in ("physical", "bond")
        and card.speed_mbit
        and card.name in candidate.interfaces.get(host.host, "").split("+")
    ]
    return min(claims) * 1e6 / 8 if claims else None


def _refuse_what_cannot_fit(plan: Plan, once_s: float) -> None:
    """One session of every candidate is the least that makes a report. More sessions than fit are
    no error: the estimate is rough, and `fits` leaves out what there is no time for."""
    settings = plan.settings
    largest = format_bytes(parse_bytes(settings.max_bytes))
    less = f"sweep fewer candidates, fewer collectives or sizes below {largest}"
    who = f"one session of plan {settings.name!r} needs about"
    if once_s > settings.budget_s:
        limit = f"{once_s:.0f} s and the budget is {settings.budget_s:g} s"
        raise BadInput(f"{who} {limit}; {less}, or raise it")
    hours = _gpu_hours(plan.ranks, once_s)
    if plan.backend == "nccl" and settings.gpu_hours is not None and hours > settings.gpu_hours:
        limit = f"{hours:.2g} GPU hours and gpu_hours is {settings.gpu_hours:g}"
        raise BadInput(f"{who} {limit}; {less}, or raise it")
