"""The rounds that a search asks for, on simulated fabrics: how many, whose, when it ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.judge.pairs.locating import MOST_REPEATS, Search, locating
from bench.records import Location, PairFigure, PairRound, PairTime
from tests.judge.simulated_fabric import Fabric, located


def rounds_of(fabric: Fabric, search: Search) -> tuple[list[PairRound], Location]:
    """All rounds, those that were thrown away as well."""
    process = locating(fabric.names, search)
    asked = [next(process)]
    while True:
        try:
            asked.append(process.send(fabric.run(asked[-1])))
        except StopIteration as end:
            return asked, end.value


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(0, 3), st.integers(0, 99))
def test_a_round_holds_each_host_once_paired_or_idle(hosts: int, slow: int, seed: int) -> None:
    fabric = Fabric(hosts, slow=dict.fromkeys(range(min(slow, hosts // 2)), 0.3), seed=seed)
    asked, _ = rounds_of(fabric, Search(seed=seed))
    for order in asked:
        paired = [host for pair in order.pairs for host in pair]
        assert sorted([*paired, *order.idle]) == sorted(fabric.names)
    assert [order.number for order in asked] == list(range(len(asked)))


def test_two_hosts_are_measured_and_nobody_is_accused() -> None:
    _, location = rounds_of(Fabric(2, slow={0: 0.5}), Search(expected_s=1.0))
    assert location.suspects == ()
    assert location.every_pair_slow
    assert location.reference_s == pytest.approx(1.5, rel=0.1)


def test_a_healthy_fabric_of_many_hosts_takes_two_rounds() -> None:
    asked, location = rounds_of(Fabric(64, noise=0.01, seed=1), Search())
    assert [order.stage for order in asked] == ["screen", "screen"]
    assert location.suspects == location.undecided == location.notes == ()


def test_a_slow_host_takes_five_rounds_at_any_number_of_hosts() -> None:
    for hosts in (11, 12, 65, 300, 1024):
        asked, location = rounds_of(Fabric(hosts, slow={hosts // 2: 0.1}, seed=2), Search(seed=3))
        assert [order.stage for order in asked] == ["screen"] * 2 + ["confirm"] * 3
        assert [suspect.host for suspect in location.suspects] == [f"h{hosts // 2}"]


def test_confirmation_is_had_for_the_asking() -> None:
    asked, location = rounds_of(Fabric(64, noise=0.01), Search(confirm=True))
    assert [order.stage for order in asked] == ["screen"] * 2 + ["confirm"] * 3
    assert location.suspects == ()


def test_a_slow_ring_of_few_hosts_without_a_suspect_has_all_its_pairs_tried() -> None:
    """Five rounds of eight hosts leave eight pairs out, and the slow one among them."""
    untried = (0, 1)
    asked, location = rounds_of(Fabric(8, links={untried: 0.5}, seed=4), Search(confirm=True))
    assert ("h0", "h1") not in {pair for order in asked[:5] for pair in order.pairs}
    assert [suspect.link for suspect in location.suspects] == [("h0", "h1")]


def test_pairs_that_scatter_are_repeated_until_they_say_enough() -> None:
    asked, location = rounds_of(Fabric(32, noise=0.06, seed=5), Search(repeats=2))
    assert asked[0].repeats == 2
    assert 2 < asked[-1].repeats <= MOST_REPEATS
    assert location.rounds == tuple(order for order in asked if order.repeats > 2)
    assert {figure.round for figure in location.figures} == {r.number for r in location.rounds}
    (note,) = [note for note in location.notes if "measured again" in note]
    assert "the first 2 rounds do not count" in note
    assert f"measured again, {asked[-1].repeats} times instead of 2" in note


def test_a_host_that_answers_nobody_is_given_up_after_two_and_its_partners_are_not() -> None:
    asked, location = rounds_of(Fabric(16, absent=frozenset({5}), seed=6), Search(confirm=True))
    tried = [pair for order in asked for pair in order.pairs if "h5" in pair]
    assert len(tried) == 2
    assert {frozenset(pair) for pair in location.unmeasured} == {frozenset(p) for p in tried}
    for partner in {host for pair in tried for host in pair} - {"h5"}:
        assert sum(partner in f.hosts and f.outcome == "ok" for f in location.figures) >= 3
    assert location.suspects == location.undecided == ()


@pytest.mark.parametrize("hosts", [3, 4, 6, 8, 9, 16])
def test_absent_hosts_hide_no_slow_one(hosts: int) -> None:
    fabric = Fabric(hosts, absent=frozenset({0}), slow={1: 0.3}, seed=7, noise=0.01)
    location = fabric.located(Search())
    accused = [suspect.host for suspect in location.suspects]
    if hosts == 3:  # one pair is left
        assert accused == []
    else:
        assert accused == ["h1"]


def test_all_hosts_absent_end_in_an_answer_without_numbers() -> None:
    location = Fabric(6, absent=frozenset(range(6))).located(Search(map_links=True))
    assert location.reference_s is None
    assert location.suspects == ()
    assert location.unmeasured


def test_a_pair_that_hangs_is_told_and_accuses_nobody() -> None:
    location = Fabric(8, hung=frozenset({(2, 3)}), seed=8).located(Search(map_links=True))
    assert {frozenset(pair) for pair in location.unmeasured} == {frozenset({"h2", "h3"})}
    assert location.suspects == location.undecided == ()


def test_a_map_measures_every_pair_and_doubtful_links_three_times_more() -> None:
    fabric = Fabric(9, links={(1, 7): 0.3}, seed=9, noise=0.01)
    location = fabric.located(Search(map_links=True))
    times = [frozenset(f.hosts) for f in location.figures]
    assert {*times} == {frozenset({f"h{a}", f"h{b}"}) for a in range(9) for b in range(a)}
    assert times.count(frozenset({"h1", "h7"})) >= 3


def test_rails_are_measured_at_once_and_crossed_when_asked() -> None:
    asked, location = rounds_of(Fabric(6), Search(rails=(0, 1, 2, 3), cross_rails=True))
    assert all(order.rails == (0, 1, 2, 3) for order in asked)
    assert [order.shift for order in asked if order.stage == "rails"] == [1, 1]
    assert len(location.figures) == sum(4 * len(order.pairs) for order in asked)
    assert location.suspects == ()


def test_with_leaves_the_screen_stays_inside_and_two_rounds_go_across() -> None:
    leaves = tuple(tuple(range(at, at + 4)) for at in range(0, 24, 4))
    fabric = Fabric(24, leaves=leaves, noise=0.01)
    asked, _ = rounds_of(fabric, Search(leaves=fabric.leaf_names))
    home = {f"h{host}": at for at, leaf in enumerate(leaves) for host in leaf}
    for order in asked:
        crossing = [pair for pair in order.pairs if home[pair[0]] != home[pair[1]]]
        assert len(crossing) == (len(order.pairs) if order.stage == "leaves" else 0)
    assert [order.stage for order in asked] == ["screen"] * 2 + ["leaves"] * 2


def test_figures_that_are_no_times_are_no_evidence() -> None:
    """A peer's answer is data: zeros, infinities and negative times must not become numbers."""
    process = locating(["a", "b", "c"], Search())
    order = next(process)
    while True:
        figures = [
            PairFigure(
                round=order.number, stage=order.stage, hosts=pair,
                times=(PairTime(forward_s=bad, backward_s=1.0),),
            )
            for pair, bad in zip(order.pairs, (0.0, -1.0, math.inf), strict=False)
        ]  # fmt: skip
        try:
            order = process.send(figures)
        except StopIteration as end:
            location = end.value
            break
    assert location.suspects == ()
    assert location.reference_s is None


def test_the_same_seed_asks_for_the_same_rounds() -> None:
    one, _ = rounds_of(Fabric(20, seed=3), Search(seed=11))
    same, _ = rounds_of(Fabric(20, seed=3), Search(seed=11))
    other, _ = rounds_of(Fabric(20, seed=3), Search(seed=12))
    assert one == same
    assert one[0].pairs != other[0].pairs


def test_hosts_may_have_any_names() -> None:
    fabric = Fabric(5, slow={2: 0.5}, noise=0.01)
    assert located(fabric.names, Search(), fabric).suspects[0].host == "h2"
