"""Rounds, estimates and budgets of a plan, from settings and candidates alone."""

from __future__ import annotations

import time
from collections import Counter

import msgspec
import pytest

from bench.plan import cases
from bench.plan.cases import fits, schedule, validate
from bench.records import (
    BadInput,
    Candidate,
    Fabric,
    FabricNetwork,
    HostFacts,
    Interface,
    Plan,
    PlanSettings,
)

QUICK = PlanSettings(name="quick")


def settings(**changes: object) -> PlanSettings:
    return msgspec.structs.replace(QUICK, **changes)


def networks(count: int = 3) -> list[Candidate]:
    return [
        Candidate(name=f"net{i}", kind="network", interfaces={"h1": f"eth{i}", "h2": f"eth{i}"})
        for i in range(count)
    ]


def hosts(speed_mbit: int | None = None, kind: str = "physical") -> list[HostFacts]:
    card = Interface(name="eth0", kind=kind, index=2, speed_mbit=speed_mbit)  # type: ignore[arg-type]
    return [HostFacts(host=h, hostname=h, identity=h, interfaces=(card,)) for h in ("h1", "h2")]


def plan(
    changed: PlanSettings = QUICK, found: list[Candidate] | None = None, **more: object
) -> Plan:
    given = {"backend": "gloo", "ranks": 4, "seed": 1, **more}
    return schedule(changed, found or networks(), hosts(), **given)  # type: ignore[arg-type]


def test_every_round_holds_every_candidate_once_and_rounds_follow_one_another() -> None:
    made = plan()
    assert [case.number for case in made.cases] == list(range(9))
    assert [case.session for case in made.cases] == [0] * 3 + [1] * 3 + [2] * 3
    for session in range(3):
        assert Counter(c.candidate for c in made.cases if c.session == session) == {
            "net0": 1, "net1": 1, "net2": 1,
        }  # fmt: skip


def test_the_seed_decides_the_order_and_nothing_else_does() -> None:
    orders = [tuple(c.candidate for c in plan(seed=seed).cases) for seed in range(20)]
    assert len(set(orders)) > 10
    assert plan(seed=3) == plan(seed=3)
    firsts = Counter(plan(seed=seed).cases[0].candidate for seed in range(300))
    assert min(firsts.values()) > 60  # of 100 expected each


def test_settled_candidates_get_no_case() -> None:
    found = networks(2)
    found[0] = msgspec.structs.replace(found[0], outcome="unreachable")
    assert {case.candidate for case in plan(found=found).cases} == {"net1"}


def test_the_estimate_grows_with_cells_and_knows_slow_networks() -> None:
    base = plan().estimate_s
    assert 20 < base < 60
    assert plan(settings(sessions=1)).estimate_s < base
    slow = Fabric(
        name="f", network=(FabricNetwork(name="n", interfaces=("eth*",), rate_gbps=0.1),)
    )
    assert plan(fabric=slow, changed=settings(budget_s=600)).estimate_s > base
    whole = settings(budget_s=600, early_stop=False)
    assert plan(whole, fabric=slow).estimate_s > 1.5 * plan(whole).estimate_s


def test_a_physical_port_s_claim_counts_and_a_virtual_one_s_does_not() -> None:
    def estimate(kind: str) -> float:
        whole = settings(early_stop=False, budget_s=600)
        made = schedule(whole, networks(1), hosts(10, kind), backend="gloo", ranks=2, seed=0)
        return made.estimate_s

    assert estimate("physical") > 2 * estimate("veth")


