"""What rounds of pairs prove: hosts, NICs, rails, links, ways, leaves; and what they do not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

import pytest

from bench.judge.pairs import suspects
from bench.judge.pairs.locating import Search
from bench.judge.pairs.values import Values
from bench.records import Location, PairFigure, PairTime, Suspect
from tests.judge.simulated_fabric import Fabric

QUIET = 0.005  # noise that no threshold notices: what is tested here is logic, not luck


def part(suspect: Suspect) -> tuple[object, ...]:
    return (
        suspect.host, frozenset(suspect.link or ()), suspect.rail, suspect.group, suspect.across,
    )  # fmt: skip


def host(name: str, rail: int | None = None) -> tuple[object, ...]:
    return (name, frozenset(), rail, (), False)


def link(*names: str, rail: int | None = None) -> tuple[object, ...]:
    return (None, frozenset(names), rail, (), False)


def leaf(*names: str, across: bool, rail: int | None = None) -> tuple[object, ...]:
    return (None, frozenset(), rail, names, across)


def plane(rail: int, *, across: bool = False) -> tuple[object, ...]:
    return (None, frozenset(), rail, (), across)


def parts(location: Location) -> set[tuple[object, ...]]:
    return {part(suspect) for suspect in location.suspects}


def judged(times: Mapping[tuple[str, str], Iterable[float]], **search: object) -> Location:
    """Hand-made seconds of pairs, one figure a number."""
    hosts = tuple(dict.fromkeys(name for pair in times for name in pair))
    figures = tuple(
        PairFigure(
            round=at, stage="screen", hosts=pair, times=(PairTime(forward_s=s, backward_s=s),)
        )
        for pair, seconds in times.items()
        for at, s in enumerate(seconds)
    )
    values = Values({name: at for at, name in enumerate(hosts)})
    values.extend(figures)
    return suspects.conclude(
        values, figures, (), hosts=hosts, search=Search(**search)  # type: ignore[arg-type]
    )  # fmt: skip


# ------------------------------------------------------------------------------ hosts


@pytest.mark.parametrize("hosts", [3, 4, 5, 7, 8, 9, 16, 33])
def test_a_slow_host_is_named_with_how_slow_and_by_whom_it_was_decided(hosts: int) -> None:
    location = Fabric(hosts, slow={1: 0.25}, noise=QUIET, seed=hosts).located(Search())
    (suspect,) = location.suspects
    assert part(suspect) == host("h1")
    assert suspect.slowdown.value == pytest.approx(1.25, abs=0.03)
    assert suspect.slowdown.low <= suspect.slowdown.value <= suspect.slowdown.high
    assert len(suspect.deciding) >= 2
    assert all("h1" in pair for pair in suspect.deciding)
    assert location.reference_s == pytest.approx(1.0, abs=0.03)


def test_several_slow_hosts_are_named_worst_first() -> None:
    slow = {2: 0.1, 9: 0.5, 11: 0.2}
    location = Fabric(24, slow=slow, noise=QUIET, seed=1).located(Search())
    assert [suspect.host for suspect in location.suspects] == ["h9", "h11", "h2"]


def test_half_of_the_hosts_may_be_slow() -> None:
    slow = dict.fromkeys(range(0, 12, 2), 0.3)
    location = Fabric(12, slow=slow, noise=QUIET, seed=2).located(Search(map_links=True))
    assert parts(location) == {host(f"h{at}") for at in slow}


def test_less_than_half_of_what_is_of_interest_accuses_nobody() -> None:
    location = Fabric(16, slow={3: 0.04}, noise=QUIET).located(Search(interest=0.10))
    assert location.suspects == location.undecided == ()


def test_a_norm_that_rests_on_one_pair_is_said() -> None:
    location = Fabric(4, slow={0: 0.4, 1: 0.4}, noise=QUIET).located(Search())
    assert parts(location) == {host("h0"), host("h1")}
    assert any("one pair alone, h2 and h3" in note for note in location.notes)


def test_two_slow_hosts_that_met_only_each_other_cannot_be_told_apart() -> None:
    location = judged({("a", "b"): [2.0], ("c", "d"): [1.0], ("c", "e"): [1.0], ("d", "e"): [1.0]})
    assert location.suspects == ()
    assert location.undecided == (("a", "b"),)


def test_a_host_that_met_one_good_host_only_is_undecided() -> None:
    good = {pair: [1.0] for pair in itertools.combinations("abc", 2)}
    location = judged({**good, ("a", "d"): [2.0]})
    assert location.suspects == ()
    assert location.undecided == (("d",),)


def test_everybody_alike_is_nobodys_fault_but_may_be_below_expectation() -> None:
    healthy = Fabric(16, noise=QUIET)
    location = healthy.located(Search(expected_s=0.8))
    assert location.every_pair_slow
    assert location.suspects == location.undecided == ()
    assert not healthy.located(Search(expected_s=0.95)).every_pair_slow
    assert not healthy.located(Search()).every_pair_slow


# ------------------------------------------------------------------------------ ways


@pytest.mark.parametrize(("fault", "way"), [("transmit", "transmit"), ("receive", "receive")])
def test_the_slow_end_of_a_host_is_told(fault: str, way: str) -> None:
    fabric = Fabric(12, **{fault: {4: 0.3}}, noise=QUIET)  # type: ignore[arg-type]
    (suspect,) = fabric.located(Search()).suspects
    assert (suspect.host, suspect.direction) == ("h4", way)


def test_a_host_slow_both_ways_is_told_as_such() -> None:
    (suspect,) = Fabric(12, slow={4: 0.3}, noise=QUIET).located(Search()).suspects
    assert suspect.direction == "both"


@pytest.mark.parametrize("way", [(2, 5), (5, 2)])
def test_of_a_one_way_link_the_first_host_is_the_one_that_sends_slowly(
    way: tuple[int, int],
) -> None:
    (suspect,) = (
        Fabric(8, one_way={way: 0.4}, noise=QUIET).located(Search(map_links=True)).suspects
    )
    assert suspect.link == (f"h{way[0]}", f"h{way[1]}")
    assert suspect.direction == "transmit"


# ------------------------------------------------------------------------------ links


@pytest.mark.parametrize("hosts", [4, 5, 6, 8, 9, 16])
def test_a_slow_link_is_no_slow_host(hosts: int) -> None:
    fabric = Fabric(hosts, links={(0, 2): 0.3}, noise=QUIET, seed=3)
    location = fabric.located(Search(map_links=True))
    assert parts(location) == {link("h0", "h2")}
    assert len(location.suspects[0].deciding) >= 3


def test_a_link_measured_slow_twice_is_not_yet_accused() -> None:
    pairs = {pair: [1.0] for pair in itertools.combinations("abcdef", 2)}
    assert judged({**pairs, ("a", "b"): [1.5, 1.5]}).suspects == ()
    assert parts(judged({**pairs, ("a", "b"): [1.5, 1.5, 1.5]})) == {link("a", "b")}
    assert judged({**pairs, ("a", "b"): [1.5, 1.0, 1.5]}).suspects == ()


def test_a_link_and_a_host_at_once() -> None:
    fabric = Fabric(10, links={(0, 2): 0.4}, slow={7: 0.3}, noise=QUIET, seed=4)
    assert parts(fabric.located(Search(map_links=True))) == {host("h7"), link("h0", "h2")}


@pytest.mark.parametrize("hosts", [8, 32])
def test_paths_that_collide_by_chance_are_spread_and_no_broken_link(hosts: int) -> None:
    for seed in range(6):
        fabric = Fabric(hosts, collisions=0.25, noise=0.01, seed=seed)
        location = fabric.located(Search(map_links=True, seed=seed))
        assert location.suspects == location.undecided == ()
        assert location.spread
        assert all(1.7 < ratio < 2.3 for ratio in location.spread.values())


def test_collisions_do_not_hide_a_slow_host() -> None:
    fabric = Fabric(32, collisions=0.25, slow={5: 0.2}, noise=0.01, seed=2)
    assert parts(fabric.located(Search())) == {host("h5")}


# ------------------------------------------------------------------------------ rails

RAILS = Search(rails=(0, 1, 2, 3), cross_rails=True)


def test_one_nic_of_a_host_is_named_by_its_rail() -> None:
    location = Fabric(8, ports={(3, 2): 0.3}, noise=QUIET).located(RAILS)
    assert parts(location) == {host("h3", rail=2)}
    assert all("h3" in pair for pair in location.suspects[0].deciding)


def test_a_host_slow_on_all_its_rails_is_one_suspect() -> None:
    assert parts(Fabric(8, slow={3: 0.3}, noise=QUIET).located(RAILS)) == {host("h3")}


def test_a_rail_slow_everywhere_is_its_switch_and_no_host() -> None:
    location = Fabric(8, planes={1: 0.3}, noise=QUIET).located(RAILS)
    assert parts(location) == {plane(1)}
    assert location.suspects[0].slowdown.value == pytest.approx(1.3, abs=0.03)


def test_a_rail_slow_only_to_other_rails_is_its_uplinks() -> None:
    location = Fabric(8, rail_uplinks={1: 0.3}, noise=QUIET).located(RAILS)
    assert parts(location) == {plane(1, across=True)}


def test_crossing_rails_costs_all_alike_is_said_and_accuses_nobody() -> None:
    location = Fabric(8, crossing=0.5, noise=QUIET).located(RAILS)
    assert location.suspects == ()
    assert any("across rails take 1.5" in note for note in location.notes)


def test_hosts_with_fewer_gpus_are_judged_on_the_rails_they_have() -> None:
    fabric = Fabric(8, gpus={0: 2, 1: 2}, ports={(0, 1): 0.3}, noise=QUIET)
    location = fabric.located(RAILS)
    assert parts(location) == {host("h0", rail=1)}
    assert location.unmeasured == ()


def test_a_link_on_one_rail_is_told_with_it() -> None:
    pairs = list(itertools.combinations(range(6), 2))
    hosts = tuple(f"h{at}" for at in range(6))
    figures = tuple(
        PairFigure(
            round=at, stage="map", hosts=(hosts[a], hosts[b]), rail=rail,
            times=(PairTime(forward_s=s, backward_s=s),),
        )
        for at in range(3)
        for a, b in pairs
        for rail in (0, 1, 2)
        for s in [1.5 if (a, b, rail) == (1, 4, 2) else 1.0]
    )  # fmt: skip
    values = Values({name: at for at, name in enumerate(hosts)})
    values.extend(figures)
    location = suspects.conclude(values, figures, (), hosts=hosts, search=Search(rails=(0, 1, 2)))
    assert parts(location) == {link("h1", "h4", rail=2)}


# ------------------------------------------------------------------------------ leaves

LEAVES = tuple(tuple(range(at, at + 4)) for at in range(0, 24, 4))


def with_leaves(**faults: object) -> tuple[Fabric, Search]:
    fabric = Fabric(24, leaves=LEAVES, noise=QUIET, seed=5, **faults)  # type: ignore[arg-type]
    return fabric, Search(leaves=fabric.leaf_names)


def test_a_slow_uplink_is_its_leafs_and_not_its_hosts() -> None:
    fabric, search = with_leaves(uplinks={2: 0.3})
    location = fabric.located(search)
    assert parts(location) == {leaf("h8", "h9", "h10", "h11", across=True)}
    assert location.undecided == ()


def test_a_leaf_slow_in_everything_is_one_switch_rather_than_four_hosts() -> None:
    fabric, search = with_leaves(slow=dict.fromkeys(LEAVES[2], 0.3))
    assert parts(fabric.located(search)) == {leaf("h8", "h9", "h10", "h11", across=False)}


def test_two_slow_hosts_of_a_leaf_are_hosts() -> None:
    fabric, search = with_leaves(slow={8: 0.3, 9: 0.3})
    assert parts(fabric.located(search)) == {host("h8"), host("h9")}


def test_oversubscribed_leaves_are_said_and_hide_no_slow_host() -> None:
    fabric, search = with_leaves(oversubscribed=0.6)
    location = fabric.located(search)
    assert location.suspects == location.undecided == ()
    assert any("across leaves take 1.6" in note for note in location.notes)
    fabric, search = with_leaves(oversubscribed=0.6, slow={13: 0.2})
    assert parts(fabric.located(search)) == {host("h13")}


def test_a_host_and_an_uplink_at_once() -> None:
    fabric, search = with_leaves(slow={1: 0.3}, uplinks={4: 0.3})
    expected = {host("h1"), leaf("h16", "h17", "h18", "h19", across=True)}
    assert parts(fabric.located(search)) == expected


def test_of_two_leaves_nobody_can_tell_whose_uplink_it_is() -> None:
    leaves = (tuple(range(4)), tuple(range(4, 8)))
    fabric = Fabric(8, leaves=leaves, uplinks={0: 0.3}, noise=QUIET)
    location = fabric.located(Search(leaves=fabric.leaf_names, map_links=True))
    assert location.suspects == ()
    assert any("of two, nobody can tell which" in note for note in location.notes)


def test_hosts_fast_among_themselves_and_slow_to_all_others_are_a_group_without_a_file() -> None:
    fabric, _ = with_leaves(uplinks={2: 0.3})
    location = fabric.located(Search(map_links=True))
    assert parts(location) == {leaf("h8", "h9", "h10", "h11", across=True)}
    assert any("2 groups (20, 4 hosts)" in note for note in location.notes)


def test_unknown_leaves_that_are_all_slow_to_each_other_are_told_and_accuse_nobody() -> None:
    fabric, _ = with_leaves(oversubscribed=0.6)
    location = fabric.located(Search(map_links=True))
    assert location.suspects == location.undecided == ()
    assert any("6 groups that are 1.6" in note for note in location.notes)


# ------------------------------------------------------------------------------ latency, grid


def test_a_host_late_with_small_messages_is_told_apart_from_slow_ones() -> None:
    fabric = Fabric(12, latency_s=1e-5, late={3: 2.0}, slow={7: 0.3}, noise=QUIET, seed=6)
    location = fabric.located(Search(confirm=True))
    assert {(s.host, s.quantity) for s in location.suspects} == {
        ("h7", "bandwidth"), ("h3", "latency"),
    }  # fmt: skip


def test_many_hosts_have_a_map_of_blocks_with_the_slowest_pair_of_each() -> None:
    location = Fabric(130, slow={129: 0.5}, noise=QUIET, seed=7).located(Search())
    size = math.ceil(130 / 64)
    assert len(location.grid) == math.ceil(130 / size)
    seen = [value for value in location.grid[-1] if value is not None]
    assert seen
    assert min(seen) == pytest.approx(1.5, abs=0.05)
    assert all(row[at] == location.grid[at][i] for i, row in enumerate(location.grid)
               for at in range(len(row)))  # fmt: skip
    assert Fabric(64, noise=QUIET).located(Search()).grid == ()
