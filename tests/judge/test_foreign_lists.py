"""Findings from lists of figures: pairs of hosts, versions, states."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import figures_list
from bench.formats.source import Source
from bench.judge.docket import Docket
from bench.judge.foreign import experiments, host_pairs, version_steps
from bench.records import Dossier, Finding

DATA = Path(__file__).resolve().parents[1] / "data/figures_list"


def of(text: str) -> Dossier:
    return Dossier(figures=figures_list.read(Source.of_text(text, "list.txt")))


def of_file(name: str) -> Dossier:
    return Dossier(figures=figures_list.read(Source.open(DATA / name)))


def judged(dossier: Dossier) -> list[Finding]:
    docket = Docket()
    host_pairs.judge(dossier, docket)
    version_steps.judge(dossier, docket)
    return list(docket.findings)


def test_a_host_whose_partners_do_well_elsewhere_is_slow_and_others_stay_open() -> None:
    slow, either = judged(of_file("pairwise.txt"))
    assert (slow.code, slow.where.host, slow.severity) == ("host-slow", "hostD", "degraded")
    assert "both of its pairs are near 49.33 GB/s, 0.56 of what good pairs reach" in slow.summary
    assert "hostF 86.81 and hostC 88.36" in slow.summary
    assert any("half" in each.text for each in slow.evidence)
    assert (either.code, either.where.hosts) == ("not-determinable", ("hostA", "hostE"))


def test_a_remark_beside_good_and_slow_pairs_explains_nothing() -> None:
    facts = host_pairs.sentences(of_file("pairwise.txt"))
    assert any("good ones near 87.59" in fact for fact in facts)
    assert any("hostB, hostC, hostF and hostG" in fact for fact in facts)
    assert any('"crossing TOR" makes no difference: hostG-hostF 86.81' in fact for fact in facts)


def test_a_remark_on_slow_pairs_alone_is_said() -> None:
    text = "n1,n2 88\nn3,n4 87\nn5,n6 86\nn1,n3 40 # spine\nn2,n4 41 # spine\n"
    assert 'all 2 pairs marked "spine" are slow' in host_pairs.sentences(of(text))


def test_a_slow_pair_of_two_good_hosts_is_the_way_between_them() -> None:
    (finding,) = judged(of("n1,n2 88\nn3,n4 87\nn1,n3 40\nn2,n4 86\n"))
    assert (finding.code, finding.where.link) == ("link-degraded", ("n1", "n3"))


def test_one_slow_pair_is_no_certainty() -> None:
    (finding,) = judged(of("n1,n2 88\nn1,n3 87\nn2,n4 40\n"))
    assert (finding.code, finding.where.host, finding.severity) == ("host-slow", "n4", "warning")
    (finding,) = judged(of("n1,n2 88\nn3,n4 87\nn5,n6 40\n"))
    assert (finding.code, finding.severity) == ("not-determinable", "degraded")


@pytest.mark.parametrize(
    "text",
    [
        "n1,n2 88\nn3,n4 87\nn1,n3 86\nn2,n4 84\n",  # alike
        "n1,n2 90\nn3,n4 80\nn1,n3 70\nn2,n4 60\nn1,n4 50\n",  # wanders
        "n1,n2 200\nn3,n4 88\nn1,n3 87\nn2,n4 86\n",  # one pair shares a switch
        "n1,n2 88\nn3,n4 40\n",  # too few
    ],
)
def test_lists_without_two_groups_accuse_nobody(text: str) -> None:
    assert judged(of(text)) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 7), st.randoms(use_true_random=False), st.floats(0.3, 0.7))
def test_the_slow_one_of_eight_is_found_and_nobody_else(
    slow: int, chance: object, share: float
) -> None:
    noise = chance.uniform  # type: ignore[attr-defined]
    lines = []
    for a in range(8):
        for b in range(a + 1, 8):
            level = 88 * (share if slow in (a, b) else 1) * noise(0.97, 1.03)
            lines.append(f"node{a},node{b} {level:.2f}")
    (finding,) = judged(of("\n".join(lines)))
    assert (finding.code, finding.where.host) == ("host-slow", f"node{slow}")


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 12), st.randoms(use_true_random=False))
def test_scatter_of_a_few_per_cent_accuses_nobody(hosts: int, chance: random.Random) -> None:
    noise = chance.uniform
    lines = [
        f"node{a},node{b} {88 * noise(0.95, 1.05):.2f}"
        for a in range(hosts)
        for b in range(a + 1, hosts)
    ]
    assert judged(of("\n".join(lines))) == []


def test_the_step_between_two_versions_is_found_with_its_size() -> None:
    (finding,) = judged(of_file("busbw_by_version.txt"))
    assert (finding.code, finding.severity) == ("regressed", "degraded")
    assert "between 2.10.3 and 2.11.4: 57.06 to 7.05 GB/s (-87.6 %)" in finding.summary
    facts = version_steps.sentences(of_file("busbw_by_version.txt"))
    assert any("on two hosts busbw above the wire's rate is no error" in fact for fact in facts)


def test_versions_are_ordered_as_numbers_whatever_the_order_of_lines() -> None:
    lines = (DATA / "busbw_by_version.txt").read_text().splitlines()
    (finding,) = judged(of("\n".join(sorted(lines))))
    assert "between 2.10.3 and 2.11.4" in finding.summary


def test_a_step_up_is_no_fault() -> None:
    (finding,) = judged(of("2.17.1: 40.0\n2.18.3: 40.5\n2.19.3: 91.0\n2.20.5: 90.0\n"))
    assert (finding.code, finding.severity) == ("improved", "info")


@pytest.mark.parametrize(
    "text",
    [
        "2.17.1: 90\n2.18.3: 88\n2.19.3: 91\n2.20.5: 89\n",  # scatter
        "2.17.1: 90\n2.18.3: 75\n2.19.3: 62\n2.20.5: 50\n",  # no step, a slope
        "2.17.1: 90\n2.18.3: 50\n",  # too few
    ],
)
def test_lists_without_a_step_have_no_finding(text: str) -> None:
    assert judged(of(text)) == []


def test_states_are_held_against_the_wire_test_of_the_list() -> None:
    collective, pair = experiments.sentences(of_file("measurements.csv"))
    assert collective.startswith("all_reduce on 16 ranks: 216.5 GB/s as_filed, 358 GB/s platform_")
    assert "13.1 GB/s as_filed (27 % of ib_write_bw's 49.1)" in pair
    assert "29.6 GB/s platform_fix (60 % of" in pair
    assert "48.4 GB/s platform_fix_and_split0 (99 % of" in pair