def test_gpu_hours_are_ranks_times_the_estimate_and_none_over_gloo() -> None:
    assert plan().gpu_hours is None
    over_nccl = plan(settings(budget_s=600), backend="nccl", ranks=16)
    assert over_nccl.gpu_hours == pytest.approx(16 * over_nccl.estimate_s / 3600, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "more", "sentence"),
    [
        ({"budget_s": 9.0}, {}, r"of plan 'quick' needs about \d+ s and the budget is 9 s; sweep"),
        (
            {"budget_s": 900.0, "gpu_hours": 0.5},
            {"backend": "nccl", "ranks": 64},
            r"needs about [\d.]+ GPU hours and gpu_hours is 0.5; sweep fewer candidates",
        ),
    ],
)  # fmt: skip
def test_a_plan_of_which_no_session_fits_is_refused(
    changes: dict[str, object], more: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        plan(settings(**changes), **more)


def test_more_sessions_than_fit_are_planned_because_the_estimate_is_rough() -> None:
    made = plan(settings(budget_s=25))
    assert made.estimate_s > 25 and len(made.cases) == 9


def test_the_first_session_always_runs_and_later_ones_within_the_budget() -> None:
    made = plan()
    first, last = made.cases[0], made.cases[-1]
    assert fits(made, first, elapsed_s=1e6, mean_case_s=5)
    assert fits(made, last, elapsed_s=40, mean_case_s=5)
    assert not fits(made, last, elapsed_s=52, mean_case_s=5)


def test_gpu_hours_end_later_sessions_too() -> None:
    made = plan(settings(budget_s=600, gpu_hours=0.5), backend="nccl", ranks=16)
    assert fits(made, made.cases[-1], elapsed_s=90, mean_case_s=5)
    assert not fits(made, made.cases[-1], elapsed_s=110, mean_case_s=5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"collectives": ("all_reduec",)}, "unknown collective .*; did you mean all_reduce?"),
        ({"collectives": ()}, "collectives names none"),
        ({"collectives": ("barrier", "barrier")}, "names one twice"),
        ({"dtype": "float8"}, "unknown dtype 'float8'; did you mean float"),
        ({"dtype": "q"}, "unknown dtype 'q'; known are float32"),
        ({"min_bytes": "8M"}, "min_bytes .* larger than max_bytes"),
        ({"max_bytes": "4 apples"}, "a size is a number of bytes"),
        ({"step_factor": 1.0}, "step_factor"),
        ({"sessions": 0}, "sessions is 0, expected at least 1"),
        ({"min_iterations": 0}, "min_iterations is 0, expected at least 1"),
        ({"max_iterations": 2}, r"max_iterations is 2, expected at least 3 \(min_iterations\)"),
        ({"cell_s": 0.0}, "cell_s is 0, expected a number of seconds above 0"),
        ({"budget_s": float("nan")}, "budget_s is nan"),
        ({"half_width": 1.5}, "half_width is 1.5, expected a fraction"),
        ({"gpu_hours": -1.0}, "gpu_hours is -1"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_one_sentence_with_the_file(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence) as caught:
        validate(settings(**changes), file="plan.toml")
    assert caught.value.file == "plan.toml"
    assert "\n" not in str(caught.value)


def test_good_settings_pass_unchanged() -> None:
    assert validate(QUICK) is QUICK


def test_names_agree_with_what_can_be_measured() -> None:
    from bench.measure import collectives

    assert set(cases.COLLECTIVES) == set(collectives.COLLECTIVES)
    assert set(cases.DTYPES) == set(collectives.DTYPES)


def test_five_hundred_hosts_are_scheduled_in_well_under_a_second() -> None:
    many = [f"h{i}" for i in range(512)]
    facts = [
        HostFacts(
            host=h, hostname=h, identity=h,
            interfaces=tuple(
                Interface(name=f"eth{n}", kind="physical", index=n, speed_mbit=100_000)
                for n in range(10)
            ),
        )
        for h in many
    ]  # fmt: skip
    found = [
        Candidate(name=f"eth{n}", kind="network", interfaces=dict.fromkeys(many, f"eth{n}"))
        for n in range(10)
    ]
    began = time.process_time()
    made = schedule(settings(budget_s=1e5), found, facts, backend="nccl", ranks=4096, seed=0)
    assert time.process_time() - began < 0.5
    assert len(made.cases) == 30
