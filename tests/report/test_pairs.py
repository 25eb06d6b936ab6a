"""What pairs of hosts look like: lines of the terminal, the summary, the map of the page."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from bench.judge.pairs.grid import CELLS
from bench.judge.pairs.locating import Search
from bench.judge.verdict import judge
from bench.records import HostFacts, Interval, Location, Report, Suspect
from bench.report import exports, page
from bench.report.pairs import heat_map as pair_map
from bench.report.pairs import located
from bench.report.pairs.heat_map import LEAST_TOP, MOST_TOP
from tests.judge.simulated_fabric import Fabric

TWICE = Interval(value=2.0, low=1.98, high=2.02)


def location(hosts: int, *, mapped: bool = False, **faults: object) -> Location:
    fabric = Fabric(hosts, noise=0.004, seed=3, **faults)  # type: ignore[arg-type]
    return fabric.located(Search(candidate="data", size_bytes=1 << 20, map_links=mapped))


def report(found: Location) -> Report:
    hosts = tuple(
        HostFacts(host=name, hostname=name, identity=name, ranks=(at,))
        for at, name in enumerate(found.hosts)
    )
    empty = Report(run="r", verdict="inconclusive", backend="gloo", hosts=hosts, location=found)
    return judge(empty)


def renamed(found: Location, names: dict[str, str]) -> Location:
    """The same with other names of hosts, whatever is in them."""
    text = msgspec.json.encode(found).decode()
    for old, new in names.items():
        text = text.replace(json.dumps(old), json.dumps(new))
    return msgspec.json.decode(text, type=Location)


# ----------------------------------------------------------------------------------- words


def test_the_block_ranks_suspects_and_fits_the_terminal() -> None:
    found = location(12, slow={3: 0.5, 8: 0.2})
    lines = located.block(found, 80)
    assert lines[0].startswith("pairs   12 hosts · ")
    rows = [line.split()[0] for line in lines if re.match(r"  h\d+ ", line)]
    assert rows == ["h3", "h8"]
    long = renamed(
        found, {f"h{at}": f"gpu-cluster-a-rack-{at:03d}-node.example.net" for at in (3, 8)}
    )
    assert max(map(len, located.block(long, 80))) <= 80


def test_of_many_suspects_the_terminal_shows_eight_and_says_how_many_there_are() -> None:
    suspects = tuple(Suspect(host=f"h{at}", slowdown=TWICE) for at in range(20))
    found = Location(
        hosts=tuple(f"h{at}" for at in range(64)), reference_s=0.01, suspects=suspects
    )
    lines = located.block(found, 80)
    assert sum("2.00 ×" in line for line in lines) == located.SUSPECTS_SHOWN
    assert "12 more in report.json" in "\n".join(lines)


@pytest.mark.parametrize(
    ("suspect", "part", "what"),
    [
        (Suspect(host="h1", slowdown=TWICE), "h1", ""),
        (Suspect(host="h1", rail=2, slowdown=TWICE), "h1, rail 2", ""),
        (Suspect(host="h1", direction="transmit", slowdown=TWICE), "h1", "sending"),
        (Suspect(link=("h1", "h2"), slowdown=TWICE), "h1 – h2", ""),
        (Suspect(link=("h1", "h2"), direction="transmit", slowdown=TWICE), "h1 → h2", ""),
        (Suspect(rail=3, slowdown=TWICE), "rail 3", ""),
        (Suspect(group=("h1", "h2", "h3"), across=True, slowdown=TWICE),
         "leaf of h1 … h3 (3)", "uplinks"),
        (Suspect(host="h1", quantity="latency", slowdown=TWICE), "h1", "small messages"),
    ],
)  # fmt: skip
def test_each_kind_of_part_has_its_words(suspect: Suspect, part: str, what: str) -> None:
    (row,) = located.rows(Location(hosts=("h1", "h2", "h3"), suspects=(suspect,)))
    assert (row.part, row.what) == (part, what)


def test_what_is_not_known_is_said() -> None:
    hosts = ("h1", "h2", "h3")
    good = {"reference_s": 0.01, "threshold": 0.05}
    for fields, sentence in (
        ({"unexplained": (("h1", "h2"),)}, "1 slow pair that no single part explains: h1 – h2"),
        ({"unmeasured": (("h1", "h3"),)}, "1 pair did not get through: h1 – h3"),
        ({"spread": {"h1-h2": 1.9}}, "paths that collide by chance"),
        ({"every_pair_slow": True, "expected_s": 0.005}, "2.00 times as long as expected"),
        ({}, "no single part stands out by 5 % or more"),
    ):
        told = located.rest(Location(hosts=hosts, **good, **fields))  # type: ignore[arg-type]
        assert any(sentence in each for each in told), sentence
    assert located.rest(Location(hosts=hosts)) == ["nothing was measured"]
    (row,) = located.rows(Location(hosts=hosts, undecided=(("h1", "h2"),)))
    assert (row.part, row.slower) == ("h1 or h2", "which cannot be told")


def test_pairs_are_counted_once_however_often_they_were_measured() -> None:
    found = location(4, slow={2: 1.0}, mapped=True)
    assert len(found.figures) > 6
    assert f"6 pairs in {len(found.rounds)} rounds over data" in located.head_words(found)


def test_the_summary_has_the_suspects_and_no_empty_column() -> None:
    text = exports.summary_md(report(location(6, slow={2: 1.0})))
    section = text.partition("## Pairs of hosts")[2]
    assert re.search(r"\| suspect +\| slower +\| decided by +\|", section)
    assert re.search(r"\| h2 +\| [12]\.\d\d × ", section)
    assert "sending" in exports.summary_md(report(location(6, transmit={2: 1.0})))


# ----------------------------------------------------------------------------------- the map


def test_a_slow_host_is_a_cross_and_a_slow_link_two_cells() -> None:
    found = location(8, slow={2: 1.0}, links={(4, 6): 0.5}, mapped=True)
    cells = pair_map.pairs(found)
    assert all(cells[at][at] is None for at in range(8))
    assert all(cells[a][b] == cells[b][a] for a in range(8) for b in range(8))
    for a in range(8):
        for b in range(a):
            expected = 2.0 if 2 in (a, b) else 1.5 if {a, b} == {4, 6} else 1.0
            assert cells[a][b] == pytest.approx(expected, rel=0.03)
    drawn = pair_map.figure(found)
    assert drawn is not None and pair_map.whole(drawn)
    assert "A slow host is a cross" in page.render(report(found))


def test_noise_is_no_fire_and_one_dead_link_does_not_hide_the_rest() -> None:
    for faults, top in (({}, LEAST_TOP), ({"links": {(0, 1): 30.0}}, MOST_TOP)):
        drawn = pair_map.figure(location(6, mapped=True, **faults))  # type: ignore[arg-type]
        assert drawn is not None and drawn["data"][0]["zmax"] == top


def test_many_hosts_are_blocks_and_a_suspect_has_a_row_of_its_own() -> None:
    found = location(200, slow={77: 0.5})
    drawn = pair_map.figure(found)
    assert drawn is not None
    cells = drawn["data"][0]["z"]
    assert len(cells) == len(cells[0]) <= CELLS
    slow = {
        (a, b) for a, row in enumerate(cells) for b, cell in enumerate(row) if (cell or 0) > 1.4
    }
    block = 77 * len(cells) // 200
    assert slow and all(abs(a - block) <= 1 or abs(b - block) <= 1 for a, b in slow)
    assert not pair_map.whole(drawn)
    rows = pair_map.suspects_rows(found)
    assert rows is not None and len(rows["data"][0]["z"]) == 1
    assert min(cell for cell in rows["data"][0]["z"][0] if cell) > 1.4
    text = page.render(report(found))
    assert "empty ones were not measured" in text and len(text) < 3_000_000
    assert pair_map.suspects_rows(location(8, slow={2: 1.0})) is None


def test_names_of_hosts_are_text_and_nothing_else() -> None:
    evil = "</script><b onmouseover=alert(1)>h2"
    found = renamed(location(6, slow={2: 1.0}), {"h2": evil})
    text = page.render(report(found))
    assert evil not in text and "<b onmouseover" not in text
    assert "onmouseover" in text


def test_two_hosts_and_unmeasured_ones_have_no_map() -> None:
    assert pair_map.figure(Location(hosts=("h1", "h2"), reference_s=0.1)) is None
    assert pair_map.figure(Location(hosts=("h1", "h2", "h3"))) is None
