"""Who meets whom: every host at most once a round, nobody twice where it can be helped."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from bench.plan import rounds
from bench.plan.rounds import Pair, ordered

COUNTS = st.integers(2, 70)


def is_disjoint(pairs: Sequence[Pair]) -> bool:
    hosts = [host for pair in pairs for host in pair]
    return len(hosts) == len(set(hosts)) and all(a < b for a, b in pairs)


@given(COUNTS)
def test_a_map_takes_every_pair_once_in_as_few_rounds_as_there_can_be(count: int) -> None:
    found = list(rounds.factorisation(count))
    assert len(found) == count - 1 + count % 2
    assert all(is_disjoint(pairs) for pairs in found)
    everybody = [pair for pairs in found for pair in pairs]
    assert sorted(everybody) == list(itertools.combinations(range(count), 2))


def test_one_host_alone_meets_nobody() -> None:
    assert list(rounds.factorisation(1)) == []
    assert rounds.shuffled(1, seed=0) == ()


@given(COUNTS, st.integers(0, 9))
def test_the_first_round_pairs_all_but_one_of_an_odd_number(count: int, seed: int) -> None:
    pairs = rounds.shuffled(count, seed)
    assert is_disjoint(pairs)
    assert len(pairs) == count // 2


@given(st.integers(6, 60), st.integers(0, 9), st.randoms(use_true_random=False))
def test_the_second_round_pairs_the_slowest_with_the_fastest_and_nobody_twice(
    count: int, seed: int, chance: object
) -> None:
    first = rounds.shuffled(count, seed)
    scores = {host: chance.random() for host in range(count)}  # type: ignore[attr-defined]
    second = rounds.repaired(scores, set(first))
    assert is_disjoint(second)
    assert not set(second) & set(first)
    ranked = sorted(scores, key=lambda host: -scores[host])
    slow_half = set(ranked[: count // 2])
    assert all(len(slow_half & set(pair)) == 1 for pair in second)


@given(st.integers(1, 9), st.integers(2, 9), st.integers(0, 9))
def test_with_leaves_known_pairs_stay_inside_but_for_those_left_over(
    leaves: int, size: int, seed: int
) -> None:
    home = [host // size for host in range(leaves * size)]
    for pairs in (
        rounds.shuffled(len(home), seed, home),
        rounds.repaired(dict.fromkeys(range(len(home)), 0.0), set(), home),
    ):
        assert is_disjoint(pairs)
        assert len(pairs) == len(home) // 2
        crossing = [pair for pair in pairs if home[pair[0]] != home[pair[1]]]
        assert len(crossing) <= (leaves // 2 if size % 2 else 0)


def test_suspects_meet_good_hosts_they_have_not_met() -> None:
    met = {(0, 2), (0, 3), (1, 2)}
    pairs = rounds.confirming([0, 1], [2, 3, 4, 5], [], met)
    assert is_disjoint(pairs)
    assert not set(pairs) & met
    assert sum(bool({0, 1} & set(pair)) for pair in pairs) == 2
    assert {host for pair in pairs for host in pair} == set(range(6))


def test_suspected_links_are_measured_again_and_the_others_go_on() -> None:
    pairs = rounds.confirming([0], [3, 4, 5, 6, 7], [(1, 2)], {(0, 3)})
    assert (1, 2) in pairs
    assert (0, 4) in pairs
    assert is_disjoint(pairs)


def test_suspects_meet_each_other_when_asked_to() -> None:
    pairs = rounds.confirming([0, 1, 2], [3, 4, 5], [], set(), among=[0, 1])
    assert (0, 1) in pairs
    assert any(2 in pair and not {0, 1} & set(pair) for pair in pairs)


def test_a_suspect_prefers_good_hosts_of_its_own_leaf() -> None:
    home = [0, 1, 1, 1, 0, 0]
    assert (0, 4) in rounds.confirming([0], [1, 2, 3, 4, 5], [], set(), home=home)
    met = {(0, 4), (0, 5)}
    assert (0, 1) in rounds.confirming([0], [1, 2, 3, 4, 5], [], met, home=home)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(0, 9))
def test_across_leaves_everybody_meets_another_leaf_where_there_are_enough_others(
    sizes: list[int], seed: int
) -> None:
    numbers = itertools.count()
    leaves = [[next(numbers) for _ in range(size)] for size in sizes]
    home = {host: at for at, leaf in enumerate(leaves) for host in leaf}
    pairs = rounds.across_leaves(leaves, seed)
    assert is_disjoint(pairs)
    assert all(home[a] != home[b] for a, b in pairs)
    most, total = max(sizes), sum(sizes)
    assert len(pairs) == min(total // 2, total - most)


def test_only_leaves_whose_hosts_have_not_met_are_measured_inside() -> None:
    leaves = [[0, 1, 2, 3], [4, 5], [6]]
    assert rounds.inside_leaves(leaves, {(0, 3)}) == ((4, 5),)
    assert rounds.inside_leaves(leaves, set()) == ((0, 1), (2, 3), (4, 5))


@given(st.integers(0, 20), st.integers(0, 20))
def test_ordered_pairs_are_keys_whoever_is_named_first(a: int, b: int) -> None:
    assert ordered(a, b) == ordered(b, a)
