"""What the setting in force means: no match, loopback, link-local, ambiguous, overridden."""

from __future__ import annotations

import msgspec
import pytest

from bench.judge.verdict import judge
from bench.records import Address, NcclConf, Report


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


def test_a_setting_that_matches_nothing_is_broken_and_gets_a_name_that_exists(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).sets("eth9").chooses()
    scene.measured("mgmt", 0.012).measured("data", 0.0597)
    scene.outcome("(default)", "skipped", "NCCL finds no interface")
    report = judge(scene.report())
    assert serious(report) == ["interface-no-match"]
    finding = report.findings[0]
    assert (finding.severity, finding.confidence) == ("broken", "asked")
    assert "NCCL_SOCKET_IFNAME=eth9" in finding.summary and "code 5" in finding.evidence[0].text
    assert finding.remedy == "export NCCL_SOCKET_IFNAME='=data0'"
    assert report.verdict == "misconfigured"


def test_no_match_on_one_host_names_it(make_scene):
    scene = make_scene({"data": 500}).sets("data").chooses("data").chooses(hosts=["host2"])
    finding = judge(scene.measured("data", 0.0597).report()).findings[0]
    assert (finding.code, finding.where.host) == ("interface-no-match", "host2")


def test_an_unanswered_question_is_not_a_missing_match(healthy):
    facts = healthy.hosts["host1"]
    choice = msgspec.structs.replace(
        facts.nccl_choices[0], bootstrap=None, interfaces=(), code=None, line=None
    )
    healthy.facts("host1", nccl_choices=(choice,))
    assert serious(judge(healthy.report())) == []


@pytest.mark.parametrize("setting", ["lo", "^docker"])
def test_loopback_between_hosts_is_broken(make_scene, setting):
    scene = make_scene({"data": 500}).sets(setting).chooses("lo", "data").measured("data", 0.0597)
    scene.outcome("(default)", "hung").session("(default)", "hung",
                                               ranks=scene.ended(("hung", "init")))  # fmt: skip
    report = judge(scene.report())
    assert serious(report) == ["interface-loopback"] and report.verdict == "misconfigured"
    assert ("lo must be named" in report.findings[0].summary) == (setting == "^docker")


def test_loopback_on_a_single_host_is_fine(make_scene):
    scene = make_scene({"data": 500}, hosts=1).sets("lo").chooses("lo").measured("data", 0.06)
    assert codes(judge(scene.report())) == []


def link_local(scene, family: str, address: str):
    for host in scene.names:
        own = Address(family=family, address=address, prefix_length=16, scope="link")
        scene.interface(host, "bmc0", addresses=(own,))
    return scene


@pytest.mark.parametrize(("family", "address"), [("inet", "169.254.20.10"), ("inet6", "fe80::1")])
def test_a_link_local_address_that_reaches_nobody_is_broken(make_scene, family, address):
    scene = make_scene({"bmc": 10, "data": 500})
    link_local(scene, family, address).chooses("bmc", "data").measured("data", 0.0597)
    scene.probes("bmc", lambda a, b: "timeout").outcome("bmc", "unreachable", "no answer")
    scene.outcome("(default)", "hung").session("(default)", "hung",
                                               ranks=scene.ended(("hung", "init")))  # fmt: skip
    report = judge(scene.report())
    assert serious(report) == ["interface-link-local"] and report.verdict == "misconfigured"
    assert address in report.findings[0].summary
    assert report.findings[0].where.interface == "bmc0"


def test_a_link_local_address_over_which_traffic_flowed_is_a_warning(make_scene):
    scene = link_local(make_scene({"bmc": 500}), "inet", "169.254.20.10").chooses("bmc")
    report = judge(scene.all_measured().report())
    assert [(f.code, f.severity) for f in report.findings] == [("interface-link-local", "warning")]
    assert report.verdict == "healthy"


def test_a_private_range_that_docker_also_uses_condemns_nobody(make_scene):
    scene = make_scene({"lan": 500})
    for number, host in enumerate(scene.names):
        own = Address(family="inet", address=f"172.18.40.{41 + number}", prefix_length=16)
        scene.interface(host, "lan0", addresses=(own,))
    assert judge(scene.chooses("lan").all_measured().report()).findings == ()


def test_a_prefix_that_matches_two_interfaces_is_ambiguous(make_scene):
    names = {"a": ["eth1"] * 4, "b": ["eth10"] * 4}
    scene = make_scene({"a": 500, "b": 500}, names=names).sets("eth1").chooses("a", "b")
    report = judge(scene.all_measured().report())
    assert [(f.code, f.severity) for f in report.findings] == [("interface-ambiguous", "warning")]
    assert "NCCL_SOCKET_IFNAME=eth1 matches 2 interfaces" in report.findings[0].summary


@pytest.mark.parametrize("setting", ["=eth1,eth10", "^docker,lo", "eth1,eth10"])
def test_lists_that_mean_what_they_say_are_not_ambiguous(make_scene, setting):
    names = {"a": ["eth1"] * 4, "b": ["eth10"] * 4}
    scene = make_scene({"a": 500, "b": 500}, names=names).sets(setting).chooses("a", "b")
    assert codes(judge(scene.all_measured().report())) == []


def test_a_conf_file_that_decides_is_a_remark_and_a_warning_where_it_misleads(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).sets("=data0", conf="/etc/nccl.conf")
    report = judge(scene.chooses("data").all_measured().report())
    assert [(f.code, f.severity) for f in report.findings] == [("setting-overridden", "info")]
    scene = make_scene({"mgmt": 100, "data": 500}).sets("mgmt", conf="/etc/nccl.conf")
    report = judge(scene.chooses("mgmt").all_measured().report())
    assert [(f.code, f.severity) for f in report.findings] == [
        ("interface-misselected", "degraded"),
        ("setting-overridden", "warning"),
    ]
    assert report.findings[0].summary.startswith(
        "With NCCL_SOCKET_IFNAME=mgmt from /etc/nccl.conf NCCL meets on mgmt0"
    )


def test_a_file_that_the_environment_overrides_is_told_with_both_values(healthy):
    conf = NcclConf(path="/etc/nccl.conf", settings={"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "mlx5"})
    healthy.everywhere(environment={"NCCL_DEBUG": "WARN"}, nccl_conf=(conf,))
    finding = judge(healthy.report()).findings[0]
    assert finding.code == "setting-overridden" and finding.where.file == "/etc/nccl.conf"
    assert "says NCCL_DEBUG=INFO, the environment 'WARN'" in finding.evidence[0].text
