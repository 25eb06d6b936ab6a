"""Rounds, estimates and budgets of a plan, from settings and candidates alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bench.formats import shipped, toml_file
from bench.plan import candidates, volumes
from bench.plan.cases import afford, fits, schedule, validate
from bench.records import (
    Address,
    Backend,
    BadInput,
    Candidate,
    DataPath,
    Fabric,
    FabricNetwork,
    Gpu,
    HostFacts,
    Interface,
    Plan,
    PlanSettings,
    RdmaPort,
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


def reasons(found: Sequence[Candidate]) -> dict[str, str | None]:
    return {
        candidate.name: candidate.reason for candidate in found if candidate.outcome == "skipped"
    }


def eight_rails(number: int) -> HostFacts:
    """Eight GPUs, eight InfiniBand adapters with IPoIB, and a slow Ethernet."""

    def card(name: str, subnet: int, speed_mbit: int) -> Interface:
        address = Address(family="inet", address=f"10.{subnet}.0.{number}", prefix_length=24)
        return Interface(
            name=name, kind="physical", index=subnet, addresses=(address,), up=True, running=True,
            speed_mbit=speed_mbit,
        )  # fmt: skip

    rails = range(8)
    return HostFacts(
        host=f"h{number}",
        hostname=f"h{number}",
        identity=f"id{number}",
        ranks=tuple(8 * (number - 1) + i for i in rails),
        interfaces=(card("eth0", 1, 10_000), *(card(f"ib{i}", 10 + i, 400_000) for i in rails)),
        gpus=tuple(Gpu(index=i, uuid=f"GPU-{number}{i}") for i in rails),
        rdma_ports=tuple(
            RdmaPort(device=f"mlx5_{i}", port=1, state="ACTIVE", link_layer="InfiniBand")
            for i in rails
        ),
    )


def lab_host(number: int) -> HostFacts:
    """A host of the lab: three networks over veth, whose speed file claims nothing that counts."""
    cards = tuple(
        Interface(
            name=name, kind="veth", index=2 + i, up=True, running=True, speed_mbit=10_000,
            addresses=(Address(family="inet", address=f"10.{i}.0.{number}", prefix_length=24),),
        )
        for i, name in enumerate(("mgmt0", "data0", "store0"))
    )  # fmt: skip
    return HostFacts(
        host=f"h{number}", hostname=f"h{number}", identity=f"id{number}", ranks=(number - 1,),
        interfaces=cards,
        data_path=DataPath(transport="socket", interfaces=("mgmt0",)),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["quick", "nightly", "full"])
@pytest.mark.parametrize(
    ("facts", "backend", "ranks"),
    [
        ([eight_rails(1), eight_rails(2)], "nccl", 16),
        ([lab_host(i) for i in (1, 2, 3, 4)], "gloo", 4),
    ],
    ids=["eight-rails", "lab"],
)
def test_every_shipped_plan_starts(
    name: str, facts: list[HostFacts], backend: Backend, ranks: int
) -> None:
    shipped_plan = toml_file.load(shipped.find("plans", name), PlanSettings)
    found = candidates.find(facts, backend=backend)
    assert len(found) == (25 if backend == "nccl" else 4)
    kept = afford(shipped_plan, found, facts, backend=backend, ranks=ranks)
    assert [candidate.name for candidate in kept] == [candidate.name for candidate in found]
    made = schedule(shipped_plan, kept, facts, backend=backend, ranks=ranks, seed=0)
    once = {case.candidate for case in made.cases}
    assert "(default)" in once and len(once) > 3
    assert once | set(reasons(kept)) == {candidate.name for candidate in found}
    assert made.estimate_s / shipped_plan.sessions < shipped_plan.budget_s
    if backend == "gloo":
        assert not reasons(kept)


def test_a_plan_of_networks_only_has_no_gpu_path_and_no_rail_by_itself() -> None:
    """Pairs of hosts use none of them, and on eight GPUs they are most of what there is to try."""
    facts = [eight_rails(1), eight_rails(2)]
    plan = toml_file.load(shipped.find("plans", "locate"), PlanSettings)
    assert plan.networks_only
    found = candidates.find(facts, backend="nccl", networks_only=True)
    names = [candidate.name for candidate in found]
    assert names == ["eth0", *(f"ib{i}" for i in range(8)), "rdma", "(default)"]
    named = candidates.find(facts, backend="nccl", only=("p2p@h1",), networks_only=True)
    assert [candidate.name for candidate in named] == ["p2p@h1", "(default)"]
    kept = afford(plan, found, facts, backend="nccl", ranks=16)
    assert all(candidate.outcome == "planned" for candidate in kept)


def test_what_has_no_room_is_left_out_from_the_least_telling_on_and_says_so() -> None:
    facts = [eight_rails(1), eight_rails(2)]
    found = candidates.find(facts, backend="nccl")
    order = ["(default)", "rdma", *(f"ib{i}" for i in range(8)), "eth0"]
    order += [f"{path}@h{n}" for n in (1, 2) for path in ("p2p", "shm", "net")]
    order += [f"rdma/mlx5_{i}" for i in range(8)]
    assert set(order) == {candidate.name for candidate in found}
    groups = [order[:11], order[11:17], order[17:]]  # of 16 ranks, 8 and 2: of like cost each
    counts = []
    for budget_s in range(30, 260, 7):
        kept = afford(settings(budget_s=budget_s), found, facts, backend="nccl", ranks=16)
        names = {candidate.name for candidate in kept if candidate.outcome == "planned"}
        for group in groups:
            inside = [name for name in group if name in names]
            assert inside == group[: len(inside)]
        assert set(reasons(kept).values()) <= {f"no room in the budget of {budget_s} s"}
        counts.append(len(names))
    assert counts == sorted(counts) and counts[0] == 2 and counts[-1] == 25


def test_the_fabric_file_s_data_networks_come_first_and_a_dear_one_leaves_room_for_others() -> (
    None
):
    def network(name: str, role: str, rate_gbps: float | None = None) -> FabricNetwork:
        return FabricNetwork(name=name, role=role, interfaces=(name,), rate_gbps=rate_gbps)  # type: ignore[arg-type]

    fabric = Fabric(name="f", network=(network("eth0", "management"), network("eth2", "data")))
    short = settings(budget_s=13)
    kept = afford(short, networks(), hosts(), backend="gloo", ranks=4, fabric=fabric)
    assert set(reasons(kept)) == {"net0", "net1"}
    slow = Fabric(name="f", network=(network("eth0", "data", 0.01), network("eth2", "data")))
    whole = settings(budget_s=13, early_stop=False)
    kept = afford(whole, networks(), hosts(), backend="gloo", ranks=4, fabric=slow)
    assert set(reasons(kept)) == {"net0", "net1"}


def test_settled_candidates_cost_nothing_and_keep_their_reason() -> None:
    found = networks(3)
    found[0] = msgspec.structs.replace(found[0], outcome="unreachable", reason="no route")
    kept = afford(settings(budget_s=13), found, hosts(), backend="gloo", ranks=4)
    assert [(c.outcome, c.reason) for c in kept] == [
        ("unreachable", "no route"), ("planned", None),
        ("skipped", "no room in the budget of 13 s"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "more", "sentence"),
    [
        (
            {"budget_s": 13.0}, {"backend": "gloo", "ranks": 4},
            (
                r"plan 'quick' needs about 16 s for one session of the default and of one "
                r"network, more than the budget of 13 s; sweep fewer collectives or sizes below "
                r"4 MiB, or raise it"
            ),
        ),
        (
            {"budget_s": 900.0, "gpu_hours": 0.2}, {"backend": "nccl", "ranks": 64},
            r"needs about \d+ s \(0.\d+ GPU hours\) .* than the budget of 0.2 GPU hours; sweep",
        ),
    ],
)  # fmt: skip
def test_a_budget_without_room_for_the_default_and_one_network_is_refused(
    changes: dict[str, object], more: dict[str, Any], sentence: str
) -> None:
    found = [*networks(), Candidate(name="(default)", kind="default")]
    with pytest.raises(BadInput, match=sentence):
        afford(settings(**changes), found, hosts(), **more)
    alone = afford(settings(budget_s=13), found[-1:], hosts(), backend="gloo", ranks=4)
    assert not reasons(alone)


def test_gpu_hours_leave_candidates_out_too() -> None:
    tight = settings(budget_s=900, gpu_hours=0.5)
    found = [*networks(), Candidate(name="(default)", kind="default")]
    kept = afford(tight, found, hosts(), backend="nccl", ranks=64)
    assert set(reasons(kept).values()) == {"no room in the budget of 0.5 GPU hours"}
    assert not reasons(afford(tight, found, hosts(), backend="gloo", ranks=64))


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

    assert set(volumes.COLLECTIVES) == set(collectives.COLLECTIVES)
    assert set(volumes.DTYPES) == set(collectives.DTYPES)
    assert set(volumes.COLLECTIVES) >= volumes.WITHOUT_PAYLOAD


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
    assert time.process_time() - began < 5
    assert len(made.cases) == 30


# ------------------------------------------------------------------------------------ copies


def gpu_hosts(gpus: int = 8) -> list[HostFacts]:
    made = tuple(Gpu(index=n) for n in range(gpus))
    return [msgspec.structs.replace(host, gpus=made) for host in hosts()]


def test_copies_are_planned_with_gpus_and_cost_what_they_take() -> None:
    long = settings(budget_s=600, sessions=1)
    given: dict[str, Any] = {"backend": "nccl", "ranks": 16, "seed": 1}
    with_them = schedule(long, networks(), gpu_hosts(), **given)
    without = schedule(settings(budget_s=600, sessions=1, copies=False), networks(), gpu_hosts(),
                       **given)  # fmt: skip
    assert 5 < with_them.copies_s < 15 and without.copies_s == 0
    saved = with_them.estimate_s - without.estimate_s
    assert saved == pytest.approx(with_them.copies_s, abs=0.2)
    over_gloo = schedule(long, networks(), gpu_hosts(), backend="gloo", ranks=16, seed=1)
    assert over_gloo.copies_s == 0


def test_copies_never_cost_what_users_get_its_measurement() -> None:
    """In a budget that holds the default and one network and nothing else, there is no check."""
    found = [*networks(1), Candidate(name="(default)", kind="default")]
    given: dict[str, Any] = {"backend": "nccl", "ranks": 16}
    seen = set()
    for budget_s in range(24, 60):
        tight = settings(budget_s=float(budget_s), sessions=1)
        try:
            kept = afford(tight, found, gpu_hosts(), **given)
        except BadInput:
            continue  # not even those two fit
        assert [c.outcome for c in kept] == ["planned", "planned"], budget_s
        made = schedule(tight, kept, gpu_hosts(), seed=1, **given)
        assert made.estimate_s <= budget_s
        seen.add(made.copies_s > 0)
    assert seen == {True, False}
