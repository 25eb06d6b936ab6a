"""Claims about finding slow parts, rerun: seeded simulations through the very rounds and judge.

Each test names its claim. Simulated as in facts of localisation: 2 % noise of each repetition, a
slow part takes 10 % longer unless said otherwise. tests/performance/bench_locate.py has the same
figures over many more sweeps, beside other methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from bench.judge.pairs.locating import Search
from bench.records import Location
from tests.judge.simulated_fabric import Fabric


@dataclass
class Tally:
    """What was accused, and whether rightly."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    ways: int = 0
    rounds: list[int] = field(default_factory=list)

    def take(self, location: Location, truth: set[frozenset[str]]) -> None:
        named = {
            frozenset(s.link or s.group or (str(s.host),))
            for s in location.suspects
        }  # fmt: skip
        self.right += len(named & truth)
        self.wrong += len(named - truth)
        self.missed += len(truth - named)
        self.rounds.append(len(location.rounds))

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed)


def allowed(rate: float, trials: int) -> float:
    """How many misses a rate may bring in so many trials: two standard errors above its mean. The
    figures of thousands of sweeps are in tests/performance/bench_locate.py."""
    return rate * trials + 2 * float(np.sqrt(rate * (1 - rate) * trials))


def slow_hosts(hosts: int, slow: int, sweeps: int, **fabric: object) -> Tally:
    tally = Tally()
    for sweep in range(sweeps):
        draw = np.random.default_rng([hosts, slow, sweep])
        chosen = [int(at) for at in draw.choice(hosts, slow, replace=False)]
        simulated = Fabric(
            hosts, slow=dict.fromkeys(chosen, 0.10), seed=int(draw.integers(2**31)),
            **fabric,  # type: ignore[arg-type]
        )  # fmt: skip
        location = simulated.located(Search(seed=int(draw.integers(2**31))))
        tally.take(location, {frozenset({f"h{at}"}) for at in chosen})
    return tally


