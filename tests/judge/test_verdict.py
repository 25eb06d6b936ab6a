"""The whole judgement: one cause is one finding, order, verdict, and what is left untouched."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from bench.judge.catalogue import CATALOGUE
from bench.judge.verdict import judge
from bench.records import SEVERITIES, HostEvidence, InterfaceCounters


def everything_wrong(scene):
    """Many causes at once, to look at all sentences."""
    scene.sets("mgmt").probes("mgmt").probes("data")
    scene.interface("host2", "data0", mtu=9000)
    scene.facts("host1", environment={"NCCL_SOCKET_IFNAME": "mgmt", "NCCL_IB_DISABLE": "1"})
    evidence = [
        HostEvidence(host=h, tcp_segments_out=10_000, tcp_retransmits=900,
                     interfaces={"data0": InterfaceCounters(rx_dropped=3)})
        for h in scene.names
    ]  # fmt: skip
    scene.session("data", hosts=evidence)
    killed = {"outcome": "died", "signal": 9, "phase": "midrun"}
    scene.session("mgmt", "failed", ranks=scene.ended(("aborted", "midrun"), r1=killed))
    return scene


def test_findings_come_worst_and_surest_first(misselected):
    report = judge(everything_wrong(misselected).report())
    order = [SEVERITIES.index(f.severity) for f in report.findings]
    assert order == sorted(order, reverse=True) and len(order) >= 5
    assert report.verdict == "broken"


def test_every_finding_is_in_the_catalogue_has_evidence_numbers_and_a_line_sh_can_read(
    misselected, healthy
):
    for scene in (misselected, everything_wrong(misselected), everything_wrong(healthy)):
        for finding in judge(scene.report()).findings:
            assert finding.code in CATALOGUE
            assert any(letter.isdigit() for letter in finding.summary), finding.summary
            assert finding.summary.endswith(".") and "\n" not in finding.summary
            assert finding.evidence, finding.code
            if finding.remedy:
                subprocess.run(["sh", "-n", "-c", finding.remedy], check=True, timeout=10)


def test_judging_is_pure_and_repeatable(misselected):
    report = misselected.report()
    before = msgspec.json.encode(report)
    assert judge(report) == judge(report)
    assert msgspec.json.encode(report) == before
    assert judge(judge(report)) == judge(report)


def test_nothing_measured_is_inconclusive(make_scene):
    scene = make_scene({"data": 500}).chooses("data")
    assert judge(scene.report()).verdict == "inconclusive"


def test_an_incomplete_run_without_findings_is_inconclusive(healthy):
    report = judge(healthy.report(complete=False, missing=("the budget was spent",)))
    assert report.verdict == "inconclusive"


def test_healthy_needs_the_default_case_or_a_network_that_equals_it(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("mgmt", "data")
    scene.measured("data", 0.0597)  # only data was tried; the default would also use mgmt
    assert judge(scene.report()).verdict == "inconclusive"
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data").measured("data", 0.0597)
    assert judge(scene.report()).verdict == "healthy"


def test_one_rank_alone_proves_nothing(make_scene):
    scene = make_scene({"data": 500}, hosts=1).chooses("data").all_measured()
    assert judge(scene.report()).verdict == "inconclusive"


def test_several_ranks_on_one_host_can_be_healthy(make_scene):
    scene = make_scene({"data": 500}, hosts=1).facts("host1", ranks=(0, 1)).chooses("data")
    assert judge(scene.all_measured().report()).verdict == "healthy"


def test_a_report_without_hosts_or_plan_is_judged_without_a_crash(healthy):
    empty = healthy.report(hosts=(), plan=None, candidates=(), lines=(), fabric=None)
    assert judge(empty).verdict == "inconclusive"


def test_a_broken_cause_outranks_a_setting(misselected):
    report = judge(misselected.report())
    assert report.verdict == "misconfigured"
    misselected.lines = [
        msgspec.structs.replace(
            line, points=tuple(msgspec.structs.replace(p, wrong=1) for p in line.points)
        )
        for line in misselected.lines
    ]
    assert judge(misselected.report()).verdict == "broken"


@pytest.mark.parametrize("hosts", [2, 64])
def test_sizes_from_two_hosts_to_many(make_scene, hosts):
    scene = make_scene({"mgmt": 100, "data": 500}, hosts=hosts).chooses("mgmt", "data")
    scene.expects(("data", "data", 0.5)).probes("data").all_measured()
    report = judge(scene.report())
    assert [f.code for f in report.findings] == ["interface-misselected"]
    assert len(report.findings[0].summary) < 400
