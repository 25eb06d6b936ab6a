"""The default choice: accused with evidence, left alone without."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from bench.judge.verdict import judge
from bench.records import Evidence, Finding, Interval, Report


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def only(report: Report, code: str) -> Finding:
    assert serious(report) == [code], report.findings
    return next(finding for finding in report.findings if finding.code == code)


def has(finding: Finding, basis: str, text: str) -> bool:
    return any(e.basis == basis and text in e.text for e in finding.evidence)


def test_a_slower_default_is_accused_with_ratio_interval_witnesses_and_line(misselected):
    report = judge(misselected.report())
    finding = only(report, "interface-misselected")
    assert report.verdict == "misconfigured"
    assert finding.severity == "degraded"
    assert "meets on mgmt0" in finding.summary and "data0 alone is 3.0 times" in finding.summary
    assert "95 % interval" in finding.summary and "your fabric calls data" in finding.summary
    assert has(finding, "asked", "Bootstrap: Using mgmt0:10.1.0.1<0>")
    assert has(finding, "predicted", "data path mgmt0, data0")
    assert has(finding, "measured", "data0 carried 100 % of the bytes")
    assert has(finding, "expected", "data network")
    assert finding.remedy == "export NCCL_SOCKET_IFNAME='=data0'"
    assert finding.where.interface == "mgmt0" and finding.where.candidate == "(default)"
    assert report.recommendation.environment == {"NCCL_SOCKET_IFNAME": "=data0"}
    assert report.recommendation.per_host == {}


def test_over_gloo_the_data_path_stays_a_prediction(misselected):
    assert only(judge(misselected.report()), "interface-misselected").confidence == "predicted"


def test_a_single_match_that_nccl_named_is_as_sure_as_asked(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).sets("mgmt").chooses("mgmt").all_measured()
    finding = only(judge(scene.report()), "interface-misselected")
    assert finding.confidence == "asked"
    assert finding.summary.startswith("With NCCL_SOCKET_IFNAME=mgmt NCCL meets on mgmt0 and sends")
    assert "data0 is 5.0 times faster" in finding.summary


def test_counted_bytes_of_the_default_case_over_nccl_are_a_measurement(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}, backend="nccl").chooses("mgmt", "data")
    scene.all_measured()
    carried = {host: {"mgmt0": 10**8, "data0": 10**4} for host in scene.names}
    scene.outcome("(default)", "measured", carried=carried)
    finding = only(judge(scene.report()), "interface-misselected")
    assert finding.confidence == "measured"
    assert has(finding, "measured", "bytes of the default case: mgmt0 100 %")


def test_the_counters_overrule_the_prediction(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}, backend="nccl").chooses("mgmt", "data")
    scene.all_measured()  # the default came out slower, but its bytes went over data0
    carried = {host: {"mgmt0": 10**4, "data0": 10**8} for host in scene.names}
    scene.outcome("(default)", "measured", carried=carried)
    assert serious(judge(scene.report())) == []


def test_a_healthy_choice_is_healthy_and_recommends_nothing(healthy):
    report = judge(healthy.report())
    assert (report.verdict, report.findings) == ("healthy", ())
    assert report.recommendation.environment == {} and report.recommendation.per_host == {}


def test_meeting_on_management_beside_a_truthful_faster_port_is_healthy(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("mgmt", "data", path=["data"])
    report = judge(scene.all_measured().report())
    assert (report.verdict, report.findings) == ("healthy", ())
    chosen = [c.name for c in report.candidates if c.default_choice]
    assert chosen == ["data"]
    assert next(c for c in report.candidates if c.name == "data").choice_basis == "predicted"


@pytest.mark.parametrize("transport", ["rdma", "plugin"])
def test_meeting_on_management_beside_rdma_or_a_plugin_is_not_accused(make_scene, transport):
    scene = make_scene({"mgmt": 100, "data": 500})
    scene.chooses("mgmt", "data", path=["mlx5_0:1"], transport=transport).all_measured()
    scene.outcome("(default)", "skipped")
    assert serious(judge(scene.report())) == []


def test_networks_that_are_equally_fast_are_not_told_apart(make_scene):
    scene = make_scene({"mgmt": 500, "data": 500}).chooses("mgmt", "data").all_measured()
    assert judge(scene.report()).verdict == "healthy"


def test_a_difference_within_the_tolerance_is_no_finding(make_scene):
    scene = make_scene({"mgmt": 470, "data": 500}).chooses("mgmt").all_measured()
    assert judge(scene.report()).findings == ()


def test_a_ratio_that_its_interval_does_not_support_is_no_finding(make_scene):
    scene = make_scene({"mgmt": 400, "data": 500}).chooses("mgmt")
    scene.measured("mgmt", 0.050, spread=0.2).measured("data", 0.060, spread=0.2)
    scene.measured("(default)", 0.050, spread=0.2)
    assert judge(scene.report()).findings == ()


def test_collectives_that_contradict_each_other_accuse_nobody(misselected):
    report = misselected.report()
    flipped = tuple(
        msgspec.structs.replace(line, busbw_gbs=Interval(value=0.5, low=0.49, high=0.51))
        if (line.candidate, line.collective) == ("(default)", "all_gather")
        else line
        for line in report.lines
    )
    assert serious(judge(msgspec.structs.replace(report, lines=flipped))) == []


def test_without_fitted_lines_the_largest_common_size_decides(misselected):
    report = misselected.report()
    lines = tuple(msgspec.structs.replace(line, busbw_gbs=None) for line in report.lines)
    finding = only(judge(msgspec.structs.replace(report, lines=lines)), "interface-misselected")
    assert "3.0 times faster" in finding.summary


def test_a_faster_storage_network_is_not_recommended_against_the_fabric_file(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500, "storage": 1000}).chooses("mgmt")
    scene.expects(("data", "data", 0.5), ("storage", "storage", 1.0)).all_measured()
    report = judge(scene.report())
    assert report.recommendation.environment == {"NCCL_SOCKET_IFNAME": "=data0"}


def test_hosts_that_name_the_interface_differently_get_their_own_settings(make_scene):
    names = {"data": ["ens1f0", "enp65s0", "eno2", "eth5"]}
    scene = make_scene({"mgmt": 100, "data": 500}, names=names).chooses("mgmt").all_measured()
    report = judge(scene.report())
    finding = only(report, "interface-misselected")
    assert report.recommendation.environment == {}
    assert report.recommendation.per_host["host2"] == {"NCCL_SOCKET_IFNAME": "=enp65s0"}
    assert finding.remedy is not None
    assert finding.remedy.startswith("export NCCL_SOCKET_IFNAME='=")
    assert set(finding.remedy.split("'")[1].lstrip("=").split(",")) == set(names["data"])


def test_a_default_that_needs_a_dead_network_the_fabric_does_not_want_is_misselected(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("mgmt")
    scene.expects(("data", "data", 0.5)).measured("data", 0.0597)
    scene.outcome("mgmt", "unreachable", "no answer between the hosts")
    scene.outcome("(default)", "hung", "rank 0 made no progress in init")
    scene.probes("mgmt", lambda a, b: "timeout").probes("data")
    scene.session("(default)", "hung", ranks=scene.ended(("hung", "init")))
    report = judge(scene.report())
    finding = only(report, "interface-misselected")
    assert report.verdict == "misconfigured"
    assert "mgmt0 does not work between the hosts, data0 does" in finding.summary
    assert has(finding, "measured", "(default) hung in init")  # not a second accusation


def test_one_host_alone_has_no_network_to_misselect(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}, hosts=1).chooses("mgmt").all_measured()
    assert serious(judge(scene.report())) == []


def test_equal_networks_under_noise_are_never_accused_in_a_thousand_runs(misselected):
    """A/A: default, mgmt and data have one true rate; 3 sessions, 1-3 % noise, t intervals."""
    report = misselected.report()
    rng, t_95, accused = random.Random(4711), 4.303, 0
    for _ in range(1000):
        sigma = rng.uniform(0.01, 0.03)
        lines = []
        for line in report.lines:
            logs = [rng.gauss(math.log(0.06), sigma) for _ in range(3)]
            mean = sum(logs) / 3
            half = t_95 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
            interval = Interval(
                value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half)
            )
            lines.append(msgspec.structs.replace(line, busbw_gbs=interval))
        judged = judge(msgspec.structs.replace(report, lines=tuple(lines), fabric=None))
        accused += "interface-misselected" in [f.code for f in judged.findings]
    assert accused == 0


def test_a_true_difference_of_a_half_is_found_under_the_same_noise(misselected):
    report = misselected.report()
    rng, found = random.Random(4712), 0
    truth = {"mgmt": 0.04, "data": 0.06, "(default)": 0.04}
    for _ in range(200):
        lines = []
        for line in report.lines:
            logs = [rng.gauss(math.log(truth[line.candidate]), 0.02) for _ in range(3)]
            mean = sum(logs) / 3
            half = 4.303 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
            interval = Interval(
                value=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half)
            )
            lines.append(msgspec.structs.replace(line, busbw_gbs=interval))
        judged = judge(msgspec.structs.replace(report, lines=tuple(lines), fabric=None))
        found += "interface-misselected" in [f.code for f in judged.findings]
    assert found >= 190


def test_the_default_choice_is_where_nccl_meets_if_data_goes_there_too(misselected):
    chosen = [c for c in judge(misselected.report()).candidates if c.default_choice]
    assert [(c.name, c.choice_basis) for c in chosen] == [("mgmt", "asked")]


def test_evidence_names_what_kind_of_proof_it_is(misselected):
    for finding in judge(misselected.report()).findings:
        assert all(isinstance(e, Evidence) and e.text for e in finding.evidence)