@pytest.mark.parametrize(
    ("hosts", "sweeps"),
    [
        (4, 60),
        (5, 40),
        (6, 40),
        (8, 40),
        (9, 30),
        (11, 30),
        (16, 30),
        (64, 20),
        (256, 8),
        (1024, 3),
    ],
)
def test_one_to_three_slow_hosts_are_found_in_five_rounds_at_any_number(
    hosts: int, sweeps: int
) -> None:
    """Precision 0.99, recall 0.97. Of up to ten hosts a close call takes up to three rounds more,
    and of three or four hosts one more, for two rounds hold all their pairs."""
    for slow in range(1, 1 + min(3, hosts // 2)):
        tally = slow_hosts(hosts, slow, sweeps)
        assert tally.precision >= 0.99
        assert tally.missed <= allowed(0.03, tally.right + tally.missed)
        assert np.mean(tally.rounds) <= (6 if hosts <= 10 else 5)
        assert max(tally.rounds) <= (8 if hosts <= 10 else 5)


@pytest.mark.parametrize(
    ("hosts", "sweeps"), [(4, 60), (6, 60), (8, 60), (12, 60), (16, 60), (64, 40), (1024, 4)]
)
def test_healthy_fabrics_accuse_nobody(hosts: int, sweeps: int) -> None:
    """0 in 1,500 sweeps, links included; these are the first few hundred."""
    tally = slow_hosts(hosts, 0, sweeps)
    assert tally.wrong == 0


@pytest.mark.parametrize("hosts", [6, 8, 16, 64])
def test_heavy_tails_accuse_hardly_anybody_wrongly(hosts: int) -> None:
    """Student's t with three degrees of freedom: precision 0.97, and healthy fabrics none."""
    tally = slow_hosts(hosts, 2, 40, tails="heavy")
    assert tally.precision >= 0.97
    assert tally.recall >= 0.9
    assert slow_hosts(hosts, 0, 40, tails="heavy").wrong == 0


@pytest.mark.parametrize("hosts", [5, 6, 8, 16, 64])
def test_noise_that_repetitions_do_not_average_costs_recall_and_not_precision(hosts: int) -> None:
    """2 % that all repetitions of a measurement share (traffic of others): precision 0.98. 5 %:
    one healthy sweep in twenty accuses somebody of few hosts, no more."""
    tally = slow_hosts(hosts, 1, 40, noise=0.005, shared_noise=0.02)
    assert tally.precision >= 0.98
    assert tally.recall >= 0.85
    noisy = slow_hosts(hosts, 0, 40, noise=0.01, shared_noise=0.05)
    assert noisy.wrong <= 2 * allowed(0.05, 40)  # who is accused wrongly is so in twos


def links(hosts: int, sweeps: int, slowdown: float, *, one_way: bool = False) -> Tally:
    tally = Tally()
    for sweep in range(sweeps):
        draw = np.random.default_rng([hosts, sweep, int(slowdown * 100)])
        a, b = (int(at) for at in draw.choice(hosts, 2, replace=False))
        fault = {(a, b) if one_way else (min(a, b), max(a, b)): slowdown}
        faults = {"one_way" if one_way else "links": fault if slowdown else {}}
        simulated = Fabric(hosts, seed=int(draw.integers(2**31)), **faults)  # type: ignore[arg-type]
        location = simulated.located(Search(seed=sweep, map_links=True))
        tally.take(location, {frozenset({f"h{a}", f"h{b}"})} if slowdown else set())
        told = [s for s in location.suspects if s.link == (f"h{a}", f"h{b}")]
        tally.ways += sum(s.direction == "transmit" for s in told)
    return tally


@pytest.mark.parametrize(("hosts", "sweeps"), [(6, 60), (8, 60), (16, 40), (48, 10)])
def test_links_that_are_a_fifth_slower_are_found_by_a_map_and_no_other_is(
    hosts: int, sweeps: int
) -> None:
    """Recall 0.99 (here: one in a hundred may be missed), none wrong; healthy maps: none."""
    tally = links(hosts, sweeps, 0.20)
    assert tally.wrong == 0
    assert tally.missed <= sweeps // 50
    assert links(hosts, sweeps // 2, 0.0).wrong == 0


@pytest.mark.parametrize("hosts", [4, 5, 6, 8])
def test_two_slow_links_of_one_host_are_two_links_however_few_its_other_pairs_are(
    hosts: int,
) -> None:
    """Of four hosts, two links are most of what a host has; as fast as any with the third, it is
    not slow itself."""
    for sweep in range(20):
        fabric = Fabric(hosts, links={(0, 2): 0.5, (1, 2): 0.5}, seed=sweep)
        location = fabric.located(Search(seed=sweep, map_links=True))
        assert {s.link for s in location.suspects} == {("h0", "h2"), ("h1", "h2")}
        assert location.undecided == location.unexplained == ()


def test_of_one_way_links_the_sending_end_is_told() -> None:
    tally = links(8, 30, 0.20, one_way=True)
    assert tally.ways >= 29


@pytest.mark.parametrize("hosts", [4, 6, 8, 16, 64])
@pytest.mark.parametrize("fault", ["transmit", "receive"])
def test_hosts_that_are_slow_one_way_have_the_right_end_named(hosts: int, fault: str) -> None:
    """0.95 of them; and never the wrong end."""
    right = wrong = 0
    for sweep in range(40):
        draw = np.random.default_rng([hosts, sweep])
        at = int(draw.integers(hosts))
        faults = {fault: {at: 0.10}}
        simulated = Fabric(hosts, seed=int(draw.integers(2**31)), **faults)  # type: ignore[arg-type]
        for suspect in simulated.located(Search(seed=sweep)).suspects:
            assert suspect.host == f"h{at}"
            right += suspect.direction == fault
            wrong += suspect.direction not in (fault, "both")
    assert right >= 38
    assert wrong == 0


@pytest.mark.parametrize(
    ("other_way", "way"), [(0.0, "transmit"), (0.03, "transmit"), (0.2, "both")]
)
def test_little_that_the_other_way_loses_beside_it_does_not_hide_which_way_is_slow(
    other_way: float, way: str
) -> None:
    """A host that sends at half rate loses some per cent of what it receives on a busy machine."""
    for sweep in range(10):
        fabric = Fabric(6, transmit={4: 1.0}, receive={4: other_way}, noise=0.005, seed=sweep)
        (suspect,) = fabric.located(Search(seed=sweep)).suspects
        assert (suspect.host, suspect.direction) == ("h4", way)


# ------------------------------------------------------------------------- rails and leaves

EIGHT = tuple(range(8))


def rightly(
    sweeps: int, draw_one: Callable[[np.random.Generator], tuple[Fabric, Search, object]]
) -> int:
    """How many sweeps accuse exactly what is wrong: one part, told by its fields."""
    right = 0
    for sweep in range(sweeps):
        fabric, search, truth = draw_one(np.random.default_rng([sweep, 11]))
        found = [(s.host, s.rail, s.group, s.across) for s in fabric.located(search).suspects]
        right += found == ([] if truth is None else [truth])
    return right


@pytest.mark.parametrize("hosts", [4, 6, 8, 12])
@pytest.mark.parametrize("repeats", [2, 3])
def test_luck_of_token_buckets_makes_nobody_slow(hosts: int, repeats: int) -> None:
    """Shaped links give an idle sender credit: a short transfer is several per cent faster or not
    at all, and the fastest few of a handful of hosts would make a norm that others miss."""

    def draw_one(draw: np.random.Generator) -> tuple[Fabric, Search, object]:
        slow = int(draw.integers(hosts))
        fabric = Fabric(
            hosts, slow={slow: 1.0}, noise=0.003, credit=0.07, seed=int(draw.integers(2**31))
        )
        return fabric, Search(repeats=repeats), (f"h{slow}", None, (), False)

    assert rightly(100, draw_one) >= 99


@pytest.mark.parametrize("hosts", [4, 8, 32])
def test_one_nic_of_eight_on_one_host_is_named_by_host_and_rail(hosts: int) -> None:
    def draw_one(draw: np.random.Generator) -> tuple[Fabric, Search, object]:
        host, rail = int(draw.integers(hosts)), int(draw.integers(8))
        fabric = Fabric(hosts, ports={(host, rail): 0.10}, seed=int(draw.integers(2**31)))
        return fabric, Search(rails=EIGHT), (f"h{host}", rail, (), False)

    assert rightly(10, draw_one) >= 9


@pytest.mark.parametrize("hosts", [4, 8, 32])
def test_healthy_rails_accuse_nobody_straight_or_crossed(hosts: int) -> None:
    def draw_one(draw: np.random.Generator) -> tuple[Fabric, Search, object]:
        fabric = Fabric(hosts, seed=int(draw.integers(2**31)), gpus={0: 4})
        return fabric, Search(rails=EIGHT, cross_rails=True), None

    assert rightly(10, draw_one) == 10


@pytest.mark.parametrize(("hosts", "size"), [(6, 2), (9, 3), (16, 4), (64, 8)])
def test_a_slow_uplink_is_named_by_its_leaf_and_healthy_ones_never(hosts: int, size: int) -> None:
    leaves = tuple(tuple(range(at, at + size)) for at in range(0, hosts, size))

    def slow(draw: np.random.Generator) -> tuple[Fabric, Search, object]:
        leaf = int(draw.integers(len(leaves)))
        fabric = Fabric(hosts, leaves=leaves, uplinks={leaf: 0.15}, seed=int(draw.integers(2**31)))
        return fabric, Search(leaves=fabric.leaf_names), (
            None, None, fabric.leaf_names[leaf], True,
        )  # fmt: skip

    def healthy(draw: np.random.Generator) -> tuple[Fabric, Search, object]:
        fabric = Fabric(hosts, leaves=leaves, seed=int(draw.integers(2**31)))
        return fabric, Search(leaves=fabric.leaf_names), None

    assert rightly(20, slow) >= 19
    assert rightly(20, healthy) == 20
